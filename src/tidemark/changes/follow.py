"""Following what comes: waiting for the next thing, dealing with it, and saying so."""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Self, TypeVar

from tidemark.state.boundary import bounded
from tidemark.state.state import Store
from tidemark.storage.retention import KEEP

T = TypeVar("T")
Mark = Callable[[int], None]
_places = itertools.count(1)
LONGEST_SECONDS: Final = 3600.0
"""It looks again at least this often: nobody can wait for any number of seconds at once."""


@bounded
class Following(ABC, Generic[T]):
    """Iterates over what comes, waiting for the next one, until it is closed or there is nothing more to come.

    ``poll`` does not wait longer than asked. While it is open, the log keeps what it has not read yet, if its policy
    is to keep it. One with a name says how far it has come by ``mark``, so that it can go on there in another process.
    """

    kind = ""

    def __init__(
        self, store: Store, relation: str, name: str | None = None, mark: Mark | None = None, policy: str = KEEP
    ) -> None:
        self._store, self._mark = store, mark
        self._reader = threading.RLock()
        self.relation, self.name, self.policy = relation, name, policy
        self._identity = store.catalog.relations[relation].identity
        self._last: int | None = None
        self._is_closed = self.is_forgotten = False
        self.place = next(_places)

    @property
    @abstractmethod
    def water_mark(self) -> int:
        """The version up to which it needs nothing of the log any more."""

    @abstractmethod
    def _next(self) -> T | None:
        """The next one, if it is there; ``_last`` is then the version to be marked when it has been dealt with."""

    def _is_over(self) -> bool:
        """Whether nothing more can come."""
        return self._store.is_closed

    def _held_for(self) -> float | None:
        """After how many seconds it is worth looking again, though nothing was committed; None if there is no time."""
        return None

    @property
    def is_open(self) -> bool:
        return not self._is_closed and not self.is_forgotten

    def poll(self, timeout: float | None = 0) -> T | None:
        """The next one, or None if there is none within ``timeout`` seconds (None waits for ever)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            rings = self._store.committed.rings
            with self._alone():
                if self._is_closed:
                    return None
                self.acknowledge()
                found = self._next()
                if found is not None:
                    return found
                is_over, held_for = self._is_over(), self._held_for()
            remaining = None if deadline is None else deadline - time.monotonic()
            if is_over or (remaining is not None and remaining <= 0):
                return None
            wanted = (remaining, held_for, self._store.looks_every)
            times = [seconds for seconds in wanted if seconds is not None]
            self._store.threads.add(threading.current_thread())
            self._store.committed.wait(rings, min([*times, LONGEST_SECONDS]))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time goes on here. One with a name writes how far it has come into the database, so that it
        takes its place among those who are at work there; others wait for nobody."""
        if self._waits_for_others:
            with self._store.lock, self._reader:
                yield
        else:
            with self._reader:
                yield

    @property
    def _waits_for_others(self) -> bool:
        return self._mark is not None

    def acknowledge(self) -> None:
        """Say that what came last has been dealt with. Asking for the next one says so too.

        One with a name goes on after it when it comes again; until then the log keeps what comes after.
        """
        with self._alone():
            if self._last is not None and not self._store.is_closed:
                self._marked(self._last)
            self._last = None

    def _marked(self, version: int) -> None:
        if self._mark is not None and not self.is_forgotten:
            self._mark(version)

    @property
    def is_gone(self) -> bool:
        """Whether the relation that it follows is not there any more."""
        current = self._store.catalog.get(self.relation)
        return current is None or current.identity is not self._identity

    def __iter__(self) -> Iterator[T]:
        while True:
            found = self.poll(None)
            if found is None:
                return
            yield found

    def close(self) -> None:
        """End it; whoever waits in it returns."""
        with self._alone():
            if not self._is_closed:
                self.acknowledge()
            self._is_closed = True
        self._store.committed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
