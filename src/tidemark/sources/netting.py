"""Many rows that mostly cancel, made net with few of them in memory.

A job that rewrites files gives each of their rows twice: once as one that went, once as one that came. Equal rows are
brought together by a number that is made of their columns of whole numbers; rows of one number are made net by
themselves, from a file beside. Where a table has no such column, all rows are made net at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.storage import delta as deltas

MOST_ROWS: Final = 500_000
"""Up to so many rows are made net at once."""
_MOST_PARTS: Final = 256
_COLUMNS: Final = 4
_MIXED: Final = (-7046029254386353131, -4417276706812531889, -2643881736870682267, -49064778989728563)
"""Odd numbers without a pattern: neighbours are sent to different parts by them."""


def netted(tables: Iterable[pa.Table], schema: pa.Schema, rows: int) -> pa.Table:
    """The net of so many rows with weights, which are asked for one table after the other.

    >>> schema = pa.schema({"a": pa.int64(), "_weight": pa.int64()})
    >>> came = pa.table({"a": [1, 2], "_weight": [1, 1]}, schema=schema)
    >>> went = pa.table({"a": [3, 1], "_weight": [-1, -1]}, schema=schema)
    >>> sorted(netted([came, went], schema, rows=4).to_pydict().items())
    [('_weight', [1, -1]), ('a', [2, 3])]
    """
    by = [place for place, type_ in enumerate(schema.types[:-1]) if pa.types.is_integer(type_)][:_COLUMNS]
    if rows <= MOST_ROWS or not by:
        return deltas.net(pa.concat_tables([schema.empty_table(), *tables]))
    bits = min(_MOST_PARTS - 1, rows // MOST_ROWS).bit_length()
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(1 << bits)]
        _sent(tables, schema, by, bits, files)
        return pa.concat_tables([schema.empty_table(), *map(_net_of_part, files)])


def _sent(tables: Iterable[pa.Table], schema: pa.Schema, by: Sequence[int], bits: int, files: Sequence[Any]) -> None:
    """Write each row to the file of its part."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_stream(file, schema, options=options)) for file in files]
        for table in tables:
            parts = _parts(table, by, bits)
            order = pc.sort_indices(parts)
            sorted_, counts = (
                table.take(order),
                {one["values"]: one["counts"] for one in parts.value_counts().to_pylist()},
            )
            start = 0
            for part, writer in enumerate(writers):
                count = counts.get(part, 0)
                if count:
                    writer.write_table(sorted_.slice(start, count))
                start += count


def _parts(table: pa.Table, by: Sequence[int], bits: int) -> pa.ChunkedArray:
    """The part of each row; equal rows have the same."""
    mixed: Any = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
    for place, factor in zip(by, _MIXED, strict=False):
        column = pc.fill_null(table.column(place).cast(pa.int64()), 0)
        # Neither overflows with an error: what is too large is cut off, for equal values alike.
        mixed = pc.add(pc.multiply(mixed, pa.scalar(31)), pc.multiply(column, pa.scalar(factor)))
    return pc.bit_wise_and(pc.shift_right(mixed, pa.scalar(63 - bits)), pa.scalar((1 << bits) - 1))


def _net_of_part(file: Any) -> pa.Table:
    file.seek(0)
    with pa.ipc.open_stream(file) as reader:
        return deltas.net(reader.read_all())
