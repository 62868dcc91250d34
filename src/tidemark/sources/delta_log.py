"""The log of a Delta table that others write: its entries and checkpoints, and what a version says.

Read by the protocol, and nothing else is relied on: what a reader would have to understand and this one does not is
refused by its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from tidemark.errors import TidemarkError
from tidemark.sources.protocol import ChangesLostError
from tidemark.sources.vectors import Vector

_ENTRY: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_LAST_VERSION: Final = 3
_UNDERSTOOD: Final = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "vacuumProtocolCheck"})
"""The features of a table that its readers have to understand, and that are understood here."""
_OF_COLUMNS: Final = frozenset({"variantType", "variantType-preview", "variantShredding", "variantShredding-preview"})
"""Those that say that a table may have columns of a type that is not known here. A table that has one is refused by its
column; many have none, since delta-rs asks for such features without need."""

Action = dict[str, Any]


@dataclass(frozen=True)
class DataFile:
    """A file of rows as the log names it. Its partition's values belong to the path."""

    path: str
    vector: Vector | None = None
    partition: Mapping[str, str | None] | None = field(default=None, compare=False)

    @staticmethod
    def of_action(shown: Action) -> DataFile:
        said = shown.get("partitionValues")
        partition = None if said is None else dict(said)
        return DataFile(shown["path"], Vector.of_action(shown.get("deletionVector")), partition)


@dataclass(frozen=True)
class Described:
    """What the log says of the table itself: its identity, its columns, and how they are stored."""

    identity: str
    schema: Mapping[str, Any]
    partitioned_by: tuple[str, ...]
    configuration: Mapping[str, str]


@dataclass(frozen=True)
class Moved:
    """What some versions did to the rows: files that came (1) and went (-1), and files that say what changed."""

    files: tuple[tuple[DataFile, int], ...]
    feeds: tuple[DataFile, ...]


