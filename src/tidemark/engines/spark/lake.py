"""The lake folder: its marker, its lock, and where everything lies in it.

_tidemark/lake.json        the marker: this folder is a Tidemark lake, of that format
_tidemark/seals            sizes and checksums of the files of Delta logs (``seals.py``)
_tidemark/lock             held while a process has the lake open
_tidemark/spill/           scratch of statements that are running
_tidemark/backing/         hard links of what a backup is copying
_tidemark/transactions/    the Delta table of transactions, whose rows are the commits
tables/<name>/             one Delta table for each table and view
states/<name>/             the same for inner states

Names that are safe on every file system and in every Delta reader.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final
from urllib.parse import unquote, urlparse

from tidemark.engines.opening import damaged as cannot_be_read
from tidemark.engines.opening import must_be_a_place
from tidemark.engines.spark.delta_log import LOG
from tidemark.engines.spark.integrity import mirror
from tidemark.engines.spark.seals import Seals, damaged
from tidemark.errors import TidemarkError
from tidemark.storage.bucket import Bucket, is_url, place_of
from tidemark.storage.disk import replace
from tidemark.storage.store import LocalStore, Store

PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
LONGEST: Final = 120
_REFUSED_BY_DELTA: Final = frozenset(" ,;{}()\n\t=")


def directory_name(relation: str) -> str:
    """The folder of a relation: lower-case letters, digits, ``_`` and ``-`` stay, all else becomes ``~`` and hex.

    Upper-case letters are escaped too, because some file systems do not tell them from lower-case ones.

    >>> directory_name("orders"), directory_name("My Table/../x")
    ('orders', '~4dy~20~54able~2f~2e~2e~2fx')
    """
    shown = "".join(
        character if character in PLAIN else "".join(f"~{byte:02x}" for byte in character.encode())
        for character in relation
    )
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[:LONGEST]}~~{hashlib.sha256(relation.encode()).hexdigest()[:16]}"


def column_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names of the columns in files: as they are, unless Delta readers would refuse them.

    Delta refuses some characters and does not tell upper from lower case; such a name gets ``_`` or a number.

    >>> column_names(["a", "unit price", "A"])
    ('a', 'unit_price', 'A_2')
    """
    result: list[str] = []
    taken: set[str] = set()
    for name in names:
        base = "".join("_" if character in _REFUSED_BY_DELTA else character for character in name) or "_"
        shown, copy = base, 1
        while shown.lower() in taken:
            copy += 1
            shown = f"{base}_{copy}"
        taken.add(shown.lower())
        result.append(shown)
    return tuple(result)


FORMAT: Final = 2
UNSEALED: Final = 1
"""The format before there were seals. Such a lake is sealed as it is when it is opened."""
OWN: Final = "_tidemark"
TABLES: Final = "tables"
STATES: Final = "states"
UNREADABLE: Final = frozenset("[]{}*?^|%\\")


_BEFORE_MARKER: Final = ("lock", "lake.draft", "lake.json.draft", "seals", "seals.draft")
"""What may be there when the creation of a lake was cut short."""


