"""The head of a clause: what it gives to the columns of its predicate, and the rules that the clause becomes.

- A head that is not a plain variable of the column's type is a variable with an assignment.
- A clause with aggregates is three: ``p^rows`` has one row for each assignment of the body's variables, ``p^groups`` is
  their grouping, and p takes what it gives. So an aggregate counts each way in which its body holds once.

The values of aggregates over the rows of a group. NULL is left out; a sum of nothing, or an extremum, is NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

from tidemark.algebra import clauses as rules
from tidemark.algebra.aggregates import sum_type
from tidemark.algebra.clauses import Argument, Assign, Const, DatalogRule, GroupCall, Grouping, Var
from tidemark.algebra.coerce import coerce
from tidemark.algebra.expressions import Column, Expression, Literal, Value
from tidemark.algebra.functions import rank
from tidemark.algebra.functions.values import EXACT, fit
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import Field, Kind, Schema, Type
from tidemark.datalog.binder import BoundClause, GroupedCell, variable_of
from tidemark.datalog.syntax import Variable


def head_fields(bound: BoundClause) -> tuple[Field, ...]:
    """What the clause gives to the columns of its predicate: names from its variables, types, whether NULL can come."""
    fields = []
    for position, (term, cell) in enumerate(zip(bound.clause.head.terms, bound.head, strict=True), 1):
        name = term.name if isinstance(term, Variable) else f"c{position}"
        fields.append(Field(name, cell.type, cell.nullable))
    return tuple(fields)


def rules_of(bound: BoundClause, columns: Schema) -> tuple[tuple[DatalogRule, ...], tuple[Grouping, ...]]:
    """The rules of the clause, with the head brought to the types of the columns."""
    if bound.clause.aggregates:
        return _grouped(bound, columns)
    cells = tuple(cell for cell in bound.head if isinstance(cell, Expression))
    return (_with_head(bound.clause.head.predicate, cells, columns.types, bound, f"{bound.clause.number}"),), ()


def _with_head(
    predicate: str, cells: tuple[Expression, ...], types: Sequence[Type], bound: BoundClause, label: str
) -> DatalogRule:
    fields, body = list(bound.variables), list(bound.body)
    arguments: list[Argument] = []
    for cell, type in zip(cells, types, strict=True):
        cell = coerce(cell, type)
        match cell:
            case Literal():
                arguments.append(Const(cell))
            case Column():
                arguments.append(variable_of(cell))
            case _:
                fields.append(Field(f"?h{len(fields) + 1}", type, cell.nullable))
                variable = Var(len(fields) - 1, fields[-1].name)
                body.append(Assign(variable, cell))
                arguments.append(variable)
    return DatalogRule(rules.Atom(predicate, tuple(arguments)), tuple(body), Schema(tuple(fields)), label)


def _grouped(bound: BoundClause, columns: Schema) -> tuple[tuple[DatalogRule, ...], tuple[Grouping, ...]]:
    clause = bound.clause
    predicate, number = clause.head.predicate, clause.number
    rows, groups = f"{predicate}^rows{number}", f"{predicate}^groups{number}"
    keys = tuple(cell for cell in bound.head if isinstance(cell, Expression))
    calls = tuple(cell for cell in bound.head if isinstance(cell, GroupedCell))
    looked_at = tuple(cell.argument for cell in calls if cell.argument is not None)
    every = tuple(Column(i, f.name, f.type, f.nullable) for i, f in enumerate(bound.variables))
    cells = (*keys, *looked_at, *(column for column in every if column not in keys + looked_at))
    inner = _with_head(rows, cells, tuple(cell.type for cell in cells), bound, f"{number}")
    places = iter(range(len(keys), len(keys) + len(looked_at)))
    grouping = Grouping(
        groups,
        rows,
        len(keys),
        tuple(GroupCall(cell.function, None if cell.argument is None else next(places)) for cell in calls),
    )
    return (inner, _taking(groups, bound, columns, number)), (grouping,)


def _taking(groups: str, bound: BoundClause, columns: Schema, number: int) -> DatalogRule:
    """``p(…) :- p^groups(keys, values)``, in the order of the head."""
    fields: list[Field] = []
    for cell in sorted(bound.head, key=lambda cell: isinstance(cell, GroupedCell)):
        type = cell.type
        if isinstance(cell, GroupedCell) and cell.function == "sum" and cell.argument is not None:
            type = sum_type(cell.argument.type)
        fields.append(Field(f"v{len(fields) + 1}", type, cell.nullable))
    order = sorted(range(len(bound.head)), key=lambda i: isinstance(bound.head[i], GroupedCell))
    place = {position: index for index, position in enumerate(order)}
    every = tuple(Column(i, f.name, f.type, f.nullable) for i, f in enumerate(fields))
    atom = rules.Atom(groups, tuple(variable_of(column) for column in every))
    taking = replace(bound, variables=tuple(fields), body=(atom,))
    cells = tuple(every[place[position]] for position in range(len(bound.head)))
    return _with_head(bound.clause.head.predicate, cells, columns.types, taking, f"{number}")


def grouped(grouping: Grouping, source: Schema, rows: Iterable[Row]) -> set[Row]:
    """One row for each group of the rows."""
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[: grouping.keys], []).append(row)
    return {key + tuple(_value(call, source, group) for call in grouping.calls) for key, group in groups.items()}


def _value(call: GroupCall, source: Schema, rows: Collection[Row]) -> Value:
    if call.column is None:
        return len(rows)
    values = [row[call.column] for row in rows if row[call.column] is not None]
    if call.function == "count":
        return len(values)
    if not values:
        return None
    if call.function == "sum":
        return _sum(values, sum_type(source[call.column].type))
    return (min if call.function == "min" else max)(values, key=rank)


def _sum(values: list[Value], type: Type) -> Value:
    """Exact, and an error if it does not fit its type."""
    if type.kind is not Kind.DECIMAL:
        return fit(sum(values), type)
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, Decimal(value))  # type: ignore[arg-type]
    return fit(total, type)
