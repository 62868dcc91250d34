"""Codes for arrays. Arrow neither groups by columns of lists nor counts their values, so there each is a number.

The code of an array is the place of the first row with an equal one: as many elements, each equal or both NULL, where
not-a-number is one value. NULL, which is no array, and the empty array have codes of their own.
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
    """The table with codes instead of arrays."""
    for position, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            table = table.set_column(position, field.name, codes(table.column(position)))
    return table


def without_codes(coded: pa.Table, origin: pa.Table) -> pa.Table:
    """The table with arrays again, taken from the one that the codes were made of; its columns are the first ones."""
    for position, field in enumerate(origin.schema):
        if pa.types.is_nested(field.type):
            arrays = origin.column(position).take(coded.column(position))
            coded = coded.set_column(position, field.name, arrays)
    return coded


def distinct_values(column: pa.ChunkedArray) -> int:
    """How many different values a column has, NULL not counted; arrays are not told apart, so none is said of them."""
    return 0 if pa.types.is_nested(column.type) else int(pc.count_distinct(column).as_py())
