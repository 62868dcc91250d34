"""Rows that a program hands over, as Arrow tables of a relation's types."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.functions import canonical
from tidemark.algebra.types import DOUBLE, Field, Kind, Schema, Type
from tidemark.errors import TidemarkError

Rows: TypeAlias = "pa.Table | pa.RecordBatch | Iterable[Sequence[Any]] | Iterable[Mapping[str, Any]]"


def as_table(rows: Rows, schema: Schema, relation: str) -> pa.Table:
    """The rows with exactly the relation's columns, in its order and of its types; anything else is refused."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        _same_columns(rows.column_names, schema, relation)
        columns = [_cast(rows.column(f.name), f, relation) for f in schema.fields]
        return pa.Table.from_arrays(columns, schema=schema.arrow)
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise TidemarkError(
            "type",
            f"rows of {relation!r} must be a list of tuples or dicts, or an Arrow table",
            hint="[(1, 'a'), (2, 'b')]",
        )
    listed = [_as_tuple(row, schema, relation, number) for number, row in enumerate(rows)]
    columns = [
        _column([row[position] for row in listed], field, relation) for position, field in enumerate(schema.fields)
    ]
    return pa.Table.from_arrays(columns, schema=schema.arrow)


def _same_columns(given: list[str], schema: Schema, relation: str) -> None:
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
            _same_columns([str(key) for key in row], schema, relation)
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
    """Values as an Arrow column; Python's own types must fit, nothing is parsed from text."""
    try:
        _check(values, field.type)
        if field.type.fields:  # dicts and tuples may stand side by side
            values = [_fields(value, field.type) for value in values]
        array = pa.array(values, field.type.arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _unfit(field, relation, error) from error
    return _canonical(pa.chunked_array([array]), field.type)


def _fields(value: Any, type: Type) -> tuple[Any, ...] | None:
    return tuple(value[name] for name, _ in type.fields) if isinstance(value, Mapping) else value


def _check(values: Iterable[Any], type: Type) -> None:
    """Refuse what Arrow would convert silently."""
    if type.element is not None:
        if any(not isinstance(value, list | tuple | None) for value in values):
            raise pa.ArrowInvalid("an array takes a list, a tuple or None")
        _check([element for value in values if value is not None for element in value], type.element)
    if type.fields:
        _check_structs([value for value in values if value is not None], type)
    if type.kind is Kind.BOOLEAN and any(v is not None and not isinstance(v, bool) for v in values):
        raise pa.ArrowInvalid("a BOOLEAN takes True, False or None")
    if type.is_integer and any(isinstance(v, bool) for v in values):
        raise pa.ArrowInvalid("True and False are not numbers")
    if type.is_temporal:
        _check_times(values, type)


def _check_structs(values: list[Any], type: Type) -> None:
    """A STRUCT takes a dict with all its fields, or a tuple of them; Arrow would take NULL for one that is missing."""
    names = [name for name, _ in type.fields]
    for value in values:
        if isinstance(value, Mapping):
            if set(value) != set(names):
                raise pa.ArrowInvalid(f"a STRUCT takes a dict of {', '.join(names)}, this one has {', '.join(value)}")
        elif not isinstance(value, tuple) or len(value) != len(names):
            raise pa.ArrowInvalid(f"a STRUCT takes a dict or a tuple of {', '.join(names)}, or None")
    for place, (name, part) in enumerate(type.fields):
        _check([value[name] if isinstance(value, Mapping) else value[place] for value in values], part)


def _check_times(values: Iterable[Any], type: Type) -> None:
    """A DATE takes a date, a TIMESTAMP a datetime without a zone: nothing is cut off or shifted silently."""
    for value in values:
        is_time = isinstance(value, dt.datetime)
        if value is None or (type.kind is Kind.DATE and isinstance(value, dt.date) and not is_time):
            continue
        if type.kind is Kind.TIMESTAMP and is_time and value.tzinfo is None:
            continue
        wanted = "a datetime.date" if type.kind is Kind.DATE else "a datetime.datetime without a time zone"
        raise pa.ArrowInvalid(f"{value!r} is not {wanted}")


def _cast(column: pa.ChunkedArray, field: Field, relation: str) -> pa.ChunkedArray:
    source = column.type
    if pa.types.is_dictionary(source):
        column = column.cast(source.value_type)
        source = column.type
    if not _castable(source, field.type):
        raise TidemarkError(
            "type",
            f"column {field.name!r} of {relation!r} is {field.type}, the Arrow column is {source}",
            hint=f"cast it to {field.type.arrow} first",
        )
    try:
        return _canonical(column.cast(field.type.arrow, safe=True), field.type)
    except pa.ArrowException as error:
        raise _unfit(field, relation, error) from error


def _castable(source: pa.DataType, type: Type) -> bool:
    """Arrow casts that keep the meaning; text is never parsed."""
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
        return bool(types.is_large_string(source) or types.is_string_view(source) or types.is_string(source))
    if kind is Kind.TIMESTAMP:
        return bool((types.is_timestamp(source) and source.tz is None) or types.is_date(source))
    return bool(kind is Kind.DATE and types.is_date(source))


def _canonical(column: pa.ChunkedArray, type: Type) -> pa.ChunkedArray:
    """One zero only, and one not-a-number: adding 0.0 turns −0.0 into 0.0."""
    if DOUBLE in type.parts:
        return pa.chunked_array([pa.array(map(canonical, column.to_pylist()), type.arrow)])
    if type != DOUBLE:
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(math.nan), pc.add(column, 0.0))


def _unfit(field: Field, relation: str, error: Exception) -> TidemarkError:
    reason = str(error).splitlines()[0]
    return TidemarkError("type", f"a value for column {field.name!r} of {relation!r} is not a {field.type}: {reason}")
