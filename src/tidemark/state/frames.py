"""Frames that a program hands over, as columns by name: pandas, polars, relations of DuckDB, Spark DataFrames, and
whatever else speaks the Arrow C stream protocol.

A library is known by its objects, and is never imported here. Of pandas the index is not looked at, and NaN and NaT, by
which it says that there is no value, are NULL, inside of arrays and structs, too; a column that has nothing else is
NULL of any type. In other frames NaN is a value of a DOUBLE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.errors import TidemarkError, library_of
from tidemark.state.boundary import lent


class ArrowStream(Protocol):
    """What the Arrow C stream protocol reads: most frames."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


_LIBRARIES: Final = frozenset({"duckdb", "polars"})
"""Those whose frames may fail when they are asked for their rows, by errors of their own."""
Columns: TypeAlias = list[tuple[str, "pa.ChunkedArray | list[Any]"]]
"""Columns by name, of Arrow or of Python values; a name may be there twice, which the table's columns tell."""


def is_frame(rows: object) -> bool:
    """Whether rows come by column."""
    return isinstance(rows, pa.Table | pa.RecordBatch) or hasattr(rows, "__arrow_c_stream__") or is_of_spark(rows)


def is_of_spark(rows: object) -> bool:
    """Whether it is a Spark DataFrame, of a classic session or of Spark Connect."""
    return _is_of(rows, "pyspark") and hasattr(rows, "toArrow")


def columns_of(rows: Any, relation: str) -> Columns:
    """The columns of a frame. What making them raises is an error of the frame."""
    if _is_of(rows, "pandas"):
        return _of_pandas(rows, relation)
    table = _as_arrow(rows, relation)
    _must_be_whole(table, relation)
    return list(zip(table.column_names, table.columns, strict=True))


def taken_over(rows: Any) -> Any:
    """Rows that code of the program makes as they are asked for, made: what that raises is the program's own."""
    if isinstance(rows, pa.RecordBatchReader):
        with lent():
            return rows.read_all()
    if not isinstance(rows, Iterator) or hasattr(rows, "__arrow_c_stream__"):
        return rows
    with lent():
        return list(rows)


def _is_of(rows: object, library: str) -> bool:
    """Whether its class, or one that this was made from, is a library's."""
    return any(found.__module__.partition(".")[0] == library for found in type(rows).__mro__)


def _as_arrow(rows: Any, relation: str) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if is_of_spark(rows):
        try:
            return _without_void(rows).toArrow()
        except Exception as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise TidemarkError("type", f"Spark gives no rows for {relation!r}: {reason}") from error
    try:
        return pa.RecordBatchReader.from_stream(rows).read_all()
    except Exception as error:
        if not isinstance(error, pa.ArrowException | TypeError | ValueError) and library_of(error) not in _LIBRARIES:
            raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        if "already been closed" in reason:
            reason = "its connection is closed"
        raise TidemarkError(
            "type",
            f"what a {type(rows).__name__} gives is no table for {relation!r}: {reason}",
            hint="a frame has the columns of the table, by name",
        ) from error


def _without_void(frame: Any) -> Any:
    """A Spark DataFrame whose arrays of nothing, as ``array()`` makes them, may have NULLs: Arrow knows no others."""
    kinds = frame.dtypes
    if not any("void" in kind for _, kind in kinds) or len({name for name, _ in kinds}) < len(kinds):
        return frame
    quoted = [f"`{name.replace('`', '``')}`" for name in frame.columns]
    cells = zip(quoted, kinds, strict=True)
    return frame.selectExpr(*(f"CAST({q} AS {kind}) AS {q}" if "<void>" in kind else q for q, (_, kind) in cells))


def _must_be_whole(rows: pa.Table, relation: str) -> None:
    """Refuse a table whose buffers are not what they say, texts that are none among them: engines rely on it."""
    try:
        rows.validate(full=True)
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise TidemarkError("type", f"the Arrow table for {relation!r} is not valid: {reason}") from error


# pandas


def _of_pandas(frame: Any, relation: str) -> Columns:
    if not hasattr(frame, "columns"):
        raise TidemarkError("type", f"a {type(frame).__name__} is no frame of rows of {relation!r}")
    # By position: a frame may have two columns of one name.
    return [(str(name), _taken(frame.iloc[:, place], str(name), relation)) for place, name in enumerate(frame.columns)]


def _taken(series: Any, name: str, relation: str) -> pa.ChunkedArray | list[Any]:
    try:
        return _of_series(series)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise TidemarkError(
            "type",
            f"column {name!r} for {relation!r} is {series.dtype}, which is not taken: {reason}",
            hint="convert it first: astype of a plain type of pandas",
        ) from error


def _of_series(series: Any) -> pa.ChunkedArray | list[Any]:
    if bool(series.isna().all()):
        return pa.chunked_array([pa.nulls(len(series))])  # whatever type pandas has for it
    if series.dtype == object:
        return [_of_object(value) for value in series]
    made = pa.Array.from_pandas(series)
    column = made if isinstance(made, pa.ChunkedArray) else pa.chunked_array([made])
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return [_of_object(value) for value in column.to_pylist()] if pa.types.is_nested(column.type) else column


def _of_object(value: Any) -> Any:
    """A value as Python has it: pandas has several that stand for none."""
    kind = type(value).__name__
    if kind in ("NAType", "NaTType") or (isinstance(value, Real) and value != value):
        return None
    if kind == "ndarray":  # of which a time is no number
        return [_of_object(part) for part in (value if value.dtype.kind == "M" else value.tolist())]
    if isinstance(value, list | tuple):
        parts = [_of_object(part) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, Mapping):
        return {name: _of_object(part) for name, part in value.items()}
    return value
