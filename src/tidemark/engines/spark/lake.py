"""The lake folder: its marker, its lock, and where everything lies in it.

_tidemark/lake.json        the marker: this folder is a Tidemark lake, of that format
_tidemark/seals-N          sizes and checksums of the files of Delta logs (``seals.py``), as the writer of epoch N knows
_tidemark/lock             held while a process has the lake open to write (``storage/holder.py``)
_tidemark/removing         held while a folder goes whose name may be taken again
_tidemark/spill/N/         scratch of statements that are running, of the writer of epoch N
_tidemark/backing/         hard links of what a backup is copying
_tidemark/transactions/    the Delta table of transactions, whose rows are the commits
tables/<name>/             one Delta table for each table and view
states/<name>/             the same for inner states

Names that are safe on every file system and in every Delta reader.

Who only reads a lake takes no lock, and writes nothing below it: its scratch is a temporary folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from tidemark.engines.opening import damaged as cannot_be_read
from tidemark.engines.opening import must_be_a_place
from tidemark.engines.spark.delta_log import LOG, checkpoints, standing_from
from tidemark.engines.spark.integrity import mirror
from tidemark.engines.spark.seals import LAST_CHECKPOINT, Seals, damaged
from tidemark.errors import TidemarkError, is_fenced
from tidemark.storage.disk import replace
from tidemark.storage.holder import FileHolder, Heartbeat
from tidemark.storage.store import LocalStore, Store, is_url

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


def column_names(names: Sequence[str], first: int) -> tuple[str, ...]:
    """The names of the columns in files: as they are, unless Delta readers would refuse them.

    Delta refuses some characters and does not tell upper from lower case; such a name gets ``_``, and a number if
    another column has that name. Of the ``first`` columns, which came together, one that can have its own name has it.

    >>> column_names(["a", "unit price", "A", "unit_price"], first=4)
    ('a', 'unit_price_2', 'A_2', 'unit_price')
    >>> column_names(["unit price", "unit_price"], first=1)
    ('unit_price', 'unit_price_2')
    """
    found: dict[int, str] = {}
    taken: set[str] = set()
    for place, name in enumerate(names[:first]):
        if _plain(name) == name and name.lower() not in taken:
            found[place] = name
            taken.add(name.lower())
    for place, name in enumerate(names):
        if place in found:
            continue
        base, copy = _plain(name), 1
        shown = base
        while shown.lower() in taken:
            copy += 1
            shown = f"{base}_{copy}"
        taken.add(shown.lower())
        found[place] = shown
    return tuple(found[place] for place in range(len(names)))


def _plain(name: str) -> str:
    return "".join("_" if character in _REFUSED_BY_DELTA else character for character in name) or "_"


FORMAT: Final = 3
UNSEALED: Final = 1
"""The format before there were seals. Such a lake is sealed as it is when it is opened. That of the second had no
epochs: a Tidemark that knows none must not write to a lake in which others go by them."""
OWN: Final = "_tidemark"
TABLES: Final = "tables"
STATES: Final = "states"
UNREADABLE: Final = frozenset("[]{}*?^|%\\")
SEALS: Final = "seals"


_BEFORE_MARKER: Final = re.compile(
    r"lock|\.[0-9a-f]+\.lock|removing|lake\.draft|lake\.json\.draft|seals(-\d+)?(\.draft)?"
)
"""What may be there when the creation of a lake was cut short."""


class Lake:
    """An open lake folder. Opening takes the lock, unless it is only read; ``close`` gives it back and removes a
    temporary lake. ``takeover`` takes the place of a writer that may be alive."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        storage: Mapping[str, str] | None = None,
        *,
        takeover: bool = False,
        read_only: bool = False,
    ) -> None:
        self.temporary = path is None
        self.store = _store_of(path, storage or {})
        self.root = self.store.root
        self.is_sealed = True
        self.epoch = 0
        """That of the writer, once it has taken one."""
        self.is_lost = False
        """Whether another writer has taken its place, as far as this one has seen."""
        self._format: int | None = None
        self._holder: FileHolder | Heartbeat | None = None
        self._scratch: Path | None = None
        try:
            if not self.store.is_local:
                _bring(self.store, may_make=not read_only)
            if read_only:
                self._open_to_read()
            else:
                self._open(takeover=takeover)
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
    def spill(self) -> Path:
        """Where statements in this process put what does not fit into memory."""
        return self._scratch or self.root / OWN / "spill" / str(self.epoch)

    @property
    def backing(self) -> Path:
        """Where backups hold on to the files that they copy."""
        return self._scratch or self.root / OWN / "backing"

    def directory(self, relation: str, *, internal: bool) -> str:
        """The folder of a relation to be created, relative to the root.

        That of a dropped relation of the same name may still be there. No two files have the same name, so that both
        can lie in it, and readers find the new one in the place of the old.
        """
        return f"{STATES if internal else TABLES}/{directory_name(relation)}"

    def close(self) -> None:
        if self.temporary:
            shutil.rmtree(self.root, ignore_errors=True)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        if self._holder is not None:
            self._holder.close()
            self._holder = None
        self.store.close()

    def _open(self, *, takeover: bool) -> None:
        marker = self.marker
        must_be_a_place(self.root, folder=True)
        self._refuse_foreign(marker)
        if marker.exists():
            self._check(marker)  # before anything is written
            self._must_have_its_transactions()
        (self.root / OWN).mkdir(parents=True, exist_ok=True)
        hold = FileHolder if self.store.is_local else Heartbeat
        self._holder = hold(self.store, self.root / OWN, takeover=takeover)
        for scratch in (self.root / OWN / "spill", self.backing):
            shutil.rmtree(scratch, ignore_errors=True)
        found = self._check(marker) if marker.exists() else None
        self.is_sealed = found != UNSEALED
        if found is None or not self.is_sealed:
            replace(seals_path(self.root, 0), b"")
        self._format = found
        if found is None:
            self.mark()
        self.seals = self.read_seals()
        for name in (TABLES, STATES):
            (self.root / name).mkdir(exist_ok=True)

    def _open_to_read(self) -> None:
        if not must_be_a_place(self.root, folder=True) or not self.marker.exists():
            raise TidemarkError(
                "not_a_database",
                f"there is no lake at {self.store.url} that could be read",
                hint="read_only=True opens a lake that is there; whoever writes it makes it",
            )
        if self._check(self.marker) == UNSEALED:
            raise TidemarkError(
                "format",
                f"{self.root} was written by an earlier Tidemark, without checksums",
                hint="open it to write once, which gives it some",
            )
        self._must_have_its_transactions()
        self._scratch = Path(tempfile.mkdtemp(prefix="tidemark-reader-"))
        self.seals = self.read_seals()

    def read_seals(self) -> Seals:
        """The seals of the last writer, as they are now. Those of a lake in a bucket are of the copies of its log on
        this machine, which is brought here for it."""
        if not self.store.is_local:
            return _seals_of_copies(self.store, self.transactions)
        while True:
            found = seals_files(self.root)
            newest = found[max(found)] if found else seals_path(self.root, 0)
            try:
                return Seals(self.root, newest)
            except TidemarkError:
                if seals_files(self.root).keys() == found.keys():
                    raise  # else there is a new writer, which has written its own

    @contextmanager
    def taking_place(self) -> Iterator[None]:
        """While something goes whose name may be taken again, or while an epoch is taken."""
        assert self._holder is not None
        with self._holder.removing():
            yield

    def must_know_epochs(self) -> None:
        """Before an epoch is taken the marker says so: an earlier Tidemark, which knows none, is kept out."""
        if self.is_sealed and self._format != FORMAT:
            self.mark()

    def last_epoch(self) -> int:
        """The last one that has a file of seals."""
        return max(seals_files(self.root), default=0)

    def take(self, epoch: int) -> None:
        """Go on as the writer of an epoch that is taken, with a file of seals of its own: that of the writer before is
        not written any more by anybody who matters."""
        self.epoch = epoch
        path = seals_path(self.root, epoch)
        self.seals = self.read_seals().moved_to(path)
        for before, old in seals_files(self.root).items():
            if before < epoch:
                old.unlink(missing_ok=True)

    def mark(self) -> None:
        """Write the marker: from here on this is a lake of the newest format, which has seals."""
        self.store.replace(self.marker, marker_text(FORMAT))
        self.is_sealed, self._format = True, FORMAT

    def _refuse_foreign(self, marker: Path) -> None:
        """A folder with anything in it must be a lake, or one whose creation was cut short before its marker."""
        if self.root.exists() and not self.root.is_dir():
            raise _not_a_lake(self.root, "it is a file")
        if marker.exists() or not self.root.exists():
            return
        if any(entry.name != OWN for entry in self.root.iterdir()):
            raise _not_a_lake(self.root, "it has other things in it")
        started = self.root / OWN
        if started.exists() and any(not _BEFORE_MARKER.fullmatch(entry.name) for entry in started.iterdir()):
            raise _not_a_lake(self.root, "its marker is missing")

    def _must_have_its_transactions(self) -> None:
        """Refuse a lake that has lost its commits: another, empty table of them would take their place."""
        if (self.transactions / "_delta_log").is_dir():
            return
        folders = (self.root / name for name in (TABLES, STATES))
        if any(next(folder.iterdir(), None) is not None for folder in folders if folder.is_dir()):
            raise cannot_be_read(self.root, f"{self.transactions} has lost its Delta log")

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


