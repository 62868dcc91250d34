"""The rows of a Delta table's files, with weights: which of a file's rows are counted, and in which columns.

A column that a file lacks is NULL there; one of a partition has its value in the log, as text. What a struct calls its
fields may be other names in the file.

Many rows that mostly cancel, made net with few of them in memory.

A job that rewrites files gives each of their rows twice: once as one that went, once as one that came. Equal rows are
brought together by a number that is made of their columns of whole numbers; rows of one number are made net by
themselves, from a file beside. Where a table has no such column, all rows are made net at once.
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.algebra.types import WEIGHT
from tidemark.errors import TidemarkError
from tidemark.sources.delta_log import DataFile
from tidemark.sources.protocol import ChangesLostError
from tidemark.sources.vectors import Vector, deleted_rows
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


CHANGE: Final = "_change_type"
_SIGNS: Final = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}

Told = Any
"""A type as the schema of a Delta table says it: a name, or a dict of a nested one."""

ARROW: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


@dataclass(frozen=True)
class FileColumn:
    """A column that is asked for: its name, the one that it has in files, its type, and whether it is a partition's."""

    name: str
    physical: str
    told: Told
    is_partition: bool = False


def arrow_of(told: Told) -> pa.DataType:
    """The Arrow type of a column; the fields of a struct have the names that they have here."""
    if isinstance(told, str):
        if told in ARROW:
            return ARROW[told]
        precision, scale = told.removeprefix("decimal(").rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    if told["type"] == "array":
        return pa.list_(arrow_of(told["elementType"]))
    if told["type"] == "map":
        return pa.map_(arrow_of(told["keyType"]), arrow_of(told["valueType"]))
    return pa.struct([pa.field(part["name"].lower(), arrow_of(part["type"])) for part in told["fields"]])


def physical_name(shown: Mapping[str, Any], *, is_mapped: bool) -> str:
    """The name that a column, or a field of a struct, has in files."""
    metadata = shown.get("metadata") or {}
    return str(metadata.get("delta.columnMapping.physicalName", shown["name"]) if is_mapped else shown["name"])


class DataFiles:
    """Reads the files of one table. ``must_allow`` refuses places that nobody allowed to be read."""

    def __init__(self, table: Path, columns: Sequence[FileColumn], must_allow: Callable[[str], None]) -> None:
        self._table, self._columns, self._must_allow = table, columns, must_allow
        self._schema = pa.schema([pa.field(c.name, arrow_of(c.told)) for c in columns])

    def rows(self, files: Iterable[DataFile]) -> pa.Table:
        """All rows of some files."""
        found = [self._read(one, self._indices(one)) for one in files]
        return pa.concat_tables(found) if found else self._schema.empty_table()

    def moved(self, files: Iterable[tuple[DataFile, int]]) -> pa.Table:
        """The rows of files that came or went, with weights, net. A file of which another part is deleted than before
        is read once, and of its rows those count that it is about."""
        by_path: dict[str, list[tuple[DataFile, int]]] = {}
        for one, count in files:
            by_path.setdefault(one.path, []).append((one, count))
        rows = sum(self._count(path) for path in by_path)
        parts = (part for several in by_path.values() for part in self._weighted(several))
        return netted(parts, self._nothing().schema, rows)

    def feed(self, files: Iterable[DataFile]) -> pa.Table:
        """What files of a change feed say, as rows with weights."""
        return pa.concat_tables([self._nothing(), *map(self._fed, files)])

    def _nothing(self) -> pa.Table:
        return self._schema.append(pa.field(WEIGHT, pa.int64())).empty_table()

    def _weighted(self, several: list[tuple[DataFile, int]]) -> Iterator[pa.Table]:
        """The rows of one file, with weights: group after group of them, if none is deleted."""
        gone = [(self._deleted(one), count) for one, count in several]
        total = sum(count for _, count in gone)
        exceptions: dict[int, int] = {}
        for deleted, count in gone:
            for place in deleted:
                exceptions[place] = exceptions.get(place, 0) - count
        file = several[0][0]
        if total == 0:
            places = sorted(place for place, weight in exceptions.items() if weight)
            weights = [exceptions[place] for place in places]
            yield self._with(self._read(file, pa.array(places, pa.int64())), pa.array(weights, pa.int64()))
            return
        if not exceptions:
            for rows in self._groups(file):
                yield self._with(rows, pa.repeat(pa.scalar(total, pa.int64()), rows.num_rows))
            return
        rows = self._read(file, None)
        counts = [total] * rows.num_rows
        for place, weight in exceptions.items():
            counts[place] += weight
        table = self._with(rows, pa.array(counts, pa.int64()))
        yield table.filter(pc.not_equal(table.column(WEIGHT), 0))

    def _fed(self, one: DataFile) -> pa.Table:
        with self._opened(one.path) as file:
            kinds = file.read(columns=[CHANGE]).column(CHANGE).to_pylist()
            try:
                weights = [_SIGNS[kind] for kind in kinds]
            except KeyError as error:
                raise self._unreadable(one.path, f"{error} is no kind of change") from error
            return self._with(self._columns_of(file, one, None), pa.array(weights, pa.int64()))

    @staticmethod
    def _with(rows: pa.Table, weights: pa.Array) -> pa.Table:
        return rows.append_column(pa.field(WEIGHT, pa.int64()), weights)

    def _indices(self, one: DataFile) -> pa.Array | None:
        """The places of the rows of a file that are not deleted; None if all are there."""
        deleted = self._deleted(one)
        if not deleted:
            return None
        return pa.array([place for place in range(self._count(one.path)) if place not in deleted], pa.int64())

    def _count(self, path: str) -> int:
        """How many rows a file has, deleted ones included."""
        with self._opened(path) as file:
            return int(file.metadata.num_rows)

    def _deleted(self, one: DataFile) -> frozenset[int]:
        return frozenset() if one.vector is None else self._deleted_by(one.vector)

    def _deleted_by(self, vector: Vector) -> frozenset[int]:
        try:
            return deleted_rows(vector, lambda path: self._bytes(path))
        except (ValueError, IndexError, KeyError, ArithmeticError, struct.error) as error:
            raise self._unreadable(vector.said, str(error)) from error

    def _bytes(self, path: str) -> bytes:
        try:
            return self._place(path).read_bytes()
        except FileNotFoundError as error:
            raise _gone(path) from error

    def _read(self, one: DataFile, places: pa.Array | None) -> pa.Table:
        with self._opened(one.path) as file:
            return self._columns_of(file, one, places)

    def _opened(self, path: str) -> pq.ParquetFile:
        place = self._place(path)
        try:
            return pq.ParquetFile(place, coerce_int96_timestamp_unit="us")
        except FileNotFoundError as error:
            raise _gone(path) from error
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(path, str(error).splitlines()[0]) from error

    def _groups(self, one: DataFile) -> Iterator[pa.Table]:
        """All rows of a file, some after the others."""
        with self._opened(one.path) as file:
            for group in range(file.metadata.num_row_groups):
                yield self._columns_of(file, one, None, group)

    def _columns_of(
        self, file: pq.ParquetFile, one: DataFile, places: pa.Array | None, group: int | None = None
    ) -> pa.Table:
        there = set(file.schema_arrow.names)
        wanted = [c.physical for c in self._columns if not c.is_partition and c.physical in there]
        try:
            rows = file.read(columns=wanted) if group is None else file.read_row_group(group, columns=wanted)
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(one.path, str(error).splitlines()[0]) from error
        count = (file.metadata if group is None else file.metadata.row_group(group)).num_rows
        if places is not None:
            rows, count = rows.take(places), len(places)
        arrays = [self._column(column, rows, count, one) for column in self._columns]
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _column(self, column: FileColumn, rows: pa.Table, count: int, one: DataFile) -> pa.ChunkedArray | pa.Array:
        type_ = arrow_of(column.told)
        if column.is_partition:
            try:
                value = pa.scalar(partition_value((one.partition or {}).get(column.physical), column.told), type_)
            except (ValueError, OverflowError) as error:
                raise self._unreadable(one.path, f"the partition of {column.name!r}: {error}") from error
            return pa.repeat(value, count)
        if column.physical not in rows.column_names:
            return pa.nulls(count, type_)
        found = rows.column(column.physical)
        try:
            if not isinstance(column.told, str):
                parts = [shaped(chunk, column.told) for chunk in found.chunks]
                return pa.chunked_array(parts, type_)
            return found if found.type == type_ else _plain(found).cast(type_)
        except (pa.ArrowException, KeyError) as error:
            raise self._unreadable(one.path, f"the column {column.name!r}: {error}") from error

    def _place(self, path: str) -> Path:
        """Where a file lies that the log names: below the table, or anywhere that is allowed."""
        parsed = urlparse(path)
        if parsed.scheme not in ("", "file"):
            raise TidemarkError("unsupported", f"files of {parsed.scheme}: are not supported: {path}")
        place = self._table / unquote(parsed.path if parsed.scheme else path)
        self._must_allow(str(place))
        return place

    def _unreadable(self, path: str, reason: str) -> TidemarkError:
        return TidemarkError("source", f"{path} of the Delta table {self._table} cannot be read: {reason}")


