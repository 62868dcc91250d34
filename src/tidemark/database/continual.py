"""Bringing what lags up to date: on demand, when its trigger says so, and before it is read."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from tidemark.algebra.plans import relations_of
from tidemark.algebra.types import Schema
from tidemark.analysis.finding import Finder
from tidemark.continual.lagging import Lagging
from tidemark.database.conditions import Moment, holds, next_time
from tidemark.database.history import net_since
from tidemark.database.known import known_of_nothing
from tidemark.database.pairing import Key, shortest
from tidemark.database.reading import readable
from tidemark.database.standing import ACTIVE, STOPPED, Standing, lagging_of, note_name, numbered, result_note
from tidemark.database.store import Store, Work
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.log.commit import noted
from tidemark.network import Step, Wave
from tidemark.network.refreshes import MANY_READERS, RefreshCache
from tidemark.network.settle import settle
from tidemark.sql.catalog import Catalog, View
from tidemark.sql.continual_statements import QUERY
from tidemark.sql.text import Source
from tidemark.sql.trigger_conditions import CHANGES, bind_when, changed_by, is_of_changes
from tidemark.sql.triggers import OnChange, When, leaves

_logger = logging.getLogger("tidemark.continual")
MOST_NET: Final = 64
"""Of more net changes than these, those that nobody waits for are let go."""
MANY_VERSIONS: Final = 200
ROWS_PER_VERSION: Final = 4_000
"""Reading the log of one version takes as long as reading so many stored rows, about; fewer versions are always
read."""
START_ROWS: Final = {"spark": 30_000_000}
"""What it takes to begin an evaluation of everything, in rows."""
ROUNDS: Final = 64
"""After so many rounds in which results made triggers hold again, the rest waits for the next transaction."""


class Continual:
    """The snapshots, continual queries and views refreshed on read of one database."""

    def __init__(self, store: Store, bring: Callable[[Work], None]) -> None:
        """``bring`` commits what brings relations up to date together with what rules make of it."""
        self._store, self._bring = store, bring
        self._standings: dict[str, tuple[str, Standing]] = {}
        self._caches: dict[str, tuple[View, RefreshCache]] = {}
        self._net: dict[tuple[str, int], pa.Table] = {}
        self._waves: dict[str, tuple[Standing, int, Wave]] = {}
        self._untouched: dict[str, int] = {}
        self._touched_at: dict[str, int] = {}
        self._asked_at: dict[str, int] = {}
        self._times: dict[str, tuple[Standing, dt.datetime | None]] = {}
        self._failures: dict[str, int] = {}
        self._readers: tuple[Catalog, _Readers] | None = None
        self._is_working = False
        self._results: dict[str, dict[int, tuple[int, dt.datetime]]] = {}
        self.after_results: Callable[[], None] = lambda: None
        store.after_commit.append(self._committed)
        store.before_read = self.read

    # What is asked for

    def standing(self, name: str) -> Standing:
        text = self._store.notes[note_name(name)]
        known = self._standings.get(name)
        if known is None or known[0] != text:
            known = self._standings[name] = (text, Standing.of_note(text))
        return known[1]

    def refresh(self, name: str) -> None:
        """Bring one relation up to date now, whatever its trigger says."""
        view = self._lagging(name)
        if self.standing(name).status == STOPPED:
            raise TidemarkError("stopped", f"{view.name!r} has ended: its UNTIL came true", hint="create it anew")
        self._execute([view], is_asked=True)
        self.after_results()

    def results_of(self, name: str) -> Mapping[int, tuple[int, dt.datetime]]:
        """The results of a continual query that are kept: number, version and time. Number 0 is its first content."""
        known = self._results.get(name)
        if known is None:
            known = {}
            for note, text in self._store.notes.items():
                found = numbered(note)
                if found is not None and found[0] == name:
                    version, _, time = text.partition(" ")
                    known[found[1]] = (int(version), dt.datetime.fromisoformat(time))
            self._results[name] = known
        return known

    def version_of(self, name: str, number: int) -> int:
        """The version of a result; before the first, that before the creation."""
        known = self.results_of(name)
        if number in known:
            return known[number][0]
        return self._store.version if number > 0 else self._store.created[name] - 1

    def number_at(self, name: str, version: int) -> int:
        """The number of the last result up to a version."""
        later = [number for number, (at, _) in self.results_of(name).items() if at > version]
        return min(later) - 1 if later else self.standing(name).results

    def forget_results(self) -> None:
        """Look again which results are kept."""
        self._results.clear()

    def read(self, names: Iterable[str]) -> None:
        """Bring views that are refreshed on read up to date, before they are read."""
        self._execute([self._lagging(name) for name in sorted(names)], is_asked=True)

    def run_due(self) -> int:
        """Execute everything whose trigger holds now; how many did."""
        executed = self._run_due()
        self.after_results()
        return executed

    def _run_due(self) -> int:
        executed = 0
        for _ in range(ROUNDS):
            views = self._due()
            if not views:
                break
            executed += len(views)
            self._execute(views, is_asked=False)
        return executed

    def next_due(self) -> dt.datetime | None:
        """The next time at which a trigger may hold by the clock alone."""
        times = []
        for view in self._store.catalog.lagging_views:
            standing = self.standing(view.name)
            if view.lag is not None and standing.status == ACTIVE:
                time = self._next_time(view, standing)
                times += [t for t in (time, view.lag.until.time) if t is not None]
        return min(times, default=None)

    def _lagging(self, name: str) -> View:
        view = self._store.catalog.get(name)
        if not isinstance(view, View) or view.lag is None:
            raise TidemarkError("wrong_kind", f"{name!r} is neither a snapshot nor a continual query")
        return view

    # After each commit

    def _committed(self, deltas: Mapping[str, pa.Table]) -> None:
        if not self._store.catalog.lagging_views:
            self._net.clear()
            return
        try:
            self._extend(deltas)
            self._touch(deltas)
            if not self._is_working:
                self._is_working = True
                try:
                    self._run_due()
                finally:
                    self._is_working = False
        except Exception:  # the transaction is committed: what follows from it must not fail it
            _logger.exception("continual queries could not be executed")
            self._untouched, self._net = {}, {}
        if self._is_working:
            return
        self.after_results()

    def _extend(self, deltas: Mapping[str, pa.Table]) -> None:
        """Add what a version changed to the net changes that are known, so that the log is not read again and again."""
        catalog = self._store.catalog
        if self._readers is None or self._readers[0] is not catalog:
            self._net.clear()  # columns may have come
        elif len(self._net) > MOST_NET:
            marks = {self.standing(view.name).tidemark for view in catalog.lagging_views}
            self._net = {key: delta for key, delta in self._net.items() if key[1] in marks}
        for name, since in [key for key in self._net if key[0] in deltas]:
            self._net[name, since] = delta_tables.combine(self._net[name, since], deltas[name])

    def _touch(self, deltas: Mapping[str, pa.Table]) -> None:
        """Note what the changes of a version cannot matter to: that is as true as it was."""
        store = self._store
        if self._readers is None or self._readers[0] is not store.catalog:
            self._readers = (store.catalog, _Readers(store.catalog, self._cache))
            self._results.clear()
        readers, version = self._readers[1], store.version
        touched = readers.touched(deltas)
        self._touched_at.update(dict.fromkeys(touched, version))
        self._untouched = {
            name: version if until >= version - 1 and name not in touched else until
            for name in readers.names
            for until in (self._untouched.get(name, self.standing(name).tidemark),)
        }

    def _is_touched(self, name: str) -> bool:
        tidemark = self.standing(name).tidemark
        return self._untouched.get(name, tidemark) < self._store.version and tidemark < self._store.version

    # Triggers

    def _due(self) -> list[View]:
        now, found = self._store.now(), []
        for view in self._store.catalog.lagging_views:
            standing = self.standing(view.name)
            if view.lag is None or view.lag.trigger is None or standing.status != ACTIVE:
                continue
            if self._failures.get(view.name) == self._store.version:
                continue
            try:
                if self._is_over(view, standing, now):
                    self._note(view.name, replace(standing, status=STOPPED))
                elif self._may_hold(view, standing, now):
                    self._asked_at[view.name] = self._store.version
                    if holds(view.lag.trigger, self._moment(view, standing, now)):
                        found.append(view)
            except TidemarkError as error:
                self._failed(view, standing, error)
        return found

    def _may_hold(self, view: View, standing: Standing, now: dt.datetime) -> bool:
        """Whether it is worth asking the trigger: time has come, or something that it looks at has changed."""
        assert view.lag is not None
        time = self._next_time(view, standing)
        if time is not None and time <= now:
            return True
        asked = [leaf for leaf in leaves(view.lag.trigger) if isinstance(leaf, OnChange | When)]
        if any(leaf.relation is not None or (isinstance(leaf, When) and not is_of_changes(leaf)) for leaf in asked):
            return standing.tidemark < self._store.version
        if not asked or not self._is_touched(view.name):
            return False
        # What was not enough then is not enough now, unless more has come.
        return self._touched_at.get(view.name, 0) > self._asked_at.get(view.name, -1)

    def _next_time(self, view: View, standing: Standing) -> dt.datetime | None:
        known = self._times.get(view.name)
        if known is None or known[0] is not standing:
            trigger = None if view.lag is None else view.lag.trigger
            known = self._times[view.name] = (standing, next_time(trigger, standing.executed))
        return known[1]

    def _is_over(self, view: View, standing: Standing, now: dt.datetime) -> bool:
        assert view.lag is not None
        until = view.lag.until
        if until.time is not None and until.time <= now:
            return True
        if until.results is not None and standing.results >= until.results:
            return True
        return until.condition is not None and self._value(view, until.condition, None, now)

    def _moment(self, view: View, standing: Standing, now: dt.datetime) -> Moment:
        store = self._store

        def changes(leaf: OnChange | When) -> tuple[pa.Table, Key | None, Schema]:
            relation = changed_by(leaf, view, store.catalog)
            keys = store.refreshes.known.keys.get(relation.name)
            key = shortest(keys) if keys else None
            if relation is view:
                delta = self._wave(view, standing).deltas.get(view.name)
            else:
                delta = self._net_since(relation.name, standing.tidemark)
            return (delta_tables.no_change(relation.schema) if delta is None else delta), key, relation.schema

        return Moment(now, standing.executed, changes, lambda when, rows: self._value(view, when, rows, now))

    def _value(self, view: View, when: When, rows: pa.Table | None, now: dt.datetime) -> bool:
        store = self._store
        source = Source(view.text, view.dialect, now)
        plan = bind_when(when, changed_by(when, view, store.catalog).schema, store.catalog, source)
        resolved, given = readable(plan, frozenset(store.catalog.relations), {})
        self.read(n for n in relations_of(plan) if self._is_read_through(n))
        named = {} if rows is None else {CHANGES: rows}
        found = store.engine.evaluate(*settle(resolved, {**given, **named}, store.engine))
        return bool(found.num_rows and found.column(0)[0].as_py() is True)

    def _is_read_through(self, name: str) -> bool:
        view = self._store.catalog.get(name)
        return isinstance(view, View) and view.lag is not None and view.lag.is_read_through

    # Execution

    def _execute(self, views: list[View], *, is_asked: bool) -> None:
        """Bring relations up to date, as many as possible in one version: one that stands on another comes after it."""
        waiting, affected = list[View](), set[str]()
        for view in views:
            if lagging_of(view).below & affected:
                self._commit(waiting, is_asked=is_asked)
                waiting, affected = [], set()
            waiting.append(view)
            affected |= {view.name, *(above.name for above in self._store.catalog.above(view.name))}
        self._commit(waiting, is_asked=is_asked)

    def _commit(self, views: list[View], *, is_asked: bool) -> None:
        store, now = self._store, self._store.now()
        made = dict[str, tuple[int, tuple[int, dt.datetime]]]()
        pending, own, steps, notes = dict[str, pa.Table](), dict[str, pa.Table](), list[Step](), dict[str, str | None]()
        for view in views:
            standing = self.standing(view.name)
            try:
                wave = self._wave(view, standing)
            except TidemarkError as error:
                if is_asked:
                    raise
                self._failed(view, standing, error)
                continue
            for name, delta in wave.deltas.items():
                (pending if name == view.name else own)[name] = delta
            steps += wave.steps
            is_result = _is_result(view, wave, is_asked=is_asked)
            if is_result:
                notes[result_note(view.name, standing.results + 1)] = f"{store.version + 1} {now.isoformat()}"
                made[view.name] = (standing.results + 1, (store.version + 1, now))
            notes[note_name(view.name)] = self._after(view, standing, now, is_result=is_result).to_note()
        if not notes:
            return
        was_working, self._is_working = self._is_working, True
        try:
            if pending or own or any(name.startswith("result ") for name in notes):
                work = Work(store.catalog, pending, 1, own=own, steps=tuple(steps), notes=notes)
                (self._bring if store.catalog.activations else store.commit)(work)
            elif not is_asked or any(self._is_behind(view) for view in views):
                store.engine.note(notes)
                store.notes = noted(store.notes, notes)
        finally:
            self._is_working = was_working
        for name, (number, when) in made.items():
            if name in self._results:
                self._results[name][number] = when
        if is_asked:
            self._net.clear()
        for view in views:
            self._untouched[view.name] = self.standing(view.name).tidemark
            self._asked_at.pop(view.name, None)
            self._waves.pop(view.name, None)
            if self._untouched[view.name] == store.version - 1 and not (
                lagging_of(view).below & _changed(pending, store)
            ):
                self._untouched[view.name] = store.version

    def _is_behind(self, view: View) -> bool:
        standing = self.standing(view.name)
        return standing.tidemark < self._store.version or standing.invalid

    def _after(self, view: View, standing: Standing, now: dt.datetime, *, is_result: bool) -> Standing:
        """The standing after an execution at this version."""
        assert view.lag is not None
        results = standing.results + int(is_result)
        most = view.lag.until.results
        status = STOPPED if most is not None and results >= most else ACTIVE
        return Standing(self._store.version, now, results, status)

    def _failed(self, view: View, standing: Standing, error: TidemarkError) -> None:
        """Keep why an execution failed. It is tried again when the trigger holds after another change."""
        _logger.warning("%s could not be brought up to date: %s", view.name, error.message)
        self._failures[view.name] = self._store.version
        if standing.error != error.message:
            self._note(view.name, replace(standing, error=error.message))

    def _note(self, name: str, standing: Standing) -> None:
        notes = {note_name(name): standing.to_note()}
        self._store.engine.note(notes)
        self._store.notes = noted(self._store.notes, notes)

    # Changes since a tidemark

    def _wave(self, view: View, standing: Standing) -> Wave:
        """What the versions since the tidemark do to a relation and to what serves it."""
        store = self._store
        known = self._waves.get(view.name)
        if known is not None and known[0] == standing and known[1] == store.version:
            return known[2]
        lag, cache = self._cache(view)
        if standing.invalid:
            wave = lag.evaluated(store.engine, cache, "the log since its tidemark was cut")
        elif self._is_long(view, standing, lag):
            reason = f"cheaper than to follow {store.version - standing.tidemark} versions"
            wave = lag.evaluated(store.engine, cache, reason)
        elif not self._is_touched(view.name):
            wave = Wave({})
        else:
            deltas = {name: self._net_since(name, standing.tidemark) for name in sorted(lag.below)}
            wave = lag.refreshed({name: delta for name, delta in deltas.items() if delta.num_rows}, store.engine, cache)
        self._waves[view.name] = (standing, store.version, wave)
        return wave

    def _is_long(self, view: View, standing: Standing, lag: Lagging) -> bool:
        """Whether reading the log since the tidemark costs more than reading everything (BLAKELEY 6.4.2, by measured
        costs). A query whose trigger looks at changes follows them as they come, and one that was declared incremental
        always does."""
        if view.lag is None or view.lag.kind == QUERY or view.options.get("strategy", "auto") != "auto":
            return False
        versions = self._store.version - standing.tidemark
        rows = sum(self._store.engine.rows(name) for name in lag.below)
        return versions >= MANY_VERSIONS and versions * ROWS_PER_VERSION > rows + START_ROWS.get(
            self._store.engine.name, 0
        )

    def _net_since(self, relation: str, since: int) -> pa.Table:
        key = (relation, since)
        if key not in self._net:
            self._net[key] = net_since(self._store, relation, since)
        return self._net[key]

    def _cache(self, view: View) -> tuple[Lagging, RefreshCache]:
        """The network of a view and what was worked out about it. Constraints may have come since the tidemark, so
        nothing is known of the rows that left."""
        lag, known = lagging_of(view), self._caches.get(view.name)
        if known is None or known[0].plan is not view.plan:
            cache = RefreshCache(ahead=lag.below, known=known_of_nothing(self._store.catalog))
            known = self._caches[view.name] = (view, cache)
        return lag, known[1]


class _Readers:
    """Which of the relations that lag a change can matter to."""

    def __init__(self, catalog: Catalog, cache: Callable[[View], tuple[Lagging, RefreshCache]]) -> None:
        self.names = {view.name for view in catalog.lagging_views}
        self._by_relation: dict[str, list[str]] = {}
        self._finders: dict[str, Finder[str] | None] = {}
        self._views = {view.name: view for view in catalog.lagging_views}
        self._cache = cache
        for view in catalog.lagging_views:
            for name in lagging_of(view).below:
                self._by_relation.setdefault(name, []).append(view.name)

    def touched(self, deltas: Mapping[str, pa.Table]) -> set[str]:
        found: set[str] = set()
        for name, delta in deltas.items():
            readers = self._by_relation.get(name, ())
            finder = self._finder(name) if len(readers) > MANY_READERS else None
            found |= set(readers if finder is None else finder.among(delta))
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


def _is_result(view: View, wave: Wave, *, is_asked: bool) -> bool:
    """Whether an execution gives a result: something of what is to be delivered, or the whole, whatever it is."""
    if view.lag is None or view.lag.kind != QUERY:
        return False
    delta = wave.deltas.get(view.name)
    match view.lag.deliver:
        case "complete":
            return True
        case "insertions":
            return delta is not None and delta_tables.inserted(delta).num_rows > 0
        case "deletions":
            return delta is not None and delta_tables.deleted(delta).num_rows > 0
    return delta is not None and delta.num_rows > 0


def _changed(pending: Mapping[str, pa.Table], store: Store) -> set[str]:
    """What the commit that brought relations up to date has changed, or may have: they, and what stands on them."""
    above = {view.name for name in pending for view in store.catalog.above(name)}
    return set(pending) | above | {"_clock"}
