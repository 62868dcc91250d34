"""Data files are compared with what was written before anybody reads them, each once while a lake is open.

Every record of the lake has the size and the checksum of each file that it names. Native readers are fast because they
trust what they read; so nothing reaches them that is not what a commit named.

Delta logs of lakes on object stores, brought to this machine: all of a log when it is opened, with one listing, and
then entry by entry, by their numbers. What is put there goes back in the order in which others may see it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from tidemark.engines.spark.delta_log import (
    LOG,
    added_files,
    checkpoint_of,
    entries,
    entry_path,
    is_append,
    read_append,
    version_of,
)
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.seals import LAST_CHECKPOINT, damaged
from tidemark.errors import TidemarkError
from tidemark.storage.disk import checksum_of
from tidemark.storage.store import Listed, Store

AT_ONCE: Final = 4
"""So many files are read side by side."""


class Verified:
    """Which files of one lake are known to be whole."""

    def __init__(self, store: Store) -> None:
        self.store, self.root = store, store.root
        self._known: set[tuple[str, DataFile]] = set()

    def know(self, directory: str, files: Iterable[DataFile]) -> None:
        """Files that were just written, and read for their checksum, need not be read once more."""
        self._known.update((directory, file) for file in files)

    def must_be_whole(self, directory: str, files: Iterable[DataFile]) -> None:
        """Refuse to go on if any of the files is not what was written."""
        unknown = [file for file in files if (directory, file) not in self._known]
        if not unknown:
            return
        self._fetch(directory, unknown)
        wrong = self._wrong(directory, unknown)
        if wrong and not self.store.is_local:
            self._fetch(directory, list(wrong), is_stale=True)
            wrong = self._wrong(directory, list(wrong))
        for problem in wrong.values():
            raise problem
        self.know(directory, unknown)

    def _fetch(self, directory: str, files: list[DataFile], *, is_stale: bool = False) -> None:
        folder = self.root / directory
        self.store.fetch([(folder / file.path, file.size_bytes) for file in files], is_stale=is_stale)

    def _wrong(self, directory: str, files: list[DataFile]) -> dict[DataFile, TidemarkError]:
        found = zip(files, self._problems(directory, files), strict=True)
        return {file: problem for file, problem in found if problem is not None}

    def _problems(self, directory: str, files: list[DataFile]) -> Iterator[TidemarkError | None]:
        if len(files) <= 1:
            return (problem_of(self.root, directory, file) for file in files)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return iter(list(pool.map(lambda file: problem_of(self.root, directory, file), files)))


def problem_of(root: Path, directory: str, file: DataFile) -> TidemarkError | None:
    """What is wrong with a file, if anything is: the size is always compared, the checksum if there is one."""
    name, path = f"{directory}/{file.path}", root / directory / file.path
    try:
        size, checksum = (path.stat().st_size, None) if file.checksum is None else checksum_of(path)
    except FileNotFoundError:
        return damaged(name, "it is missing")
    except OSError as error:
        return damaged(name, f"it cannot be read: {error.strerror}")
    if size != file.size_bytes:
        return damaged(name, f"it has {size} bytes instead of {file.size_bytes}")
    if checksum != file.checksum:
        return damaged(name, "its checksum is not the one it was written with")
    return None


TRIES: Final = 5
"""So often a log is looked at that somebody else rewrites meanwhile."""


def mirror(store: Store, table: Path, *, parts: bool) -> None:
    """Let the Delta log of a table on this machine be the one that is there for good, perhaps with its files."""
    if store.is_local:
        return
    folder = table if parts else table / LOG
    for attempt in range(TRIES):
        listed = store.listed(folder)
        needed = _needed(table, listed)
        missing = [path for path in needed if not store.has(path, listed[path])]
        store.fetch([(path, listed[path].size) for path in missing], is_stale=True)
        lost = [path for path in needed if not path.is_file()]
        if not lost:
            break
        if attempt == TRIES - 1:
            raise damaged(f"{table.name}/{lost[0].name}", "it is missing")
    for path in _files(folder):
        if path not in needed:
            path.unlink(missing_ok=True)
    if not needed:
        shutil.rmtree(table / LOG, ignore_errors=True)
    elif parts:
        _must_be_whole(table)


def follow(store: Store, table: Path) -> None:
    """Bring a mirrored table, with its files, forward to its last entry. Nothing is listed, unless entries after ours
    have gone into a checkpoint meanwhile."""
    last = before = max(entries(table), default=-1)
    while (data := _read(store, entry_path(table, last + 1))) is not None:
        added = [(table / name, size) for name, size in added_files(data)]
        store.fetch(added)
        if not all(path.is_file() for path, _ in added):  # compacted meanwhile
            return mirror(store, table, parts=True)
        last += 1
        store.keep(entry_path(table, last), data)
    if last == before:
        hint = _read(store, table / LOG / LAST_CHECKPOINT)
        if hint is not None and json.loads(hint)["version"] > last:
            mirror(store, table, parts=True)
    return None


@contextmanager
def maintaining(store: Store, table: Path) -> Iterator[None]:
    """While a library changes a mirrored table: what it wrote comes to be there for good, its entries last, and what it
    removed goes after that."""
    if store.is_local:
        yield
        return
    before = set(_files(table))
    yield
    after = set(_files(table))
    new = sorted(after - before)
    store.upload(path for path in new if path.parent.name != LOG)
    for path in new:
        if version_of(path) is not None:
            put_entry(store, path, path.read_bytes())
    points = [path for path in new if checkpoint_of(path) is not None]
    store.upload(points)
    for path in points:
        said = {"version": checkpoint_of(path), "size": pq.read_metadata(path).num_rows}
        store.replace(path.with_name(LAST_CHECKPOINT), json.dumps(said).encode())
    store.remove(before - after)


def put_entry(store: Store, path: Path, data: bytes) -> None:
    """Put an entry of a log that nobody else may have put."""
    try:
        store.put_new(path, data, is_synced=False)
    except FileExistsError as error:
        raise TidemarkError(
            "storage_failed",
            f"somebody else has written {path.name} of {path.parent.parent.name}",
            hint="one process at a time may write a lake",
        ) from error


def _read(store: Store, path: Path) -> bytes | None:
    try:
        return store.read(path)
    except FileNotFoundError:
        return None


def _needed(table: Path, listed: Mapping[Path, Listed]) -> set[Path]:
    """The last checkpoint, the entries after it, and all files of rows."""
    log = [path for path in listed if path.parent == table / LOG]
    base = max((point for path in log if (point := checkpoint_of(path)) is not None), default=-1)
    needed = {path for path in listed if path.parent == table}
    needed |= {path for path in log if (version := version_of(path)) is not None and version > base}
    return needed | {path for path in log if base >= 0 and checkpoint_of(path) == base}


def _must_be_whole(table: Path) -> None:
    """Appends carry checksums of themselves and of the files that they add."""
    for path in entries(table).values():
        data = path.read_bytes()
        if not is_append(data):
            continue
        found = read_append(data)
        if found is None:
            raise damaged(f"{table.name}/{LOG}/{path.name}", "it does not have its checksum")
        part = table / found.path
        if part.is_file() and checksum_of(part) != (found.size, found.checksum):
            raise damaged(f"{table.name}/{found.path}", "its checksum is not the one it was written with")


def _files(folder: Path) -> list[Path]:
    return [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
