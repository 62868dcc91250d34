"""Which triggers are worth asking: those whose time has come, and those that look at something that has changed.

After a transaction nobody goes through all of them. Times wait in a heap, one for each query, and who looks at a
relation is found by its name.
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections.abc import Callable, Iterable

from tidemark.database.conditions import clock_times
from tidemark.database.standing import ACTIVE, Standing
from tidemark.sql.catalog import Catalog, View
from tidemark.sql.trigger_reads import Watched, watched


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
