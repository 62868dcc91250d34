"""Typed scalar expressions: columns by position, literals, calls into the function table, CASE, CAST, and fields."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeAlias

from tidemark.algebra.types import BOOLEAN, Type

Value: TypeAlias = "bool | int | float | str | Decimal | dt.date | dt.datetime | tuple[Value, ...] | None"


class Expression:
    """The base of all expressions. Each has a ``type`` and says whether it can be NULL."""

    type: Type
    nullable: bool

    def children(self) -> tuple[Expression, ...]:
        return ()

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return self


@dataclass(frozen=True)
class Column(Expression):
    """The column at ``index`` of the input; ``name`` is for people and takes no part in comparison of plans."""

    index: int
    name: str = field(compare=False)
    type: Type
    nullable: bool = True


@dataclass(frozen=True)
class Literal(Expression):
    value: Value
    type: Type

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        return self.value is None


@dataclass(frozen=True)
class Call(Expression):
    """A call of a function or operator of the function table, with its arguments already of the right types."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    nullable: bool = True

    def children(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, arguments=children)


@dataclass(frozen=True)
class Case(Expression):
    """CASE WHEN condition THEN value … ELSE default END; conditions are BOOLEAN, values have the CASE's type."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression
    type: Type

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        return self.default.nullable or any(value.nullable for _, value in self.branches)

    def children(self) -> tuple[Expression, ...]:
        return (*tuple(part for branch in self.branches for part in branch), self.default)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        pairs = tuple(zip(children[:-1:2], children[1:-1:2], strict=True))
        return replace(self, branches=pairs, default=children[-1])


@dataclass(frozen=True)
class Cast(Expression):
    argument: Expression
    type: Type

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        return self.argument.nullable

    def children(self) -> tuple[Expression, ...]:
        return (self.argument,)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, argument=children[0])


@dataclass(frozen=True)
class FieldOf(Expression):
    """The field of a struct at ``place``, counted from 0; NULL if the struct is NULL."""

    argument: Expression
    place: int

    @property
    def type(self) -> Type:  # type: ignore[override]
        return self.argument.type.fields[self.place][1]

    @property
    def name(self) -> str:
        return self.argument.type.fields[self.place][0]

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        return True

    def children(self) -> tuple[Expression, ...]:
        return (self.argument,)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, argument=children[0])


TRUE = Literal(True, BOOLEAN)


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything in it, from the outside in."""
    yield expression
    for child in expression.children():
        yield from walk(child)


def transform(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """Replace, from the outside in, each part for which ``change`` gives something."""
    changed = change(expression)
    if changed is not None:
        return changed
    children = expression.children()
    if not children:
        return expression
    return expression.with_children(tuple(transform(child, change) for child in children))


def substitute(expression: Expression, inputs: tuple[Expression, ...]) -> Expression:
    """Replace each column by the expression at its position in ``inputs``."""
    return transform(expression, lambda e: inputs[e.index] if isinstance(e, Column) else None)


def shift(expression: Expression, offset: int) -> Expression:
    """Move each column ``offset`` positions to the right."""
    return transform(expression, lambda e: replace(e, index=e.index + offset) if isinstance(e, Column) else None)


def columns_of(expression: Expression) -> frozenset[int]:
    """The positions of the columns that the expression reads."""
    return frozenset(e.index for e in walk(expression) if isinstance(e, Column))


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a conjunction, left to right."""
    if isinstance(expression, Call) and expression.function == "and":
        return tuple(part for argument in expression.arguments for part in conjuncts(argument))
    return (expression,)


def conjunction(parts: tuple[Expression, ...]) -> Expression:
    """AND of all parts; TRUE if there are none."""
    if not parts:
        return TRUE
    result = parts[0]
    for part in parts[1:]:
        result = Call("and", (result, part), BOOLEAN, result.nullable or part.nullable)
    return result