def _gone(path: str) -> ChangesLostError:
    return ChangesLostError(f"the file {path} is gone: it was vacuumed")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def shaped(array: pa.Array, told: Told) -> pa.Array:
    """A nested column with the fields and the names that the schema says."""
    type_ = arrow_of(told)
    if isinstance(told, str) or told["type"] != "struct":
        return array if array.type == type_ else array.cast(type_)
    there = {child.name: place for place, child in enumerate(array.type)}
    parts = []
    for part in told["fields"]:
        place = there.get(physical_name(part, is_mapped=True), there.get(part["name"]))
        parts.append(pa.nulls(len(array), arrow_of(part["type"])) if place is None else array.field(place))
    fields = list(type_)
    cast = [part.cast(field.type) for part, field in zip(parts, fields, strict=True)]
    return pa.StructArray.from_arrays(cast, fields=fields, mask=array.is_null())


def partition_value(text: str | None, told: Told) -> Any:
    """The value of a partition, as the log writes it. The empty text stands for NULL, of every type.

    >>> partition_value("2024-02-29", "date"), partition_value("", "string"), partition_value("true", "boolean")
    (datetime.date(2024, 2, 29), None, True)
    """
    if text is None or text == "":
        return None
    try:
        return _value(text, told)
    except (ValueError, ArithmeticError, KeyError) as error:
        raise ValueError(f"{text!r} is no {told}") from error


def _value(text: str, told: Told) -> Any:
    if told == "string":
        return text
    if told in ("long", "integer", "short", "byte"):
        return int(text)
    if told in ("double", "float"):
        return float(text)
    if told == "binary":
        return text.encode("latin-1")  # a character for each byte
    if told == "boolean":
        return {"true": True, "false": False}[text.lower()]
    if told == "date":
        return dt.date.fromisoformat(text)
    if told in ("timestamp", "timestamp_ntz"):
        moment = dt.datetime.fromisoformat(text)
        if told == "timestamp_ntz":
            return moment.replace(tzinfo=None)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    if isinstance(told, str) and told.startswith("decimal("):
        return decimal.Decimal(text)
    raise ValueError(told)
