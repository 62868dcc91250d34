"""What the rows of the transactions table say, as values and as JSON.

A record names everything by itself: folders, files, and which relations have a delta inline in the same row. The
state of the lake is what its records, applied one after the other, make of nothing (``relations.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Value
from tidemark.algebra.schemas import schema_from_json, schema_to_json, values_from_json, values_to_json
from tidemark.algebra.types import Schema


@dataclass(frozen=True)
class DataFile:
    """A Parquet file, by its path relative to the folder of its relation. Those of older lakes have no checksum."""

    path: str
    rows: int
    size_bytes: int
    checksum: int | None = None


@dataclass(frozen=True)
class Created:
    """A relation that begins here, with the files of its first content."""

    relation: str
    schema: Schema
    directory: str
    logged: bool
    internal: bool
    files: tuple[DataFile, ...]
    kept: bool = True
    named: bool = True


@dataclass(frozen=True)
class Changed:
    """A relation's change: whole files of new rows, files of weighted entries, and maybe a delta inline."""

    relation: str
    inserted: tuple[DataFile, ...] = ()
    weighted: tuple[DataFile, ...] = ()
    inline: bool = False

    @property
    def files(self) -> tuple[DataFile, ...]:
        return (*self.inserted, *self.weighted)


@dataclass(frozen=True)
class Altered:
    """A relation that has more columns from here on, and new base files, which hold all its rows.

    ``added`` is what rows that were logged before have in the last columns; ``removed`` are the base files before.
    """

    relation: str
    schema: Schema
    added: tuple[Value, ...]
    files: tuple[DataFile, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class Committed:
    """One transaction."""

    version: int
    catalog: tuple[str, ...]
    created: tuple[Created, ...]
    changed: tuple[Changed, ...]
    dropped: tuple[str, ...]
    altered: tuple[Altered, ...] = ()
    notes: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Noted:
    """Notes, and how far the logs of relations, and the traces, are forgotten. What is kept of a log stands inline,
    with the versions of its entries. No change of content."""

    version: int
    notes: Mapping[str, str | None]
    forgotten: Mapping[str, int] = field(default_factory=dict)
    traces: int = 0


@dataclass(frozen=True)
class Merged:
    """Base files replaced by others that hold the same rows and those of the tail: no change of content."""

    version: int
    relation: str
    removed: tuple[str, ...]
    added: tuple[DataFile, ...]


_COMMITTED: Final = '{"version":'
_NAMES_FILES: Final = r'"(inserted|weighted)":\[\['
_SMALL: Final = r'\{"relation":"(?:[^"\\]|\\.)*","inserted":\[\],"weighted":\[\],"inline":true\}'
_PLAIN: Final = rf'^\{{"version":\d+,"catalog":\[\],"created":\[\],"changed":\[(?:{_SMALL},?)*\],"dropped":\[\]\}}$'
"""How the text of a transaction begins, what stands in one that names files of changes, and how one reads that has
nothing but small deltas."""

Record: TypeAlias = Committed | Merged | Noted


def record_to_json(record: Record) -> str:
    if isinstance(record, Merged):
        shown: dict[str, Any] = {
            "merged": record.relation,
            "version": record.version,
            "removed": list(record.removed),
            "added": _files_to_json(record.added),
        }
    elif isinstance(record, Noted):
        shown = {
            "noted": dict(record.notes),
            "version": record.version,
            "forgotten": dict(record.forgotten),
            "traces": record.traces,
        }
    else:
        shown = {
            "version": record.version,
            "catalog": list(record.catalog),
            "created": [_created_to_json(created) for created in record.created],
            "changed": [_changed_to_json(changed) for changed in record.changed],
            "dropped": list(record.dropped),
        }
        if record.altered:
            shown["altered"] = [_altered_to_json(altered) for altered in record.altered]
        if record.notes:
            shown["notes"] = dict(record.notes)
    checksums = {file.path: file.checksum for file in named_files(record) if file.checksum is not None}
    if checksums:
        shown["checksums"] = checksums
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def record_from_json(text: str) -> Record:
    shown = json.loads(text)
    checksums = shown.get("checksums", {})
    if "merged" in shown:
        added = _files_from_json(shown["added"], checksums)
        return Merged(shown["version"], shown["merged"], tuple(shown["removed"]), added)
    if "noted" in shown:
        return Noted(shown["version"], shown["noted"], shown["forgotten"], shown["traces"])
    return Committed(
        shown["version"],
        tuple(shown["catalog"]),
        tuple(_created_from_json(created, checksums) for created in shown["created"]),
        tuple(_changed_from_json(changed, checksums) for changed in shown["changed"]),
        tuple(shown["dropped"]),
        tuple(_altered_from_json(altered, checksums) for altered in shown.get("altered", ())),
        shown.get("notes", {}),
    )


def are_commits(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which of many records, as text, are of transactions. It is seen without reading them."""
    return pc.starts_with(texts, _COMMITTED)


def are_plain(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which of many records, as text, are of transactions that did no more than small deltas say, which stand inline.

    Nearly all are. They need not be read one by one.
    """
    return pc.match_substring_regex(texts, _PLAIN)


def may_name_files(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which of many records, as text, are worth reading for the files that transactions added: all that name some."""
    return pc.match_substring_regex(texts, _NAMES_FILES)


def naming_files(relation: str, records: Iterable[Record]) -> dict[int, Committed]:
    """The transactions that added files to the relation, by version."""
    return {
        record.version: record
        for record in records
        if isinstance(record, Committed)
        and any(changed.relation == relation and changed.files for changed in record.changed)
    }


def named_files(record: Record) -> Iterator[DataFile]:
    """All files that a record adds."""
    if isinstance(record, Merged):
        yield from record.added
    elif isinstance(record, Committed):
        parts: tuple[Created | Altered | Changed, ...] = (*record.created, *record.altered, *record.changed)
        for part in parts:
            yield from part.files


def forgotten_after(records: Iterable[Record]) -> dict[str, int]:
    """How far the log of each relation is forgotten after all records; a relation that is created begins anew."""
    found: dict[str, int] = {}
    for record in records:
        if isinstance(record, Noted):
            found.update(record.forgotten)
        elif isinstance(record, Committed):
            for created in record.created:
                found.pop(created.relation, None)
    return found


def _files_to_json(files: tuple[DataFile, ...]) -> list[list[Any]]:
    return [[file.path, file.rows, file.size_bytes] for file in files]


def _files_from_json(shown: Any, checksums: Mapping[str, int]) -> tuple[DataFile, ...]:
    return tuple(DataFile(path, rows, size, checksums.get(path)) for path, rows, size in shown)


def _created_to_json(created: Created) -> dict[str, Any]:
    return {
        "relation": created.relation,
        "schema": schema_to_json(created.schema),
        "directory": created.directory,
        "logged": created.logged,
        "internal": created.internal,
        "files": _files_to_json(created.files),
        "kept": created.kept,
        "named": created.named,
    }


def _created_from_json(shown: Any, checksums: Mapping[str, int]) -> Created:
    return Created(
        shown["relation"],
        schema_from_json(shown["schema"]),
        shown["directory"],
        shown["logged"],
        shown["internal"],
        _files_from_json(shown["files"], checksums),
        shown.get("kept", True),
        shown.get("named", False),
    )


def _altered_to_json(altered: Altered) -> dict[str, Any]:
    return {
        "relation": altered.relation,
        "schema": schema_to_json(altered.schema),
        "added": values_to_json(altered.added),
        "files": _files_to_json(altered.files),
        "removed": list(altered.removed),
    }


def _altered_from_json(shown: Any, checksums: Mapping[str, int]) -> Altered:
    schema = schema_from_json(shown["schema"])
    added = values_from_json(shown["added"], schema)
    files = _files_from_json(shown["files"], checksums)
    return Altered(shown["relation"], schema, added, files, tuple(shown["removed"]))


def _changed_to_json(changed: Changed) -> dict[str, Any]:
    return {
        "relation": changed.relation,
        "inserted": _files_to_json(changed.inserted),
        "weighted": _files_to_json(changed.weighted),
        "inline": changed.inline,
    }


def _changed_from_json(shown: Any, checksums: Mapping[str, int]) -> Changed:
    inserted, weighted = (_files_from_json(shown[name], checksums) for name in ("inserted", "weighted"))
    return Changed(shown["relation"], inserted, weighted, shown["inline"])
