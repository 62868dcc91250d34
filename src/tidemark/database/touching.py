"""Which of the relations that lag a change can matter to, and which have been touched since their tidemarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from tidemark.algebra.clock import CLOCK
from tidemark.algebra.plans import relations_of
from tidemark.analysis.finding import Finder
from tidemark.continual.lagging import Lagging
from tidemark.database.standing import lagging_of
from tidemark.network.refreshes import MANY_READERS, RefreshCache
from tidemark.sql.catalog import Catalog, View

Caches = Callable[[View], tuple[Lagging, RefreshCache]]


class Readers:
    """Which of the relations that lag read which relation, and what stands on them, by one catalog."""

    def __init__(self, catalog: Catalog, cache: Caches, before: Readers | None = None) -> None:
        self._cache = cache
        self._views = {view.name: view for view in catalog.lagging_views}
        self._by_relation: dict[str, list[str]] = {}
        for view in catalog.lagging_views:
            for name in lagging_of(view).below:
                self._by_relation.setdefault(name, []).append(view.name)
        self._finders: dict[str, Finder[str]] = {} if before is None else self._unchanged(before)
        self._catalog, self._above = catalog, dict[str, frozenset[str]]()
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
        """The relations that lag to which changes can matter; where many read a relation, they are looked up."""
        found: set[str] = set()
        for name, delta in deltas.items():
            readers = self._by_relation.get(name, ())
            found |= set(readers if len(readers) <= MANY_READERS else self._finder(name).among(delta))
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
    """When each relation that lags was last touched. What was not, since its tidemark, is as true as it was.

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
