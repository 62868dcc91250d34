"""The lake folder: its marker, its lock, and where everything lies in it.

_tidemark/lake.json        the marker: this folder is a Tidemark lake, of that format
_tidemark/lock             held while a process has the lake open
_tidemark/spill/           scratch of statements that are running
_tidemark/transactions/    the Delta table of transactions, whose rows are the commits
tables/<name>/             one Delta table for each table and view
states/<name>/             the same for inner states
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import IO, Final
from urllib.parse import unquote, urlparse

from tidemark.engines.spark.names import directory_name
from tidemark.errors import TidemarkError

FORMAT: Final = 1
OWN: Final = "_tidemark"
TABLES: Final = "tables"
STATES: Final = "states"
UNREADABLE: Final = frozenset("[]{}*?^|%\\")


class Lake:
    """An open lake folder. Opening takes the lock; ``close`` gives it back and removes a temporary lake."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.temporary = path is None
        self.root = Path(tempfile.mkdtemp(prefix="tidemark-lake-")) if path is None else local_path(path)
        self._lock: IO[str] | None = None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @property
    def transactions(self) -> Path:
        return self.root / OWN / "transactions"

    @property
    def spill(self) -> Path:
        """Where statements in this process put what does not fit into memory."""
        return self.root / OWN / "spill"

    def directory(self, relation: str, *, internal: bool, version: int) -> str:
        """A folder, relative to the root, for a relation to be created; its plain name if that is free.

        A dropped relation's folder may still be there; the commit records which folder was taken.
        """
        plain = f"{STATES if internal else TABLES}/{directory_name(relation)}"
        if not (self.root / plain).exists():
            return plain
        wanted, copy = f"{plain}~v{version}", 1
        while (self.root / wanted).exists():
            copy += 1
            wanted = f"{plain}~v{version}~{copy}"
        return wanted

    def close(self) -> None:
        if self.temporary:
            shutil.rmtree(self.root, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _open(self) -> None:
        marker = self.root / OWN / "lake.json"
        self._refuse_foreign(marker)
        (self.root / OWN).mkdir(parents=True, exist_ok=True)
        self._lock = self._locked()
        shutil.rmtree(self.spill, ignore_errors=True)
        if marker.exists():
            self._check(marker)
        else:
            # Renamed into place, so that a crash leaves no half of it.
            draft = marker.with_suffix(".draft")
            draft.write_text(json.dumps({"tidemark": "lake", "format": FORMAT}) + "\n")
            draft.replace(marker)
        for name in (TABLES, STATES):
            (self.root / name).mkdir(exist_ok=True)

    def _refuse_foreign(self, marker: Path) -> None:
        """A folder with anything in it must be a lake, or one whose creation was cut short before its marker."""
        if self.root.exists() and not self.root.is_dir():
            raise _not_a_lake(self.root, "it is a file")
        if marker.exists() or not self.root.exists():
            return
        if any(entry.name != OWN for entry in self.root.iterdir()):
            raise _not_a_lake(self.root, "it has other things in it")
        started = self.root / OWN
        if started.exists() and any(entry.name not in ("lock", "lake.draft") for entry in started.iterdir()):
            raise _not_a_lake(self.root, "its marker is missing")

    def _locked(self) -> IO[str]:
        lock = open(self.root / OWN / "lock", "a+")  # noqa: SIM115 (held until the lake is closed)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise TidemarkError(
                "in_use",
                f"{self.root} is in use by another connection",
                hint="close it there first; one connection at a time may open a lake",
            ) from error
        return lock

    def _check(self, marker: Path) -> None:
        try:
            found = json.loads(marker.read_text())
            kind, version = found["tidemark"], found["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _not_a_lake(self.root, "its marker cannot be read") from error
        if kind != "lake" or not isinstance(version, int):
            raise _not_a_lake(self.root, "its marker says something else")
        if version > FORMAT:
            raise TidemarkError(
                "format",
                f"{self.root} has the lake format {version}, this Tidemark reads up to {FORMAT}",
                hint="open it with the version of Tidemark that wrote it, or a newer one",
            )


def local_path(path: str | os.PathLike[str]) -> Path:
    """The folder that a path or a ``file:`` url names.

    >>> local_path("file:///data/my%20lake")
    PosixPath('/data/my lake')
    """
    text = os.fspath(path)
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text):
        return _without_patterns(Path(text).expanduser().absolute())
    url = urlparse(text)
    if url.scheme.lower() != "file" or url.netloc not in ("", "localhost"):
        raise TidemarkError(
            "unsupported",
            f"a lake at {text} is not supported: lakes lie on a local file system for now",
            hint="give a path or a file:/// url; the lock and the reads in this process need a local file system",
        )
    return _without_patterns(Path(unquote(url.path)))


def _without_patterns(path: Path) -> Path:
    """The path, unless a library under us would read it as a pattern, or decode it, or fail in it."""
    found = sorted(set(str(path)) & UNREADABLE)
    if found:
        raise TidemarkError(
            "unsupported",
            f"a lake at {path} is not supported: Spark or Delta cannot read paths with {' '.join(found)}",
            hint="rename the folder, or choose another",
        )
    return path


def _not_a_lake(root: Path, reason: str) -> TidemarkError:
    return TidemarkError(
        "not_a_database",
        f"{root} is not a Tidemark lake: {reason}",
        hint="give the folder of a lake, or an empty one, or one that does not exist yet",
    )
