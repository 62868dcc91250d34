"""Who has a lake open to write, and whether that process is still there.

On a local file system the system tells: a process holds a lock on ``_tidemark/lock`` for as long as it lives, stopped
or not. If the lock is free, whoever had it is dead or has closed the lake, and is succeeded without asking. If it is
not, the lake is in use, unless the taking over was asked for; then another file takes the place of the locked one, so
that from there on the lock tells of the successor.

This is about courtesy alone. That a writer which lost its place does no harm does not depend on it, nor on any clock:
its next entry in the table of transactions is refused (``transactions.py``).

One thing cannot be refused afterwards: that the folder of a dropped relation goes, since another relation of the name
may have taken it meanwhile. So a writer does that under a lock of its own, having looked whether it still has its
place, and nobody takes a place over while that lock is held.

On an object store there is no lock that the death of a process opens. So a holder says every few seconds that it is
there, in an object of the lake; who has said nothing for a minute counts as dead, and who closes the lake says so. Both
times are the store's own, so that no two clocks are compared.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tidemark.errors import TidemarkError
from tidemark.storage.store import Store

REMOVING_SECONDS: Final = 5.0
"""So long a removal is waited for that is going on when a place is taken: it is a matter of moments."""


class FileHolder:
    """Holds a lake on a local file system."""

    def __init__(self, store: Store, own: Path, *, takeover: bool) -> None:
        self._root, self._own = store.root, own
        self._lock: IO[str] | None = self._taken(takeover=takeover)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextmanager
    def removing(self) -> Iterator[None]:
        """While something goes whose name may be taken again, or while a place is taken."""
        with open(self._own / "removing", "a") as file:
            until = time.monotonic() + REMOVING_SECONDS
            while not _is_locked(file):
                if time.monotonic() > until:
                    raise TidemarkError(
                        "in_use",
                        f"{self._root} is in use: its holder stands still while it removes the folder of a relation",
                        hint="let it go on, or end it",
                    )
                time.sleep(0.01)
            yield

    def _taken(self, *, takeover: bool) -> IO[str]:
        path = self._own / "lock"
        while True:
            lock = open(path, "a+")  # noqa: SIM115 (held until the lake is closed)
            try:
                is_free = _is_locked(lock)
                if is_free and _is_at(lock, path):
                    return _signed(lock)
                if not is_free and _is_at(lock, path):
                    if takeover:
                        return self._replaced(path)
                    raise self._in_use(lock)
            except BaseException:
                lock.close()
                raise
            lock.close()  # somebody has put another file in its place meanwhile

    def _replaced(self, path: Path) -> IO[str]:
        """Another file in the place of the one that somebody has locked, which is locked before anybody sees it."""
        draft = path.with_name(f".{uuid.uuid4().hex}.lock")
        lock = open(draft, "a+")  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _signed(lock)
            draft.replace(path)
        except BaseException:
            lock.close()
            draft.unlink(missing_ok=True)
            raise
        return lock

    def _in_use(self, lock: IO[str]) -> TidemarkError:
        return TidemarkError(
            "in_use",
            f"{self._root} is in use by another connection{_signature(lock)}",
            hint="close it there first, read with connect(…, read_only=True), or take its place with takeover=True: "
            "the other one is then told that it is fenced",
        )


def _is_locked(file: IO[str]) -> bool:
    """Take the lock of a file, if it is free."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _signed(lock: IO[str]) -> IO[str]:
    """Say in the locked file who has it, for people."""
    lock.seek(0)
    lock.truncate()
    lock.write(json.dumps({"process": os.getpid()}))
    lock.flush()
    return lock


def _signature(lock: IO[str]) -> str:
    try:
        lock.seek(0)
        return f" (process {int(json.loads(lock.read())['process'])})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


BEAT_SECONDS: Final = 15.0
DEAD_SECONDS: Final = 60.0
_logger = logging.getLogger("tidemark.storage")


@dataclass(frozen=True)
class _Said:
    """What the object of a holder says."""

    holder: str = ""
    where: str = ""
    is_free: bool = True


class Heartbeat:
    """Holds a lake. ``takeover`` takes the place of a holder that may be alive."""

    def __init__(self, store: Store, folder: Path, *, takeover: bool) -> None:
        self._store = store
        self._path, self._knock = folder / "holder.json", folder / "knock.json"
        self._id = uuid.uuid4().hex
        self._closed = threading.Event()
        self._take(takeover=takeover)
        self._thread = threading.Thread(target=self._beat, name="tidemark heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Say that the lake is free, unless somebody else has taken it."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._thread.join()
        try:
            if self._read().holder == self._id:
                self._say(is_free=True)
        except TidemarkError:  # it is free when the time is over
            _logger.warning("could not say that %s is free", self._store.url, exc_info=True)

    @contextmanager
    def removing(self) -> Iterator[None]:
        """While something goes. In a bucket the names of what goes are never taken again: nobody is waited for."""
        yield

    def _take(self, *, takeover: bool) -> None:
        found = self._read()
        if not (found.is_free or takeover):
            silent = self._silent_seconds()
            if silent < DEAD_SECONDS:
                raise TidemarkError(
                    "in_use",
                    f"{self._store.url} is in use by another connection ({found.where}), "
                    f"which said so {silent:.0f} seconds ago",
                    hint=f"close it there first; if it is dead, its place is free {DEAD_SECONDS:.0f} seconds after its "
                    "last word, or take it with takeover=True: the other one is then told that it is fenced",
                )
        self._say(is_free=False)

    def _silent_seconds(self) -> float:
        """For how long the holder has said nothing, by the clock of the store."""
        self._store.replace(self._knock, self._id.encode())
        listed = {path: self._store.about(path) for path in (self._path, self._knock)}
        said, now = listed[self._path], listed[self._knock]
        return DEAD_SECONDS if said is None or now is None else now.modified - said.modified

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_SECONDS):
            try:
                if self._read().holder != self._id:
                    return  # somebody has taken over
                self._say(is_free=False)
            except TidemarkError:
                _logger.warning("could not say that %s is held", self._store.url, exc_info=True)

    def _say(self, *, is_free: bool) -> None:
        said: dict[str, Any] = {"holder": self._id, "process": os.getpid(), "host": socket.gethostname()}
        self._store.replace(self._path, json.dumps({**said, "free": is_free}).encode())

    def _read(self) -> _Said:
        try:
            found = json.loads(self._store.read(self._path))
            return _Said(found["holder"], f"process {found['process']} on {found['host']}", bool(found["free"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return _Said()
