"""Codes for arrays and structs. Arrow neither groups by such columns nor counts their values, so each is a number.

The code of an array is the place of the first row with an equal one: as many elements, each equal or both NULL, where
not-a-number is one value; that of a struct is the same of its fields. NULL, which is no array and no struct, the empty
array and the struct of NULLs have codes of their own.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import canonical


def codes(column: pa.ChunkedArray) -> pa.Array:
    """
    >>> codes(pa.chunked_array([[[1, None], [], None, [1, None], [None, 1], None]])).to_pylist()
    [0, 1, 2, 0, 4, 2]
    """
    first: dict[Value, int] = {}
    return pa.array([first.setdefault(canonical(v), place) for place, v in enumerate(column.to_pylist())], pa.int64())


def with_codes(table: pa.Table) -> pa.Table:
    """The table with codes instead of arrays and structs."""
    for position, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            table = table.set_column(position, field.name, codes(table.column(position)))
    return table


def without_codes(coded: pa.Table, origin: pa.Table) -> pa.Table:
    """The table with its values again, taken from the one that the codes were made of, whose columns are the first."""
    for position, field in enumerate(origin.schema):
        if pa.types.is_nested(field.type):
            arrays = origin.column(position).take(coded.column(position))
            coded = coded.set_column(position, field.name, arrays)
    return coded


def distinct_values(column: pa.ChunkedArray) -> int:
    """How many different values a column has, NULL not counted; of arrays and structs none is said to be."""
    return 0 if pa.types.is_nested(column.type) else int(pc.count_distinct(column).as_py())
