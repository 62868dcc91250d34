"""A folder of Delta tables that others write, as a source.

A position is a version of the table's log, with the table's identity and a mark of what stands at that version: a table
that was replaced, or restored from a copy, is noticed by them.

    changes(v, w)  =  Σ over the versions after v up to w:  their change feed, where there is one,
                      else the rows of the files that came  −  the rows of the files that went
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INT,
    REAL,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Type,
    array_of,
    decimal,
    struct_of,
)
from tidemark.errors import TidemarkError
from tidemark.sources.delta_files import DataFiles, FileColumn, Told, physical_name
from tidemark.sources.delta_log import DeltaLog, Described
from tidemark.sources.protocol import ChangesLostError, Position
from tidemark.sql.catalog.sources import SourceColumn

_TYPES: Final[Mapping[str, Type]] = {
    "string": VARCHAR,
    "long": BIGINT,
    "integer": INT,
    "short": SMALLINT,
    "byte": SMALLINT,
    "float": REAL,
    "double": DOUBLE,
    "binary": BYTEA,
    "boolean": BOOLEAN,
    "date": DATE,
    "timestamp": TIMESTAMPTZ,
    "timestamp_ntz": TIMESTAMP,
}
_ACCEPTED: Final[Mapping[str, tuple[Type, ...]]] = {
    "timestamp": (TIMESTAMP,),
    "float": (DOUBLE,),
    "byte": (SMALLINT, INT, BIGINT),
    "short": (INT, BIGINT),
    "integer": (BIGINT,),
}
"""Further types that hold all values of one: wider ones, and of a point in time the time in UTC."""
_MAPPING: Final = "delta.columnMapping.mode"


class DeltaSource:
    """One connection to a folder of Delta tables. ``must_allow`` refuses places that nobody allowed to be read."""

    def __init__(self, folder: str, must_allow: Callable[[str], None]) -> None:
        self._folder, self._must_allow = Path(folder).expanduser(), must_allow
        self._tables: dict[str, DeltaTable] = {}

    def columns(self, relation: str) -> tuple[SourceColumn, ...]:
        return self._table(relation).columns

    def newest(self, relation: str, columns: Sequence[str]) -> Position:
        return self._table(relation).position(columns)

    def snapshot(self, relation: str, at: Position, columns: Sequence[str]) -> pa.Table:
        return self._table(relation).snapshot(at, columns)

    def changes(self, relation: str, since: Position, until: Position, columns: Sequence[str]) -> pa.Table:
        return self._table(relation).changes(since, until, columns)

    def acknowledge(self, positions: Mapping[str, Position]) -> None:
        """Those who write a Delta table do not ask how far others have read."""

    def _table(self, relation: str) -> DeltaTable:
        found = self._tables.get(relation)
        if found is None:
            place = Path(os.path.normpath(self._folder / relation))
            folder = Path(os.path.normpath(self._folder))
            if folder not in (place, *place.parents):
                raise TidemarkError(
                    "not_allowed",
                    f"{relation!r} is not below the path of the source, {self._folder}",
                    hint="RELATION names a folder below that path; another source can have another path",
                )
            self._must_allow(str(place))
            found = self._tables[relation] = DeltaTable(place, self._must_allow)
        return found


class DeltaTable:
    """One table, as it is when its log is first looked at."""

    def __init__(self, place: Path, must_allow: Callable[[str], None]) -> None:
        self._place, self._must_allow = place, must_allow
        self._log = DeltaLog(place)

    def position(self, columns: Sequence[str]) -> Position:
        newest = self._log.newest
        stored = [(c.name, c.physical, c.told, c.is_partition) for c in self._file_columns(columns)]
        shape = hashlib.sha256(json.dumps(stored).encode()).hexdigest()[:32]
        return Position(newest, self._described.identity, self._log.mark(newest), shape)

    @cached_property
    def columns(self) -> tuple[SourceColumn, ...]:
        return tuple(_column(shown) for shown in self._described.schema["fields"])

    @cached_property
    def _described(self) -> Described:
        found = self._log.described(self._log.newest)
        mode = found.configuration.get(_MAPPING, "none")
        if mode not in ("none", "name"):
            raise TidemarkError(
                "unsupported",
                f"the Delta table {self._place} maps columns by {mode!r}, which is not supported",
                hint=f"{_MAPPING} = 'name' is supported, and 'none'",
            )
        return found

    def snapshot(self, at: Position, columns: Sequence[str]) -> pa.Table:
        try:
            return self._files(columns).rows(self._log.files(at.at))
        except ChangesLostError as error:
            raise TidemarkError(
                "source", f"version {at.at} of the Delta table {self._place} cannot be read: {error}"
            ) from error

    def changes(self, since: Position, until: Position, columns: Sequence[str]) -> pa.Table:
        self._must_follow(since, until)
        moved, files = self._log.moved(since.at, until.at), self._files(columns)
        return pa.concat_tables([files.feed(moved.feeds), files.moved(moved.files)])

    def _must_follow(self, since: Position, until: Position) -> None:
        """Refuse a position that is not of this history."""
        if since.identity != until.identity:
            raise ChangesLostError("it was replaced by another table")
        if since.at > until.at:
            raise ChangesLostError(f"it went back from version {since.at} to {until.at}: it was restored from a copy")
        if since.shape != until.shape:
            raise ChangesLostError("its columns are other ones than before")
        mark = self._log.mark(since.at)
        if mark != since.mark:
            reason = "is another one now: it was restored from a copy, or made anew" if mark else "is not kept any more"
            raise ChangesLostError(f"version {since.at} of its log {reason}")

    def _files(self, columns: Sequence[str]) -> DataFiles:
        return DataFiles(self._place, self._file_columns(columns), self._must_allow)

    def _file_columns(self, columns: Sequence[str]) -> list[FileColumn]:
        shown = {field["name"]: field for field in self._described.schema["fields"]}
        return [self._file_column(shown[name]) for name in columns]

    def _file_column(self, shown: Mapping[str, Any]) -> FileColumn:
        is_mapped = self._described.configuration.get(_MAPPING, "none") != "none"
        is_partition = shown["name"] in self._described.partitioned_by
        return FileColumn(shown["name"], physical_name(shown, is_mapped=is_mapped), shown["type"], is_partition)


def _column(shown: Mapping[str, Any]) -> SourceColumn:
    told = shown["type"]
    accepted = _ACCEPTED.get(told, ()) if isinstance(told, str) else ()
    return SourceColumn(shown["name"], _named(told), type_of(told), bool(shown.get("nullable", True)), accepted)


def type_of(told: Told) -> Type | None:
    """The type here that holds just the values of one of theirs; None if there is none.

    >>> print(type_of("byte"), type_of("decimal(10,2)"), type_of({"type": "array", "elementType": "long"}))
    SMALLINT DECIMAL(10,2) BIGINT[]
    """
    if isinstance(told, str):
        digits = re.fullmatch(r"decimal\((\d+), *(-?\d+)\)", told)
        return _TYPES.get(told) if digits is None else decimal(int(digits[1]), int(digits[2]))
    if told["type"] == "array":
        element = type_of(told["elementType"])
        return None if element is None or not element.can_be_part else array_of(element)
    if told["type"] == "struct":
        parts = [(part["name"], type_of(part["type"])) for part in told["fields"]]
        if not parts or any(type_ is None or not type_.can_be_part for _, type_ in parts):
            return None
        return struct_of(*((name.lower(), type_) for name, type_ in parts if type_ is not None))
    return None


def _named(told: Told) -> str:
    """A type in words, as Spark writes it."""
    if isinstance(told, str):
        return told
    if told["type"] == "array":
        return f"array<{_named(told['elementType'])}>"
    if told["type"] == "map":
        return f"map<{_named(told['keyType'])},{_named(told['valueType'])}>"
    if told["type"] != "struct":
        return str(told["type"])
    parts = [f"{part['name']}:{_named(part['type'])}" for part in told["fields"]]
    return f"struct<{','.join(parts)}>"
