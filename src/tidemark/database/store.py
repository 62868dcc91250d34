"""What is committed: the engine with its catalog, network and version, and how a transaction's work is committed."""

from __future__ import annotations

import datetime as dt
import json
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import pyarrow as pa

from tidemark.algebra.clock import CLOCK
from tidemark.algebra.plans import Aggregate, Fixpoint
from tidemark.calculus.as_of import Block
from tidemark.database import clock, records
from tidemark.database.altering import as_altered
from tidemark.database.analysed import analysed
from tidemark.database.asserting import must_hold
from tidemark.database.boundaries import Boundaries
from tidemark.database.constraints import check_alterations, check_constraints
from tidemark.database.known import known_between, known_of, known_of_nothing, view_keys
from tidemark.database.notes import Notes
from tidemark.database.progress import Progress, ToldRefreshes
from tidemark.database.standing import consumers_of, lagging_of, notes_of, result_note
from tidemark.database.transition import Transition, network_of
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.log.commit import Commit, Creation
from tidemark.network import NodeKind, Step, Wave, propagate
from tidemark.network.autonomous import Known
from tidemark.network.nodes import definition, expand
from tidemark.network.settle import settle
from tidemark.network.wave import given_deltas
from tidemark.sql.catalog import RULE_TABLES, Catalog
from tidemark.sql.changes import Change

DETACHED: Final = RULE_TABLES[1]
MOST_UNREAD: Final = 1_000
"""So many changes of detached work wait for who asks for it; then it is read anew."""
TIMES_KEPT: Final = 10_000
"""Of so many versions the time is known, for those who follow changes."""


@dataclass(frozen=True)
class Work:
    """What a transaction asks to be committed: its catalog and the net deltas of tables; the time, if it is set; the
    statement, if one was all that it did; and what was derived from all that already, if it was, and whether
    constraints were checked since.

    What brings something that lags up to date changes that relation, has deltas of its ``own`` for what serves it,
    which nothing else reads, the steps that derived them, and notes."""

    catalog: Catalog
    pending: Mapping[str, pa.Table]
    statements: int
    now: dt.datetime | None = None
    change: Change | None = None
    own: Mapping[str, pa.Table] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    notes: Mapping[str, str | None] = field(default_factory=dict)
    wave: Wave | None = None
    is_checked: bool = False
    said: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    """What was done to each table, in order: the texts of statements, None for what was none."""


class Listener(Protocol):
    """Somebody who hears of each commit, as long as it lives. It must not fail, and must not commit."""

    def committed(self, version: int, work: Work) -> None: ...


