"""A relation's own Delta table: what its log says, and the entries and checkpoints that Tidemark writes to it.

They are written here, and not by delta-rs: it writes no change data, and takes many times longer. An entry is put at
the version after the last one that is known, and never at a later one: if somebody else has taken that, it fails.
"""

from __future__ import annotations

import bisect
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

from tidemark.engines.spark.delta_log import APPLICATION, CHECKPOINT, LOG, Action, checkpoints, version_of
from tidemark.engines.spark.delta_log import checkpoint_of as point_of
from tidemark.engines.spark.relations import Relation
from tidemark.storage.publishing import statistics
from tidemark.storage.store import Listed

VERSION: Final = "tidemark.version"
RELATION: Final = "tidemark.relation"
FEED: Final = "delta.enableChangeDataFeed"
CHANGE_DATA: Final = "_change_data"
"""The folder of change data, whose name Delta fixes."""
CHANGE_TYPE: Final = "_change_type"
_NO_FEED: Final = frozenset({CHANGE_TYPE, "_commit_version", "_commit_timestamp"})
"""What Delta calls the columns of change data. A relation with a column of such a name has none."""
_KEPT_FILES: Final = {"delta.deletedFileRetentionDuration": "interval 36500 days"}
"""The log still needs files that a merge replaced: a foreign VACUUM must leave them."""


@dataclass(frozen=True)
class Added:
    """A file of a table, as its log names it; the statistics are read again if they are not at hand."""

    path: str
    size: int
    modified: int
    stats: str | None = None

    def action(self, *, is_change: bool, stats: str) -> Action:
        said = {"path": self.path, "partitionValues": {}, "size": self.size, "modificationTime": self.modified}
        return {"add": {**said, "dataChange": is_change, "stats": stats}}

    def removal(self, now: int, *, is_change: bool) -> Action:
        said = {"path": self.path, "deletionTimestamp": now, "dataChange": is_change, "extendedFileMetadata": True}
        return {"remove": {**said, "partitionValues": {}, "size": self.size}}


@dataclass(frozen=True)
class Standing:
    """What the log of a table says: its last entry, the version that it holds, what it is, and its files.

    ``is_ours`` says that the last entry was written by Tidemark, and not by somebody who should not have.
    """

    entry: int = -1
    version: int = 0
    metadata: Action = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)
    files: Mapping[str, Added] = field(default_factory=dict)
    is_ours: bool = True
    checkpoint: int = -1
    time: int | None = None


def standing_of(table: Path) -> Standing:
    """Read the log of a table, which may have been written by an earlier Tidemark, or changed by somebody else."""
    if not (table / LOG).is_dir():
        return Standing()
    found = DeltaTable(table.as_uri())
    about, protocol = found.metadata(), found.protocol()
    actions = pa.table(found.get_add_actions()).select(["path", "size_bytes", "modification_time"])
    files = [Added(*cells) for cells in zip(*(column.to_pylist() for column in actions.columns), strict=True)]
    last = found.history(1)[0]
    return Standing(
        found.version(),
        found.transaction_version(APPLICATION) or 0,
        _metadata(str(about.id), about.name, about.description, found.schema().to_json(), about.configuration),
        {
            "minReaderVersion": protocol.min_reader_version,
            "minWriterVersion": protocol.min_writer_version,
            "readerFeatures": protocol.reader_features or [],
            "writerFeatures": protocol.writer_features or [],
        },
        {file.path: file for file in files},
        VERSION in last,
        max(checkpoints(table), default=-1),
        last.get("timestamp"),
    )


def _metadata(id: str, name: str, said: str | None, schema: str, configuration: Mapping[str, str]) -> Action:
    return {
        "id": id,
        "name": name,
        "description": said or "",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": dict(configuration),
    }


def has_feed(relation: Relation) -> bool:
    """Whether the relation's table can have change data."""
    return not any(column.lower() in _NO_FEED for column in relation.columns)


