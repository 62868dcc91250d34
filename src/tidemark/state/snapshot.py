"""What is committed at one version, as a store of its own that reads: it shares no lock with whoever commits.

Whatever is worked out for reading, of definitions or of plans, is worked out for it alone, so that no other thread
sees it half done.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Final

from tidemark.engines.engine import Snapshot
from tidemark.errors import TidemarkError
from tidemark.state.events import Bell, Events, Steps, ToldRefreshes
from tidemark.state.facts import Boundaries, known_of
from tidemark.state.interruption import Stopping
from tidemark.state.notes import Notes
from tidemark.state.state import Definitions, Store
from tidemark.state.transition import Transition

ATTEMPTS: Final = 100


class StoreAt(Store):
    """A store as of one version. Views that are refreshed on read are not: they are read by their definitions."""

    def __init__(self, store: Store, engine: Snapshot, defined: Definitions) -> None:  # what Store does is not done
        self.engine, self._snapshot = engine, engine
        self.version, self.is_read_only = engine.version, store.is_read_only
        self.catalog, self.network, self.created = defined.catalog, defined.network, defined.created
        self._lock = threading.RLock()
        self.outsiders = store.outsiders
        self.committed = Bell()
        self._clock = store._clock
        self.detached = None
        self.detached_since = []
        self.forgotten_firings = 0
        self.events, self.observers = Events(), []
        self.times, self.laps, self.moved = store.times, store.laps, store.moved
        self._is_unsettled = self._has_doubt = False
        self._underway = None
        self.beside = type(store.beside)()
        self.stopping = Stopping(engine.interrupt)
        self.stopping.timeout = store.stopping.timeout
        store.beside.add(self.stopping)
        self.progress, self.boundaries = Steps(self.events, self.stopping.check), Boundaries()
        self.is_closed = False
        self._transition = Transition(self.catalog, self.network, self.catalog)

    @cached_property
    def notes(self) -> Notes:  # type: ignore[override]
        return Notes(self._snapshot.notes())

    @cached_property
    def refreshes(self) -> ToldRefreshes:  # type: ignore[override]
        return ToldRefreshes(self.progress, known_of(self.catalog), goes_by_stored=True)


@contextmanager
def snapshot_of(store: Store) -> Iterator[StoreAt]:
    """The last committed version, without waiting for anybody who changes the database."""
    with staying_at(store) as found, found.lock:
        yield found


@contextmanager
def staying_at(store: Store) -> Iterator[StoreAt]:
    """The same for longer than one statement: who reads takes its lock each time."""
    store.must_not_be_outside()
    for _ in range(ATTEMPTS):
        store.must_be_open()
        with store.engine.snapshot() as engine:
            defined = store.defined_at(engine.version)
            if defined is not None:
                found = StoreAt(store, engine, defined)
                try:
                    yield found
                finally:
                    found.stopping.close()
                return
    raise TidemarkError("busy", "definitions change too fast to be read", hint="try again")
