"""Typed scalar expressions: columns by position, literals, calls into the function table, CASE, CAST, and fields."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, TypeAlias

from tidemark.algebra.structure import structural
from tidemark.algebra.types import BOOLEAN, Type

Value: TypeAlias = "bool | int | float | str | bytes | Decimal | dt.date | dt.datetime | tuple[Value, ...] | None"


class Expression:
    """The base of all expressions. Each has a ``type`` and says whether it can be NULL."""

    type: Type
    nullable: bool

    def children(self) -> tuple[Expression, ...]:
        return ()

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return self


@structural
@dataclass(frozen=True)
class Column(Expression):
    """The column at ``index`` of the input; ``name`` is for people and takes no part in comparison of plans."""

    index: int
    name: str = field(compare=False)
    type: Type
    nullable: bool = True


@structural
@dataclass(frozen=True)
class Literal(Expression):
    value: Value
    type: Type

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        return self.value is None


@structural
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


@structural
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


@structural
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


@structural
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
    """The expression and everything in it, from the outside in, as often as it stands there."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(part.children()))


def parts_once(expressions: Iterable[Expression]) -> Iterator[Expression]:
    """The expressions and everything in them; a part that stands in several places once."""
    seen: set[int] = set()
    waiting = list(expressions)
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting.extend(part.children())


def transform(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """Replace, from the outside in, each part for which ``change`` gives something; one that stands in several places
    is looked at once."""
    return transform_all((expression,), change)[0]


def transform_all(
    expressions: tuple[Expression, ...], change: Callable[[Expression], Expression | None]
) -> tuple[Expression, ...]:
    """The same for several expressions, which may have parts in common."""
    known: dict[int, Expression] = {}

    def transformed(part: Expression) -> Expression:
        found = known.get(id(part))
        if found is None:
            found = change(part)
            if found is None:
                children = part.children()
                rebuilt = tuple([transformed(child) for child in children])
                is_same = all(one is other for one, other in zip(rebuilt, children, strict=True))
                found = part if is_same else part.with_children(rebuilt)
            known[id(part)] = found
        return found

    return tuple([transformed(expression) for expression in expressions])


def substitute(expression: Expression, inputs: tuple[Expression, ...]) -> Expression:
    """Replace each column by the expression at its position in ``inputs``."""
    return substitute_all((expression,), inputs)[0]


def substitute_all(expressions: tuple[Expression, ...], inputs: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The same in each of several expressions, which may have parts in common."""
    return transform_all(expressions, lambda e: inputs[e.index] if isinstance(e, Column) else None)


def shift(expression: Expression, offset: int) -> Expression:
    """Move each column ``offset`` positions to the right."""
    return shift_all((expression,), offset)[0]


def shift_all(expressions: tuple[Expression, ...], offset: int) -> tuple[Expression, ...]:
    """The same in each of several expressions, which may have parts in common."""
    return transform_all(expressions, lambda e: replace(e, index=e.index + offset) if isinstance(e, Column) else None)


def columns_of(expression: Expression) -> frozenset[int]:
    """The positions of the columns that the expression reads; worked out once."""
    known: frozenset[int] | None = expression.__dict__.get(_COLUMNS)
    if known is None:
        if isinstance(expression, Column):
            known = frozenset((expression.index,))
        else:
            known = _NO_COLUMNS.union(*[columns_of(child) for child in expression.children()])
        expression.__dict__[_COLUMNS] = known
    return known


def columns_in(expressions: Iterable[Expression]) -> frozenset[int]:
    """The positions of the columns that any of the expressions reads."""
    return _NO_COLUMNS.union(*map(columns_of, expressions))


_COLUMNS: Final = "_columns"
_NO_COLUMNS: Final[frozenset[int]] = frozenset()


def size_of(expression: Expression) -> int:
    """How many parts the expression has, as often as they stand there; worked out once."""
    known: int | None = expression.__dict__.get(_SIZE)
    if known is None:
        known = expression.__dict__[_SIZE] = 1 + sum([size_of(child) for child in expression.children()])
    return known


_SIZE: Final = "_size"


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a conjunction, left to right."""
    if isinstance(expression, Call) and expression.function == "and":
        return _flat(expression, "and")
    return (expression,)


def disjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a disjunction, left to right."""
    if isinstance(expression, Call) and expression.function == "or":
        return _flat(expression, "or")
    return (expression,)


def _flat(expression: Expression, function: str) -> tuple[Expression, ...]:
    """The arguments of nested calls of one function."""
    found: list[Expression] = []
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.function == function:
            waiting.extend(reversed(part.arguments))
        else:
            found.append(part)
    return tuple(found)


def conjunction(parts: tuple[Expression, ...]) -> Expression:
    """AND of all parts; TRUE if there are none."""
    if not parts:
        return TRUE
    result = parts[0]
    for part in parts[1:]:
        result = Call("and", (result, part), BOOLEAN, result.nullable or part.nullable)
    return result
