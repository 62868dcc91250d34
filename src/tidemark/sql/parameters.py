"""Subqueries while a statement is being bound: closures over the query around them.

A bound subquery is a plan in which ``Parameter(i)`` stands for the i-th of its ``arguments``, expressions of the query
around it. An argument may itself be a parameter, of the subquery around that: this is how a name reaches a scope two or
more levels up. All of this is gone when binding ends: ``lowering.py`` turns subqueries into joins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tidemark.algebra.expressions import Expression, transform, walk
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

Change = Callable[[Expression], Expression | None]


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
    inputs = tuple(change_parameters(child, change) for child in plan.inputs())
    rebuilt = plan.with_inputs(inputs) if inputs else plan

    def changed(expression: Expression) -> Expression:
        return transform(expression, lambda e: change(e) if isinstance(e, Parameter) else None)

    match rebuilt:
        case Filter(predicate=predicate) | Join(predicate=predicate):
            return replace(rebuilt, predicate=changed(predicate))
        case Project(expressions=expressions):
            return replace(rebuilt, expressions=tuple(map(changed, expressions)))
        case Repeat(times=times):
            return replace(rebuilt, times=changed(times))
        case Unnest(array=array):
            return replace(rebuilt, array=changed(array))
        case Aggregate(keys=keys, aggregates=aggregates):
            calls = tuple(change_call(call, changed) for call in aggregates)
            return replace(rebuilt, keys=tuple(map(changed, keys)), aggregates=calls)
    if any(parameters_in(expression) for expression in expressions_of(rebuilt)):
        raise not_decorrelated(rebuilt)
    return rebuilt


def change_call(call: AggregateCall, change: Callable[[Expression], Expression]) -> AggregateCall:
    """The aggregate with all that it reads changed."""
    return call.with_expressions(tuple(map(change, call.expressions())))


def not_decorrelated(plan: Plan) -> TidemarkError:
    return TidemarkError(
        "unsupported",
        f"a subquery that refers to the query around it cannot have {type(plan).__name__.upper()} yet",
        hint="write it as a join, or without the outer reference",
    )
