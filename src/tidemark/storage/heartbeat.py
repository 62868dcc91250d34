"""Who has a lake on an object store open to write, and whether that process is still there.

There is no lock that the death of a process opens. So a holder says every few seconds that it is there, in an object of
the lake; who has said nothing for a minute counts as dead, and who closes the lake says so. Both times are the store's
own, so that no two clocks are compared.

This is about courtesy alone. That a writer which lost its place does no harm depends on no clock: its next entry in the
table of transactions is refused.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidemark.errors import TidemarkError
from tidemark.storage.store import Store

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
