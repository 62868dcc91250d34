"""Calls of aggregate functions over the rows of a group; ``aggregate_table`` says what is known of each function."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemark.algebra.aggregate_table import AggregateFunction as AggregateFunction
from tidemark.algebra.aggregate_table import Aggregation, Upkeep
from tidemark.algebra.aggregate_table import sum_type as sum_type
from tidemark.algebra.expressions import Expression
from tidemark.algebra.types import BIGINT, DOUBLE, Type


@dataclass(frozen=True)
class SortKey:
    expression: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate over a group. COUNT(*) has no argument; others do not look at rows whose argument is NULL.

    ``distinct`` values count once each. STRING_AGG joins values with ``separator`` in the order of ``order``; equal
    places are filled by value, so that the result is determined. SINGLE is the value of the only row, and an error if
    there are more.

    ARRAY_AGG has the values in that order too, but NULL among them, so what FILTER leaves out is not told by the
    argument: it looks at the rows for which ``condition`` is true. Without such rows it is NULL.

    Of n values in order, which ``descending`` turns round, PERCENTILE_DISC is the one at the place ⌈fn⌉ (the first, if
    that is 0), where f is the ``fraction``. PERCENTILE_LOW is at 1 + ⌊f(n − 1)⌋ and PERCENTILE_HIGH at 1 + ⌈f(n − 1)⌉;
    the continuous percentile lies between them. MODE is the value that is there most often, the first of them in order.
    """

    function: AggregateFunction
    argument: Expression | None = None
    distinct: bool = False
    order: tuple[SortKey, ...] = ()
    separator: str = ""
    condition: Expression | None = None
    fraction: float | None = None
    descending: bool = False

    def __post_init__(self) -> None:
        if self.condition is not None and not self.row.has_condition:
            raise ValueError("only ARRAY_AGG has a condition")
        if (self.fraction is None) == self.row.has_fraction:
            raise ValueError("a percentile has a fraction, and nothing else has")
        if (self.argument is None) != (self.function is AggregateFunction.COUNT_ROWS):
            raise ValueError("wrong arguments of an aggregate")
        if self.argument is not None and self.row.upkeep is Upkeep.SUM and not self.argument.type.is_numeric:
            raise ValueError("SUM needs a number")

    @property
    def row(self) -> Aggregation:
        """What is known of the function."""
        return self.function.row

    @property
    def type(self) -> Type:
        return BIGINT if self.argument is None else self.row.result(self.argument.type)

    @property
    def nullable(self) -> bool:
        return self.row.empty is None

    @property
    def is_count(self) -> bool:
        return self.row.upkeep is Upkeep.COUNT

    @property
    def is_extremum(self) -> bool:
        return self.row.upkeep is Upkeep.EXTREMUM

    @property
    def is_merged(self) -> bool:
        """Whether the value follows from its old value and the change, except where an extremum goes."""
        return self.is_extremum or self.adds_up

    @property
    def adds_up(self) -> bool:
        """Whether the values of two groups of rows add up to that of both, so that it follows from signed entries."""
        return not self.distinct and (self.is_count or self.is_exact_sum)

    @property
    def is_exact_sum(self) -> bool:
        return self.row.upkeep is Upkeep.SUM and self.argument is not None and self.argument.type.is_exact

    @property
    def is_approximate(self) -> bool:
        """Whether the value depends, in its last digits, on the order in which an engine adds."""
        return self.row.adds_doubles and self.type == DOUBLE

    @property
    def can_fail(self) -> bool:
        """Whether computing it can raise: a sum can be out of range, a single row need not be the only one."""
        return self.is_exact_sum or self.row.fails is not None

    def expressions(self) -> tuple[Expression, ...]:
        """What the call reads of its input: the argument, the keys of its order, and the condition if it has one."""
        if self.argument is None:
            return ()
        condition = () if self.condition is None else (self.condition,)
        return (self.argument, *(key.expression for key in self.order), *condition)

    def with_expressions(self, expressions: tuple[Expression, ...]) -> AggregateCall:
        if not expressions:
            return self
        argument, *rest = expressions
        condition = None if self.condition is None else rest.pop()
        order = tuple(replace(key, expression=e) for key, e in zip(self.order, rest, strict=True))
        return replace(self, argument=argument, order=order, condition=condition)