class Store:
    """The committed state of one database. All access goes through ``lock``."""

    def __init__(self, engine: Engine, clock: Callable[[], dt.datetime] | None = None) -> None:
        self.engine = engine
        self._lock = threading.RLock()
        self.outsiders: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self.committed = threading.Condition(self._lock)
        self._clock = clock or (lambda: dt.datetime.now(dt.UTC))
        loaded = engine.load()
        self.version = loaded.version
        self.notes = Notes(loaded.notes)
        self.detached: dict[str, Any] | None = None
        """The entries of detached work, if they were read; ``detached_since`` has what changed them since then."""
        self.detached_since: list[pa.Table] = []
        self.forgotten_firings = 0
        self.after_commit: list[Callable[[Mapping[str, pa.Table]], None]] = []
        self.listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self.times: dict[int, dt.datetime] = {}
        self.after_close: list[Callable[[], None]] = []
        self.before_read: Callable[[frozenset[str]], None] = lambda names: None
        self.catalog, self.created = records.restore(loaded.catalog)
        self.network = network_of(self.catalog)
        known = known_of(self.catalog)
        self._view_keys = view_keys(self.catalog, known)
        self._transition = Transition(self.catalog, self.network, self.catalog)
        self.progress = Progress()
        self.refreshes = ToldRefreshes(self.progress, known)
        self.boundaries = Boundaries()
        self.is_closed = False
        self._check_nodes()

    @property
    def lock(self) -> threading.RLock:
        """What all access goes through. A function with a timeout, which a transaction waits for, would wait for it
        in vain."""
        if threading.current_thread() in self.outsiders:
            raise TidemarkError(
                "transaction",
                "a function with a timeout cannot use the database of the rule that calls it",
                hint="what it needs can be columns of the rule's condition",
            )
        return self._lock

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The lock, of a database that is open."""
        with self.lock:
            self.must_be_open()
            yield

    def _check_nodes(self) -> None:
        """Refuse a database whose stored nodes are not those that this version derives from its definitions."""
        lagging = (node for view in self.catalog.lagging_views for node in lagging_of(view).stored)
        for node in (*self.network.nodes.values(), *lagging):
            try:
                if node.is_stored:
                    self.engine.rows(node.name)
            except KeyError as error:
                raise TidemarkError(
                    "format",
                    f"the stored form of the view {' and '.join(map(repr, node.views))} is not the one that this "
                    "version of Tidemark uses",
                    hint="open the database with the version that wrote it",
                ) from error

    def transition(self, catalog: Catalog) -> Transition:
        """The way from what is committed to a transaction's catalog."""
        if self._transition.after is not catalog or self._transition.before is not self.catalog:
            self._transition = Transition(self.catalog, self.network, catalog)
        return self._transition

    def stored_of(self, catalog: Catalog) -> frozenset[str]:
        """The relations of a transaction's catalog that the engine holds."""
        return self.transition(catalog).going_on

    def reading(self, catalog: Catalog) -> Engine:
        """The engine, for reading relations as the transaction has altered them."""
        return as_altered(self.engine, self.transition(catalog).altered)

    def derive(self, catalog: Catalog, pending: Mapping[str, pa.Table], change: Change | None = None) -> Wave:
        """Propagate in the middle of a transaction, where constraints may be violated: then nothing is known of the
        rows, and no step may be taken that rests on it."""
        try:
            self._check(catalog, pending)
        except TidemarkError:
            return self._propagate(catalog, pending, known=known_of_nothing(catalog))
        wave = self._propagate(catalog, pending, change)
        wave.is_checked = True
        return wave

    def _propagate(
        self,
        catalog: Catalog,
        pending: Mapping[str, pa.Table],
        change: Change | None = None,
        known: Known | None = None,
    ) -> Wave:
        """Derive what pending changes and other definitions do to the stored nodes that the catalog still needs."""
        if catalog is self.catalog and known is None:
            statement, is_whole = (None, False) if change is None else analysed(change)
            return propagate(self.network, pending, self.engine, self.refreshes, statement if is_whole else None)
        transition = self.transition(catalog)
        if not pending and not transition.replaced:
            return Wave({})
        unstored = frozenset(table.name for table in transition.new_tables)
        between = known or known_between(self.catalog, self.refreshes.known, catalog, transition.going_on)
        refreshes = ToldRefreshes(self.progress, between, unstored)
        if known is None:
            refreshes.take_over(self.refreshes, self.network, transition.passing)
        return propagate(transition.passing, pending, self.reading(catalog), refreshes)

    def commit(self, work: Work) -> None:
        """Check, propagate and commit. On any error the database is as it was."""
        with self.in_use():
            if not work.statements:
                return
            work = self._in_time(work)
            transition = self.transition(work.catalog)
            # A wave that was derived before the clock was moved on is not the whole one.
            is_timed = CLOCK in work.catalog.relations and work.now is None
            wave = None if is_timed or work.catalog is not self.catalog else work.wave
            is_derived = wave is not None and wave.is_checked
            if not is_derived or not work.is_checked:
                self._check(work.catalog, work.pending)
            if wave is None or not is_derived:
                wave = self._propagate(work.catalog, work.pending, work.change)
            if work.catalog.assertions:
                engine = self.reading(work.catalog)
                must_hold(work.catalog, self.catalog, wave, lambda: transition.going_on, engine)
            version = self.version + 1
            commit = self._commit_of(work, wave, transition, version)
            self.progress.tell(_step_of(commit))
            try:
                self.engine.commit(commit)
            except TidemarkError as error:
                raise _naming_creations(error, commit) from error
            self.notes.take(commit.notes)
            if work.catalog is not self.catalog or len(self.detached_since) >= MOST_UNREAD:
                self.detached = None
            elif self.detached is not None and DETACHED in commit.deltas:
                self.detached_since.append(commit.deltas[DETACHED])
            self._install(work.catalog, transition, version)
            for listener in tuple(self.listeners):
                listener.committed(version, work)
            for then in tuple(self.after_commit):
                then(wave.deltas)

    def _in_time(self, work: Work) -> Work:
        """The work with the clock moved on, if views read it."""
        return replace(work, pending=self.in_time(work.catalog, work.pending, work.now or self.now()))

    def in_time(self, catalog: Catalog, pending: Mapping[str, pa.Table], now: dt.datetime) -> Mapping[str, pa.Table]:
        """Pending changes with the clock moved on, if views read it."""
        if CLOCK not in catalog.relations:
            return pending
        before = clock.stored_time(self.engine) if CLOCK in self.catalog.relations else None
        return clock.moved(pending, catalog, before, now)

    def now(self) -> dt.datetime:
        """The time as a TIMESTAMP."""
        return clock.naive(self._clock())

    def _check(self, catalog: Catalog, pending: Mapping[str, pa.Table]) -> None:
        self.progress.tell("checking constraints")
        before = {table.name: table for table in self.catalog.tables}
        after = before if catalog is self.catalog else {table.name: table for table in catalog.tables}
        engine, transition = self.reading(catalog), self.transition(catalog)
        check_constraints(after, {n: d for n, d in pending.items() if n in after}, transition.going_on, engine)
        check_alterations(transition.altered.values(), before, after, pending, engine)

    def _commit_of(self, work: Work, wave: Wave, transition: Transition, version: int) -> Commit:
        created, given = self._creations(wave, transition)
        shared, logged = transition.passing.unstored, {view.name for view in work.catalog.external_views}
        return Commit(
            version,
            self._clock(),
            deltas={
                **{name: delta for name, delta in wave.deltas.items() if name not in shared or name in logged},
                **work.own,
            },
            given=given,
            created=created,
            dropped=() if work.catalog is self.catalog else transition.dropped,
            altered=tuple(transition.altered.values()),
            keys=self._view_keys if work.catalog is self.catalog else {},
            catalog=tuple(records.changes(self.catalog, work.catalog, self.created, version)),
            trace=json.dumps([vars(step) for step in (*work.steps, *wave.steps)]),
            notes={**self._notes_of(transition, version), **work.notes},
        )

    def _notes_of(self, transition: Transition, version: int) -> Mapping[str, str | None]:
        if transition.after is self.catalog:
            return {}
        begins, ends = transition.new_lagging, transition.dropped_lagging
        results = [result_note(view.name, n) for view in ends for n in self.notes.results_of(view.name)]
        followed = consumers_of(self.notes, frozenset(transition.dropped))
        gone: dict[str, str | None] = dict.fromkeys((*results, *followed))
        return {**gone, **notes_of(begins, ends, transition.dropped, version, self.now())}

    def _creations(self, wave: Wave, transition: Transition) -> tuple[tuple[Creation, ...], Mapping[str, pa.Table]]:
        """New tables, then new nodes from the lowest level up, each filled from what is below it; and what is given."""
        given: Mapping[str, pa.Table] = given_deltas(wave.deltas)
        if transition.after is self.catalog:
            return (), given
        tables, new_nodes = transition.new_tables, transition.new_nodes
        created = [Creation(table.name, table.schema, key=table.primary_key) for table in tables]
        block = Block(changed=frozenset(wave.deltas), unstored=frozenset(table.name for table in tables))
        engine, unstored = self.reading(transition.after), {node.name for node in new_nodes}
        keys = view_keys(transition.after, known_of(transition.after, self.catalog, self.refreshes.known))
        for node in new_nodes:
            is_state = node.kind is NodeKind.STATE
            if isinstance(node.plan, Fixpoint):
                # A recursion is evaluated before anything is stored, so it reads what is below the new nodes.
                below = replace(node, plan=expand(node.plan, {other.name: other.plan for other in new_nodes}))
                plan, given = settle(definition(below, block), given, engine)
            else:
                plan, given = settle(definition(node, block), given, engine, unstored=unstored)
            key = node.keys if isinstance(node.plan, Aggregate) and is_state else ()
            order = key or keys.get(node.name, ())
            created.append(Creation(node.name, node.schema, plan, not is_state, is_state, key, order))
        for view in transition.new_external:
            created.append(Creation(view.name, view.schema, internal=True, kept=False))
        return tuple(created), given

    def _install(self, catalog: Catalog, transition: Transition, version: int) -> None:
        if catalog is not self.catalog:
            self.created = {
                name: self.created[name] if name in transition.going_on else version for name in catalog.relations
            }
            known = known_of(catalog, self.catalog, self.refreshes.known)
            refreshes = ToldRefreshes(self.progress, known)
            refreshes.take_over(self.refreshes, self.network, transition.network)
            self._view_keys = view_keys(catalog, known)
            self.catalog, self.network, self.refreshes = catalog, transition.network, refreshes
            self.boundaries.keep_only(catalog.relations)
        self.version = version
        self.times[version] = self.now()
        self.times.pop(version - TIMES_KEPT, None)
        self.committed.notify_all()

    def note(self, notes: Mapping[str, str | None]) -> None:
        """Keep notes, apart from any version; those that are None go."""
        self.engine.note(notes)
        self.notes.take(notes)

    def must_be_open(self) -> None:
        if self.is_closed:
            raise TidemarkError("closed", "the database connection is closed")

    def close(self) -> None:
        with self.lock:
            if self.is_closed:
                return
            self.is_closed = True
            self.committed.notify_all()
            self.engine.close()
            for listener in self.after_close:
                listener()


def _filled(commit: Commit) -> list[str]:
    """The new views that a commit fills."""
    return [creation.relation for creation in commit.created if creation.plan is not None and not creation.internal]


def _step_of(commit: Commit) -> str:
    return f"filling {' and '.join(_filled(commit))}" if _filled(commit) else "committing"


def _naming_creations(error: TidemarkError, commit: Commit) -> TidemarkError:
    """An error while new views are filled, with their names."""
    names = [repr(name) for name in _filled(commit)]
    if not names:
        return error
    return TidemarkError(
        error.code, f"the view {' or '.join(names)} cannot be filled: {error.message}", hint=error.hint
    )
