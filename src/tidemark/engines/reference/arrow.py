"""Between Arrow tables and plain rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import canonical
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import WEIGHT, Schema


def to_bag(table: pa.Table) -> dict[Row, int]:
    """A weighted table as a bag."""
    result: dict[Row, int] = {}
    for row, weight in zip(to_rows(table.select(range(table.num_columns - 1))), table[WEIGHT].to_pylist(), strict=True):
        result[row] = result.get(row, 0) + weight
    return {row: weight for row, weight in result.items() if weight}


def to_rows(table: pa.Table) -> list[Row]:
    columns = [_values(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _values(column: pa.ChunkedArray) -> list[Value]:
    """The values of a column; only floating point, arrays and structs have more than one form."""
    values: list[Value] = column.to_pylist()
    has_forms = pa.types.is_floating(column.type) or pa.types.is_nested(column.type)
    return [canonical(value) for value in values] if has_forms else values


def from_rows(rows: Iterable[Row], schema: Schema) -> pa.Table:
    listed = list(rows)
    columns = list(zip(*listed, strict=True)) if listed else [()] * len(schema)
    arrays = [pa.array(column, field.type.arrow) for column, field in zip(columns, schema.fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema.arrow)


def from_bag(bag: Mapping[Row, int], schema: Schema) -> pa.Table:
    return from_rows(bag.keys(), schema).append_column(WEIGHT, pa.array(list(bag.values()), pa.int64()))
