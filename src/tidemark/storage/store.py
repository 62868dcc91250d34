"""Where the files of a lake lie for good, and the folder in which this process reads and writes them.

A lake on a local file system lies in that folder itself, and nothing has to be brought anywhere. One on an object store
(``bucket.py``) has a folder of this machine as its cache: what is written goes on to the bucket at a few named places,
and what is read is brought from there when it is needed.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from tidemark.errors import TidemarkError
from tidemark.storage.disk import replace, write_new


@dataclass(frozen=True)
class Listed:
    """What a listing says of a file: its size, when it was written, and the tag that an object store gave it."""

    size: int
    modified: float
    tag: str | None = None


class Store(Protocol):
    """Every path is one below ``root``, whether or not a file is there now."""

    is_local: ClassVar[bool]

    @property
    def root(self) -> Path:
        """The folder of this machine."""

    @property
    def url(self) -> str:
        """What people call the lake."""

    def put_new(self, path: Path, data: bytes, *, is_synced: bool) -> None:
        """Write a file that is not there yet, with all of its bytes or not at all. FileExistsError if somebody else
        wrote one; after any other exception ``came_to_be`` tells."""

    def came_to_be(self, path: Path, data: bytes, failure: BaseException, nothing: bytes) -> bool:
        """Whether an entry of a log is there that a call failed to put. If not, that call will never put it any more:
        where that cannot be told otherwise, ``nothing`` takes its place, an entry that says nothing."""

    def read(self, path: Path) -> bytes:
        """A file as it is there for good now. FileNotFoundError if there is none."""

    def replace(self, path: Path, data: bytes) -> None:
        """Replace a file, or make it."""

    def upload(self, paths: Iterable[Path]) -> None:
        """Let files that were written below ``root`` be there for good, before a record names them."""

    def fetch(self, paths: Iterable[tuple[Path, int]], *, is_stale: bool = False) -> None:
        """Have files of these sizes below ``root``, as far as they are there for good. What ``is_stale``
        is brought anew."""

    def has(self, path: Path, about: Listed) -> bool:
        """Whether what was listed is below ``root``. The names of log entries do not tell what is in them."""

    def keep(self, path: Path, data: bytes) -> None:
        """Have below ``root`` what was read of a file."""

    def listed(self, folder: Path) -> Mapping[Path, Listed]:
        """All files below a folder that are there for good."""

    def folders(self, folder: Path) -> Mapping[Path, float]:
        """The folders right in a folder, with the times when something in them was last written. It lists them."""

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files that may be there."""

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder that a relation of the same name may take again."""

    def touch(self, paths: Iterable[Path]) -> None:
        """Let files count as written now, because somebody may still read them."""

    def close(self) -> None:
        """Give back what is held for it."""


@dataclass(frozen=True)
class LocalStore:
    """The lake's own folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = LocalStore(Path(folder))
    ...     store.put_new(store.root / "a", b"first", is_synced=False)
    ...     store.came_to_be(store.root / "a", b"second", OSError("no answer"), b"")
    False
    """

    root: Path
    is_local: ClassVar[bool] = True

    @property
    def url(self) -> str:
        return str(self.root)

    def put_new(self, path: Path, data: bytes, *, is_synced: bool) -> None:
        write_new(path, data, is_synced=is_synced)

    def came_to_be(self, path: Path, data: bytes, failure: BaseException, nothing: bytes) -> bool:
        try:
            return path.is_file() and path.read_bytes() == data
        except OSError as error:
            raise TidemarkError("commit_unknown", f"the transactions cannot be read: {error}") from failure

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def replace(self, path: Path, data: bytes) -> None:
        replace(path, data)

    def upload(self, paths: Iterable[Path]) -> None:
        pass

    def fetch(self, paths: Iterable[tuple[Path, int]], *, is_stale: bool = False) -> None:
        pass

    def has(self, path: Path, about: Listed) -> bool:
        return True

    def keep(self, path: Path, data: bytes) -> None:
        pass

    def listed(self, folder: Path) -> Mapping[Path, Listed]:
        found: dict[Path, Listed] = {}
        for parent, _, names in os.walk(folder):
            for name in names:
                path = Path(parent, name)
                try:
                    about = path.stat()
                except FileNotFoundError:  # removed meanwhile
                    continue
                found[path] = Listed(about.st_size, about.st_mtime)
        return found

    def folders(self, folder: Path) -> Mapping[Path, float]:
        return {
            found: max((_modified(path) for path in (found, *found.rglob("*"))), default=0.0)
            for found in folder.iterdir()
        }

    def remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    def remove_folder(self, folder: Path) -> None:
        """It is there as a whole, or not at all."""
        going = folder.with_name(f"~{uuid.uuid4().hex}")
        folder.rename(going)
        shutil.rmtree(going, ignore_errors=True)

    def touch(self, paths: Iterable[Path]) -> None:
        for path in paths:
            os.utime(path)

    def close(self) -> None:
        pass


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # removed meanwhile
        return 0.0
