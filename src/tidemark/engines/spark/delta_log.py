"""Entries that Tidemark itself writes to the Delta log of the table of transactions.

An append is one file of JSON lines that must not be there yet, which is what Delta's protocol asks of a commit. It is
written here, and not by delta-rs, because then its bytes are known: the entry carries a checksum of itself and that of
the file that it adds, and both can be on the disk before the entry is seen.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

LOG: Final = "_delta_log"
_CHECKSUM: Final = "tidemark.checksum"
_PART: Final = "tidemark.part"
_NONE: Final = "00000000"
_PLACE: Final = re.compile(rb'"' + _CHECKSUM.encode() + rb'":"([0-9a-f]{8})"')
_ENTRY: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.\d+\.\d+|\.[0-9a-f-]+)?\.(?:parquet|json)")


@dataclass(frozen=True)
class Append:
    """What an entry of ours says: the file that it adds, with its size and checksum, and the sequence number."""

    path: str
    size: int
    checksum: int
    sequence: int
    rows: int = 1

    def encoded(self, application: str) -> bytes:
        """The entry as it stands in the log."""
        now = int(time.time() * 1000)
        said = {
            "timestamp": now,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            _PART: f"{self.checksum:08x}",
            _CHECKSUM: _NONE,
        }
        added = {
            "path": self.path,
            "partitionValues": {},
            "size": self.size,
            "modificationTime": now,
            "dataChange": True,
            "stats": json.dumps({"numRecords": self.rows}),
        }
        actions = (
            {"commitInfo": said},
            {"txn": {"appId": application, "version": self.sequence, "lastUpdated": now}},
            {"add": added},
        )
        data = b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)
        return data.replace(f'"{_CHECKSUM}":"{_NONE}"'.encode(), f'"{_CHECKSUM}":"{zlib.crc32(data):08x}"'.encode(), 1)


def read_append(data: bytes) -> Append | None:
    """The append that the bytes of an entry say, if it is one of ours and nothing of it was changed."""
    found = _PLACE.search(data)
    if found is None:
        return None
    blank = data[: found.start(1)] + _NONE.encode() + data[found.end(1) :]
    if b"%08x" % zlib.crc32(blank) != found.group(1):
        return None
    actions: dict[str, Any] = {}
    for line in data.splitlines():
        actions |= json.loads(line)
    added, said = actions["add"], actions["commitInfo"]
    return Append(added["path"], added["size"], int(said[_PART], 16), actions["txn"]["version"])


def nothing_said() -> bytes:
    """An entry that says nothing: it takes a place that nobody else may take any more."""
    said = {"timestamp": int(time.time() * 1000), "operation": "TIDEMARK NOTHING", "operationParameters": {}}
    return json.dumps({"commitInfo": said}, separators=(",", ":")).encode() + b"\n"


def is_append(data: bytes) -> bool:
    """Whether the bytes of an entry look like those of an append, whole or not."""
    return _CHECKSUM.encode() in data


def added_files(data: bytes) -> list[tuple[str, int]]:
    """The files that an entry adds, by name, with their sizes."""
    actions = (json.loads(line) for line in data.splitlines() if line.strip())
    return [(unquote(action["add"]["path"]), action["add"]["size"]) for action in actions if "add" in action]


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


def _numbered(table: Path, names: re.Pattern[str]) -> dict[int, Path]:
    folder = table / LOG
    found = ((names.fullmatch(path.name), path) for path in (folder.iterdir() if folder.is_dir() else ()))
    return {int(match.group(1)): path for match, path in found if match is not None}
