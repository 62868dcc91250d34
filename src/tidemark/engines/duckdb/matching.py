"""Join conditions for DuckDB that match whole keys or rows of a delta.

DuckDB prunes what it scans by *one* plain equality; when it must hash several columns it reads all of them in full, up
to 3 times slower on millions of rows. So one column should drive the join, and the others be checked on what it
leaves, in a CASE. But only a column that tells most of the delta's rows apart may do so: with one that does not (a
tenant, a status) nearly every stored row would be compared with every row of the delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from tidemark.log.codes import distinct_values

SELECTIVE: Final = 8
"""A column may drive a join if it has a value of its own for each so many rows of the delta, and more than one."""


def all_match(pairs: Sequence[tuple[str, str]], columns: Sequence[pa.ChunkedArray]) -> str:
    """Each left side equals its right side, whose values are the column; NULL matches NULL.

    >>> all_match([("a.x", "d.x"), ("a.y", "d.y")], [pa.chunked_array([[1, 1]]), pa.chunked_array([[5, None]])])
    'a.x = d.x AND a.y IS NOT DISTINCT FROM d.y'
    >>> all_match([("a.x", "d.x"), ("a.y", "d.y")], [pa.chunked_array([[7] * 8]), pa.chunked_array([list(range(8))])])
    'a.y = d.y AND CASE WHEN a.x = d.x THEN TRUE ELSE FALSE END'
    """
    texts = [
        f"{left} {'IS NOT DISTINCT FROM' if column.null_count else '='} {right}"
        for (left, right), column in zip(pairs, columns, strict=True)
    ]
    driver = _driver(columns)
    if driver is None or len(texts) == 1:
        return " AND ".join(texts)
    rest = " AND ".join(text for i, text in enumerate(texts) if i != driver)
    return f"{texts[driver]} AND CASE WHEN {rest} THEN TRUE ELSE FALSE END"


def _driver(columns: Sequence[pa.ChunkedArray]) -> int | None:
    """The first column without NULLs that tells most rows apart."""
    for position, column in enumerate(columns):
        distinct = 0 if column.null_count else distinct_values(column)
        if distinct > 1 and distinct * SELECTIVE >= len(column):
            return position
    return None
