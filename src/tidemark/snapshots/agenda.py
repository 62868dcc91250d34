"""Which triggers are worth asking: those whose time has come, and those that look at something that has changed.

After a transaction nobody goes through all of them. Times wait in a heap, one for each query, and who looks at a
relation is found by its name.

To which lagging relations a change can matter, and which have been touched since their tidemarks.
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import relations_of
from tidemark.analysis.relevance.index import Finder
from tidemark.engines.limits import EngineLimits
from tidemark.network.lagging import Lagging
from tidemark.snapshots.triggers import clock_times
from tidemark.sql.bind.triggers import Watched, watched
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.state.tidemarks import ACTIVE, Standing, lagging_of
from tidemark.strategy.cache import RefreshCache


class Agenda:
    """The queries and snapshots of one database that have a trigger and have not ended, and which of them to ask.

    One that was asked is asked again when a later time of it comes, or when something that it looks at has changed: in
    between the answer is the same.
    """

    def __init__(self, standing: Callable[[str], Standing]) -> None:
        self._standing = standing
        self._catalog: Catalog | None = None
        self._views: dict[str, View] = {}
        self._places: dict[str, int] = {}
        self._watched: dict[str, Watched] = {}
        self._by_relation: dict[str, set[str]] = {}
        self._timed: set[str] = set()
        self._waiting: set[str] = set()
        self._asked: dict[str, dt.datetime] = {}
        self._failed: set[str] = set()
        self._heap: list[tuple[dt.datetime, str]] = []
        self._armed: dict[str, dt.datetime] = {}

    def define(self, catalog: Catalog) -> None:
        """Go by another catalog. Who is new in it is asked, and so is who looks at relations by their names."""
        if catalog is self._catalog:
            return
        before, self._catalog = self._views, catalog
        lagging = [view for view in catalog.lagging_views if view.lag is not None and view.lag.trigger is not None]
        self._views = {view.name: view for view in lagging if self._standing(view.name).status == ACTIVE}
        self._places = {name: place for place, name in enumerate(self._views)}
        self._watched = {view.name: watched(view, catalog) for view in self._views.values() if view.lag is not None}
        self._timed = {name for name, watch in self._watched.items() if watch.is_timed}
        self._by_relation = {}
        for name, watch in self._watched.items():
            for relation in watch.relations:
                self._by_relation.setdefault(relation, set()).add(name)
        fresh = {name for name, view in self._views.items() if before.get(name) is not view}
        self._waiting |= fresh | {name for name, watch in self._watched.items() if watch.relations}
        for name in fresh:
            self._asked.pop(name, None)
            self._arm(name)
        gone = (self._asked.keys() | self._armed.keys() | self._failed | self._waiting) - self._views.keys()
        for name in gone:
            self.end(name)

    def looks_at(self, relation: str) -> bool:
        return relation in self._by_relation

    def change(self, relations: Iterable[str], touched: Iterable[str]) -> None:
        """Relations have changed, and these queries have been touched."""
        for relation in relations:
            self._waiting |= self._by_relation.get(relation, frozenset())
        for name in touched:
            if name in self._views and (self._watched[name].own or name in self._failed):
                self._waiting.add(name)

    def ask_all(self) -> None:
        """Something failed: nobody knows what was asked."""
        self._waiting |= self._views.keys()

    def ask_timed(self) -> None:
        """Conditions that name the time are asked at every occasion."""
        self._waiting |= self._timed

    def take(self, now: dt.datetime) -> list[View]:
        """Who is to be asked now, in the order of creation. It is to be said of each that it was asked, or ended."""
        while self._heap and self._heap[0][0] <= now:
            time, name = heapq.heappop(self._heap)
            if self._armed.get(name) != time:
                continue
            del self._armed[name]
            due = self._next_time(name)
            if due is not None and due <= now:
                self._waiting.add(name)
            else:
                self._arm(name)
        taken, self._waiting = self._waiting & self._views.keys(), set()
        return [self._views[name] for name in sorted(taken, key=self._places.__getitem__)]

    def asked(self, name: str, now: dt.datetime, *, is_failed: bool = False) -> None:
        """One was asked, or brought up to date. If that failed, it is tried again when something that it reads has
        changed, and when its time comes again."""
        if name not in self._views:
            return
        (self._failed.add if is_failed else self._failed.discard)(name)
        self._asked[name] = now
        self._arm(name)

    def end(self, name: str) -> None:
        """One has ended, and is not asked any more."""
        for known in (self._views, self._asked, self._armed):
            known.pop(name, None)
        for names in (self._failed, self._waiting, self._timed):
            names.discard(name)

    def next_time(self) -> dt.datetime | None:
        """The next time at which somebody is to be asked by the clock alone."""
        while self._heap:
            time, name = self._heap[0]
            due = self._next_time(name) if self._armed.get(name) == time else None
            if due == time:
                return time
            heapq.heappop(self._heap)
            if self._armed.get(name) == time:
                del self._armed[name]
                self._arm(name)
        return None

    def _next_time(self, name: str) -> dt.datetime | None:
        """The next time at which the clock may give another answer than when it was last asked."""
        view = self._views.get(name)
        if view is None or view.lag is None:
            return None
        asked, times = self._asked.get(name), clock_times(view.lag.trigger, self._standing(name).executed)
        if asked is not None and name in self._failed:
            times += clock_times(view.lag.trigger, asked)
        if view.lag.until.time is not None:
            times.append(view.lag.until.time)
        return min((time for time in times if asked is None or time > asked), default=None)

    def _arm(self, name: str) -> None:
        """Let the heap have the next time of one, or an earlier one: then it is looked up again when that has come."""
        due, armed = self._next_time(name), self._armed.get(name)
        if due is not None and (armed is None or due < armed):
            self._armed[name] = due
            heapq.heappush(self._heap, (due, name))


Caches = Callable[[View], tuple[Lagging, RefreshCache]]


class Readers:
    """Which lagging relations read which relation, and what stands on them, by one catalog."""

    def __init__(self, catalog: Catalog, cache: Caches, before: Readers | None, limits: EngineLimits) -> None:
        self._cache = cache
        self._views = {view.name: view for view in catalog.lagging_views}
        self._by_relation: dict[str, list[str]] = {}
        for view in catalog.lagging_views:
            for name in lagging_of(view).below:
                self._by_relation.setdefault(name, []).append(view.name)
        self._finders: dict[str, Finder[str]] = {} if before is None else self._unchanged(before)
        self._catalog, self._above = catalog, dict[str, frozenset[str]]()
        self._limits = limits
        self._stood_on = frozenset(name for view in catalog.views for name in view.depends_on)

    def _unchanged(self, before: Readers) -> dict[str, Finder[str]]:
        """The finders of relations that are read by what read them, since they take long to make."""

        def plans(readers: Readers, relation: str) -> list[int]:
            return [id(readers._views[name].plan) for name in readers._by_relation.get(relation, ())]

        return {name: found for name, found in before._finders.items() if plans(before, name) == plans(self, name)}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._views)

    def touched(self, deltas: Mapping[str, pa.Table]) -> set[str]:
        """The lagging relations to which changes can matter; where many read a relation, they are looked up."""
        found: set[str] = set()
        for name, delta in deltas.items():
            readers = self._by_relation.get(name, ())
            found |= set(readers if len(readers) <= self._limits.many_readers else self._finder(name).among(delta))
        return found

    def reads(self, relation: str) -> bool:
        return relation in self._by_relation

    def reads_time(self, view: View) -> bool:
        """Whether a definition names the time, by itself or by a view that does not lag."""
        if CLOCK not in self._catalog.relations:
            return False
        found, waiting = {view.name}, [view]
        while waiting:
            for name in relations_of(waiting.pop().plan) - found:
                below = self._catalog.get(name)
                if name == CLOCK:
                    return True
                if isinstance(below, View) and below.lag is None:
                    waiting.append(below)
                found.add(name)
        return False

    def above(self, name: str) -> frozenset[str]:
        """The views that stand on a relation, directly or not."""
        if name not in self._stood_on:
            return frozenset()
        found = self._above.get(name)
        if found is None:
            found = self._above[name] = frozenset(view.name for view in self._catalog.above(name))
        return found

    def _finder(self, relation: str) -> Finder[str]:
        finder = self._finders.get(relation)
        if finder is None:
            entries = []
            for name in self._by_relation[relation]:
                lag, cache = self._cache(self._views[name])
                nodes = [n for n in lag.network.nodes.values() if relation in n.influents]
                entries += [(name, cache.influence(node, relation).filter) for node in nodes]
            finder = self._finders[relation] = Finder(entries)
        return finder


class Touched:
    """When each lagging relation was last touched. What was not, since its tidemark, is as true as it was.

    Nothing is known of versions up to ``seen_from``: they were made by another process, or something failed.
    """

    def __init__(self, seen_from: int) -> None:
        self._seen_from = seen_from
        self._at: dict[str, int] = {}

    def touch(self, names: set[str], version: int) -> None:
        self._at.update(dict.fromkeys(names, version))

    def since(self, name: str, tidemark: int) -> bool:
        """Whether a version after the tidemark may have touched a relation."""
        return tidemark < self._seen_from or self._at.get(name, 0) > tidemark

    def lose(self, version: int) -> None:
        """Forget what is known of the versions so far."""
        self._seen_from = version
        self._at.clear()

    def keep_only(self, names: frozenset[str]) -> None:
        self._at = {name: version for name, version in self._at.items() if name in names}
