"""The values of aggregates over the rows of a group. NULL is left out; a sum of nothing, or an extremum, is NULL."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from decimal import Decimal

from tidemark.algebra.aggregates import sum_type
from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import rank
from tidemark.algebra.functions.values import EXACT, fit
from tidemark.algebra.rules import GroupCall, Grouping
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import Kind, Schema, Type


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
