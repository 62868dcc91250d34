"""Many small Arrow streams read as one hold what they hold one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidemark.storage.streams import from_bytes, read_many, to_bytes

SCHEMAS = (
    pa.schema([("a", pa.int32()), ("b", pa.string())]),
    pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.list_(pa.float64()))]),
    pa.schema([("a", pa.int64()), ("b", pa.string())]),
)
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "a": st.none() | st.integers(-5, 5),
    "b": st.none() | st.text(max_size=3),
    "c": st.none() | st.lists(st.floats(allow_nan=False), max_size=2),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    schema = draw(st.sampled_from(SCHEMAS))
    row = st.fixed_dictionaries({name: CELLS[name] for name in schema.names})
    rows = draw(st.lists(row, max_size=4))
    if draw(st.booleans()):
        return pa.Table.from_pylist(rows * 500, schema=schema)  # worth compressing
    pieces = [pa.Table.from_pylist(part, schema=schema) for part in (rows[:2], rows[2:])]
    return pa.concat_tables(pieces)


def in_pieces(table: pa.Table) -> bytes:
    """A stream of as many batches as the table has pieces, none if it is empty."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@given(st.lists(tables(), max_size=8), st.booleans())
def test_streams_are_read_together_as_they_are_read_alone(written: list[pa.Table], as_one_batch: bool) -> None:
    streams = [to_bytes(table) if as_one_batch else in_pieces(table) for table in written]
    parts = []
    for counts, table in read_many(streams):
        assert sum(counts) == table.num_rows
        for count in counts:
            parts.append(table.slice(0, count))
            table = table.slice(count)
    assert [part.schema for part in parts] == [table.schema for table in written]
    assert [part.to_pylist() for part in parts] == [table.to_pylist() for table in written]
    assert [from_bytes(stream).to_pylist() for stream in streams] == [table.to_pylist() for table in written]
