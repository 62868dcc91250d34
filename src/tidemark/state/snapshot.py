"""What is committed at one version, as a store of its own that reads: it shares no lock with whoever commits.

Whatever is worked out for reading, of definitions or of plans, is worked out for it alone, so that no other thread
sees it half done.

A database that somebody else writes: memory moves on to what is committed there, at each statement.

Relations that go on keep their identity, so that who follows one goes on with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Final, Protocol, cast

from tidemark.engines.engine import Snapshot
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import Catalog
from tidemark.state import identity, records
from tidemark.state.events import Bell, Events, Steps, ToldRefreshes
from tidemark.state.facts import Boundaries, known_of, view_keys
from tidemark.state.interruption import Stopping
from tidemark.state.state import MOST_DEFINED, Definitions, Store, uncollected
from tidemark.state.tidemarks import Notes
from tidemark.state.times import CommitTimes
from tidemark.state.transition import Transition, network_of
from tidemark.storage.commit import Followed

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


LOOK_AGAIN_SECONDS: Final = 0.02
"""Who waits for changes looks this often whether there are some: it costs two questions to the file system."""


class Follows(Protocol):
    """An engine of a database that others write."""

    def keep_up(self, foretell: Callable[[Followed], None]) -> bool: ...


class FollowingStore(Store):
    """Reads, and follows what others commit."""

    looks_every: float | None = LOOK_AGAIN_SECONDS
    is_read_only = True

    def _refill(self) -> None:
        """Inner states serve who writes."""

    @property
    def last_version(self) -> int:
        self.follow()
        return self.version

    def follow(self) -> None:
        """Move on to the last version that is committed. Nobody has the lock for longer than that takes: what is read,
        is read beside it."""
        if self.is_closed or self.is_inside():
            return
        with self.lock:
            if cast("Follows", self.engine).keep_up(self._take):
                self.committed.notify_all()

    def _take(self, found: Followed) -> None:
        """Know what was committed, before anybody can read it."""
        texts = [text for _, _, catalog in found.commits for text in catalog]
        if texts:
            with uncollected():
                catalog, created = records.restore(texts, self.catalog, self.created)
                self._define(found.version, catalog, created)
        for version, time, _ in found.commits:
            self.times.put(version, time)
        self.notes = Notes(found.notes)
        self.moved = identity.noted(self.notes)
        self.detached, self.detached_since = None, []
        self.version = found.version

    def _define(self, version: int, catalog: Catalog, created: dict[str, int]) -> None:
        network = network_of(catalog, self.network)
        known = known_of(catalog)
        kept = tuple(one for one in self._defined if one.version < version)
        self._defined = (*kept[1 - MOST_DEFINED :], Definitions(version, catalog, network, created))
        self.catalog, self.network, self.created = catalog, network, created
        self.view_keys = view_keys(catalog, known)
        self.refreshes = ToldRefreshes(self.progress, known, goes_by_stored=True)
        self._transition = Transition(catalog, network, catalog)

    def _settle(self, *, is_outermost: bool) -> None:
        """What was interrupted is read again as a whole."""
        self.stopping.deafen()
        loaded = self.engine.load()
        catalog, created = records.restore(loaded.catalog)
        self._define(loaded.version, catalog, created)
        self.notes, self.times = Notes(loaded.notes), CommitTimes(self.engine.times())
        self.version, self._has_doubt = loaded.version, False
