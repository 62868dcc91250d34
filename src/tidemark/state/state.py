"""What is committed: the engine with its catalog, network and version; and memory as a cache of what is stored."""

from __future__ import annotations

import datetime as dt
import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from tidemark.algebra.history import CLOCK
from tidemark.analysis.autonomy.dml import AnalysedStatement
from tidemark.engines.engine import Engine
from tidemark.errors import TidemarkError, is_fenced
from tidemark.network import Network, Wave, propagate
from tidemark.sql.bind.changes import BoundChange
from tidemark.sql.catalog.catalog import RULE_TABLES, Catalog
from tidemark.sql.parse.text import Source
from tidemark.state import identity, records
from tidemark.state import times as clock
from tidemark.state.boundary import deep, lent
from tidemark.state.events import Bell, Closed, Events, Settled, Steps, ToldRefreshes
from tidemark.state.facts import Boundaries, analysed, known_between, known_of, view_keys
from tidemark.state.fill import refill, unkept
from tidemark.state.interruption import Stopping
from tidemark.state.names import tell_of_reserved_names
from tidemark.state.outcome import Outcome, Underway, is_undone, not_written, unknown, unreadable
from tidemark.state.tidemarks import Notes
from tidemark.state.times import CommitTimes, RememberedLaps
from tidemark.state.transition import Transition, as_altered, network_of
from tidemark.storage.commit import Commit, Forgetting
from tidemark.strategy.autonomous import KnownFacts

_logger = logging.getLogger("tidemark.store")
Observer = Callable[[str], AbstractContextManager[object]]
DETACHED: Final = RULE_TABLES[1]
MOST_UNREAD: Final = 1_000
"""So many changes of detached work wait for who asks for it; then it is read anew."""
MOST_DEFINED: Final = 32
"""Snapshots begin at one of so many of the last definitions, which are those of now in all but a moment."""


@dataclass(frozen=True)
class Definitions:
    """What is defined since a version."""

    version: int
    catalog: Catalog
    network: Network
    created: Mapping[str, int]


class _Inside:
    """The lock, and what is done when it was taken and before it is given back; one object for each time."""

    __slots__ = ("_begin", "_end", "_lock")

    def __init__(
        self, lock: threading.RLock, begin: Callable[[], None], end: Callable[[BaseException | None], None]
    ) -> None:
        self._lock, self._begin, self._end = lock, begin, end

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._begin()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._end(error)
        finally:
            self._lock.release()


_HELD: Final[AbstractContextManager[None]] = nullcontext()


