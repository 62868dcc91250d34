"""Rows that a program hands over, one by one or as a frame, as Arrow tables of a relation's types."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.functions import canonical
from tidemark.algebra.types import DOUBLE, Field, Kind, Schema, Type
from tidemark.errors import TidemarkError
from tidemark.state.frames import ArrowStream, columns_of, is_frame
from tidemark.state.values import Unfit, taken_all

Rows: TypeAlias = "pa.Table | pa.RecordBatch | ArrowStream | Iterable[Sequence[Any]] | Iterable[Mapping[str, Any]]"

_YEARS: Final = {
    Kind.DATE: (dt.date.min, dt.date.max),
    Kind.TIMESTAMP: (dt.datetime.min, dt.datetime.max),
    Kind.TIMESTAMPTZ: (dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC)),
}


def as_table(rows: Rows, schema: Schema, relation: str) -> pa.Table:
    """The rows with exactly the relation's columns, in its order and of its types; anything else is refused."""
    if is_frame(rows):
        return _of_columns(rows, schema, relation)
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise TidemarkError(
            "type",
            f"rows of {relation!r} must be a list of tuples or dicts, an Arrow table or another frame",
            hint="[(1, 'a'), (2, 'b')]",
        )
    listed = [_as_tuple(row, schema, relation, number) for number, row in enumerate(rows)]
    columns = [
        _column([row[position] for row in listed], field, relation) for position, field in enumerate(schema.fields)
    ]
    return pa.Table.from_arrays(columns, schema=schema.arrow)


def _of_columns(rows: Any, schema: Schema, relation: str) -> pa.Table:
    found = columns_of(rows, relation)
    must_have_columns([name for name, _ in found], schema, relation)
    by_name = dict(found)
    columns = [
        _column(given, field, relation)
        if isinstance(given := by_name[field.name], list)
        else _cast(given, field, relation)
        for field in schema.fields
    ]
    return pa.Table.from_arrays(columns, schema=schema.arrow)


def must_have_columns(given: list[str], schema: Schema, relation: str) -> None:
    """Refuse other columns than the relation has, in whatever order."""
    missing = [name for name in schema.names if name not in given]
    extra = [name for name in given if name not in schema.names]
    twice = sorted({name for name in given if given.count(name) > 1})
    problems = [
        f"{word}: {', '.join(names)}"
        for word, names in (("missing", missing), ("extra", extra), ("twice", twice))
        if names
    ]
    if problems:
        raise TidemarkError(
            "columns",
            f"the columns do not fit {relation!r}: {'; '.join(problems)}",
            hint=f"columns of {relation}: {', '.join(schema.names)}",
        )


def _as_tuple(row: Any, schema: Schema, relation: str, number: int) -> tuple[Any, ...]:
    if isinstance(row, Mapping):
        if list(row.keys()) != list(schema.names):
            must_have_columns([str(key) for key in row], schema, relation)
        return tuple(row[name] for name in schema.names)
    if isinstance(row, str | bytes) or not isinstance(row, Sequence):
        raise TidemarkError("type", f"row {number + 1} for {relation!r} is neither a tuple nor a dict: {row!r}")
    if len(row) != len(schema):
        raise TidemarkError(
            "columns",
            f"row {number + 1} for {relation!r} has {len(row)} values, the table has {len(schema)} columns",
            hint=f"columns: {', '.join(schema.names)}",
        )
    return tuple(row)


