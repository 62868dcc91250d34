"""When a lake's relations are published to readers of their own Delta tables, and how far each of these has come.

An interval is a lower bound: publishing takes a tenth of the time at most. What failed is tried again after a while.

What a Delta log says of the values in a file, from what the file's own footer says of them.

Readers pass over files by this, so nothing may stand here that is not certain: what cannot be had is left out.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SHARE: Final = 9
"""What takes a second is not done again before so many seconds have passed."""
SLACK_SECONDS: Final = 0.5
"""A commit publishes what has been due for so long: by itself that comes when nobody is at work."""
FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 60.0


@dataclass(frozen=True)
class Rhythm:
    """How often relations are published: after so many versions, or after so many seconds at the earliest; if neither
    is given, when the lake is closed. It is done then in any case."""

    versions: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Publication:
    """What other readers see of one relation.

    ``path`` is its Delta table, below the lake, and ``entry`` the last version of that. It holds the relation as of
    ``version``, and the relation has changed in ``behind`` versions since, or in fewer. ``error`` is why it could not
    be published the last time.
    """

    name: str
    path: str
    version: int | None
    entry: int | None
    behind: int
    time: dt.datetime | None
    error: str | None


@dataclass
class Pace:
    """When something is due by a rhythm; by None nothing is, ever."""

    rhythm: Rhythm | None
    version: int = 0
    """The version when all was published the last time."""
    _committed: float = 0.0
    _due: float = 0.0
    _retry: float = FIRST_RETRY

    def committed(self) -> None:
        self._committed = time.monotonic()

    def is_due(self, version: int) -> bool:
        """Whether a commit that made this version is to publish before it returns."""
        if self.rhythm is None:
            return False
        if self.rhythm.versions is not None:
            return version - self.version >= self.rhythm.versions
        return self.rhythm.seconds is not None and time.monotonic() >= self._due + SLACK_SECONDS

    def idle_after(self, *, has_failed: bool) -> float | None:
        """How many seconds after the last commit it is due although nobody commits; None if it never is."""
        if self.rhythm is None or not (has_failed or self.rhythm.seconds is not None):
            return None
        return max(0.0, self._due - self._committed)

    def ended(self, began: float, version: int, *, has_failed: bool) -> None:
        """All that waited was published, or tried to be."""
        now = time.monotonic()
        seconds = (self.rhythm.seconds if self.rhythm is not None else None) or 0.0
        self.version = version
        self._due = max(began + seconds, now + SHARE * (now - began))
        if has_failed:
            self._due = max(self._due, now + self._retry)
        self._retry = min(2 * self._retry, LAST_RETRY) if has_failed else FIRST_RETRY


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
            if any(isinstance(one, float) and not math.isfinite(one) for one in bound):
                continue  # JSON has no infinite numbers, and a reader that finds one passes over all that is said
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
    """The least and the greatest value, if both are known; Delta has none of booleans and bytes, and of NULLs there is
    none."""
    if pa.types.is_boolean(type_) or pa.types.is_binary(type_):
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
    return "{" + ",".join(f"{_text(name)}:{text}" for name, text in texts.items()) + "}"


def _text(text: str) -> str:
    """Without escapes: delta-rs takes an escaped pair of surrogates for another character."""
    return json.dumps(text, ensure_ascii=False)


def _shown(value: Any, *, is_high: bool) -> str:
    """A value as JSON, decimals with all their digits."""
    for kind, show in _SHOWN:
        if isinstance(value, kind):
            return show(value)
    text = str(value)
    if len(text) <= LONGEST:
        return _text(text)
    if not is_high:
        return _text(text[:LONGEST])
    end = next((place for place in range(LONGEST, len(text)) if text[place] != _LAST), None)
    return _text(text if end is None else text[:end] + _LAST)  # what is cut off is less than the last character


_SHOWN: Final[tuple[tuple[type, Callable[[Any], str]], ...]] = (
    (Decimal, lambda value: format(value, "f")),
    (dt.datetime, lambda value: json.dumps(value.isoformat(timespec="microseconds").replace("+00:00", "Z"))),
    (dt.date, lambda value: json.dumps(value.isoformat())),
    (int, str),
    (float, lambda value: json.dumps(value)),
)
