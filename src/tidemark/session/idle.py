"""Idle time: when nobody has changed a database for a while, its stored tables are brought to what was committed.

Nobody waits for that, and what is committed does not depend on it: it spares the next reader a merge. A thread is there
from a commit that left something to do until that is done.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tidemark.state.state import Store

_logger = logging.getLogger("tidemark.idle")
BUSY_SECONDS: Final = 0.25
"""Who finds somebody at work looks again after this time."""


class IdleTime:
    """Has the engine of one database catch up when the last commit was ``Engine.idle_after`` seconds ago.

    It takes the lock only if nobody has it, and not while ``is_free`` says that somebody has a transaction open. It
    takes no turn: who asks for one meanwhile waits for the lock for a moment, whatever the limit is for busy turns.
    """

    def __init__(self, store: Store, is_free: Callable[[], bool]) -> None:
        self._store, self._is_free = store, is_free
        self._last = 0.0
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def committed(self) -> None:
        """A commit left something to do."""
        self._last = time.monotonic()
        if self._thread is None or not self._thread.is_alive():
            self._thread = thread = threading.Thread(target=self._run, name="tidemark idle time", daemon=True)
            self._store.threads.add(thread)
            with suppress(RuntimeError):  # no thread can begin any more: closing does what there is to do
                thread.start()

    def close(self) -> None:
        """Let the thread end."""
        self._closed.set()

    def _run(self) -> None:
        try:
            while not self._is_over():
                pass
        except Exception:  # the next commit tries again
            _logger.exception("what was committed could not be brought to stored tables in idle time")

    def _is_over(self) -> bool:
        """Wait, and do what there is to do; whether nothing is left."""
        seconds = self._store.engine.idle_after
        rest = 0.0 if seconds is None else self._last + seconds - time.monotonic()
        if rest > 0:
            return self._closed.wait(rest)
        with self._store.if_free() as is_free:
            if self._store.is_closed:
                return True
            if is_free and self._is_free():
                if self._store.engine.idle_after is not None:
                    self._store.stopping.deafen()  # it is nobody's statement
                    self._store.engine.catch_up()
                if self._store.engine.idle_after is None:
                    self._thread = None  # with the lock: the next commit begins another one
                    return True
        return self._closed.wait(BUSY_SECONDS)
