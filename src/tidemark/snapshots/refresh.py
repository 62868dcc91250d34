"""Bringing lagging relations up to date: on demand, when its trigger says so, and before it is read."""

from __future__ import annotations

import datetime as dt
import logging
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from tidemark.algebra.history import CLOCK
from tidemark.errors import TidemarkError, is_fenced
from tidemark.network import Wave
from tidemark.network.lagging import Lagging
from tidemark.snapshots.agenda import Agenda, Readers, Touched
from tidemark.snapshots.scheduler import Execution, versions_of
from tidemark.snapshots.triggers import Asking
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.sql.parse.lagging import QUERY
from tidemark.state.draft import Work
from tidemark.state.events import Action, Committed, Executed
from tidemark.state.facts import known_of_nothing
from tidemark.state.history import NetChanges, net_since
from tidemark.state.host import Bring
from tidemark.state.state import Store
from tidemark.state.tidemarks import STOPPED, Answered, Standing, lagging_of, note_name
from tidemark.state.times import stored_time
from tidemark.storage.delta import no_change
from tidemark.strategy.cache import RefreshCache
from tidemark.strategy.shared import KeptParts, Unchanged

_logger = logging.getLogger("tidemark.snapshots")
MANY_VERSIONS: Final = 200
ROWS_PER_VERSION: Final = {"duckdb": 300, "spark": 1_300}
"""Reading the log of one version takes as long as reading so many stored rows, about; fewer versions are always
read."""
START_ROWS: Final = {"spark": 30_000_000}
"""What it takes to begin an evaluation of everything, in rows."""
ROUNDS: Final = 64
"""After so many rounds in which results made triggers hold again, the rest waits for the next transaction."""