def seals_path(root: Path, epoch: int) -> Path:
    """The file of seals of an epoch; that of lakes which had none yet has no number."""
    return root / OWN / (f"{SEALS}-{epoch}" if epoch else SEALS)


def seals_files(root: Path) -> dict[int, Path]:
    """The files of seals that are there, by epoch: one, but for the moments in which an epoch is taken."""
    names = ((re.fullmatch(rf"{SEALS}(?:-(\d+))?", path.name), path) for path in (root / OWN).iterdir())
    return {int(match.group(1) or 0): path for match, path in names if match is not None}


def _store_of(path: str | os.PathLike[str] | None, storage: Mapping[str, str]) -> Store:
    if path is None:
        return LocalStore(Path(tempfile.mkdtemp(prefix="tidemark-lake-")))
    text = os.fspath(path)
    if is_url(text):
        from tidemark.storage.bucket import Bucket, place_of  # its library is loaded by those who need it

        return Bucket(place_of(text, storage))
    if storage:
        raise TidemarkError(
            "option", f"storage is an option of lakes on object stores, and {text} is none", hint="leave it out"
        )
    return LocalStore(local_path(path))


def _bring(store: Store, *, may_make: bool) -> None:
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
    if not marker.exists() and may_make:
        if store.listed(store.root):
            raise _not_a_lake(store.url, "it has other things in it")
        with suppress(FileExistsError):  # somebody else makes it just now
            store.put_new(marker, marker_text(FORMAT), is_synced=False)
        store.fetch([(marker, -1)], is_stale=True)
    if not marker.exists():
        return
    mirror(store, own / "transactions", parts=True)
    if not (own / "transactions" / LOG).is_dir() and store.listed(store.root / TABLES):
        raise cannot_be_read(store.url, "its table of transactions has lost its Delta log")


def _seals_of_copies(store: Store, table: Path) -> Seals:
    """Bring a table of transactions here, and seal what came: it was compared with its own checksums."""
    mirror(store, table, parts=True)
    epoch = standing_from(table, max(checkpoints(table), default=-1)).epoch
    for old in seals_files(store.root).values():
        old.unlink()
    path = seals_path(store.root, epoch)
    replace(path, b"")
    found = Seals(store.root, path)
    files = (path for folder in (table, table / LOG) if folder.is_dir() for path in sorted(folder.iterdir()))
    found.add(path for path in files if path.is_file() and path.name != LAST_CHECKPOINT)
    return found


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


def explained(error: Exception, must_hold: Callable[[], None]) -> Exception:
    """The error, or that another writer has taken over (``fenced``): that removes files which the one before knows."""
    try:
        must_hold()
    except TidemarkError as found:
        if is_fenced(found):
            return found
    return error


def _not_a_lake(root: Path | str, reason: str) -> TidemarkError:
    return TidemarkError(
        "not_a_database",
        f"{root} is not a Tidemark lake: {reason}",
        hint="give the folder of a lake, or an empty one, or one that does not exist yet",
    )