class DeltaLog:
    """The log of one table, as it was listed when it was first asked."""

    def __init__(self, table: Path) -> None:
        self.table = table
        self.folder = table / "_delta_log"
        self._read: dict[int, list[Action]] = {}

    @cached_property
    def _listed(self) -> tuple[dict[int, Path], dict[int, list[Path]]]:
        """The entries, and the checkpoints that are complete, by version."""
        entries, parts = dict[int, Path](), dict[tuple[int, int], list[Path]]()
        try:
            names = sorted(os.listdir(self.folder))
        except OSError as error:
            raise TidemarkError(
                "source",
                f"there is no Delta table at {self.table}",
                hint="RELATION names the folder of a Delta table below the path of the source",
            ) from error
        for name in names:
            if found := _ENTRY.fullmatch(name):
                entries[int(found[1])] = self.folder / name
            elif found := _CHECKPOINT.fullmatch(name):
                parts.setdefault((int(found[1]), int(found[3] or 1)), []).append(self.folder / name)
        complete = {version: paths for (version, count), paths in parts.items() if len(paths) == count}
        return entries, complete

    @cached_property
    def newest(self) -> int:
        entries, checkpoints = self._listed
        if not entries and not checkpoints:
            raise TidemarkError("source", f"the folder {self.folder} holds no entry of a Delta log")
        return max((*entries, *checkpoints))

    def mark(self, version: int) -> str:
        """What stands at a version, so that another history is told from this one; empty if it is gone."""
        entry = self._listed[0].get(version)
        try:
            return "" if entry is None else hashlib.sha256(entry.read_bytes()).hexdigest()[:32]
        except FileNotFoundError:
            return ""

    def described(self, version: int) -> Described:
        """What the log says of the table at a version."""
        metadata, protocol = None, None
        for action in self._backwards(version):
            metadata = metadata or action.get("metaData")
            protocol = protocol or action.get("protocol")
            if metadata is not None and protocol is not None:
                break
        if metadata is None or protocol is None:
            raise self._damaged(f"it does not say what the table is at version {version}")
        self._must_be_understood(protocol)
        try:
            schema = json.loads(metadata["schemaString"])
            partitioned_by = tuple(metadata.get("partitionColumns") or ())
            return Described(metadata["id"], schema, partitioned_by, dict(metadata.get("configuration") or {}))
        except (KeyError, ValueError) as error:
            raise self._damaged(f"what it says of the table cannot be understood: {error}") from error

    def files(self, version: int) -> list[DataFile]:
        """The files that hold the rows of a version."""
        checkpoints = self._listed[1]
        start = max((found for found in checkpoints if found <= version), default=-1)
        there: dict[tuple[str, Vector | None], DataFile] = {}
        for action in self._checkpointed(start, ["add"]) if start >= 0 else ():
            self._follow(action, there)
        for number in range(start + 1, version + 1):
            for action in self.entry(number):
                self._follow(action, there)
        return list(there.values())

    @staticmethod
    def _follow(action: Action, there: dict[tuple[str, Vector | None], DataFile]) -> None:
        if found := action.get("remove"):
            gone = DataFile.of_action(found)
            there.pop((gone.path, gone.vector), None)
        elif found := action.get("add"):
            come = DataFile.of_action(found)
            there[come.path, come.vector] = come

    def moved(self, since: int, until: int) -> Moved:
        """What the versions after ``since`` did. One that has a change feed is told by that alone; a file that only
        holds what others held (``dataChange`` is false) is no change."""
        counts: dict[DataFile, int] = {}
        known: dict[str, Mapping[str, str | None]] = {}
        feeds: list[DataFile] = []
        for version in range(since + 1, until + 1):
            actions = self.entry(version, is_wanted_for="changes")
            for action in actions:
                if (add := action.get("add")) and add.get("partitionValues") is not None:
                    known[add["path"]] = dict(add["partitionValues"])
            told = [DataFile.of_action(action["cdc"]) for action in actions if action.get("cdc")]
            if told:
                feeds += told
                continue
            for action in actions:
                for kind, sign in (("add", 1), ("remove", -1)):
                    found = action.get(kind)
                    if found and found.get("dataChange", True):
                        one = DataFile.of_action(found)
                        counts[one] = counts.get(one, 0) + sign
        moved = [(one, count) for one, count in counts.items() if count]
        return Moved(tuple(self._placed(moved, known, since)), tuple(feeds))

    def _placed(
        self, moved: list[tuple[DataFile, int]], known: dict[str, Mapping[str, str | None]], since: int
    ) -> Iterator[tuple[DataFile, int]]:
        """The same with the values of partitions, which entries about files that go may leave out."""
        is_looked_up = False
        for one, count in moved:
            if one.partition is None and one.path not in known and not is_looked_up:
                known |= {f.path: f.partition for f in self.files(since) if f.partition is not None}
                is_looked_up = True
            partition = one.partition if one.partition is not None else known.get(one.path, {})
            yield DataFile(one.path, one.vector, partition), count

    def entry(self, version: int, is_wanted_for: str = "state") -> list[Action]:
        """The actions of one version."""
        found = self._read.get(version)
        if found is None:
            path = self._listed[0].get(version)
            try:
                data = None if path is None else path.read_bytes()
            except FileNotFoundError:
                data = None
            if data is None and is_wanted_for == "changes":
                raise ChangesLostError(f"the log does not go back to version {version} any more")
            if data is None:
                raise self._damaged(f"version {version} is not there, and no checkpoint that has what it did")
            try:
                found = [json.loads(line) for line in data.decode().split("\n") if line.strip()]
            except ValueError as error:
                raise self._damaged(f"version {version} is no entry: {error}") from error
            if not all(isinstance(action, dict) for action in found):
                raise self._damaged(f"version {version} is no entry: a line of it is no action")
            self._read[version] = found
        return found

    def _backwards(self, version: int) -> Iterator[Action]:
        entries, checkpoints = self._listed
        for number in range(version, -1, -1):
            if number in entries:
                yield from reversed(self.entry(number))
            if number in checkpoints:
                yield from self._checkpointed(number, ["metaData", "protocol"])
                return
            if number not in entries:
                return

    def _checkpointed(self, version: int, kinds: list[str]) -> Iterator[Action]:
        for path in self._listed[1][version]:
            try:
                with pq.ParquetFile(path) as file:
                    there = [kind for kind in kinds if kind in file.schema_arrow.names]
                    for batch in file.iter_batches(columns=there):
                        yield from batch.to_pylist()
            except (OSError, ValueError) as error:
                raise self._damaged(f"the checkpoint of version {version} cannot be read: {error}") from error

    def _must_be_understood(self, protocol: Action) -> None:
        needed = frozenset(protocol.get("readerFeatures") or ())
        version = int(protocol["minReaderVersion"])
        unknown = sorted(needed - _UNDERSTOOD - _OF_COLUMNS)
        if version > _LAST_VERSION or unknown:
            what = f"the feature {unknown[0]!r}" if unknown else f"version {version} of the protocol"
            raise TidemarkError(
                "unsupported",
                f"the Delta table {self.table} asks its readers for {what}, which is not supported",
                hint=f"features: {', '.join(sorted(_UNDERSTOOD))}",
            )

    def _damaged(self, reason: str) -> TidemarkError:
        return TidemarkError("source", f"the log of the Delta table {self.table} cannot be read: {reason}")
