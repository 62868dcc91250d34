"""A database that somebody else writes: memory moves on to what is committed there, at each statement.

Relations that go on keep their identity, so that who follows one goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, cast

from tidemark.sql.catalog.catalog import Catalog
from tidemark.state import identity, records
from tidemark.state.events import ToldRefreshes
from tidemark.state.facts import known_of, view_keys
from tidemark.state.notes import Notes
from tidemark.state.state import MOST_DEFINED, Definitions, Store, uncollected
from tidemark.state.times import CommitTimes
from tidemark.state.transition import Transition, network_of
from tidemark.storage.commit import Followed

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
