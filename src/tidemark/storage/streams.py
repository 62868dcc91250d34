"""Small tables as Arrow streams, and many of them read as one.

Opening a stream takes longer than reading the few rows in it. Streams of one schema begin with the same bytes, so all
their batches can follow one beginning.

The entries of a log: the columns of a relation, ``_version`` and ``_weight``, in the order of versions.

A few rows as lists that JSON can hold: writing those takes a tenth of the time of an Arrow table and its stream.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import accumulate, groupby, islice
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import VERSION, WEIGHT, Kind, Schema
from tidemark.errors import TidemarkError
from tidemark.storage import delta as deltas
from tidemark.storage.delta import Bag, Rows

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


def runs_of_rows(changes: Iterable[Rows], schema: Schema) -> Iterator[tuple[list[int], pa.Table]]:
    """The same of rows; those that are few are made one table, and not one each."""
    for are_few, alike in groupby(changes, lambda rows: rows.is_few):
        run = list(alike)
        if are_few:
            yield (
                [rows.count for rows in run],
                table_of_entries((e for rows in run for e in deltas.entries_of(rows.net)), schema),
            )
        else:
            yield from runs_of(rows.table for rows in run)


def table_of_entries(entries: Iterable[tuple[Row, int]], schema: Schema) -> pa.Table:
    """Rows with their weights as a table; a row may come several times."""
    rows, weights = zip(*known, strict=True) if (known := list(entries)) else ((), ())
    return deltas.from_rows(rows, schema).append_column(WEIGHT, pa.array(weights, pa.int64()))


# A few rows as lists

MOST_LISTED: Final = 64
Listed: TypeAlias = list[Any]
"""The kinds of the columns, a letter each; the weights; and the columns."""
_LETTERS: Final = {
    Kind.BOOLEAN: "b",
    Kind.SMALLINT: "i",
    Kind.INT: "i",
    Kind.BIGINT: "i",
    Kind.VARCHAR: "s",
    Kind.DATE: "d",
    Kind.TIMESTAMP: "t",
    Kind.DECIMAL: "n",
}
_EPOCH: Final = dt.datetime(1970, 1, 1)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_WRITTEN: Final[dict[str, Callable[[Any], Any]]] = {
    "d": dt.date.toordinal,
    "t": lambda value: (value - _EPOCH) // _MICROSECOND,
    "n": str,
}
_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "d": dt.date.fromordinal,
    "t": lambda value: _EPOCH + value * _MICROSECOND,
    "n": Decimal,
}


def listed(rows: Rows, schema: Schema) -> Listed | None:
    """A few rows as lists; None if these are not few, or have values that JSON may not give back as they are.

    >>> from tidemark.algebra.types import DATE, INT, Field
    >>> schema = Schema((Field("a", INT), Field("b", DATE)))
    >>> found = listed(Rows(schema, bag={(1, dt.date(1, 1, 2)): -1}), schema)
    >>> found, rows_listed(found, schema).bag
    (['id', [-1], [1], [2]], {(1, datetime.date(1, 1, 2)): -1})
    """
    if rows.count > MOST_LISTED or not (letters := _letters_of(schema)):
        return None
    known, weights = zip(*deltas.entries_of(rows.net), strict=True)
    columns = [
        list(column) if letter not in _WRITTEN else _each(_WRITTEN[letter], column)
        for letter, column in zip(letters, zip(*known, strict=True), strict=True)
    ]
    return [letters, list(weights), *columns]


def rows_listed(found: Listed, schema: Schema) -> Rows:
    """The rows that were listed."""
    letters, weights, *columns = found
    if letters != _letters_of(schema):
        raise TidemarkError("damaged", f"rows of the types {letters!r} are not those of a relation with {schema}")
    values = [
        column if letter not in _READ else _each(_READ[letter], column)
        for letter, column in zip(letters, columns, strict=True)
    ]
    return Rows(schema, bag=Bag(zip(zip(*values, strict=True), weights, strict=True)))


def _each(of: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    return [None if value is None else of(value) for value in values]


def _letters_of(schema: Schema) -> str:
    """A letter for each column; none at all if there is one that has no letter."""
    kept = _known.get(id(schema))
    if kept is None or kept[0] is not schema:
        letters = [_LETTERS.get(type_.kind, "") for type_ in schema.types]
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        # The schema is kept, too, so that its identity cannot be taken by another one.
        kept = _known[id(schema)] = schema, "".join(letters) if all(letters) else ""
    return kept[1]


MOST_KNOWN: Final = 1_024
_known: Final[dict[int, tuple[Schema, str]]] = {}
