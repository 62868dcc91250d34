"""The ends of a database's transactions: what follows each of them, also when an exception came in between.

What is still open when the process ends is closed in order: by then nobody else will.

A thread that still waits for a database would keep the engine's objects alive beyond Python's own end, which DuckDB's
binding reports as dozens of leaks on the standard error stream. Whoever works for long then is not waited for.

Idle time: when nobody has changed a database for a while, its stored tables are brought to what was committed.

Nobody waits for that, and what is committed does not depend on it: it spares the next reader a merge. A thread is there
from a commit that left something to do until that is done.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol

from tidemark.session.transaction import Nobody, Transaction
from tidemark.state.events import Ended, Events
from tidemark.state.state import Store


class Endings:
    """The owner of a database's transactions. It knows which of them are about to end, so that what an exception
    leaves undone of an end can be done later: ``finish`` does it."""

    def __init__(
        self, events: Events, used: Callable[[Transaction], None], read_through: Callable[[frozenset[str]], bool]
    ) -> None:
        self._events, self._used, self._read_through = events, used, read_through
        self._unfinished: list[Transaction] = []

    def used(self, transaction: Transaction) -> None:
        self._used(transaction)

    def ending(self, transaction: Transaction) -> None:
        """A transaction is about to end."""
        self._unfinished.append(transaction)

    def ended(self, transaction: Transaction) -> None:
        """Do what a transaction has left. One that was rolled back leaves what is independent of it."""
        for action in self._events.tell(Ended(transaction)):
            action()
        self._unfinished = [one for one in self._unfinished if one is not transaction]

    def read_through(self, names: frozenset[str]) -> bool:
        return self._read_through(names)

    def finish(self) -> None:
        """Nothing is under way any more: do what exceptions have left undone."""
        left, self._unfinished = self._unfinished, []
        for transaction in left:
            transaction.finish()


class Reading(Nobody):
    """The owner of transactions that read what is committed: views that are refreshed on read are, before that."""

    def __init__(self, read_through: Callable[[frozenset[str]], bool]) -> None:
        self._read_through = read_through

    def read_through(self, names: frozenset[str]) -> bool:
        return self._read_through(names)


SECONDS: Final = 1.0


class Closing(Protocol):
    def _leave(self, seconds: float) -> None:
        """Close, unless another thread works for longer than so many seconds."""


_open: Final[weakref.WeakSet[Closing]] = weakref.WeakSet()


def opened(database: Closing) -> None:
    """Close a database at the end of the process, if it is still there and open then."""
    _open.add(database)


def join(threads: Iterable[threading.Thread], seconds: float) -> None:
    """Wait for threads that do not keep the process alive by themselves, for so many seconds in all."""
    until = time.monotonic() + seconds
    for thread in tuple(threads):
        if thread.daemon and thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))


@atexit.register
def _leave() -> None:
    for database in tuple(_open):
        with suppress(Exception):  # there is nobody left to tell, and the store is as it was after the last commit
            database._leave(SECONDS)


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
