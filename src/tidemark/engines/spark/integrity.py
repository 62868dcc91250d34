"""Data files are compared with what was written before anybody reads them, each once while a lake is open.

Every record of the lake has the size and the checksum of each file that it names. Native readers are fast because they
trust what they read; so nothing reaches them that is not what a commit named.

Delta logs of lakes on object stores, brought to this machine with one listing when they are opened.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tidemark.engines.spark.delta_log import (
    LOG,
    checkpoint_of,
    entries,
    is_ours,
    read_append,
    version_of,
)
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.seals import damaged
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

    def spark_paths(self, directory: str, files: Sequence[DataFile]) -> list[str]:
        """What Spark reads: files of this machine, which are whole, or objects, of whose pages it checks the sums."""
        if not self.store.is_far:
            self.must_be_whole(directory, files)
        return [self.store.spark_url(self.root / directory / file.path) for file in files]

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


def bring(store: Store, wanted: Sequence[tuple[Path, int, int | None]]) -> None:
    """Have files of these sizes and checksums on this machine, as far as they are there for good."""
    store.fetch((path, size) for path, size, _ in wanted)
    if store.is_local:
        return

    def is_other(path: Path, size: int, checksum: int | None) -> bool:
        return checksum is not None and path.is_file() and checksum_of(path) != (size, checksum)

    store.fetch([(path, size) for path, size, checksum in wanted if is_other(path, size, checksum)], is_stale=True)


TRIES: Final = 5
"""So often a log is looked at that somebody else rewrites meanwhile."""


def mirror(store: Store, table: Path, *, parts: bool) -> None:
    """Let the Delta log of a table on this machine be the one that is there for good, perhaps with its files."""
    if store.is_local:
        return
    folder = table if parts else table / LOG
    for attempt in range(TRIES):
        listed = store.listed(folder)
        needed = _needed(table, listed, parts=parts)
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


def _needed(table: Path, listed: Mapping[Path, Listed], *, parts: bool) -> set[Path]:
    """All of the log and all files of rows of a table of transactions; of the log of another one, the last checkpoint,
    the entry that it is of, and those after it."""
    log = [path for path in listed if path.parent == table / LOG]
    if parts:
        return {path for path in listed if path.parent == table} | {path for path in log if path.suffix != ""}
    base = max((point for path in log if (point := checkpoint_of(path)) is not None), default=-1)
    needed = {path for path in log if (version := version_of(path)) is not None and version >= base}
    return needed | {path for path in log if base >= 0 and checkpoint_of(path) == base}


def _must_be_whole(table: Path) -> None:
    """Appends carry checksums of themselves and of the files that they add."""
    for path in entries(table).values():
        data = path.read_bytes()
        if not is_ours(data):
            continue
        found = read_append(data)
        if found is None:
            raise damaged(f"{table.name}/{LOG}/{path.name}", "it does not have its checksum")
        part = table / (found.path or LOG)
        if part.is_file() and checksum_of(part) != (found.size, found.checksum):
            raise damaged(f"{table.name}/{found.path}", "its checksum is not the one it was written with")


def _files(folder: Path) -> list[Path]:
    return [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
