"""Where the files of a lake lie for good, and the folder in which this process reads and writes them.

A lake on a local file system lies in that folder itself, and nothing has to be brought anywhere. One on an object store
(``bucket.py``) has a folder of this machine as its cache: what is written goes on to the bucket at a few named places,
and what is read is brought from there when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Protocol

import pyarrow.parquet as pq

from tidemark.errors import TidemarkError
from tidemark.storage.disk import replace, write_new

SCHEMES: Final = ("s3", "s3a", "gs", "abfss", "abfs")
"""How the urls of places in object stores begin."""


def is_url(text: str) -> bool:
    """Whether a text names a place in an object store.

    >>> is_url("s3://bucket/lake"), is_url("file:///lake"), is_url("lake")
    (True, False, False)
    """
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


@dataclass(frozen=True)
class Listed:
    """What a listing says of a file: its size, when it was written, and the tag that an object store gave it."""

    size: int
    modified: float
    tag: str | None = None


class Store(Protocol):
    """Every path is one below ``root``, whether or not a file is there now."""

    is_local: ClassVar[bool]
    is_far: bool
    """Whether Spark reads and writes the files where they lie for good, because it is not on this machine."""

    @property
    def root(self) -> Path:
        """The folder of this machine."""

    @property
    def url(self) -> str:
        """What people call the lake."""

    def spark_url(self, path: Path) -> str:
        """How Spark names a file: where it lies for good, if ``is_far``, else on this machine."""

    def spark_settings(self) -> Mapping[str, str]:
        """What a Spark session is told, to get there."""

    def rows_of(self, path: Path) -> int:
        """How many rows a Parquet file has that is there for good. No more than its end is read."""

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
        """Whether what was listed is below ``root``, as it came here. The names of log entries do not tell what is in
        them."""

    def keep(self, path: Path, data: bytes) -> None:
        """Have below ``root`` what was read of a file."""

    def about(self, path: Path) -> Listed | None:
        """What is known of a file that is there for good; None if there is none."""

    def is_there(self, path: Path) -> bool:
        """Whether a file is on this machine, or there for good."""

    def listed(self, folder: Path) -> Mapping[Path, Listed]:
        """All files below a folder that are there for good."""

    def folders(self, folder: Path) -> Mapping[Path, float]:
        """The folders right in a folder, with the times when something in them was last written. It lists them."""

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files that may be there."""

    def trim(self, folder: Path, listed: Collection[Path], before: float) -> None:
        """Remove copies on this machine, not written since, of what is not listed any more."""

    def touch(self, paths: Iterable[Path]) -> None:
        """Let files count as written now, because somebody may still read them."""

    def close(self) -> None:
        """Give back what is held for it."""


@dataclass
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
    is_far: bool = False

    @property
    def url(self) -> str:
        return str(self.root)

    def spark_url(self, path: Path) -> str:
        return path.as_posix()

    def spark_settings(self) -> Mapping[str, str]:
        return {}

    def rows_of(self, path: Path) -> int:
        return int(pq.read_metadata(path).num_rows)

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

    def about(self, path: Path) -> Listed | None:
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
        return Listed(found.st_size, found.st_mtime)

    def is_there(self, path: Path) -> bool:
        return path.exists()

    def listed(self, folder: Path) -> Mapping[Path, Listed]:
        found: dict[Path, Listed] = {}
        for parent, _, names in os.walk(folder):
            for name in names:
                about = self.about(path := Path(parent, name))
                if about is not None:  # else it was removed meanwhile
                    found[path] = about
        return found

    def folders(self, folder: Path) -> Mapping[Path, float]:
        return {
            found: max((_modified(path) for path in (found, *found.rglob("*"))), default=0.0)
            for found in folder.iterdir()
        }

    def remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    def trim(self, folder: Path, listed: Collection[Path], before: float) -> None:
        pass

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
