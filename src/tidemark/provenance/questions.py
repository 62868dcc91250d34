"""The questions that an explanation asks of an engine: plans restricted to the rows that it is about.

An equality with a value is an ordinary condition, so the passes take it down to the stored relations, and the engine
reads what is near the row. Conditions that can fail are asked last, of rows for which all others hold. Answers are cut
to a few rows; which few is determined by their values, so that every engine gives the same.

Windows are evaluated for the partitions of the wanted rows alone.

    σ[p ∧ q] ω[k] R = σ[p ∧ q] ω[k] (R ⋉ π[k] σ[p] R)          p reads columns of R, q the window's as well

A row of the window has the columns of a row of R, and its values depend on the rows of its partition only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from tidemark.algebra.approximate import ABSOLUTE, RELATIVE, RELATIVE_OF_REAL, approximate_columns
from tidemark.algebra.expressions import Call, Expression, Literal, Value, columns_of, conjunction, conjuncts
from tidemark.algebra.functions import rank
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Filter,
    Plan,
    Project,
    Sort,
    SortKey,
    Touched,
    Window,
    transform,
)
from tidemark.algebra.plans import Union as UnionPlan
from tidemark.algebra.scalar import Row, can_fail
from tidemark.algebra.types import BOOLEAN, DOUBLE, INT, REAL
from tidemark.passes import optimize
from tidemark.provenance.tree import Absence, Derivation


def narrowed(plan: Plan) -> Plan:
    """The plan after all passes, with filtered windows restricted to the partitions that matter."""
    return transform(optimize(plan), _narrowed)


def _narrowed(plan: Plan) -> Plan | None:
    match plan:
        case Filter(input=Window(input=source, partition=partition) as window, predicate=predicate) if partition:
            width = len(source.schema)
            own = tuple(p for p in conjuncts(predicate) if all(i < width for i in columns_of(p)) and not can_fail(p))
            if not own or can_fail(predicate):
                return None
            below = narrowed(source)
            names = tuple(column.name for column in partition)
            wanted = Distinct(Project(narrowed(Filter(source, conjunction(own))), names, partition))
            touched = Touched(below, wanted, tuple(column.index for column in partition))
            return plan.with_inputs((window.with_inputs((touched,)),))
    return None


Bag: TypeAlias = Mapping[Row, int]
Ask: TypeAlias = Callable[[Plan], Bag]
"""From a plan over scans to its net rows."""
Pattern: TypeAlias = tuple[tuple[int, Value], ...]
"""Columns by position, and the values that they should have."""


def whole(row: Row) -> Pattern:
    return tuple(enumerate(row))


@dataclass(frozen=True)
class Questions:
    """What can be asked. ``definitions`` are the plans of the stored views; ``approximate`` says which of their
    columns hold sums of floats, and are compared within the tolerance. ``rows`` is how many of many rows are shown.
    ``notes`` are to be said of rows of tables."""

    ask: Ask
    definitions: Mapping[str, Plan]
    approximate: Mapping[str, Set[int]] = field(default_factory=dict)
    rows: int = 3
    notes: Mapping[tuple[str, Row], str] = field(default_factory=dict)

    def why(self, plan: Plan, row: Row) -> Derivation:
        """Why a row that is there is in the plan."""
        raise NotImplementedError

    def why_not(self, plan: Plan, pattern: Pattern) -> Absence:
        """Why no row of the plan has the pattern, if none has."""
        raise NotImplementedError

    def answer(self, plan: Plan) -> Bag:
        """The net rows of a plan."""
        return self.ask(narrowed(plan))

    def wanted(self, plan: Plan, pattern: Pattern) -> tuple[Expression, ...]:
        """The conditions that say of the plan's columns what the pattern says."""
        return self.wanted_of(plan.columns(), pattern, approximate_columns(plan, self.approximate))

    def wanted_of(
        self, outputs: tuple[Expression, ...], pattern: Pattern, approximate: Set[int]
    ) -> tuple[Expression, ...]:
        return tuple(part for i, value in pattern for part in _same(outputs[i], value, approximate=i in approximate))

    def matching(self, plan: Plan, pattern: Pattern) -> Plan:
        return filtered(plan, self.wanted(plan, pattern))

    def few(self, plan: Plan, limit: int | None = None, order: tuple[SortKey, ...] = ()) -> list[tuple[Row, int]]:
        """The first rows of the plan, with how often they are there, up to the limit."""
        found = self.answer(Sort(plan, order, limit=self.rows if limit is None else limit))
        return sorted(found.items(), key=lambda entry: tuple((v is None, rank(v)) for v in entry[0]))

    def one(self, plan: Plan) -> Row | None:
        return next((row for row, _ in self.few(plan, 1)), None)

    def count(self, plan: Plan) -> int:
        ((number,),) = self.answer(Aggregate(plan, ("n",), (), (AggregateCall(AggregateFunction.COUNT_ROWS),)))
        assert isinstance(number, int)
        return number

    def times(self, plan: Plan, row: Row) -> int:
        """How often a row is in the plan."""
        return self.count(self.matching(plan, whole(row)))

    def times_in_each(self, plans: tuple[Plan, ...], pattern: Pattern) -> dict[int, int]:
        """How many rows of the pattern are in each of the plans, by its number, in one question."""
        parts = tuple(
            Project(self.matching(plan, pattern), ("part",), (Literal(number, INT),))
            for number, plan in enumerate(plans)
        )
        found = self.answer(UnionPlan(parts))
        return {number: found.get((number,), 0) for number in range(len(plans))}


def filtered(plan: Plan, conditions: Iterable[Expression]) -> Plan:
    """The rows for which all conditions are true, those that can fail asked after the others."""
    listed = list(conditions)
    safe = tuple(c for c in listed if not can_fail(c))
    result = Filter(plan, conjunction(safe)) if safe else plan
    for condition in listed:
        if can_fail(condition):
            result = Filter(result, condition)
    return result


def _same(expression: Expression, value: Value, *, approximate: bool) -> tuple[Expression, ...]:
    """The expression has the value; NULL is a value like others here."""
    if value is None:
        return (Call("is_null", (expression,), BOOLEAN, nullable=False),)
    if approximate and expression.type.is_nested:
        return ()  # no order, so no tolerance: the exact columns have to do
    if approximate and isinstance(value, float) and math.isfinite(value):
        relative = RELATIVE_OF_REAL if expression.type == REAL else RELATIVE
        slack = max(abs(value) * relative, ABSOLUTE)
        low, high = Literal(value - slack, DOUBLE), Literal(value + slack, DOUBLE)
        nullable = expression.nullable
        return (
            Call("ge", (expression, low), BOOLEAN, nullable),
            Call("le", (expression, high), BOOLEAN, nullable),
        )
    return (Call("eq", (expression, Literal(value, expression.type)), BOOLEAN, expression.nullable),)