def _column(values: list[Any], field: Field, relation: str) -> pa.ChunkedArray:
    """Values of Python as an Arrow column; see ``values`` for what is taken."""
    try:
        array = pa.array(taken_all(values, field.type), field.type.arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _unfit(field, relation, error) from error
    return _canonical(pa.chunked_array([array]), field.type)


def _cast(column: pa.ChunkedArray, field: Field, relation: str) -> pa.ChunkedArray:
    """A column of Arrow in the field's type: by Arrow where it refuses what would be lost, else value by value."""
    if pa.types.is_dictionary(column.type):
        column = _decoded(column)
    if pa.types.is_decimal32(column.type) or pa.types.is_decimal64(column.type):
        # Arrow asks of the narrow ones whether the bounds of an integer type fit them, and not whether values do.
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    if not _castable(column.type, field.type):
        raise TidemarkError(
            "type",
            f"column {field.name!r} of {relation!r} is {field.type}, the Arrow column is {column.type}",
            hint=f"cast it to {field.type.arrow} first",
        )
    try:
        if not _keeps_all(column.type, field.type) or (field.type == DOUBLE and _is_beyond_double(column)):
            return _column(column.to_pylist(), field, relation)
        return _canonical(_within_years(column.cast(field.type.arrow, safe=True), field.type), field.type)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise _unfit(field, relation, error) from error


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a dictionary in place of their numbers. Arrow casts no dictionary to views, as polars has them."""
    values = column.type.value_type
    plain = pa.string() if pa.types.is_string_view(values) else values
    parts = [chunk.dictionary.cast(plain).take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(parts, plain)


def _castable(source: pa.DataType, type: Type) -> bool:
    """Arrow types whose values may be values of the type; of texts only times are read."""
    types, kind = pa.types, type.kind
    if types.is_null(source) or source == type.arrow:
        return True
    if type.element is not None:
        return bool(types.is_list(source) or types.is_large_list(source)) and _castable(source.value_type, type.element)
    if type.fields:
        return bool(
            types.is_struct(source)
            and [child.name for child in source] == [name for name, _ in type.fields]
            and all(_castable(child.type, part) for child, part in zip(source, type.parts, strict=True))
        )
    if type.is_numeric:
        return bool(types.is_integer(source) or types.is_decimal(source) or types.is_floating(source))
    if kind is Kind.VARCHAR:
        return _is_text(source)
    if kind is Kind.BYTEA:
        return _is_binary(source)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return bool(types.is_timestamp(source) or types.is_date(source)) or _is_text(source)
    return kind is Kind.DATE and (bool(types.is_date(source)) or _is_text(source))


def _is_text(source: pa.DataType) -> bool:
    return bool(pa.types.is_string(source) or pa.types.is_large_string(source) or pa.types.is_string_view(source))


def _is_binary(source: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(source)
        or types.is_large_binary(source)
        or types.is_binary_view(source)
        or types.is_fixed_size_binary(source)
    )


def _keeps_all(source: pa.DataType, type: Type) -> bool:
    """Whether Arrow's cast refuses what the type cannot hold, and nothing else.

    It rounds from DOUBLE to DECIMAL and back, and takes the widest integer for the one that is there."""
    types = pa.types
    if type.is_nested:
        return bool(source == type.arrow) and not any(part.is_temporal for part in type.parts)
    if type.is_time and _is_text(source):
        return False
    if type.kind is Kind.REAL:
        return bool(types.is_float32(source) or types.is_float16(source) or types.is_null(source))
    if type.kind is Kind.DECIMAL:
        return bool(types.is_decimal(source) or types.is_null(source))
    return type.kind is not Kind.DOUBLE or not types.is_decimal(source)


def _is_beyond_double(column: pa.ChunkedArray) -> bool:
    """Whether there are whole numbers of which a DOUBLE does not have all; Arrow refuses any of them."""
    if not pa.types.is_integer(column.type):
        return False
    return any(abs(bound) > 2**53 for bound in pc.min_max(column).as_py().values() if bound is not None)


def _within_years(column: pa.ChunkedArray, type: Type) -> pa.ChunkedArray:
    """The column, if its times lie within the years that there are; Arrow knows others."""
    if type.is_time:
        number = pa.int32() if type.kind is Kind.DATE else pa.int64()
        extremes = pc.min_max(column.cast(number))
        first, last = (pa.scalar(bound, type.arrow).cast(number).as_py() for bound in _YEARS[type.kind])
        if extremes["min"].is_valid and not (first <= extremes["min"].as_py() and extremes["max"].as_py() <= last):
            raise Unfit("a time is out of range, the years 0001 to 9999")
    return column


def _canonical(column: pa.ChunkedArray, type: Type) -> pa.ChunkedArray:
    """One zero only, and one not-a-number: adding 0.0 turns −0.0 into 0.0."""
    if DOUBLE in type.parts:
        return pa.chunked_array([pa.array(map(canonical, column.to_pylist()), type.arrow)])
    if not type.is_float:
        return column
    nan, zero = pa.scalar(math.nan, type.arrow), pa.scalar(0.0, type.arrow)
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))


def _unfit(field: Field, relation: str, error: Exception) -> TidemarkError:
    reason = str(error).splitlines()[0]
    return TidemarkError("type", f"a value for column {field.name!r} of {relation!r} is not a {field.type}: {reason}")
