"""Shapes of statements: statements that differ in their constants only are one family, and are analysed once (8.2).

``DELETE FROM r WHERE i < 5`` and ``DELETE FROM r WHERE i < 7`` have the shape ``DELETE FROM r WHERE i < :1``. A
constant becomes a column behind those of the table, as a parameter is one. NULL, TRUE and FALSE stay as they are, since
they say more than that there is a value.

The effects of a shape that are possible are formulas over the rows and its parameters. With the rows left out they say
for which parameters there can be an effect; for all others there is none, so it is enough to compare a statement's
constants with this boundary. Where more is let pass than need be, fewer values are called irrelevant: the answer is
sound. A parameter is taken not to be NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    Value,
    conjunction,
    shift,
    size_of,
    transform,
)
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import BOOLEAN, Field, Kind
from tidemark.analysis.budget import steps_for, within
from tidemark.analysis.conditions import Facts
from tidemark.analysis.elimination import said_of
from tidemark.analysis.relevance.dml import (
    Cells,
    Effect,
    Parameters,
    is_changed,
    of_deleting,
    of_inserting,
    of_updating,
)
from tidemark.analysis.relevance.filters import Influence, any_of, simplified
from tidemark.analysis.relevance.ways import Way
from tidemark.analysis.rendering import FALSE, plain

_OPPOSITES = {"eq": "ne", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
_OPPOSITES |= {opposite: name for name, opposite in _OPPOSITES.items()}


def insert_boundary(influence: Influence, cells: Cells, parameters: Parameters) -> Expression | None:
    """The condition on the parameters, columns by their places, under which INSERT of one row is irrelevant."""
    return _boundary(influence.ways, partial(of_inserting, cells=cells, parameters=parameters), parameters)


def delete_boundary(influence: Influence, where: Expression, parameters: Parameters) -> Expression | None:
    """The condition on the parameters under which DELETE is irrelevant. None if none was found.

    In the statement the parameters are columns behind those of the table; in the result they are the columns.
    """
    return _boundary(influence.ways, partial(of_deleting, where=where, parameters=parameters), parameters)


def update_boundary(influence: Influence, where: Expression, cells: Cells, parameters: Parameters) -> Expression | None:
    """The condition on the parameters under which UPDATE is irrelevant."""
    asking = None if influence.ways is None else [way for way in influence.ways if is_changed(way, cells)]
    effect = partial(of_updating, table=influence.facts, where=where, cells=cells, parameters=parameters)
    return _boundary(asking, effect, parameters)


def _boundary(ways: Iterable[Way] | None, effect: Callable[[Way], Effect], parameters: Parameters) -> Expression | None:
    if ways is None:
        return None
    facts, found = Facts(parameters), list[Expression]()
    for way in ways:
        offset = len(way.facts.columns)
        kept = frozenset(range(offset, offset + len(parameters)))
        possible = effect(way)
        matters = FALSE if possible.impossible else said_of(possible.formula, kept, possible.translation)
        simple = None if matters is None else simplified(shift(matters, -offset), facts)
        if simple is None:
            return None
        if simple != FALSE:
            found.append(simple)
    matters = any_of(found, facts)
    return None if matters is None else simplified(opposite(matters), facts) or TRUE


def opposite(condition: Expression) -> Expression:
    """The opposite of a condition that is never NULL, without NOT where there is a shorter way to say it.

    >>> from tidemark.algebra.expressions import Column
    >>> from tidemark.algebra.printing import show_expression
    >>> from tidemark.algebra.types import INT
    >>> show_expression(opposite(Call("ge", (Column(0, "p", INT, nullable=False), Literal(13, INT)), BOOLEAN)))
    '(p < 13)'
    """
    match condition:
        case Literal(value=value):
            return Literal(not value, BOOLEAN)
        case Call(function="and", arguments=(left, right)):
            return Call("or", (opposite(left), opposite(right)), BOOLEAN, condition.nullable)
        case Call(function="or", arguments=(left, right)):
            return conjunction((opposite(left), opposite(right)))
        case Call(function=name, arguments=arguments) if name in _OPPOSITES:
            return Call(_OPPOSITES[name], arguments, BOOLEAN, condition.nullable)
        case Call(function="not", arguments=(inner,)):
            return inner
    return Call("not", (condition,), BOOLEAN, condition.nullable)


MOST_CONSTANTS: Final = 8
"""A statement with more constants is taken as it is: leaving so many columns out would not come to an end."""
_TAKEN_OUT: Final = (Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.VARCHAR, Kind.DATE, Kind.TIMESTAMP)
_Cells = tuple[tuple[int, Expression], ...]


@dataclass(frozen=True)
class Shape:
    """A statement over one table; ``cells`` are the values of an UPDATE by column, or of the row of an INSERT."""

    kind: str
    relation: str
    parameters: tuple[Field, ...]
    where: Expression = TRUE
    cells: _Cells = ()

    def text(self, columns: Sequence[Field]) -> str:
        """The shape as people write it, given the columns of its table."""
        where = "" if self.where == TRUE else f" WHERE {plain(self.where)}"
        match self.kind:
            case "delete":
                return f"DELETE FROM {self.relation}{where}"
            case "update":
                cells = ", ".join(f"{columns[place].name} = {plain(cell)}" for place, cell in self.cells)
                return f"UPDATE {self.relation} SET {cells}{where}"
        return f"INSERT INTO {self.relation} VALUES ({', '.join(plain(cell) for _, cell in self.cells)})"


def shape_of(
    kind: str, relation: str, width: int, where: Expression = TRUE, cells: Mapping[int, Expression] | None = None
) -> tuple[Shape, tuple[Value, ...]] | None:
    """The shape of a statement over a table of so many columns, and its constants; None if it has too many of them.

    >>> from tidemark.algebra.expressions import Call
    >>> from tidemark.algebra.types import BOOLEAN, INT
    >>> shape, constants = shape_of("delete", "r", 2, Call("lt", (Column(0, "i", INT), Literal(5, INT)), BOOLEAN))
    >>> shape.text(()), constants
    ('DELETE FROM r WHERE i < :1', (5,))
    """
    found: list[Literal] = []

    def taken_out(part: Expression) -> Expression | None:
        if not isinstance(part, Literal) or part.value is None or part.type.kind not in _TAKEN_OUT:
            return None
        found.append(part)
        return Column(width + len(found) - 1, f":{len(found)}", part.type, nullable=False)

    general = transform(where, taken_out)
    values = tuple((place, transform(cell, taken_out)) for place, cell in sorted((cells or {}).items()))
    if len(found) > MOST_CONSTANTS:
        return None
    parameters = tuple(Field(f":{i}", literal.type, nullable=False) for i, literal in enumerate(found, 1))
    return Shape(kind, relation, parameters, general, values), tuple(literal.value for literal in found)


def numbered(shape: Shape, width: int) -> tuple[Shape, tuple[int, ...]]:
    """The shape with its parameters in the order in which they stand, as constants would, and numbered, whatever they
    were called; and which of its own each of them is."""
    order: list[int] = []

    def noted(part: Expression) -> Expression | None:
        if isinstance(part, Column) and part.index >= width and part.index - width not in order:
            order.append(part.index - width)
        return None

    for expression in (shape.where, *(cell for _, cell in shape.cells)):
        transform(expression, noted)
    order += [i for i in range(len(shape.parameters)) if i not in order]

    def moved(part: Expression) -> Expression | None:
        if not isinstance(part, Column) or part.index < width:
            return None
        place = order.index(part.index - width)
        return replace(part, index=width + place, name=f":{place + 1}")

    parameters = tuple(replace(shape.parameters[own], name=f":{i}") for i, own in enumerate(order, 1))
    cells = tuple((place, transform(cell, moved)) for place, cell in shape.cells)
    return replace(shape, parameters=parameters, where=transform(shape.where, moved), cells=cells), tuple(order)


def boundary_of(influence: Influence, shape: Shape) -> Expression | None:
    """The condition on the constants of statements of a shape within which they are irrelevant; None if none was
    found."""
    parts = influence.parts + size_of(shape.where) + sum(size_of(cell) for _, cell in shape.cells)
    return within(steps_for(parts), partial(_of_kind, influence, shape), None)


def _of_kind(influence: Influence, shape: Shape) -> Expression | None:
    match shape.kind:
        case "delete":
            return delete_boundary(influence, shape.where, shape.parameters)
        case "update":
            return update_boundary(influence, shape.where, dict(shape.cells), shape.parameters)
    return insert_boundary(influence, dict(shape.cells), shape.parameters)


def is_within(boundary: Expression | None, constants: Iterable[Value]) -> bool:
    return boundary is not None and value_of(boundary, tuple(constants)) is True
