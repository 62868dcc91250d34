"""Aggregate functions over the rows of a group, and what is known of each.

*Merged* functions are kept up to date from the change alone: counts and exact sums add up, and an extremum changes only
when something beyond it comes or when it goes itself. All others are evaluated again, for touched groups only.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from tidemark.algebra.expressions import Expression
from tidemark.algebra.types import (
    BIGINT,
    DOUBLE,
    INTEGER_DIGITS,
    MAX_PRECISION,
    VARCHAR,
    Kind,
    Type,
    array_of,
    decimal,
)


class AggregateFunction(enum.Enum):
    COUNT_ROWS = "count(*)"
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    VAR_SAMP = "var_samp"
    VAR_POP = "var_pop"
    STDDEV_SAMP = "stddev_samp"
    STDDEV_POP = "stddev_pop"
    STRING_AGG = "string_agg"
    ARRAY_AGG = "array_agg"
    PERCENTILE_DISC = "percentile_disc"
    PERCENTILE_LOW = "percentile_low"
    PERCENTILE_HIGH = "percentile_high"
    MODE = "mode"
    SINGLE = "single"


COUNTS = (AggregateFunction.COUNT_ROWS, AggregateFunction.COUNT)
EXTREMA = (AggregateFunction.MIN, AggregateFunction.MAX)
DEVIATIONS = (
    AggregateFunction.VAR_SAMP,
    AggregateFunction.VAR_POP,
    AggregateFunction.STDDEV_SAMP,
    AggregateFunction.STDDEV_POP,
)
PERCENTILES = (
    AggregateFunction.PERCENTILE_DISC,
    AggregateFunction.PERCENTILE_LOW,
    AggregateFunction.PERCENTILE_HIGH,
)


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
        if self.condition is not None and self.function is not AggregateFunction.ARRAY_AGG:
            raise ValueError("only ARRAY_AGG has a condition")
        if (self.fraction is None) == (self.function in PERCENTILES):
            raise ValueError("a percentile has a fraction, and nothing else has")
        if (self.argument is None) != (self.function is AggregateFunction.COUNT_ROWS):
            raise ValueError("wrong arguments of an aggregate")
        if self.argument is not None and self.function is AggregateFunction.SUM and not self.argument.type.is_numeric:
            raise ValueError("SUM needs a number")

    @property
    def type(self) -> Type:
        if self.argument is None or self.function in COUNTS:
            return BIGINT
        if self.function is AggregateFunction.SUM:
            return sum_type(self.argument.type)
        if self.function in DEVIATIONS:
            return DOUBLE
        if self.function is AggregateFunction.ARRAY_AGG:
            return array_of(self.argument.type)
        return VARCHAR if self.function is AggregateFunction.STRING_AGG else self.argument.type

    @property
    def nullable(self) -> bool:
        return self.function not in COUNTS

    @property
    def is_merged(self) -> bool:
        """Whether the value follows from its old value and the change, except where an extremum goes."""
        if self.function in EXTREMA:
            return True
        return not self.distinct and (self.function in COUNTS or self.is_exact_sum)

    @property
    def is_exact_sum(self) -> bool:
        return self.function is AggregateFunction.SUM and self.argument is not None and self.argument.type.is_exact

    @property
    def is_approximate(self) -> bool:
        """Whether the value depends, in its last digits, on the order in which an engine adds."""
        return self.type == DOUBLE and (self.function is AggregateFunction.SUM or self.function in DEVIATIONS)

    @property
    def can_fail(self) -> bool:
        """Whether computing it can raise: a sum can be out of range, a single row need not be the only one."""
        return self.is_exact_sum or self.function is AggregateFunction.SINGLE

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


def sum_type(argument: Type) -> Type:
    """The type that holds the running sum of a column without a partial sum overflowing.

    SMALLINT and INT add up in BIGINT; BIGINT adds up in DECIMAL(38,0) and is cast to BIGINT where the user sees it,
    so that only the sum itself, never the order of addition, can overflow.
    """
    if argument == DOUBLE:
        return DOUBLE
    if argument.kind in INTEGER_DIGITS:
        return BIGINT if argument.kind is not Kind.BIGINT else decimal(MAX_PRECISION, 0)
    return decimal(MAX_PRECISION, argument.scale)