class Lake:
    """An open lake folder. Opening takes the lock; ``close`` gives it back and removes a temporary lake."""

    def __init__(self, path: str | os.PathLike[str] | None = None, storage: Mapping[str, str] | None = None) -> None:
        self.temporary = path is None
        self.store = _store_of(path, storage or {})
        self.root = self.store.root
        self.is_sealed = True
        self._lock: IO[str] | None = None
        try:
            if not self.store.is_local:
                _bring(self.store)
            self._open()
        except BaseException:
            self.close()
            raise

    @property
    def transactions(self) -> Path:
        return self.root / OWN / "transactions"

    @property
    def marker(self) -> Path:
        return self.root / OWN / "lake.json"

    @property
    def seals_path(self) -> Path:
        return self.root / OWN / "seals"

    @property
    def spill(self) -> Path:
        """Where statements in this process put what does not fit into memory."""
        return self.root / OWN / "spill"

    @property
    def backing(self) -> Path:
        """Where backups hold on to the files that they copy."""
        return self.root / OWN / "backing"

    def directory(self, relation: str, *, internal: bool) -> str:
        """The folder of a relation to be created, relative to the root.

        That of a dropped relation of the same name may still be there. No two files have the same name, so that both
        can lie in it, and readers find the new one in the place of the old.
        """
        return f"{STATES if internal else TABLES}/{directory_name(relation)}"

    def close(self) -> None:
        if self.temporary:
            shutil.rmtree(self.root, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self.store.close()

    def _open(self) -> None:
        marker = self.marker
        must_be_a_place(self.root, folder=True)
        self._refuse_foreign(marker)
        if marker.exists():
            self._check(marker)  # before anything is written
            self._must_have_its_transactions()
        (self.root / OWN).mkdir(parents=True, exist_ok=True)
        self._lock = self._locked()
        for scratch in (self.spill, self.backing):
            shutil.rmtree(scratch, ignore_errors=True)
        if marker.exists():
            self.is_sealed = self._check(marker) != UNSEALED
        if not marker.exists() or not self.is_sealed:
            replace(self.seals_path, b"")
        if not marker.exists():
            self.mark()
        self.seals = Seals(self.root, self.seals_path)
        for name in (TABLES, STATES):
            (self.root / name).mkdir(exist_ok=True)

    def mark(self) -> None:
        """Write the marker: from here on this is a lake of the newest format, which has seals."""
        self.store.replace(self.marker, marker_text(FORMAT))
        self.is_sealed = True

    def _refuse_foreign(self, marker: Path) -> None:
        """A folder with anything in it must be a lake, or one whose creation was cut short before its marker."""
        if self.root.exists() and not self.root.is_dir():
            raise _not_a_lake(self.root, "it is a file")
        if marker.exists() or not self.root.exists():
            return
        if any(entry.name != OWN for entry in self.root.iterdir()):
            raise _not_a_lake(self.root, "it has other things in it")
        started = self.root / OWN
        if started.exists() and any(entry.name not in _BEFORE_MARKER for entry in started.iterdir()):
            raise _not_a_lake(self.root, "its marker is missing")

    def _must_have_its_transactions(self) -> None:
        """Refuse a lake that has lost its commits: another, empty table of them would take their place."""
        if (self.transactions / "_delta_log").is_dir():
            return
        folders = (self.root / name for name in (TABLES, STATES))
        if any(next(folder.iterdir(), None) is not None for folder in folders if folder.is_dir()):
            raise cannot_be_read(self.root, f"{self.transactions} has lost its Delta log")

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

    def _check(self, marker: Path) -> int:
        """The format of the lake."""
        try:
            found = json.loads(marker.read_text())
            kind, version = found["tidemark"], found["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _not_a_lake(self.root, "its marker cannot be read") from error
        if kind != "lake" or not isinstance(version, int) or version < UNSEALED:
            raise _not_a_lake(self.root, "its marker says something else")
        if found.get("checksum") != (None if version == UNSEALED else _checksum(version)) and version <= FORMAT:
            raise damaged(f"{OWN}/{marker.name}", "it does not have its checksum")
        if version > FORMAT:
            raise TidemarkError(
                "format",
                f"{self.root} has the lake format {version}, this Tidemark reads up to {FORMAT}",
                hint="open it with the version of Tidemark that wrote it, or a newer one",
            )
        return version


def _store_of(path: str | os.PathLike[str] | None, storage: Mapping[str, str]) -> Store:
    if path is None:
        return LocalStore(Path(tempfile.mkdtemp(prefix="tidemark-lake-")))
    text = os.fspath(path)
    if is_url(text):
        return Bucket(place_of(text, storage))
    if storage:
        raise TidemarkError(
            "option", f"storage is an option of lakes on object stores, and {text} is none", hint="leave it out"
        )
    return LocalStore(local_path(path))


def _bring(store: Store) -> None:
    """Let the folder of this machine look as the lake in the bucket does, which is made if nothing is there. What the
    last process left of its own there goes."""
    own, marker = store.root / OWN, store.root / OWN / "lake.json"
    own.mkdir(parents=True, exist_ok=True)
    for entry in own.iterdir():
        if entry.is_dir() and entry.name != "transactions":
            shutil.rmtree(entry)
        elif entry.is_file():
            entry.unlink()
    store.fetch([(marker, -1)], is_stale=True)
    if not marker.exists():
        if store.listed(store.root):
            raise _not_a_lake(store.url, "it has other things in it")
        with suppress(FileExistsError):  # somebody else makes it just now
            store.put_new(marker, marker_text(FORMAT), is_synced=False)
        store.fetch([(marker, -1)], is_stale=True)
    mirror(store, own / "transactions", parts=True)
    if not (own / "transactions" / LOG).is_dir() and store.listed(store.root / TABLES):
        raise cannot_be_read(store.url, "its table of transactions has lost its Delta log")
    replace(own / "seals", b"")


def marker_text(version: int) -> bytes:
    """The marker of a lake of this format."""
    said = {"tidemark": "lake", "format": version, "checksum": _checksum(version)}
    return json.dumps(said).encode() + b"\n"


def _checksum(version: int) -> str:
    return f"{zlib.crc32(f'lake {version}'.encode()):08x}"


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
            f"{text} is not supported: files lie on a local file system here",
            hint="give a path or a file:/// url; lakes may lie at s3://, gs:// and abfss:// urls, too",
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


def _not_a_lake(root: Path | str, reason: str) -> TidemarkError:
    return TidemarkError(
        "not_a_database",
        f"{root} is not a Tidemark lake: {reason}",
        hint="give the folder of a lake, or an empty one, or one that does not exist yet",
    )
