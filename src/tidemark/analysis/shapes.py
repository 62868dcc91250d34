"""Shapes of statements: statements that differ in their constants only are one family, and are analysed once.

``DELETE FROM r WHERE i < 5`` and ``DELETE FROM r WHERE i < 7`` have the shape ``DELETE FROM r WHERE i < :1``, as which
their boundary is worked out (``boundaries.py``); for each of them it is then enough to compare its constants with it.
A constant becomes a column behind those of the table, as a parameter is one. NULL, TRUE and FALSE stay as they are,
since they say more than that there is a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidemark.algebra.expressions import TRUE, Column, Expression, Literal, Value, transform
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import Field, Kind
from tidemark.analysis.boundaries import delete_boundary, insert_boundary, update_boundary
from tidemark.analysis.relevance import Influence
from tidemark.analysis.solving import time_limit
from tidemark.analysis.wording import plain

MOST_CONSTANTS: Final = 8
"""A statement with more constants is taken as it is: leaving so many columns out would not come to an end."""
MOST_SECONDS: Final = 1.0
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
    with time_limit(MOST_SECONDS):
        match shape.kind:
            case "delete":
                return delete_boundary(influence, shape.where, shape.parameters)
            case "update":
                return update_boundary(influence, shape.where, dict(shape.cells), shape.parameters)
        return insert_boundary(influence, dict(shape.cells), shape.parameters)


def is_within(boundary: Expression | None, constants: Iterable[Value]) -> bool:
    return boundary is not None and value_of(boundary, tuple(constants)) is True
