"""The database as users hold it."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, cast

import pyarrow as pa

from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Plan
from tidemark.answers.advise import Advice, advised, classified, view_asked
from tidemark.answers.audit import audit
from tidemark.answers.classify import Classification
from tidemark.answers.explain import explain
from tidemark.answers.show import Side, SideAt, trace
from tidemark.answers.why import Asked, WantedRow, answered, wanted_values
from tidemark.changes.consumers import Consumers, must_be_policy
from tidemark.changes.follow import Mark
from tidemark.changes.results import Callback, Delivery, Registered, Results, must_be_number
from tidemark.changes.retention import LIMITS, LogKeeper
from tidemark.changes.subscription import Quality, Reader, Subscriber, Subscription
from tidemark.engines.engine import Engine
from tidemark.errors import TidemarkError, is_fenced
from tidemark.provenance import Answer, Cause
from tidemark.rules.actions import FIRINGS, FIRINGS_SCHEMA, HostProgram
from tidemark.rules.detached import DETACHED_TABLE
from tidemark.rules.queue import Aftermath, dead_letters, discard, next_due, replay
from tidemark.session import endings as leaving
from tidemark.session.changes import Synced
from tidemark.session.commit import commit
from tidemark.session.endings import Endings, IdleTime, Reading
from tidemark.session.forms import Call
from tidemark.session.options import AllowedPaths, options_of, path_of, seconds_of
from tidemark.session.prepared import Params, Prepared, must_change, statements_of
from tidemark.session.pulling import Pulling, must_have_none_stopped
from tidemark.session.relation import Home
from tidemark.session.relation import Relation as HeldRelation
from tidemark.session.statements import Answered, AnyRow, Desk, row_of
from tidemark.session.transaction import NOBODY, Transaction, TransactionStage, listed_rows
from tidemark.session.turns import LOOK_AGAIN_SECONDS, OngoingCall, Turn, Turns
from tidemark.snapshots.refresh import Continual
from tidemark.snapshots.scheduler import Job, Scheduler
from tidemark.sources.follow import Pulled
from tidemark.sql.bind.as_rules import as_rules
from tidemark.sql.catalog.catalog import Catalog, Relation, View
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.text import Source, dialect_named
from tidemark.state.boundary import bounded, deep
from tidemark.state.draft import Work
from tidemark.state.events import Action, Closed, Committed, Ended, Events, Executed, Settled
from tidemark.state.history import changes_since, content, in_time, must_reach
from tidemark.state.moved_pairs import paired_since
from tidemark.state.names import logged_named, must_be_view, query_named, relation_named
from tidemark.state.pairs import key_of, relation_keys
from tidemark.state.rows import Rows
from tidemark.state.snapshot import snapshot_of
from tidemark.state.state import Store
from tidemark.state.times import must_be_later, naive, stored_time
from tidemark.state.values import must_be_text
from tidemark.strategy.settle import settle


@bounded
class Database:
    """A connection to a database. Made by ``tidemark.connect``; a context manager."""

    def __init__(
        self,
        engine: Engine,
        dialect: str = "postgres",
        clock: Callable[[], dt.datetime] | None = None,
        allowed: AllowedPaths | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        dialect_named(dialect)
        chosen = options_of(options)
        self._store = self._stored(engine, clock)
        self._store.stopping.timeout = chosen["statement_timeout"]
        self._turns = Turns(chosen["busy_timeout"], self._abandon, self._store.is_quiet, self._store.is_inside)
        self._dialect = dialect
        self._allowed = allowed or AllowedPaths()
        self._program = HostProgram()
        self._prepared = Prepared()
        self._endings = Endings(self._store.events, self._turns.use, self._read_through)
        self._continual = Continual(self._store, self._bring)
        self._consumers = Consumers(self._store, self._continual)
        self._log = LogKeeper(self._store, self._continual, self._consumers)
        self._now = Side(self._store, self._continual, self._consumers, self._log)
        self._delivery = Delivery(self._store, self._continual, self._consumers, lambda: not self._turns.is_open)
        self._aftermath = Aftermath(self._store, self._program, self._begin)
        self._pulling = Pulling(self._store, lambda: self._opened("db.pull()", is_statement=True), self._allowed)
        self._desk = self._lent()
        self._follow_events(self._store.events)
        self._follow_rest(self._store.events)
        if clock is None:
            self._follow_clock(self._store.events)
        leaving.opened(self)

    def _stored(self, engine: Engine, clock: Callable[[], dt.datetime] | None) -> Store:
        return Store(engine, clock)

    def _follow_events(self, events: Events) -> None:
        """Who hears of what, and when it concerns them: what nobody has defined costs nothing."""
        events.on(
            Committed,
            self._continual.committed,
            when=lambda event: bool(event.before.lagging_views or event.after.lagging_views),
        )
        events.on(Committed, self._log.committed, when=lambda event: LIMITS in self._store.notes)
        events.on(Executed, self._delivery.executed)
        events.on(Settled, self._settled)
        events.on(Ended, self._aftermath.ended, when=lambda event: event.transaction.has_reactions)
        events.on(Ended, lambda event: partial(self._after, event.transaction))

    def _follow_rest(self, events: Events) -> None:
        """Let a thread bring stored tables to what is committed when nobody changes anything."""
        idle, engine = IdleTime(self._store, lambda: self._turns.current is None), self._store.engine
        events.on(Committed, lambda event: idle.committed(), when=lambda event: engine.idle_after is not None)
        events.on(Closed, lambda event: idle.close)

    def _follow_clock(self, events: Events) -> None:
        """Let a thread do what is due by the clock."""
        actions = Job(lambda: next_due(self._store), lambda: self._aftermath.run_due(is_timed=True))
        queries = Job(self._continual.next_due, self._continual.run_due)
        scheduler = Scheduler(self._store, (actions, queries), self._turn_if_free)
        events.on(Committed, lambda event: scheduler.look, when=lambda event: _waits_for_times(event.after))
        events.on(Settled, lambda event: scheduler.look)
        events.on(Closed, lambda event: scheduler.closed)

    # Statements

    def execute(self, sql: str, params: Params = None) -> pa.Table | None:
        """Run one statement or a script; the last result, or None.

        Each statement is its own transaction, unless BEGIN opened one. Syntax errors are found before anything runs.
        A query, INSERT, UPDATE or DELETE takes parameters: a sequence for ``?`` or ``$1``, a dict for ``:name``. One
        means what the same value means that is written there, and goes into a column whole, or not at all.
        """
        result: pa.Table | None = None
        self._store.must_be_open()
        try:
            began = time.perf_counter()
            script = self._parsed(sql, params)
            parsing = time.perf_counter() - began  # of the first statement, as most scripts have one
            for statement, source in script:
                result, parsing = self._run(statement, source, parsing), 0.0
        except TidemarkError:
            raise
        except BaseException as error:
            session = self._session
            if session is not None:
                session.doom(error)  # some of a script was done, perhaps, and some was not
            raise
        return result

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]] | Iterable[Mapping[str, Any]]) -> None:
        """Run one INSERT, UPDATE or DELETE for each row of parameters, in order, in a transaction of their own unless
        BEGIN opened one. Without rows nothing happens, and no version is made."""
        listed = listed_rows(rows)
        if listed or self._session is not None:
            self._change("db.executemany()", lambda transaction: transaction.executemany(sql, listed))
        else:
            must_change(self._store.source(sql, self._dialect))

    def query(self, sql: str, params: Params = None) -> pa.Table:
        """The rows of a query at the current version (with the changes of a transaction that BEGIN opened)."""
        session = self._session
        if session is not None:
            return session.query(sql, params)
        with self._reading() as side:
            return self._reader(side.store).query(sql, params)

    def table(self, name: str) -> HeldRelation:
        """A table or a view to be read as Arrow, pandas, polars or Spark has rows; nothing is read before that.

        Each time it is asked, it is read at the version that is current then (with the changes of a transaction that
        BEGIN opened). It shows its first rows, also in notebooks.
        """
        home = Home(self._defined, self._read, self._frame)
        return HeldRelation(relation_named(name, self._defined()).name, home)

    def _defined(self) -> Catalog:
        """The definitions that this caller sees."""
        session = self._session
        if session is not None:
            return session.catalog
        with self._reading_store() as store:
            return store.catalog

    def _read(self, plan: Callable[[Catalog], Plan]) -> pa.Table:
        session = self._session
        if session is not None:
            return session.read(plan)
        with self._reading() as side:
            return self._reader(side.store).read(plan)

    def _frame(self, name: str, session: object) -> object | None:
        """What Spark reads of a relation that is stored, unless this caller has changes of its own."""
        if self._session is not None:
            return None
        with self._reading_store() as store:
            found = self._current(relation_named(name, store.catalog), store)
            is_stored = not isinstance(found, View) or found.materialized
            return store.engine.frame(found.name, session) if is_stored else None

    def transaction(self, idempotency_key: str | None = None) -> Transaction:
        """A transaction, to be used in a ``with`` block: it commits at the end, or rolls back on an exception.

        What it did is seen through it alone until it commits. One transaction at a time can be open: others wait for
        their turn, and the same caller is told that it has one open already.

        With an ``idempotency_key`` it is done once: the key is committed with it, and for 24 hours another transaction
        with the same key changes nothing, and has the first one's ``version``.

        >>> import tidemark as tm
        >>> with tm.connect("duckdb") as db:
        ...     db.execute("CREATE TABLE paid (amount INT)")
        ...     for attempt in range(2):
        ...         with db.transaction(idempotency_key="invoice 7") as tx:
        ...             tx.insert("paid", [(100,)])
        ...         print(tx.version, db.query("SELECT * FROM paid").num_rows)
        2 1
        2 1
        """
        if idempotency_key is not None and not must_be_text(idempotency_key, "an idempotency_key"):
            raise TidemarkError("type", "an idempotency_key is a text that names a transaction, not an empty one")
        opened = self._opened("db.transaction()")
        if idempotency_key is not None:
            opened.once(idempotency_key)
        return opened

    def _settled(self, event: Settled) -> Action:
        """What is stored was read again after a failure: nothing that was known of it holds."""
        self._log.settled(event.is_outermost)
        self._continual.settled(event.is_outermost)
        self._delivery.settled(event.is_outermost)
        return partial(self._make_up, is_outermost=event.is_outermost)

    def _make_up(self, *, is_outermost: bool) -> None:
        """Do what a failure left undone, if nobody else is at work."""
        if is_outermost:
            self._aftermath.settled()
            self._endings.finish()
        if any(cast("Transaction", one).stage is TransactionStage.OPEN for one in self._turns.transactions()):
            return  # somebody is in the midst of a transaction: what is due comes after it
        if is_outermost:
            self._aftermath.run_due()
        self._continual.follow_up()

    def interrupt(self) -> None:
        """End the statements that other threads run: each fails with ``interrupted``, and what it did is undone.

        If none runs, or one that has reached its commit, nothing happens.
        """
        self._store.interrupt()

    # Turns

    def _opened(self, what: str, *, is_session: bool = False, is_statement: bool = False) -> Transaction:
        """A transaction of this caller, when its turn has come."""
        self._must_be_outside()
        call = OngoingCall()
        turn = self._turns.take(what, call)
        try:
            with self._store.in_use():
                turn.is_session, turn.is_statement = is_session, is_statement
                opened = turn.transaction = self._begin()
                return opened
        except BaseException:
            self._turns.give_back(turn)
            raise

    @contextmanager
    def _turn(self, what: str) -> Iterator[None]:
        """This caller's turn to do something that is no transaction of its own."""
        self._must_be_outside()
        call = OngoingCall()
        turn = self._turns.take(what, call)
        try:
            with self._store.in_use():
                yield
        finally:
            self._turns.give_back(turn)

    @contextmanager
    def _turn_if_free(self, what: str = "what is due by the clock") -> Iterator[bool]:
        """The turn, and whether it could be had without waiting."""
        call = OngoingCall()
        turn = self._turns.try_take(what, call)
        try:
            yield turn is not None
        finally:
            if turn is not None:
                self._turns.give_back(turn)

    def _must_have_none_open(self) -> None:
        if self._turns.own() is not None:
            raise TidemarkError("transaction", "a transaction is open already", hint="commit it or roll it back first")

    def _must_be_outside(self) -> None:
        """Refuse functions of rules that would wait for the transaction that waits for them."""
        self._program.calls.must_be_none()
        self._store.must_not_be_outside()

    @property
    def _session(self) -> Transaction | None:
        """The transaction that this caller has opened with BEGIN."""
        turn = self._turns.own()
        return cast("Transaction", turn.transaction) if turn is not None and turn.is_session else None

    @property
    def _anybodys_session(self) -> Transaction | None:
        """The transaction that somebody has opened with BEGIN, for tools that look at the database from outside."""
        turn = self._turns.current
        is_session = turn is not None and turn.is_open and turn.is_session
        return cast("Transaction", turn.transaction) if turn is not None and is_session else None

    def _begin(self) -> Transaction:
        return Transaction(self._store, self._dialect, self._endings, self._program, self._prepared, self._allowed)

    def _bring(self, work: Work) -> None:
        """Commit what brings relations up to date that lag, together with what rules make of it, if there are any."""
        if self._store.catalog.activations:
            self._begin().bring(work)
        else:
            commit(self._store, work)

    def _reader(self, store: Store) -> Transaction:
        """A transaction that reads, and of which nobody need hear."""
        owner = Reading(self._read_through) if store is self._store else NOBODY
        return Transaction(store, self._dialect, owner, self._program, self._prepared)

    def _after(self, ended: Transaction) -> None:
        """What a transaction has left was done in its turn; others have theirs when functions were told of it."""
        turn = self._turns.of(ended)
        try:
            if self._delivery.is_postponed:
                self._delivery.deliver(set())
        finally:
            if turn is not None:
                self._turns.give_back(turn)

    def _abandon(self, turn: Turn) -> None:
        """Roll back what was begun by a thread or a task that is no more."""
        transaction = cast("Transaction", turn.transaction)
        with self._store.lock:
            if transaction.is_open:
                transaction.rollback()

    # Reading

    @contextmanager
    def _reading(self) -> Iterator[Side]:
        """What is committed. If another thread is at work here, it is read beside that, and nobody waits."""
        with self._store.if_free() as is_free:
            if is_free:
                self._store.must_be_open()
                yield self._now
                return
        with snapshot_of(self._store) as store:
            yield SideAt(store, self._consumers)

    @contextmanager
    def _reading_store(self) -> Iterator[Store]:
        with self._reading() as side:
            yield side.store

    def _read_through(self, names: Iterable[str]) -> bool:
        """Bring views that are refreshed on read up to date, unless another caller is changing the database, or another
        writer has taken over."""
        try:
            if self._turns.own() is not None:
                self._continual.read(names)
                return True
            with self._turn_if_free("a view that is refreshed on read") as is_free:
                if is_free:
                    self._continual.read(names)
                return is_free
        except TidemarkError as error:
            if is_fenced(error):
                return False
            raise

    # Rules

    def signal(self, name: str, payload: object = "") -> None:
        """Tell rules of an event outside the database (``ON SIGNAL name``); the payload, if it is no text, as JSON.

        It is a transaction of its own, unless BEGIN opened one. A signal that no rule waits for does nothing.
        """
        self._change("db.signal()", lambda transaction: transaction.signal(name, payload))

    def register(self, name: str, function: Callable[..., object]) -> None:
        """Lend rules a function: ``CALL name`` calls it with an Arrow table of the instances and, if it takes a second
        argument, a key that is the same if the call is repeated."""
        self._program.lend(name, function)

    def listen(self, channel: str, listener: Callable[[str, pa.Table], None]) -> None:
        """Call the listener with the channel and an Arrow table of instances when a rule's NOTIFY is committed."""
        self._program.listen(channel, listener)

    def firings(self, since: int = 0) -> pa.Table:
        """What rules did in versions after ``since``: rule, version, instances, outcome, time."""
        if not isinstance(since, int):
            raise TidemarkError("version", f"there is no version {since!r}", hint="since=0 gives all firings")
        with self._reading() as side:
            return self._firings(side.store, since)

    def _firings(self, store: Store, since: int = 0) -> pa.Table:
        if FIRINGS not in store.catalog.relations:
            return FIRINGS_SCHEMA.arrow.empty_table()
        text = f"SELECT * FROM {FIRINGS} WHERE version > {int(since)} ORDER BY version, time, rule"
        return self._reader(store).query(text)

    def dead_letters(self) -> pa.Table:
        """The dead letters, which are detached actions that were given up: id, rule, error, attempts, version,
        and as payload, in JSON, the rows of ``condition`` and of the transition relations."""
        with self._reading() as side:
            return dead_letters(side.store)

    def discard(self, letter: str) -> None:
        """Throw a dead letter away."""
        with self._turn("db.discard()"):
            discard(letter, self._store, self._begin)

    def replay(self, letter: str) -> None:
        """Try a dead letter again, at once."""
        with self._turn("db.replay()"):
            replay(letter, self._store, self._begin)
            self.run_due()

    def _parsed(self, sql: str, params: Params) -> Sequence[tuple[st.Statement | Call, Source]]:
        try:
            with deep():
                return statements_of(self._store.source(sql, self._dialect), params, self._prepared)
        except TidemarkError as error:
            session = self._session
            if session is not None:
                session.doom(error)
            raise

    def _lent(self) -> Desk:
        """What statements that the database answers itself need of it."""
        return Desk(
            self,
            begin=lambda: self._opened("BEGIN", is_session=True),
            session=lambda: self._session,
            must_have_none_open=self._must_have_none_open,
            reading=self._reading,
            asking=self._asking,
            turn=self._turn,
            set_limits=self._log.set_limits,
            alter_source=self._pulling.alter,
            allowed=self._allowed,
        )

    def _run(self, statement: st.Statement | Call, source: Source, parsing: float) -> pa.Table | None:
        """Run a statement; in a transaction that BEGIN opened, any that fails dooms it, whoever answers it."""
        session, row = self._session, row_of(statement)
        if session is None or (isinstance(row, Answered) and row.ends):
            return self._answered(row, statement, source, parsing)
        session.must_not_be_doomed()
        try:
            return self._answered(row, statement, source, parsing)
        except BaseException as error:
            session.doom(error)
            raise

    def _answered(self, row: AnyRow, statement: st.Statement | Call, source: Source, parsing: float) -> pa.Table | None:
        if isinstance(row, Answered):
            return row.run(statement, self._desk, source)
        session = self._session
        if session is not None:
            session.laps.add("parse", parsing)
            return session.guarded_run(statement, source)
        if row.reads:
            with self._reading() as side:
                return self._reader(side.store).guarded_run(statement, source)
        # From its beginning to the end of its commit it is one statement, whose time is limited as such.
        transaction = self._opened("a statement", is_statement=True)
        with self._store.in_use(), transaction:
            if row.committed is None:  # what that is told of has parsed it anew
                transaction.laps.add("parse", parsing)
            result = transaction.guarded_run(statement, source)
        version = transaction.outcome.version
        if row.committed is None or version is None:
            return result
        with self._reading_store() as store:
            return row.committed(result, store, version)

    def refresh(self, name: str) -> None:
        """Bring a snapshot up to date now, or ask a continual query, whatever its trigger says.

        What changed since its tidemark is read from the log. If nothing did, no version is made.
        """
        with self._turn("db.refresh()"):
            self._continual.refresh(self._relation(name).name)

    def run_due(self) -> int:
        """Do what is due now, and say how much that was: actions of rules that wait for their time or that a crash left
        behind, snapshots, and continual queries whose trigger holds.

        Every transaction does that too, and so does a thread of this process when a time has come, unless the
        connection was given a clock of its own: then time passes when this is called.
        """
        with self._turn("db.run_due()"):
            done = self._aftermath.run_due() + self._continual.run_due()
            self._store.committed.notify_all()  # time has passed for those who wait, too
            return done

    def results(self, query: str, after: int = 0, *, name: str | None = None, lag: str = "keep") -> Results:
        """The results of a continual query as they come, those after a number first: an iterator, with ``poll``.

        Results are numbered from 1 and durable, as far as the log is kept; number 0, with ``after=-1``, is the whole
        answer at the creation. A reader with a ``name`` goes on where it was, also in another process, and what it
        has not read is kept for it, as for a subscriber. One that asks for results which the limits of the log have
        cut is told their numbers by an error, and then goes on with the oldest that is kept.
        """
        must_be_number(after)
        with self._store.in_use():
            must_be_policy(lag)
            found = query_named(query, self._store.catalog).name
            mark: Mark | None = None
            if name is not None:
                # One that is new and asks for results that are gone is noted when it has been told so.
                is_there = after + 1 >= self._continual.oldest_result(found)
                since = self._continual.version_of(found, after) if is_there else None
                read, mark = self._consumers.subscribed(name, found, since, lag)
                after = after if read is None else self._continual.number_at(found, read)
            opened = Results(self._store, self._continual, found, after, name=name, mark=mark, policy=lag)
            self._consumers.follow(opened)
            return opened

    def on_result(self, query: str, function: Callback, after: int | None = None) -> Registered:
        """Call a function with each result of a continual query, after the version that made it; ``cancel`` ends it.

        Results after the number ``after`` come first; by default only new ones come.
        """
        if after is not None:
            must_be_number(after)
        with self._store.in_use() if self._turns.own() is not None else self._turn("db.on_result()"):
            name = query_named(query, self._store.catalog).name
            last = self._continual.standing(name).results if after is None else after
            return self._delivery.register(name, function, last)

    # Time

    def tick(self, now: dt.datetime | None = None) -> None:
        """Move the clock on to now: rows of views whose filter names NOW() leave, or come, when their time has come.

        Every transaction does that too; a tick is a transaction that does nothing else. ``now`` is the time of the
        connection's clock if it is not given, and cannot be before the time at which the database's clock stands.
        Without a view that names NOW() nothing happens.
        """
        with self._turn("db.tick()"):
            if CLOCK not in self._store.catalog.relations:
                return
            time = self._store.now() if now is None else naive(now)
            if now is not None:
                must_be_later(time, stored_time(self._store.engine))
            self._begin().tick(time)

    # Changes

    @property
    def version(self) -> int:
        """The last committed version; a fresh database is at 0."""
        return self._store.last_version

    def changes(self, relation: str, since: int = 0, *, paired: bool = False) -> pa.Table:
        """What each version after ``since`` did to a table, or to a materialized or external view, net per version.

        The columns of the relation, then ``_version``, ``_weight`` and ``_time``, when the version was committed
        (UTC). A view's initial content stands at the version of its creation, so the sum of all changes is the content.

        ``paired`` gives the other form, old and new rows in pairs by a key of the relation: ``_version``, ``_change``
        (inserted, deleted or updated), the structs ``key``, ``old`` and ``new``, and ``_time``.
        """
        with self._reading() as side:
            store = side.store
            found = self._current(logged_named(relation, store.catalog), store)
            if not isinstance(since, int) or since < 0:
                raise TidemarkError("version", f"there is no version {since!r}", hint="since=0 gives all changes")
            since = min(int(since), store.version)  # engines take no larger numbers than 64 bits have
            changes = changes_since(found.name, since, store)
            if paired:
                key_of(found, store.catalog)
                changes = paired_since(changes, found, since, store).table
            return in_time(changes, store.times)

    def _current(self, relation: Relation, store: Store) -> Relation:
        """The relation; a view that is refreshed on read is brought up to date first, if nobody else is at work."""
        is_read_through = isinstance(relation, View) and relation.lag is not None and relation.lag.is_read_through
        if is_read_through and store is self._store and not self._turns.is_open:
            self._read_through(frozenset({relation.name}))
        return relation

    def subscribe(
        self,
        relation: str,
        since: int | None = None,
        *,
        paired: bool = False,
        max_staleness: float | dt.timedelta | None = None,
        batch: int | None = None,
        precision: str = "each version",
        name: str | None = None,
        lag: str = "keep",
    ) -> Subscription:
        """The changes of a relation as they come; the present content first if ``since`` is None.

        With ``paired``, rows that were updated come as pairs of old and new, and not as deleted and inserted ones.

        Quality of service: changes come when ``batch`` rows have changed, net, or when the first of them is
        ``max_staleness`` old (seconds, or a timedelta), and with ``precision="net"`` as one net change. A subscriber
        with a ``name`` is durable: it goes on where it was, also in another process, and the log waits for it
        (``lag="keep"``) or forgets it when the limits ask for that (``lag="invalidate"``).
        """
        quality = Quality.of(max_staleness, batch, precision)
        must_be_policy(lag)
        with self._reading() if name is None else self._writing_notes() as side:
            store = side.store
            found = logged_named(relation, store.catalog)
            if since is not None and not (isinstance(since, int) and 0 <= since <= store.version):
                raise TidemarkError(
                    "version", f"there is no version {since!r}", hint=f"the last one is {store.version}"
                )
            mark: Mark | None = None
            if name is not None:
                since, mark = self._consumers.subscribed(name, found.name, since, lag)
            elif since is not None:
                must_reach(store, found.name, since, each_version=True)
            rows: pa.Table | None = None
            if since is None:
                self._current(found, store)  # its content is what comes first
                rows = store.engine.fetch(*settle(content(found), {}, store.engine))
            if paired:
                key_of(store.catalog.relations[found.name], store.catalog)
            reader = Reader(self._reading_store, self._followed)
            subscriber = Subscriber(paired, quality, name, mark, lag)
            version = store.version if since is None else since
            opened = Subscription(self._store, found.name, version, reader, rows, subscriber)
            self._consumers.follow(opened)
            return opened

    @contextmanager
    def _writing_notes(self) -> Iterator[Side]:
        """What is committed, for subscribers, who write a note of their own into it."""
        with self._store.in_use():
            yield self._now

    def _followed(self, store: Store, name: str, since: int) -> pa.Table:
        """The changes of a relation for its subscribers; a view that is refreshed on read is read thereby."""
        return changes_since(self._current(store.catalog.relations[name], store).name, since, store)

    def unsubscribe(self, name: str) -> None:
        """Forget a subscriber with a name, and with it what the log keeps for it."""
        with self._store.in_use():
            self._consumers.unsubscribe(name)

    # Answers about views

    def audit(self, view: str) -> pa.Table:
        """The rows whose stored weight differs from the definition evaluated on the base tables (first principle).

        ``_weight`` is what is stored minus what should be. Empty when all is well. Approximate columns (sums of DOUBLE)
        are compared within a tolerance.
        """
        with self._reading() as side:
            found = must_be_view(logged_named(view, side.store.catalog), "there is nothing to compare it with")
            return audit(found, side.store, side.continual.standing)

    def explain(self, view: str) -> str:
        """How a view is kept true: its plan, its partial differentials, and the strategy."""
        with self._reading() as side:
            store = side.store
            relation = must_be_view(relation_named(view, store.catalog), "there is nothing to derive")
            return explain(relation, store.network, store.catalog, store.refreshes, store.boundaries)

    def why(self, relation: str, row: WantedRow, *, version: int | None = None, rows: int = 3) -> Answer | Cause:
        """Why a row is in a relation: one derivation, down to stored rows. ``str`` of it is a tree for people.

        ``row`` has a value for each column, or is a dict of some columns, which picks the first row that has these
        values. Of many rows that one rests on, as in a group, ``rows`` are shown. If the row is not there, the answer
        says why not, and its ``is_there`` is false.

        With a ``version`` the answer is the ``Cause`` of what that version did to the row: the rows that were inserted
        or deleted in tables without which it would not have come or gone.
        """
        with self._asking() as (transaction, store):
            found = relation_named(relation, transaction.catalog)
            return answered(found, wanted_values(row, found), transaction, store, version, rows)

    @contextmanager
    def _asking(self) -> Iterator[tuple[Asked, Store]]:
        """The transaction of this caller, or one that reads what is committed; and what is committed."""
        session = self._session
        if session is not None:
            with self._store.in_use():
                yield session, self._store
            return
        with self._reading() as side:
            yield self._reader(side.store), side.store

    def why_not(self, relation: str, row: WantedRow, *, version: int | None = None, rows: int = 3) -> Answer | Cause:
        """Why a row is not in a relation: for each way in which it could have come, the first thing that fails. If the
        row is there, the answer says why. With a ``version``, the same as ``why``."""
        return self.why(relation, row, version=version, rows=rows)

    def as_rules(self, view: str, target: str | None = None) -> str:
        """A script that makes a table (of the view's name, or another), fills it, and keeps it as the view is by active
        rules. It runs as it stands where the relations below the view are; beside the view it needs another name."""
        with self._reading() as side:
            catalog = side.store.catalog
            keyed = {name for name, keys in relation_keys(catalog).items() if keys}
            keyed |= {table.name for table in catalog.tables}  # statements say which row became which
            return as_rules(view_asked(view, catalog), catalog, keyed, target)

    def classify(self, view: str, dml: str) -> Classification:
        """What a statement, or a transaction of several, is to a view before it runs, and why.

        The kind is untouched, irrelevant, autonomous, conditional or differential: the strongest that is true.
        Nothing is run.
        """
        script = parse_script(self._store.source(dml, self._dialect))
        with self._reading() as side:
            return classified(view, script, side.store)

    def advise(self, view: str, dml: str) -> Advice:
        """For which values of its parameters a statement is irrelevant or autonomous to a view, and which columns the
        view would have to show for more of it to be autonomous: ``DELETE FROM t WHERE a < :p``. Nothing is run."""
        script = parse_script(self._store.source(dml, self._dialect))
        if len(script) != 1:
            raise TidemarkError("syntax", "advise takes one statement")
        statement, source = script[0]
        with self._reading() as side:
            return advised(view, statement, side.store, source)

    def trace(self, version: int) -> pa.Table:
        """What was done for each affected node in the transaction that made the version."""
        with self._reading() as side:
            return trace(version, side.store)

    def _relation(self, name: str) -> Relation:
        return relation_named(name, self._store.catalog)

    # Convenience and end

    def insert(self, table: str, rows: Rows) -> None:
        """Add rows, in a transaction of their own unless BEGIN opened one."""
        self._change("db.insert()", lambda transaction: transaction.insert(table, rows))

    def delete(self, table: str, rows: Rows) -> None:
        """Remove whole rows, in a transaction of their own unless BEGIN opened one."""
        self._change("db.delete()", lambda transaction: transaction.delete(table, rows))

    def upsert(self, table: str, rows: Rows) -> None:
        """Add rows, each instead of the one that has its PRIMARY KEY, if there is one, in a transaction of their own
        unless BEGIN opened one.

        Rows have all columns of the table, as for ``insert``. One that equals what is stored is no change; other
        changes of rows that were there are updates, to rules, subscribers and ``changes(paired=True)``.

        >>> import tidemark as tm
        >>> with tm.connect("duckdb") as db:
        ...     db.execute("CREATE TABLE stock (item VARCHAR PRIMARY KEY, amount INT)")
        ...     db.upsert("stock", [("nut", 5), ("bolt", 2)])
        ...     db.upsert("stock", [{"item": "nut", "amount": 4}])
        ...     print(db.query("SELECT * FROM stock ORDER BY item").to_pylist())
        [{'item': 'bolt', 'amount': 2}, {'item': 'nut', 'amount': 4}]
        """
        self._change("db.upsert()", lambda transaction: transaction.upsert(table, rows))

    def sync(
        self, table: str, state: Rows | None = None, *, changed: Rows | None = None, present: Rows | None = None
    ) -> Synced:
        """Bring a table to a state that a source gives, which says nothing of what has changed; how much did.

        ``state`` is all that the source holds; it is compared with what is stored, in the engine, and the net change is
        one transaction. A source that can do more gives ``changed``, the rows that it wrote since the last time, and
        ``present``, the primary keys of all that it holds: the others are gone, and nothing else is sent or compared.
        """
        found: list[Synced] = []

        def synced(transaction: Transaction) -> None:
            found.append(transaction.sync(table, state, changed=changed, present=present))

        self._change("db.sync()", synced)
        return found[0]

    def _change(self, what: str, action: Callable[[Transaction], None]) -> None:
        session = self._session
        if session is not None:
            action(session)
            return
        transaction = self._opened(what, is_statement=True)
        with self._store.in_use(), transaction:
            action(transaction)

    def pull(self, timeout: float | str | None = None) -> int:
        """Bring every source forward to what is there now; how many rows that changed, net.

        Each source is one version with all its tables in it, and how far it was followed is committed with the rows. A
        source whose rows are refused stops where it is and holds up no other; at the end its error is raised. The next
        pull tries it again. ``timeout`` is in seconds, or a text such as ``"5 min"``.
        """
        found = self.pull_each(timeout)
        must_have_none_stopped(found)
        return sum(one.rows for one in found)

    def pull_each(self, timeout: float | str | None = None) -> list[Pulled]:
        """The same as ``pull``, and for each source that was followed what came of it: its ``source``, ``status``,
        ``rows``, ``tables`` with the rows that came and went, ``version``, ``compared`` and ``error``."""
        self._must_have_none_open()
        return self._pulling.each(seconds_of(timeout))

    @property
    def engine(self) -> str:
        """The name of the engine: reference, duckdb or spark."""
        return self._store.engine.name

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the database, as of its last version, to a place where nothing is: a file of a DuckDB
        database, a folder of a lake. ``connect`` opens the copy. Every byte of a lake is compared with its checksum.

        A lake can be changed while its files are copied. The statement ``BACKUP TO 'path'`` does the same, where
        ``connect`` was given ``allow_paths``.
        """
        there = path_of(path, "backup")
        with self._turn("db.backup()"):
            finish = self._store.engine.backup(there)
        finish()

    def checkpoint(self) -> None:
        """Bring the files that other programs read to the last version. A DuckDB database is then complete in its one
        file, as when it is closed; the tables of a lake are published. It is no version; the statement ``CHECKPOINT``
        does the same.

        It waits for those who still read what was before, for ``busy_timeout`` at most."""
        with self._turn("db.checkpoint()"):
            until = time.monotonic() + self._turns.seconds
            while not self._store.checkpoint():
                self._store.stopping.check()
                if time.monotonic() >= until:
                    raise TidemarkError(
                        "busy",
                        "others read an earlier version, so that the write-ahead log stays beside the file",
                        hint="all is stored, in both together; CHECKPOINT again when they have read",
                    )
                time.sleep(LOOK_AGAIN_SECONDS / 10)

    def publish(self, relation: str | None = None) -> None:
        """Bring the Delta tables of a lake that other programs read, or that of one table or stored view, to the last
        version now, whatever ``options={"publish": …}`` says. The statement ``PUBLISH`` does the same."""
        with self._turn("db.publish()"):
            self._store.publish(None if relation is None else self._published(relation))

    def _published(self, relation: str) -> str:
        """The name of a relation that has a Delta table in a lake."""
        name = self._relation(relation).name
        if self.engine == "spark" and name not in {one.name for one in self._store.engine.publications()}:
            raise TidemarkError("unsupported", f"{name} is not stored, so that it cannot be published")
        return name

    def close(self) -> None:
        """Give up an open transaction, whoever has it, and release everything. Who waits for a turn is told. If it is
        interrupted, call it again."""
        try:
            with self._store.lock:
                self._turns.end_open(self._abandon)
        except TidemarkError as error:
            if not is_fenced(error):  # then nothing is left to be given up
                raise
        finally:
            self._turns.close()
            self._store.close()

    def _leave(self, seconds: float) -> None:
        """Close at the end of the process, unless another thread works for longer than so many seconds."""
        if not self._store.is_quiet(seconds):
            return
        self.close()
        leaving.join(self._store.threads, seconds)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _waits_for_times(catalog: Catalog) -> bool:
    """Whether anything that is defined may be due at a time."""
    return DETACHED_TABLE in catalog.relations or bool(catalog.lagging_views)