class Store:
    """The committed state of one database. All access goes through ``lock``.

    Memory is a cache of what is stored. An exception may come between any two lines (Ctrl-C does), also between a
    commit and the moment when memory follows it. So a mark is set before anything is done and taken away as the last
    act; who finds it set reads again what is stored, before anything else."""

    is_read_only = False
    looks_every: float | None = None
    """How many seconds who waits for versions waits at most before looking for some that others have committed."""

    def __init__(self, engine: Engine, clock: Callable[[], dt.datetime] | None = None) -> None:
        self.engine = engine
        self._lock = threading.RLock()
        self.outsiders: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self.committed = Bell()
        self._is_unsettled = self._has_doubt = False
        self._underway: Underway | None = None
        self.stopping = Stopping(engine.interrupt)
        self.beside: weakref.WeakSet[Stopping] = weakref.WeakSet()
        """What ends the statements of those who read snapshots."""
        self._clock = clock or _clock_of_machine
        loaded = engine.load()
        self.version = loaded.version
        self.notes = Notes(loaded.notes)
        self.moved = identity.noted(self.notes)
        self.detached: dict[str, Any] | None = None
        """The entries of detached work, if they were read; ``detached_since`` has what changed them since then."""
        self.detached_since: list[pa.Table] = []
        self.forgotten_firings = 0
        self.events = Events()
        self.observers: list[Observer] = []
        """Each phase of a commit runs inside the contexts that these make for its name."""
        self.threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        """Those that have waited for something to come, and end or go on when the database is closed."""
        with uncollected():
            self.catalog, created = records.restore(loaded.catalog)
            self.network = network_of(self.catalog)
        self.created: Mapping[str, int] = created
        self.times = CommitTimes(engine.times())
        self.laps = RememberedLaps()
        tell_of_reserved_names(self.catalog)
        without = unkept(self.network, engine)
        if without:
            self.network = replace(network_of(self.catalog, self.network, without), is_lacking=True)
        known = known_of(self.catalog)
        self.view_keys = view_keys(self.catalog, known)
        self._transition = Transition(self.catalog, self.network, self.catalog)
        self.progress = Steps(self.events, self.stopping.check)
        self.refreshes = ToldRefreshes(self.progress, known, goes_by_stored=True)
        self.boundaries = Boundaries()
        self.is_closed = False
        self._refill()
        self._defined: tuple[Definitions, ...] = (Definitions(self.version, self.catalog, self.network, self.created),)

    @property
    def lock(self) -> AbstractContextManager[None]:
        """What all access goes through, but for that of snapshots. Who has it, has it."""
        if self.is_inside():
            return _HELD
        self.must_not_be_outside()
        return _Inside(self._lock, self._begin_work, self._end_work)

    def must_not_be_outside(self) -> None:
        """Refuse a function with a timeout, which a transaction waits for: it would wait for that in vain."""
        if threading.current_thread() in self.outsiders:
            raise TidemarkError(
                "transaction",
                "a function with a timeout cannot use the database of the rule that calls it",
                hint="what it needs can be columns of the rule's condition",
            )

    @contextmanager
    def if_free(self) -> Iterator[bool]:
        """The lock, and whether it could be had without waiting for another thread."""
        self.must_not_be_outside()
        if self.is_inside():
            yield True
        elif not self._lock.acquire(blocking=False):
            yield False
        else:
            try:
                with _Inside(self._lock, self._begin_work, self._end_work), deep():
                    yield True
            finally:
                self._lock.release()

    def _begin_work(self) -> None:
        """Whoever comes from outside finds memory as what is stored, and leaves a mark while at work."""
        if self._is_unsettled and not self.is_closed:
            self._settle_what_was_left()
        self._is_unsettled = True
        self.stopping.end()  # what an exception left of the statement before
        self.stopping.begin()

    def _end_work(self, error: BaseException | None) -> None:
        """What is no error of ours leaves the mark."""
        if error is None:
            self.stopping.end()
            self._is_unsettled = self._is_in_doubt
        elif isinstance(error, TidemarkError):
            told = self.stopping.told(error)
            self.stopping.end()
            self._is_unsettled = self._is_in_doubt
            if told is not error:
                raise told from error

    def is_quiet(self, seconds: float = 0.0) -> bool:
        """Whether no other thread is at work in here at this moment, or within so many seconds."""
        if not self._lock.acquire(timeout=seconds):
            return False
        self._lock.release()
        return True

    def is_inside(self) -> bool:
        """Whether this thread is at work in here."""
        owned: bool = self._lock._is_owned()  # type: ignore[attr-defined]
        return owned

    def interrupt(self) -> None:
        """End the statements that run, those of readers too."""
        for stopping in (self.stopping, *self.beside):
            stopping.interrupt()

    def in_use(self) -> AbstractContextManager[None]:
        """The lock, of a database that is open."""
        if self.is_inside():
            self.must_be_open()
            return deep()
        return self._used_from_outside()

    @contextmanager
    def _used_from_outside(self) -> Iterator[None]:
        with self.lock, deep():
            self.must_be_open()
            yield

    def _refill(self) -> None:
        """Fill inner states again that are not found, in a version of its own: no user's relation changes."""
        found = refill(self.catalog, self.network, self.notes, self.engine)
        if found is None:
            return
        commit = Commit(
            self.version + 1,
            self.times.next(self.now()),
            given=found.given,
            created=found.created,
            dropped=found.dropped,
            trace=found.trace,
            notes=found.notes,
        )
        self.engine.commit(commit)
        self.notes.take(commit.notes)
        self.version = commit.version
        self.times.put(commit.version, commit.time)

    # Memory and storage

    @property
    def _is_in_doubt(self) -> bool:
        return self._has_doubt or self._underway is not None

    def doubt(self) -> None:
        """Something failed that is not to be told: memory may not be what is stored until it was read again."""
        self._has_doubt = True

    @contextmanager
    def _doubtful(self) -> Iterator[None]:
        """Around what leaves memory in doubt if it fails; but not if it was refused because another writer has taken
        over."""
        had_doubt, self._has_doubt = self._has_doubt, True
        try:
            yield
        except TidemarkError as error:
            if is_fenced(error):
                self._has_doubt = had_doubt
            raise
        self._has_doubt = had_doubt

    @property
    def last_version(self) -> int:
        """The last committed version. It does not wait for who is at work, and is read anew if nobody is sure of it."""
        is_free = not self.is_inside()
        if self._is_unsettled and is_free and not self.is_closed and self._lock.acquire(blocking=False):
            try:
                if self._is_unsettled:
                    self._settle_what_was_left()
                    self._is_unsettled = False
            finally:
                self._lock.release()
        return self.version

    def _settle_what_was_left(self) -> None:
        underway = self._underway
        try:
            self._settle(is_outermost=True)
        except Exception as error:
            if underway is None and is_fenced(error):
                raise
            raise (unreadable(error) if underway is None else unknown(underway.version, error)) from error

    def _settle(self, *, is_outermost: bool) -> None:
        """Make memory what is stored, whatever was under way."""
        self.stopping.deafen()
        loaded, underway = self.engine.load(), self._underway
        if underway is not None and loaded.version == underway.version:
            self.swap()
        if loaded.version != self.version:
            raise TidemarkError(
                "damaged",
                f"version {loaded.version} is stored where {self.version} is the last",
                hint="somebody else has written to the database; connect again",
            )
        self.notes = Notes(loaded.notes)
        self.times, self.moved = CommitTimes(self.engine.times()), identity.noted(self.notes)
        self.detached, self.detached_since, self.forgotten_firings = None, [], 0
        self._transition = Transition(self.catalog, self.network, self.catalog)
        known = known_of(self.catalog)
        self.view_keys = view_keys(self.catalog, known)
        self.refreshes = ToldRefreshes(self.progress, known, goes_by_stored=True)
        self.boundaries = Boundaries()
        self._underway, self._has_doubt = None, False
        for action in self.events.tell(Settled(self.version, is_outermost)):
            try:
                action()
            except Exception:
                _logger.exception("what follows a version could not be made up for")
        self.committed.notify_all()

    def transition(self, catalog: Catalog) -> Transition:
        """The way from what is committed to a transaction's catalog."""
        if self._transition.after is not catalog or self._transition.before is not self.catalog:
            self._transition = Transition(self.catalog, self.network, catalog)
        return self._transition

    def stored_of(self, catalog: Catalog) -> Set[str]:
        """The relations of a transaction's catalog that the engine holds."""
        return self.transition(catalog).going_on

    def reading(self, catalog: Catalog) -> Engine:
        """The engine, for reading relations as the transaction has altered them."""
        self.stopping.check()
        return as_altered(self.engine, self.transition(catalog).altered)

    def propagate(
        self,
        catalog: Catalog,
        pending: Mapping[str, pa.Table],
        change: Callable[[], BoundChange] | None = None,
        known: KnownFacts | None = None,
        *,
        is_last: bool = False,
    ) -> Wave:
        """Derive what pending changes and other definitions do to the stored nodes that the catalog still needs. The
        last time before the commit a large change may be written ahead of it."""
        if catalog is self.catalog and known is None:
            keys = self.view_keys if is_last else None
            return propagate(self.network, pending, self.engine, self.refreshes, lambda: _as_a_whole(change), keys)
        transition = self.transition(catalog)
        if not pending and not transition.replaced:
            return Wave({})
        if transition.added is not None and known is None:  # what begins is read by nothing that was there before
            return propagate(self.network, pending, self.engine, self.refreshes)
        unstored = frozenset(table.name for table in transition.new_tables)
        between = known or known_between(self.catalog, self.refreshes.known, catalog, transition.going_on)
        refreshes = ToldRefreshes(self.progress, between, unstored, goes_by_stored=known is None)
        if known is None:
            refreshes.take_over(self.refreshes, self.network, transition.passing)
        return propagate(transition.passing, pending, self.reading(catalog), refreshes)

    # The commit point

    def forget_ahead(self) -> None:
        """Nothing that was written ahead will be committed."""
        if self.engine.ahead is not None:
            self.engine.ahead.forget()

    def begin_commit(self, record: Commit, catalog: Catalog, outcome: Outcome) -> Underway:
        """A record is about to be handed to the engine: until ``end_commit`` storage alone says whether it is there."""
        transition = self.transition(catalog)
        self._foretell(catalog, transition, record.version)
        self._underway = underway = Underway(record.version, catalog, transition, outcome)
        return underway

    def end_commit(self) -> None:
        """Memory follows what is stored."""
        self._underway = None

    def make_up(self, underway: Underway, error: BaseException) -> None:
        """What an exception in the midst of a commit means. Before the commit point nothing happened, and the error is
        raised again. After it everything is done, and only an interrupt is raised again."""
        if underway.outcome.version is None and is_undone(error):
            self._underway = None
            raise error
        try:
            self._settle(is_outermost=False)
        except Exception as failure:
            raise unknown(underway.version, failure) from error
        if underway.outcome.version is None:
            raise not_written(error) from error.__cause__
        if not isinstance(error, Exception):
            raise error
        _logger.warning("version %s is committed; what follows it was made up for", underway.version, exc_info=error)

    def _foretell(self, catalog: Catalog, transition: Transition, version: int) -> None:
        """Let snapshots find the definitions of a version as soon as they can see it, which is before this thread is
        told that it is there. Those of one that does not come to be are replaced by those of the next attempt."""
        kept = tuple(one for one in self._defined if one.version < version)
        if catalog is not self.catalog:
            created = transition.created(self.created, version)
            kept = (*kept[1 - MOST_DEFINED :], Definitions(version, catalog, transition.network, created))
        self._defined = kept

    def defined_at(self, version: int) -> Definitions | None:
        """The definitions as of a version; None if that is too long ago."""
        return next((one for one in reversed(self._defined) if one.version <= version), None)

    def in_time(self, catalog: Catalog, pending: Mapping[str, pa.Table], now: dt.datetime) -> Mapping[str, pa.Table]:
        """Pending changes with the clock moved on, if views read it."""
        if CLOCK not in catalog.relations:
            return pending
        before = clock.stored_time(self.engine) if CLOCK in self.catalog.relations else None
        return clock.moved(pending, catalog, before, now)

    def now(self) -> dt.datetime:
        """The time as a TIMESTAMP."""
        if self._clock is _clock_of_machine:
            return _clock_of_machine().replace(tzinfo=None)
        with lent():
            now: object = self._clock()
        if not isinstance(now, dt.datetime):
            raise TidemarkError("type", f"the clock of a database gives a datetime, not {now!r}")
        return clock.naive(now)

    def source(self, text: str, dialect: str) -> Source:
        """A text that is run now, and may name times at which there were versions."""
        return Source(text, dialect, self.now(), self.times.version_at)

    def swap(self) -> None:
        """The commit that is under way is stored. It does not matter if some of this was done before: it is the same
        again."""
        self.stopping.deafen()
        underway = self._underway
        assert underway is not None, "no commit is under way"
        catalog, transition, version = underway.catalog, underway.transition, underway.version
        underway.outcome.version = version
        if catalog is not self.catalog:
            self.created = transition.created(self.created, version)
            known = known_of(catalog, self.catalog, self.refreshes.known)
            refreshes = ToldRefreshes(self.progress, known, goes_by_stored=True)
            if transition.added is None:
                refreshes.take_over(self.refreshes, self.network, transition.network)
                self.boundaries.keep_only(catalog.relations)
            else:
                refreshes.grow_from(self.refreshes, transition.network)
            self.view_keys = view_keys(catalog, known)
            self.catalog, self.network, self.refreshes = catalog, transition.network, refreshes
        self.version = version

    def feed(self, record: Commit, *, is_same: bool) -> None:
        """Take what a stored commit changed into what memory keeps of it; ``is_same`` says that definitions are."""
        self.times.put(record.version, record.time)
        self.notes.take(record.notes)
        self.moved = identity.noted(self.notes) if identity.NOTE in record.notes else self.moved
        if not is_same or len(self.detached_since) >= MOST_UNREAD:
            self.detached = None
        elif self.detached is not None and DETACHED in record.deltas:
            self.detached_since.append(record.deltas[DETACHED])

    def note(self, notes: Mapping[str, str | None]) -> None:
        """Keep notes, apart from any version; those that are None go."""
        self.forget({}, 0, notes, 0)

    def forget(self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None], oldest: int) -> None:
        """Drop what is logged, and traces, and keep notes; see ``Engine.forget``."""
        with self._doubtful():
            self.engine.forget(log, traces, notes, oldest)
            self.notes.take(notes)
            self.times.forget(oldest)

    def checkpoint(self) -> bool:
        """Bring the files that others read to the last version; see ``Engine.checkpoint``."""
        with self._doubtful():
            return self.engine.checkpoint()

    def publish(self, relation: str | None) -> None:
        """Bring what others read of relations to the last version; see ``Engine.publish``."""
        with self._doubtful():
            self.engine.publish(relation)

    def must_be_open(self) -> None:
        if self.is_closed:
            raise TidemarkError("closed", "the database connection is closed")

    def close(self) -> None:
        """Release everything. What was interrupted is done by closing again."""
        with self._lock:
            self.is_closed = True
            self.stopping.close()
            try:
                self.committed.notify_all()
                for action in self.events.tell(Closed()):
                    action()
            finally:
                self.engine.close()


def _clock_of_machine() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@contextmanager
def uncollected() -> Iterator[None]:
    """Let Python look for no garbage while definitions are read: they stay, and it would look at all of them again and
    again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _as_a_whole(change: Callable[[], BoundChange] | None) -> AnalysedStatement | None:
    """The statement, if the analysis can look into all of it."""
    statement, is_whole = (None, False) if change is None else analysed(change())
    return statement if is_whole else None
