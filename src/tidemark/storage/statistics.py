"""What a Delta log says of the values in a file, from what the file's own footer says of them.

Readers pass over files by this, so nothing may stand here that is not certain: what cannot be had is left out.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

LONGEST: Final = 32
"""Longer texts are cut, as other writers of Delta do."""
_LAST: Final = "\U0010ffff"
_Bound = tuple[Any, Any]


def statistics(path: Path) -> str:
    """The statistics of a Parquet file: rows, and of each simple column its least and greatest value and its NULLs."""
    with pq.ParquetFile(path) as file:
        metadata, schema = file.metadata, file.schema_arrow
        lows, highs, nulls = dict[str, str](), dict[str, str](), dict[str, str]()
        for position, name in _leaves(metadata, schema):
            chunks = [metadata.row_group(group).column(position) for group in range(metadata.num_row_groups)]
            counts = _null_counts(chunks)
            if counts is not None:
                nulls[name] = str(sum(counts))
            type_ = schema.field(name).type
            bound = _bound(chunks, type_)
            if bound is None or (pa.types.is_floating(type_) and _has_nan(file, name)):
                continue  # engines do not agree on where not-a-number is
            lows[name], highs[name] = _shown(bound[0], is_high=False), _shown(bound[1], is_high=True)
    parts = {"minValues": lows, "maxValues": highs, "nullCount": nulls}
    listed = [f'"numRecords":{metadata.num_rows}', *(f'"{part}":{_object(texts)}' for part, texts in parts.items())]
    return "{" + ",".join(listed) + "}"


def _leaves(metadata: pq.FileMetaData, schema: pa.Schema) -> list[tuple[int, str]]:
    """The columns that are no arrays or structs, with their places in the file."""
    simple = {field.name for field in schema if not pa.types.is_nested(field.type)}
    named = ((place, metadata.schema.column(place)) for place in range(metadata.num_columns))
    return [(place, column.name) for place, column in named if column.path == column.name and column.name in simple]


def _null_counts(chunks: Iterable[Any]) -> list[int] | None:
    known = [chunk.statistics for chunk in chunks]
    # Not by "in": pyarrow 26 crashes where statistics are compared with None.
    return None if any(found is None for found in known) else [found.null_count for found in known]


def _bound(chunks: list[Any], type_: pa.DataType) -> _Bound | None:
    """The least and the greatest value, if both are known; Delta has none of booleans, and there is none of NULLs."""
    if pa.types.is_boolean(type_):
        return None
    found: list[_Bound] = []
    for chunk in chunks:
        known = chunk.statistics
        if known is None or not known.has_min_max:
            if known is not None and known.null_count == chunk.num_values:
                continue
            return None
        try:
            found.append((known.min, known.max))
        except (ValueError, OverflowError, UnicodeDecodeError):
            return None  # beyond what Python can say
    if not found:
        return None
    return min(low for low, _ in found), max(high for _, high in found)


def _has_nan(file: pq.ParquetFile, name: str) -> bool:
    """Footers leave not-a-number out, so the values are looked at."""
    column = file.read(columns=[name]).column(0)
    return bool(pc.any(pc.is_nan(column)).as_py())


def _object(texts: dict[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in texts.items()) + "}"


def _shown(value: Any, *, is_high: bool) -> str:
    """A value as JSON, decimals with all their digits."""
    for kind, show in _SHOWN:
        if isinstance(value, kind):
            return show(value)
    text = str(value)
    if len(text) > LONGEST:
        text = text[:LONGEST] + (_LAST if is_high else "")
    return json.dumps(text)


_SHOWN: Final[tuple[tuple[type, Callable[[Any], str]], ...]] = (
    (Decimal, lambda value: format(value, "f")),
    (dt.datetime, lambda value: json.dumps(value.isoformat(timespec="microseconds"))),
    (dt.date, lambda value: json.dumps(value.isoformat())),
    (int, str),
    (float, lambda value: json.dumps(value)),
)
