"""Binding UNION, EXCEPT and INTERSECT over bound sides, and VALUES.

The parser has settled precedence: INTERSECT binds tighter than UNION and EXCEPT, which go from left to right.
"""

from __future__ import annotations

from sqlglot import exp

from tidemark.algebra.coerce import adapt_text_literals, coerce, common_of, settle_null
from tidemark.algebra.expressions import Expression, Literal, Value
from tidemark.algebra.plans import Difference, Distinct, Intersection, Plan, Project, Union, Values
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import VARCHAR, Field, Schema, Type
from tidemark.errors import TidemarkError
from tidemark.sql.bind.expressions import ExpressionBinder
from tidemark.sql.bind.scope import Scope
from tidemark.sql.bind.types import read_text
from tidemark.sql.parse.text import Source


def bind_set_operation(node: exp.SetOperation, left: Plan, right: Plan, source: Source) -> Plan:
    """The operation with ALL is the bag's; without it, that of the two sides as sets."""
    sides = _aligned(left, right, node, source)
    is_set = bool(node.args.get("distinct"))
    if isinstance(node, exp.Union):
        return Distinct(Union(sides)) if is_set else Union(sides)
    if is_set:
        sides = (Distinct(sides[0]), Distinct(sides[1]))
    return Difference(*sides) if isinstance(node, exp.Except) else Intersection(*sides)


def _aligned(left: Plan, right: Plan, node: exp.SetOperation, source: Source) -> tuple[Plan, Plan]:
    """Both sides with the common types of their columns."""
    name = node.key.upper()
    if len(left.schema) != len(right.schema):
        message = f"the sides of {name} have {len(left.schema)} and {len(right.schema)} columns"
        raise source.error("type", message, node.expression)
    try:
        left, right = _reading_literals(left, right), _reading_literals(right, left)
    except TidemarkError as error:
        raise error.restated(place=source.place_of(node.expression)) from error
    targets = []
    for position, (a, b) in enumerate(zip(left.schema.types, right.schema.types, strict=True)):
        target = common_of([a, b])
        if target is None:
            message = f"column {position + 1} of {name} is {a} on one side, {b} on the other"
            raise source.error("type", message, node.expression)
        targets.append(target)
    return _as_types(left, tuple(targets)), _as_types(right, tuple(targets))


def _reading_literals(side: Plan, other: Plan) -> Plan:
    """The side with bare NULLs and quoted literals of its select list read as the types of the other side."""
    if not isinstance(side, Project):
        return side
    pairs = zip(side.expressions, other.schema.types, strict=True)
    return Project(side.input, side.names, tuple(_read_as(cell, type) for cell, type in pairs))


def _read_as(cell: Expression, target: Type) -> Expression:
    if not isinstance(cell, Literal) or cell.type != VARCHAR or target == VARCHAR:
        return cell
    return Literal(None if cell.value is None else read_text(str(cell.value), target), target)


def _as_types(side: Plan, targets: tuple[Type, ...]) -> Plan:
    if side.schema.types == targets:
        return side
    cells = tuple(coerce(column, target) for column, target in zip(side.columns(), targets, strict=True))
    return Project(side, side.schema.names, cells)


def bind_values(node: exp.Values, source: Source) -> Values:
    """VALUES: rows of constants, under the names column1, column2, …; each column has the common type of its cells."""
    rows = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    for row, entry in zip(rows, node.expressions, strict=True):
        if len(row) != len(rows[0]):
            message = f"the rows of VALUES have {len(rows[0])} and {len(row)} columns"
            raise source.error("type", message, entry)
    columns = [_column([row[position] for row in rows], position, source) for position in range(len(rows[0]))]
    fields = tuple(
        Field(f"column{number + 1}", type, any(value is None for value in values))
        for number, (type, values) in enumerate(columns)
    )
    return Values(tuple(zip(*(values for _, values in columns), strict=True)), Schema(fields))


def _column(cells: list[exp.Expr], position: int, source: Source) -> tuple[Type, tuple[Value, ...]]:
    binder = ExpressionBinder(source, Scope())
    bound = adapt_text_literals(tuple(_constant(cell, binder) for cell in cells))
    target = common_of([expression.type for expression in bound])
    if target is None:
        types = " and ".join(sorted({str(expression.type) for expression in bound}))
        raise source.error("type", f"column {position + 1} of VALUES has the types {types}", cells[0])
    settled = tuple(settle_null(coerce(expression, target)) for expression in bound)
    values = tuple(_value(expression, cell, source) for expression, cell in zip(settled, cells, strict=True))
    return settled[0].type, values


def _constant(cell: exp.Expr, binder: ExpressionBinder) -> Expression:
    if isinstance(cell, exp.Var):
        raise binder.source.error("unsupported", f"{cell.name.upper()} in VALUES is not supported", cell)
    return binder.bind(cell)


def _value(expression: Expression, cell: exp.Expr, source: Source) -> Value:
    try:
        return value_of(expression, ())
    except TidemarkError as error:
        raise error.restated(place=source.place_of(cell)) from error
