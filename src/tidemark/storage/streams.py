"""Small tables as Arrow streams, and many of them read as one.

Opening a stream takes longer than reading the few rows in it. Streams of one schema begin with the same bytes, so all
their batches can follow one beginning.

The entries of a log: the columns of a relation, ``_version`` and ``_weight``, in the order of versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, islice
from typing import Final

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.storage import delta as deltas

WORTH_COMPRESSING: Final = 1_000
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def to_bytes(table: pa.Table) -> bytes:
    """One batch, whatever pieces the table came in: fewer bytes, and quicker to read among many."""
    sink = pa.BufferOutputStream()
    options = _COMPRESSED if table.num_rows >= WORTH_COMPRESSING else None
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def read_many(streams: Sequence[bytes]) -> Iterator[tuple[list[int], pa.Table]]:
    """The tables of all streams, in order: those of one schema that follow each other as one table, with the number of
    rows that each has.

    >>> streams = [to_bytes(pa.table({"a": part})) for part in ([1, 2], [3], [4.5])]
    >>> [(counts, table.column("a").to_pylist()) for counts, table in read_many(streams)]
    [([2, 1], [1, 2, 3]), ([1], [4.5])]
    """
    for beginning, alike in groupby(streams, _beginning):
        yield _read_run(beginning, [stream[len(beginning) : -len(_END)] for stream in alike])


def _beginning(stream: bytes) -> bytes:
    """The message that describes the schema: a mark, the length of the description, and the description."""
    return stream[: 8 + int.from_bytes(stream[4:8], "little")]


def _read_run(beginning: bytes, bodies: Sequence[bytes]) -> tuple[list[int], pa.Table]:
    """Streams of one schema without their beginnings and ends. Where a batch ends tells which of them it is of."""
    ends = list(accumulate(map(len, bodies), initial=len(beginning)))[1:]
    counts, place, batches = [0] * len(bodies), 0, []
    source = pa.BufferReader(b"".join([beginning, *bodies, _END]))
    with pa.ipc.open_stream(source) as reader:
        for batch in reader:
            while source.tell() > ends[place]:
                place += 1
            counts[place] += batch.num_rows
            batches.append(batch)
        return counts, pa.Table.from_batches(batches, reader.schema)


def log_schema(schema: Schema) -> pa.Schema:
    return schema.arrow.append(pa.field(VERSION, pa.int64())).append(pa.field(WEIGHT, pa.int64()))


def entries(
    versions: Iterable[int], runs: Iterable[tuple[list[int], pa.Table]], schema: Schema, added: Sequence[Value]
) -> Iterator[pa.Table]:
    """The entries of versions from their deltas, which come several in one table with the number of rows of each.

    Deltas from before the relation got its last columns are filled up with the values ``added``.
    """
    remaining = iter(versions)
    for counts, table in runs:
        each = zip(islice(remaining, len(counts)), counts, strict=True)
        stamp = pa.array([version for version, count in each for _ in range(count)], pa.int64())
        delta = deltas.extended(table, schema, added)
        columns = [*delta.columns[:-1], stamp, delta.columns[-1]]
        yield pa.table(columns, names=log_schema(schema).names).cast(log_schema(schema))


def runs_of(tables: Iterable[pa.Table]) -> Iterator[tuple[list[int], pa.Table]]:
    """Deltas that follow each other and have the same columns, as one table with the number of rows of each."""
    for _, alike in groupby(tables, lambda table: table.schema):
        run = list(alike)
        yield [table.num_rows for table in run], pa.concat_tables(run)
