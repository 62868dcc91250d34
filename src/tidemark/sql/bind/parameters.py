"""Subqueries while a statement is being bound: closures over the query around them.

A bound subquery is a plan in which ``Parameter(i)`` stands for the i-th of its ``arguments``, expressions of the query
around it. An argument may itself be a parameter, of the subquery around that: this is how a name reaches a scope two or
more levels up. All of this is gone when binding ends: ``lowering.py`` turns subqueries into joins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from tidemark.algebra.expressions import Expression, transform, transform_all, walk
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Plan,
    Project,
    Repeat,
    Unnest,
    expressions_of,
)
from tidemark.algebra.plans import walk as walk_plan
from tidemark.algebra.types import BOOLEAN, Type
from tidemark.errors import TidemarkError


@dataclass(frozen=True)
class Parameter(Expression):
    """A value of the query around a subquery: the argument at ``index``."""

    index: int
    name: str = field(compare=False)
    type: Type
    nullable: bool = True


@dataclass(frozen=True)
class Subquery(Expression):
    """A subquery inside an expression: its plan, and the outer expressions that its parameters stand for."""

    plan: Plan
    arguments: tuple[Expression, ...]

    def children(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, arguments=children)


@dataclass(frozen=True)
class Exists(Subquery):
    """EXISTS: whether the plan has a row."""

    type = BOOLEAN
    nullable = False


@dataclass(frozen=True)
class AnyRow(Subquery):
    """Whether the condition is true for some row of the plan; NULL if it is unknown for some and true for none.

    The condition reads the plan's columns and parameters. IN, ANY and SOME are this; NOT IN and ALL are NOT of it.
    """

    condition: Expression
    type = BOOLEAN

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        return self.condition.nullable


@dataclass(frozen=True)
class Scalar(Subquery):
    """The value of the plan's one column in its one row; NULL without a row, an error with several."""

    @property
    def type(self) -> Type:  # type: ignore[override]
        return self.plan.schema[0].type

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        return True


def has_subquery(expression: Expression) -> bool:
    return any(isinstance(part, Subquery) for part in walk(expression))


def parameters_in(expression: Expression) -> frozenset[int]:
    return frozenset(part.index for part in walk(expression) if isinstance(part, Parameter))


def parameters_of(plan: Plan) -> frozenset[int]:
    """The parameters that stand anywhere in the plan."""
    return frozenset(i for part in walk_plan(plan) for e in expressions_of(part) for i in parameters_in(e))


def with_arguments(expression: Expression, arguments: tuple[Expression, ...]) -> Expression:
    """The expression with each parameter replaced by its argument."""
    return transform(expression, lambda e: arguments[e.index] if isinstance(e, Parameter) else None)


def change_parameters(plan: Plan, change: Callable[[Parameter], Expression]) -> Plan:
    """The plan with each parameter replaced."""
    if not parameters_of(plan):
        return plan

    def changed(part: Expression) -> Expression | None:
        return change(part) if isinstance(part, Parameter) else None

    result = change_expressions(plan, changed)
    for part in walk_plan(result):
        if not isinstance(part, FILLED) and any(parameters_in(expression) for expression in expressions_of(part)):
            raise not_decorrelated(part)
    return result


FILLED: Final = (Filter, Join, Project, Repeat, Unnest, Aggregate)
"""Nodes whose own expressions can be changed for others of the same types."""


def change_expressions(plan: Plan, change: Callable[[Expression], Expression | None]) -> Plan:
    """The plan with parts of expressions replaced where ``change`` gives something; a node of which nothing is replaced
    stays the same object."""
    known: dict[int, Plan] = {}

    def rebuilt(part: Plan) -> Plan:
        found = known.get(id(part))
        if found is None:
            inputs = part.inputs()
            new = tuple([rebuilt(child) for child in inputs])
            is_same = all(one is other for one, other in zip(new, inputs, strict=True))
            found = known[id(part)] = _changed(part if is_same else part.with_inputs(new), change)
        return found

    return rebuilt(plan)


def _changed(part: Plan, change: Callable[[Expression], Expression | None]) -> Plan:
    """The node with its own expressions changed."""
    before = expressions_of(part) if isinstance(part, FILLED) else ()
    after = transform_all(before, change)
    if all(one is other for one, other in zip(after, before, strict=True)):
        return part
    match part:
        case Filter() | Join():
            return replace(part, predicate=after[0])
        case Project():
            return replace(part, expressions=after)
        case Repeat():
            return replace(part, times=after[0])
        case Unnest():
            return replace(part, array=after[0])
        case Aggregate(keys=keys, aggregates=aggregates):
            rest = iter(after[len(keys) :])
            calls = tuple(call.with_expressions(tuple(next(rest) for _ in call.expressions())) for call in aggregates)
            return replace(part, keys=after[: len(keys)], aggregates=calls)
    return part


def change_call(call: AggregateCall, change: Callable[[Expression], Expression]) -> AggregateCall:
    """The aggregate with all that it reads changed."""
    return call.with_expressions(tuple(map(change, call.expressions())))


def not_decorrelated(plan: Plan) -> TidemarkError:
    return TidemarkError(
        "unsupported",
        f"a subquery that refers to the query around it cannot have {type(plan).__name__.upper()} yet",
        hint="write it as a join, or without the outer reference",
    )