def described(relation: Relation, known: Standing) -> tuple[Action, Action]:
    """The metadata and the protocol of the relation's table; a table keeps its id, and what it can do."""
    schema = DeltaSchema.from_arrow(relation.file_schema).to_json()
    said = f"{relation.name}, kept by Tidemark; read it, but let only Tidemark write it"
    configuration = {**known.metadata.get("configuration", {}), **_KEPT_FILES}
    configuration |= {FEED: "true"} if has_feed(relation) else {}
    if not has_feed(relation):
        configuration.pop(FEED, None)
    metadata = _metadata(known.metadata.get("id") or str(uuid.uuid4()), relation.name, said, schema, configuration)
    return metadata, _protocol(relation, known.protocol)


def _protocol(relation: Relation, known: Action) -> Action:
    readers, writers = set(known.get("readerFeatures", [])), set(known.get("writerFeatures", []))
    if any(_has_timestamps(field.type) for field in relation.file_schema):
        readers.add("timestampNtz")
        writers.add("timestampNtz")
    if not (readers or writers or known.get("minWriterVersion", 0) >= 7):
        return {"minReaderVersion": 1, "minWriterVersion": 4, "readerFeatures": [], "writerFeatures": []}
    features = {"readerFeatures": sorted(readers), "writerFeatures": sorted(writers | {"changeDataFeed"})}
    return {"minReaderVersion": 3 if readers else max(1, known.get("minReaderVersion", 1)), "minWriterVersion": 7} | (
        features
    )


def _has_timestamps(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_timestamps(type_.field(place).type) for place in range(type_.num_fields))
    return bool(pa.types.is_timestamp(type_) and type_.tz is None)


def same_metadata(one: Action, other: Action) -> bool:
    """Whether a table would be the same to a reader; names and descriptions apart."""
    if not one or not other:
        return False
    schemas = [json.loads(about["schemaString"]) for about in (one, other)]
    return bool(schemas[0] == schemas[1] and one["configuration"] == other["configuration"])


def columns_of(metadata: Action) -> list[str]:
    return [column["name"] for column in json.loads(metadata["schemaString"])["fields"]] if metadata else []


def protocol_action(protocol: Action) -> Action:
    """The protocol as it stands in a log: features are named from certain versions on only."""
    said = {name: protocol[name] for name in ("minReaderVersion", "minWriterVersion")}
    if protocol["minReaderVersion"] >= 3:
        said["readerFeatures"] = protocol["readerFeatures"]
    if protocol["minWriterVersion"] >= 7:
        said["writerFeatures"] = protocol["writerFeatures"]
    return {"protocol": said}


def said_of(relation: str, version: int, now: int, operation: str) -> list[Action]:
    """What an entry says of itself."""
    said = {"timestamp": now, "operation": operation, "operationParameters": {}, VERSION: str(version)}
    return [
        {"commitInfo": {**said, RELATION: relation}},
        {"txn": {"appId": APPLICATION, "version": version, "lastUpdated": now}},
    ]


def checkpoint_of(table: Path, standing: Standing) -> bytes:
    """A checkpoint of the last entry: all that the log says. Files that were removed are not named, since a foreign
    VACUUM leaves them by their age."""
    now = int(time.time() * 1000)
    rows: list[Action] = [protocol_action(standing.protocol), {"metaData": standing.metadata}]
    rows.append({"txn": {"appId": APPLICATION, "version": standing.version, "lastUpdated": now}})
    for file in standing.files.values():
        stats = statistics(table / file.path) if file.stats is None else file.stats
        rows.append(file.action(is_change=False, stats=stats))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=CHECKPOINT), sink, compression="snappy", store_schema=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def outdated(found: Mapping[Path, Listed], before: float, most: int) -> list[Path]:
    """The entries and checkpoints that may go: those from before that time, and all but so many; a reader of the oldest
    entry that stays needs the checkpoint before it."""
    written = {version: path for path in found if (version := version_of(path)) is not None}
    points = {version: path for path in found if (version := point_of(path)) is not None}
    versions = sorted(written)
    if not versions or not points:
        return []
    old = bisect.bisect_left(versions, before, key=lambda version: found[written[version]].modified)
    oldest = versions[min(max(old, len(versions) - most), len(versions) - 1)]
    floor = max((point for point in points if point <= oldest), default=None)
    if floor is None:
        return []
    return [path for versions in (written, points) for version, path in versions.items() if version < floor]
