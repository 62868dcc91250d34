"""The Delta log of the table of transactions: the entries that Tidemark writes to it, and what it says.

An append is one file of JSON lines that must not be there yet, which is what Delta's protocol asks of a commit. It is
written here, and not by delta-rs, because then its bytes are known: the entry carries a checksum of itself and that of
the file that it adds, and both can be on the disk before the entry is seen. It is read here, too, so that a process
that follows another one reads the new entries only.

Every entry says the epoch of its writer. Who opens a lake to write takes the next epoch by an entry of its own. A
writer puts an entry at the place after the last one that it knows, and never at a later one: if something of another
epoch is there, its place was taken.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

LOG: Final = "_delta_log"
APPLICATION: Final = "tidemark"
EPOCHS: Final = "tidemark.epoch"
_CHECKSUM: Final = "tidemark.checksum"
_PART: Final = "tidemark.part"
_NONE: Final = "00000000"
_PLACE: Final = re.compile(rb'"' + _CHECKSUM.encode() + rb'":"([0-9a-f]{8})"')
_ENTRY: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.\d+\.\d+|\.[0-9a-f-]+)?\.(?:parquet|json)")
_STAMP: Final = re.compile(r"(?:^|[/-])e(\d+)-[0-9a-f]{32}")

Action = dict[str, Any]


def encoded(actions: Iterable[Action]) -> bytes:
    """Actions as they stand in an entry, without escapes: delta-rs takes an escaped pair of surrogates for another
    character."""
    shown = (json.dumps(action, ensure_ascii=False, separators=(",", ":")) for action in actions)
    return b"".join(line.encode() + b"\n" for line in shown)


def stamped(kind: str, epoch: int, unique: str) -> str:
    """The name of a new file, which says the epoch of its writer.

    >>> stamped("part-", 3, "0" * 32)
    'part-e3-00000000000000000000000000000000'
    """
    return f"{kind}e{epoch}-{unique}"


def epoch_of(name: str) -> int:
    """The epoch of the writer of a file, by its path; those of earlier Tidemarks say none.

    >>> epoch_of("_changes/e12-" + "a" * 32 + ".parquet"), epoch_of("part-" + "e" * 32 + ".parquet")
    (12, 0)
    """
    found = _STAMP.search(name)
    return 0 if found is None else int(found.group(1))


@dataclass(frozen=True)
class Append:
    """What an entry of ours says: the file that it adds, if it does, with its size and checksum, the number of the last
    row, the files that it replaces, and the epoch of its writer."""

    path: str | None
    size: int
    checksum: int
    sequence: int | None
    rows: int = 1
    epoch: int = 0
    removed: tuple[str, ...] = ()

    def encoded(self, first: Iterable[Action] = ()) -> bytes:
        """The entry as it stands in the log; ``first`` are actions with which a table begins."""
        now = int(time.time() * 1000)
        said: Action = {
            "timestamp": now,
            "operation": "OPTIMIZE" if self.removed else "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            EPOCHS: self.epoch,
            _PART: f"{self.checksum:08x}",
            _CHECKSUM: _NONE,
        }
        actions: list[Action] = [{"commitInfo": said}, *first]
        actions += [
            {"txn": {"appId": name, "version": number, "lastUpdated": now}}
            for name, number in ((APPLICATION, self.sequence), (EPOCHS, self.epoch))
            if number is not None
        ]
        for name in self.removed:
            gone = {"path": name, "deletionTimestamp": now, "dataChange": False}
            actions.append({"remove": gone})
        if self.path is not None:
            actions.append({"add": _added(self.path, self.size, now, self.rows, is_change=not self.removed)})
        data = encoded(actions)
        return data.replace(f'"{_CHECKSUM}":"{_NONE}"'.encode(), f'"{_CHECKSUM}":"{zlib.crc32(data):08x}"'.encode(), 1)


def _added(path: str, size: int, now: int, rows: int | None, *, is_change: bool) -> Action:
    said = {"path": path, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": is_change}
    return said if rows is None else {**said, "stats": json.dumps({"numRecords": rows})}


def read_append(data: bytes) -> Append | None:
    """What the bytes of an entry say, if it is one of ours and nothing of it was changed."""
    found = _PLACE.search(data)
    if found is None:
        return None
    blank = data[: found.start(1)] + _NONE.encode() + data[found.end(1) :]
    if b"%08x" % zlib.crc32(blank) != found.group(1):
        return None
    added: Action = {"path": None, "size": 0}
    said, removed = Action(), list[str]()
    sequence: int | None = None
    for line in data.splitlines():
        ((kind, about),) = json.loads(line).items()
        if kind == "commitInfo":
            said = about
        elif kind == "txn" and about["appId"] == APPLICATION:
            sequence = about["version"]
        elif kind == "remove":
            removed.append(about["path"])
        elif kind == "add":
            added = about
    checksum = int(said[_PART], 16)
    return Append(added["path"], added["size"], checksum, sequence, 1, said.get(EPOCHS, 0), tuple(removed))


def is_whole(data: bytes) -> bool:
    """Whether an entry that is not ours is at least JSON."""
    try:
        return all(isinstance(json.loads(line), dict) for line in data.splitlines() if line.strip())
    except ValueError:
        return False


@dataclass(frozen=True)
class Standing:
    """What the log says up to an entry: the files that hold the rows with their sizes, the number of the last row, and
    the last epoch; what the table is, as actions."""

    entry: int = -1
    parts: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)

    @property
    def sequence(self) -> int:
        return self.numbers.get(APPLICATION, 0)

    @property
    def epoch(self) -> int:
        return self.numbers.get(EPOCHS, 0)

    def after(self, data: bytes) -> Standing:
        """What it says after the next entry."""
        parts, numbers = dict(self.parts), dict(self.numbers)
        metadata, protocol = self.metadata, self.protocol
        for line in data.splitlines():
            if not line.strip():
                continue
            for kind, about in json.loads(line).items():
                match kind:
                    case "add":
                        parts[unquote(about["path"])] = about["size"]
                    case "remove":
                        parts.pop(unquote(about["path"]), None)
                    case "txn":
                        numbers[about["appId"]] = about["version"]
                    case "metaData":
                        metadata = about
                    case "protocol":
                        protocol = about
        return Standing(self.entry + 1, parts, numbers, metadata, protocol)

    def checkpoint(self) -> bytes:
        """A checkpoint that says all of it."""
        now = int(time.time() * 1000)
        rows: list[Action] = [{"protocol": self.protocol}, {"metaData": self.metadata}]
        rows += [{"txn": {"appId": n, "version": v, "lastUpdated": now}} for n, v in self.numbers.items()]
        rows += [{"add": _added(name, size, now, None, is_change=False)} for name, size in self.parts.items()]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=CHECKPOINT), sink, compression="snappy", store_schema=False)
        data: bytes = sink.getvalue().to_pybytes()
        return data


def standing_at(checkpoint: Path, entry: int) -> Standing:
    """What a checkpoint says."""
    found = pq.ParquetFile(checkpoint).read(columns=["add", "txn", "metaData", "protocol"]).to_pylist()
    parts, numbers, about = dict[str, int](), dict[str, int](), {"metaData": Action(), "protocol": Action()}
    for row in found:
        if row["add"] is not None and row["add"]["path"] is not None:
            parts[unquote(row["add"]["path"])] = row["add"]["size"]
        if row["txn"] is not None and row["txn"]["appId"] is not None:
            numbers[row["txn"]["appId"]] = row["txn"]["version"]
        for kind in about:
            if row[kind] is not None and any(value is not None for value in row[kind].values()):
                about[kind] = {name: value for name, value in row[kind].items() if value is not None}
    metadata = about["metaData"]
    for owner, name in ((metadata, "configuration"), (metadata.get("format", {}), "options")):
        owner[name] = dict(owner.get(name) or {})
    return Standing(entry, parts, numbers, metadata, about["protocol"])


_MAP: Final = pa.map_(pa.string(), pa.string())
_TEXTS: Final = pa.list_(pa.string())
CHECKPOINT: Final = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                **{"path": pa.string(), "partitionValues": _MAP, "size": pa.int64(), "modificationTime": pa.int64()},
                **{"dataChange": pa.bool_(), "stats": pa.string()},
            }
        ),
        "remove": pa.struct({"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_()}),
        "metaData": pa.struct(
            {
                **{"id": pa.string(), "name": pa.string(), "description": pa.string()},
                "format": pa.struct({"provider": pa.string(), "options": _MAP}),
                **{"schemaString": pa.string(), "partitionColumns": _TEXTS, "configuration": _MAP},
                "createdTime": pa.int64(),
            }
        ),
        "protocol": pa.struct(
            {
                **{"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()},
                **{"readerFeatures": _TEXTS, "writerFeatures": _TEXTS},
            }
        ),
    }
)
"""The columns of a checkpoint, as Delta's protocol names them."""