class Continual:
    """The snapshots, continual queries and views refreshed on read of one database."""

    def __init__(self, store: Store, bring: Bring) -> None:
        """``bring`` commits what brings relations up to date together with what rules make of it."""
        self._store, self._bring = store, bring
        self._standings: dict[str, tuple[str, Standing]] = {}
        self._caches: dict[str, tuple[View, RefreshCache]] = {}
        self._waves: dict[str, tuple[Standing, int, Wave]] = {}
        self._net = NetChanges(lambda: store.version, lambda n: no_change(store.catalog.relations[n].schema))
        self._touched = Touched(store.version)
        self._agenda = Agenda(self.standing)
        self._asking = Asking(store, self._wave, self._net_since, self.read)
        self._known: tuple[Catalog, Readers] | None = None
        self._is_working = False
        self._answered: set[str] = set()
        self.kept_parts = KeptParts()

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
        self.follow_up()

    def catch_up(self, names: Iterable[str]) -> None:
        """Bring relations up to date that the log cannot wait for. One that fails keeps why, and the log waits."""
        wanted = {name for name in names if self.standing(name).status != STOPPED}
        self._execute([view for view in self._store.catalog.lagging_views if view.name in wanted], is_asked=False)
        self.follow_up()

    def results_of(self, name: str) -> Mapping[int, Answered]:
        """The results of a continual query that are kept: number, version and time. Number 0 is its first content."""
        return self._store.notes.results_of(name)

    def oldest_result(self, name: str) -> int:
        """The number of the oldest result that is kept; if none is, of the next one."""
        return min(self.results_of(name), default=self.standing(name).results + 1)

    def version_of(self, name: str, number: int) -> int:
        """The version from which on the results after a number are told: that of the result, or, if that is not kept,
        the one before the next. Before all that are kept it is that before the creation, which is as little."""
        known = self.results_of(name)
        if number in known:
            return known[number][0]
        if number + 1 in known:
            return known[number + 1][0] - 1
        return self._store.version if number >= self.standing(name).results else self._store.created[name] - 1

    def number_at(self, name: str, version: int) -> int:
        """The number of the last result up to a version."""
        later = [number for number, (at, _) in self.results_of(name).items() if at > version]
        return min(later) - 1 if later else self.standing(name).results

    def read(self, names: Iterable[str]) -> None:
        """Bring views that are refreshed on read up to date, before they are read."""
        version = self._store.version
        self._execute([self._lagging(name) for name in sorted(names)], is_asked=True)
        if self._store.version > version:
            self.follow_up()

    def settled(self, is_outermost: bool) -> None:
        """What is stored was read again: nothing that was known of it holds."""
        if is_outermost:
            self._is_working = False
        for known in (self._standings, self._caches, self._waves):
            known.clear()
        self._net.clear()
        self.kept_parts.clear()
        self._touched.lose(self._store.version)
        self._known, self._agenda = None, Agenda(self.standing)

    def run_due(self) -> int:
        """Execute everything whose trigger holds now; how many did."""
        executed = self._run_due()
        self._deliver()
        return executed

    def _run_due(self) -> int:
        was_working, self._is_working = self._is_working, True
        try:
            self._store.stopping.deafen()
            return self._rounds()
        finally:
            self._is_working = was_working

    def _rounds(self) -> int:
        executed = 0
        self._agenda.define(self._store.catalog)
        self._agenda.ask_timed()
        for _ in range(ROUNDS):
            views = self._due()
            if not views:
                break
            executed += len(views)
            self._execute(views, is_asked=False)
        return executed

    def next_due(self) -> dt.datetime | None:
        """The next time at which a trigger may hold by the clock alone."""
        self._agenda.define(self._store.catalog)
        return self._agenda.next_time()

    def _lagging(self, name: str) -> View:
        view = self._store.catalog.get(name)
        if not isinstance(view, View) or view.lag is None:
            raise TidemarkError("wrong_kind", f"{name!r} is neither a snapshot nor a continual query")
        return view

    # After each commit

    def committed(self, event: Committed) -> Action | None:
        """Take what a version changed; what it made due is done when it is over."""
        if not event.after.lagging_views:
            self._net.clear()
            self.kept_parts.clear()
            return None
        self.kept_parts.changed(event.deltas)
        try:
            self._take(event.deltas)
        except Exception:
            self._lose_track()
        return self.follow_up

    def follow_up(self) -> None:
        """Do what versions have made due, unless that is being done: it then comes in another round."""
        if self._is_working:
            return
        try:
            self._run_due()
        except Exception:
            self._lose_track()
        self._deliver()

    def _lose_track(self) -> None:
        """The version is committed: what follows from it must not fail it, and is made up for with the next one."""
        if not is_fenced(sys.exception()):  # which the engine tells once
            _logger.exception("continual queries could not be executed")
        self._net.clear()
        self._touched.lose(self._store.version)
        self._agenda.ask_all()

    def _take(self, deltas: Mapping[str, pa.Table]) -> None:
        """Note what a version changed, and what that can matter to: all else is as true as it was."""
        readers, agenda = self._readers(), self._agenda
        agenda.define(self._store.catalog)
        changed = {name: delta for name, delta in deltas.items() if delta.num_rows}
        self._net.add({name: d for name, d in changed.items() if readers.reads(name) or agenda.looks_at(name)})
        touched = readers.touched(changed)
        self._touched.touch(touched, self._store.version)
        agenda.change(changed, touched)

    def _readers(self) -> Readers:
        """Who reads what, by the catalog as it is. With another one, what was known of those that are gone goes."""
        catalog = self._store.catalog
        if self._known is None or self._known[0] is not catalog:
            readers = Readers(
                catalog, self._cache, None if self._known is None else self._known[1], self._store.engine.limits
            )
            self._known = (catalog, readers)
            self._net.clear()  # columns may have come
            self.kept_parts.clear()
            self._touched.keep_only(readers.names)
            for known in (self._standings, self._caches, self._waves):
                for name in known.keys() - readers.names:
                    del known[name]
        return self._known[1]

    def _is_touched(self, name: str) -> bool:
        tidemark = self.standing(name).tidemark
        return tidemark < self._store.version and self._touched.since(name, tidemark)

    def _deliver(self) -> None:
        answered, self._answered = self._answered, set()
        for action in self._store.events.tell(Executed(frozenset(answered))):
            action()

    # Triggers and execution

    def _due(self) -> list[View]:
        """Those whose trigger holds, among those that are worth asking; those whose end has come end."""
        now, found = self._store.now(), []
        for view in self._agenda.take(now):
            standing = self.standing(view.name)
            try:
                if self._asking.is_over(view, standing, now):
                    self._note(view.name, replace(standing, status=STOPPED))
                    self._agenda.end(view.name)
                    continue
                self._agenda.asked(view.name, now)
                if self._asking.is_due(view, standing, now):
                    found.append(view)
            except TidemarkError as error:
                self._failed(view, standing, error, now)
        return found

    def _execute(self, views: list[View], *, is_asked: bool) -> None:
        """Bring relations up to date, as many as possible in one version."""
        self._move_clock(views)
        for group in versions_of(views, self._readers().above):
            self._commit(group, is_asked=is_asked)

    def _move_clock(self, views: list[View]) -> None:
        """Let the clock stand at now for those whose definitions name the time. A view that is refreshed on read is, as
        others are, true as of the last transaction."""
        store, readers = self._store, self._readers()
        lagging = (view for view in views if view.lag is not None and not view.lag.is_read_through)
        if not any(readers.reads_time(view) for view in lagging) or store.now() <= stored_time(store.engine):
            return
        was_working, self._is_working = self._is_working, True
        try:
            self._bring(Work(store.catalog, {}, 1))
        finally:
            self._is_working = was_working

    def _commit(self, views: list[View], *, is_asked: bool) -> None:
        store = self._store
        execution = Execution(store.version, store.now())
        done = []
        for view in views:
            standing = self.standing(view.name)
            try:
                execution.add(view, standing, self._wave(view, standing))
                done.append((view, standing))
            except TidemarkError as error:
                if is_asked:
                    raise
                self._failed(view, standing, error, execution.now)
        if not done:
            return
        was_working, self._is_working = self._is_working, True
        try:
            if execution.is_version:
                self._bring(execution.work(store.catalog))
            elif not is_asked or any(self._is_behind(view) for view in views):
                store.note(execution.notes)
        except TidemarkError as error:  # of what stands on them, or of rules: it may be the fault of one of them
            if is_asked:
                raise
            for view, standing in done:
                if len(done) > 1:
                    self._commit([view], is_asked=False)
                else:
                    self._failed(view, standing, error, execution.now)
            return
        finally:
            self._is_working = was_working
        self._answered.update(execution.answered)
        for view, before in done:
            self._waves.pop(view.name, None)
            self._net.forget(lagging_of(view).below, before.tidemark)
            if self.standing(view.name).status == STOPPED:
                self._agenda.end(view.name)
            else:
                self._agenda.asked(view.name, execution.now)

    def _is_behind(self, view: View) -> bool:
        standing = self.standing(view.name)
        return standing.tidemark < self._store.version or standing.invalid

    def _failed(self, view: View, standing: Standing, error: TidemarkError, now: dt.datetime) -> None:
        """Keep why an execution failed. It is tried again when the trigger holds after another change."""
        self._agenda.asked(view.name, now, is_failed=True)
        if is_fenced(error):  # which the engine tells once
            return
        _logger.warning("%s could not be brought up to date: %s", view.name, error.message)
        known = self.standing(view.name)
        if known.tidemark != standing.tidemark:
            return  # it is committed: what failed came after that, and the tidemark must not go back
        if known.error != error.message:
            self._note(view.name, replace(known, error=error.message))

    def _note(self, name: str, standing: Standing) -> None:
        self._store.note({note_name(name): standing.to_note()})

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
        elif not self._is_touched(view.name):
            wave = Wave({})
        elif self._is_long(view, standing, lag):
            reason = f"cheaper than to follow {store.version - standing.tidemark} versions"
            wave = lag.evaluated(store.engine, cache, reason)
        else:
            deltas = {name: self._net_since(name, standing.tidemark) for name in sorted(lag.below)}
            wave = lag.refreshed({name: delta for name, delta in deltas.items() if delta.num_rows}, store.engine, cache)
        self._waves[view.name] = (standing, store.version, wave)
        return wave

    def _is_long(self, view: View, standing: Standing, lag: Lagging) -> bool:
        """Whether reading the log since the tidemark costs more than reading everything (BLAKELEY 6.4.2, by measured
        costs). A query whose trigger looks at changes follows them as they come, and one that was declared incremental
        always does; for one that is evaluated as a whole anyway the log of many versions is not read."""
        strategy, versions = view.options.get("strategy", "auto"), self._store.version - standing.tidemark
        if view.lag is None or view.lag.kind == QUERY or strategy == "incremental" or versions < MANY_VERSIONS:
            return False
        rows = sum(self._store.engine.rows(name) for name in lag.below)
        engine = self._store.engine.name
        by_log, by_rows = versions * ROWS_PER_VERSION.get(engine, 300), rows + START_ROWS.get(engine, 0)
        return strategy == "complete" or by_log > by_rows

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
            unchanged = Unchanged(self.kept_parts, lag.below - {CLOCK})
            cache = RefreshCache(ahead=lag.below, known=known_of_nothing(self._store.catalog), unchanged=unchanged)
            known = self._caches[view.name] = (view, cache)
        return lag, known[1]
