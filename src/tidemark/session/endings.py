"""The ends of a database's transactions: what follows each of them, also when an exception came in between.

What is still open when the process ends is closed in order: by then nobody else will.

A thread that still waits for a database would keep the engine's objects alive beyond Python's own end, which DuckDB's
binding reports as dozens of leaks on the standard error stream. Whoever works for long then is not waited for.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol

from tidemark.session.transaction import Nobody, Transaction
from tidemark.state.events import Ended, Events


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