def is_ours(data: bytes) -> bool:
    """Whether the bytes of an entry look like those of one of ours, whole or not."""
    return _CHECKSUM.encode() in data


def entry_path(table: Path, version: int) -> Path:
    return table / LOG / f"{version:020d}.json"


def entries(table: Path) -> dict[int, Path]:
    """The entries of a table's log that are there, by version."""
    return _numbered(table, _ENTRY)


def checkpoints(table: Path) -> dict[int, Path]:
    """The checkpoints of a table's log that are there, by version."""
    return _numbered(table, _CHECKPOINT)


def version_of(path: Path) -> int | None:
    """The version of an entry, by its name."""
    found = _ENTRY.fullmatch(path.name)
    return None if found is None else int(found.group(1))


def checkpoint_of(path: Path) -> int | None:
    """The version of a checkpoint, by its name."""
    found = _CHECKPOINT.fullmatch(path.name)
    return None if found is None else int(found.group(1))


def standing_from(table: Path, base: int, last: int | None = None) -> Standing:
    """What the log says now, from a checkpoint on, perhaps up to an entry."""
    standing = Standing() if base < 0 else standing_at(checkpoints(table)[base], base)
    while standing.entry != last and (entry := entry_path(table, standing.entry + 1)).exists():
        standing = standing.after(entry.read_bytes())
    return standing


def checkpoint_path(table: Path, version: int) -> Path:
    return table / LOG / f"{version:020d}.checkpoint.parquet"


def _numbered(table: Path, names: re.Pattern[str]) -> dict[int, Path]:
    folder = table / LOG
    found = ((names.fullmatch(path.name), path) for path in (folder.iterdir() if folder.is_dir() else ()))
    return {int(match.group(1)): path for match, path in found if match is not None}
