"""The database as users hold it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pyarrow as pa

from tidemark.algebra.clock import CLOCK
from tidemark.algebra.expressions import Value
from tidemark.database.actions import FIRINGS, FIRINGS_SCHEMA, Program
from tidemark.database.advising import Advice, advise
from tidemark.database.aftermath import Aftermath
from tidemark.database.apart import dead_letters, discard, next_due, replay
from tidemark.database.auditing import audit
from tidemark.database.causes import cause
from tidemark.database.classifying import Classification, classify
from tidemark.database.clock import must_be_later, naive, stored_time
from tidemark.database.consumers import Consumers, must_be_policy
from tidemark.database.continual import Continual
from tidemark.database.delivery import Callback, Delivery, Registered
from tidemark.database.explain import explain
from tidemark.database.firings import counts
from tidemark.database.following import Mark
from tidemark.database.history import changes_since, content
from tidemark.database.logkeeping import LogKeeper
from tidemark.database.naming import logged_named, must_be_view, query_named, relation_named
from tidemark.database.pairing import key_of, relation_keys
from tidemark.database.pairing import paired as pairs_of
from tidemark.database.results import Results
from tidemark.database.retained import must_reach
from tidemark.database.rows import Rows
from tidemark.database.scheduler import Job, Scheduler
from tidemark.database.showing import SHOWN
from tidemark.database.showing_rules import show_assertions, show_rules
from tidemark.database.store import Store
from tidemark.database.subscription import Quality, Subscription
from tidemark.database.syncing import Synced
from tidemark.database.tracing import trace
from tidemark.database.transaction import Transaction
from tidemark.database.why import WantedRow, explained, wanted_values
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.network.settle import settle
from tidemark.provenance import Answer, Cause
from tidemark.sql import statements as st
from tidemark.sql.asrules import as_rules
from tidemark.sql.catalog import Relation, View
from tidemark.sql.changes import bind_change
from tidemark.sql.continual_statements import AlterLog, Refresh
from tidemark.sql.parsing import parse_script
from tidemark.sql.templates import bind_template, has_parameters
from tidemark.sql.text import Source, dialect_named
from tidemark.sql.why import bind_row


class Database:
    """A connection to a database. Made by ``tidemark.connect``; a context manager."""

    def __init__(
        self, engine: Engine, dialect: str = "postgres", clock: Callable[[], dt.datetime] | None = None
    ) -> None:
        dialect_named(dialect)
        self._store = Store(engine, clock)
        self._continual = Continual(self._store, lambda work: self._begin().bring(work))
        self._consumers = Consumers(self._store, self._continual)
        self._log = LogKeeper(self._store, self._continual, self._consumers)
        self._delivery = Delivery(self._store, self._continual, self._consumers, self._has_no_transaction)
        self._dialect = dialect
        self._open: Transaction | None = None
        self._session: Transaction | None = None
        self._program = Program()
        self._aftermath = Aftermath(self._store, self._program, self._begin)
        if clock is None:
            actions = Job(lambda: next_due(self._store), lambda: self._aftermath.run_due(is_timed=True))
            queries = Job(self._continual.next_due, self._continual.run_due)
            Scheduler(self._store, (actions, queries), self._is_free)

    # Statements

    def execute(self, sql: str) -> pa.Table | None:
        """Run one statement or a script; the last result, or None.

        Each statement is its own transaction, unless BEGIN opened one. Syntax errors are found before anything runs.
        """
        result: pa.Table | None = None
        with self._store.in_use():
            for statement, source in self._parsed(sql):
                result = self._run(statement, source)
        return result

    def query(self, sql: str) -> pa.Table:
        """The rows of a query at the current version (with the changes of a transaction that BEGIN opened)."""
        with self._store.in_use():
            return (self._session or self._begin()).query(sql)

    def transaction(self) -> Transaction:
        """A transaction, to be used in a ``with`` block: it commits at the end, or rolls back on an exception.

        What it did is seen through it alone until it commits. One transaction at a time can be open.
        """
        with self._store.in_use():
            self._must_be_free()
            self._open = self._begin()
            return self._open

    def _begin(self) -> Transaction:
        return Transaction(self._store, self._dialect, self._forget, self._program)

    def _forget(self, ended: Transaction) -> None:
        self._open = None if self._open is ended else self._open
        self._session = None if self._session is ended else self._session
        self._aftermath.of(ended)
        self._delivery.ended()

    # Rules

    def signal(self, name: str, payload: object = "") -> None:
        """Tell rules of an event outside the database (``ON SIGNAL name``); the payload, if it is no text, as JSON.

        It is a transaction of its own, unless BEGIN opened one. A signal that no rule waits for does nothing.
        """
        self._change(lambda transaction: transaction.signal(name, payload))

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
        if FIRINGS not in self._store.catalog.relations:
            return FIRINGS_SCHEMA.arrow.empty_table()
        return self.query(f"SELECT * FROM {FIRINGS} WHERE version > {since} ORDER BY version, time, rule")

    def dead_letters(self) -> pa.Table:
        """The detached actions that were given up: id, rule, error, attempts, version, and as payload, in JSON, the
        rows of ``condition`` and of the transition relations."""
        with self._store.in_use():
            return dead_letters(self._store)

    def discard(self, letter: str) -> None:
        """Throw a dead letter away."""
        with self._store.lock:
            self._must_be_free()
            discard(letter, self._store, self._begin)

    def replay(self, letter: str) -> None:
        """Try a dead letter again, at once."""
        with self._store.lock:
            self._must_be_free()
            replay(letter, self._store, self._begin)
            self.run_due()

    def _has_no_transaction(self) -> bool:
        return self._open is None and self._session is None

    def _is_free(self) -> bool:
        return self._has_no_transaction() and not self._aftermath.is_running

    def _must_be_free(self) -> None:
        self._program.must_not_be_calling()
        if not self._has_no_transaction():
            raise TidemarkError("transaction", "a transaction is open already", hint="commit it or roll it back first")

    def _parsed(self, sql: str) -> list[tuple[st.Statement, Source]]:
        try:
            return parse_script(Source(sql, self._dialect, self._store.now()))
        except TidemarkError as error:
            if self._session is not None:
                self._session.doom(error)
            raise

    def _run(self, statement: st.Statement, source: Source) -> pa.Table | None:
        match statement:
            case st.Begin():
                self._must_be_free()
                self._session = self._begin()
                return None
            case st.Commit() | st.Rollback():
                if self._session is None:
                    raise TidemarkError("transaction", "no transaction is open", hint="BEGIN opens one")
                if isinstance(statement, st.Commit):
                    self._session.commit()
                else:
                    self._session.rollback()
                return None
            case st.ExplainEffect(change=change, view=view):
                return self._effect(view, change, source)
            case st.ExplainWhy():
                return self._explained_row(statement, source)
            case st.Explain(name=name):
                return pa.table({"explain": self.explain(name).splitlines()})
            case st.Audit(name=name):
                return self.audit(name)
            case st.Show(what=what):
                return self._show(what)
            case Refresh(name=name):
                self.refresh(name)
                return None
            case AlterLog(options=options):
                self._must_be_free()
                self._log.set_limits(options)
                return None
        if self._session is not None:
            return self._session.guarded_run(statement, source)
        if not isinstance(statement, st.Query):
            self._must_be_free()
        with self._begin() as transaction:
            return transaction.guarded_run(statement, source)

    def _show(self, what: str) -> pa.Table:
        match what:
            case "rules":
                return show_rules(self._store.catalog, counts(self._store, self.firings()))
            case "assertions":
                return show_assertions(self._store.catalog, self._store.engine.rows)
            case "log":
                return self._log.shown()
            case "consumers":
                return self._consumers.shown()
        return SHOWN[what](self._store, self._continual)

    def refresh(self, name: str) -> None:
        """Bring a snapshot up to date now, or ask a continual query, whatever its trigger says.

        What changed since its tidemark is read from the log. If nothing did, no version is made.
        """
        with self._store.in_use():
            self._must_be_free()
            self._continual.refresh(self._relation(name).name)

    def run_due(self) -> int:
        """Do what is due now, and say how much that was: actions of rules that wait for their time or that a crash left
        behind, snapshots, and continual queries whose trigger holds.

        Every transaction does that too, and so does a thread of this process when a time has come, unless the
        connection was given a clock of its own: then time passes when this is called.
        """
        with self._store.in_use():
            self._must_be_free()
            done = self._aftermath.run_due() + self._continual.run_due()
            self._store.committed.notify_all()  # time has passed for those who wait, too
            return done

    def results(self, query: str, after: int = 0, *, name: str | None = None, lag: str = "keep") -> Results:
        """The results of a continual query as they come, those after a number first: an iterator, with ``poll``.

        Results are numbered from 1 and durable, as far as the log is kept; number 0, with ``after=-1``, is the whole
        answer at the creation. A reader with a ``name`` goes on where it was, also in another process, and what it
        has not read is kept for it, as for a subscriber.
        """
        with self._store.in_use():
            must_be_policy(lag)
            found = query_named(query, self._store.catalog).name
            mark: Mark | None = None
            if name is not None:
                read, mark = self._consumers.subscribed(name, found, self._continual.version_of(found, after), lag)
                after = self._continual.number_at(found, read or 0)
            opened = Results(self._store, self._continual, found, after, name=name, mark=mark, policy=lag)
            self._consumers.follow(opened)
            return opened

    def on_result(self, query: str, function: Callback, after: int | None = None) -> Registered:
        """Call a function with each result of a continual query, after the version that made it; ``cancel`` ends it.

        Results after the number ``after`` come first; by default only new ones come.
        """
        with self._store.in_use():
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
        with self._store.in_use():
            self._must_be_free()
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
        return self._store.version

    def changes(self, relation: str, since: int = 0, *, paired: bool = False) -> pa.Table:
        """What each version after ``since`` did to a table, or to a materialized or external view, net per version.

        The columns of the relation, then ``_version`` and ``_weight``. A view's initial content stands at the
        version of its creation, so the sum of all changes is the content.

        ``paired`` gives the other form, old and new rows in pairs by a key of the relation: ``_version``, ``_change``
        (inserted, deleted or updated), and the structs ``key``, ``old`` and ``new``.
        """
        with self._store.in_use():
            found = self._current(self._logged(relation))
            if not isinstance(since, int) or since < 0:
                raise TidemarkError("version", f"there is no version {since!r}", hint="since=0 gives all changes")
            if paired:
                key = key_of(found, self._store.catalog)
                return pairs_of(changes_since(found.name, since, self._store), found.schema, key).table
            return changes_since(found.name, since, self._store)

    def _current(self, relation: Relation) -> Relation:
        """The relation; a view that is refreshed on read is brought up to date first."""
        if (
            self._has_no_transaction()
            and isinstance(relation, View)
            and relation.lag is not None
            and relation.lag.is_read_through
        ):
            self._continual.read((relation.name,))
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
        with self._store.in_use():
            subscriber, name = name, self._logged(relation).name
            if since is not None and not (isinstance(since, int) and 0 <= since <= self._store.version):
                raise TidemarkError("version", f"there is no version {since!r}", hint=f"the last one is {self.version}")
            found, engine = self._store.catalog.relations[name], self._store.engine
            mark: Mark | None = None
            if subscriber is not None:
                since, mark = self._consumers.subscribed(subscriber, name, since, lag)
            elif since is not None:
                must_reach(self._store, name, since, each_version=True)
            if since is None:
                self._current(found)  # its content is what comes first
            if paired:
                key_of(self._store.catalog.relations[name], self._store.catalog)
            opened = Subscription(
                self._store,
                name,
                since,
                self._followed,
                lambda: engine.fetch(*settle(content(found), {}, engine)),
                paired=paired,
                quality=quality,
                name=subscriber,
                mark=mark,
                policy=lag,
            )
            self._consumers.follow(opened)
            return opened

    def _followed(self, name: str, since: int) -> pa.Table:
        """The changes of a relation for those who follow it; a view that is refreshed on read is read thereby."""
        return changes_since(self._current(self._store.catalog.relations[name]).name, since, self._store)

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
        with self._store.in_use():
            found = must_be_view(self._logged(view), "there is nothing to compare it with")
            return audit(found, self._store, self._continual.standing)

    def explain(self, view: str) -> str:
        """How a view is kept true: its plan, its partial differentials, and the strategy."""
        with self._store.in_use():
            store = self._store
            relation = must_be_view(self._relation(view), "there is nothing to derive")
            return explain(relation, store.network, store.catalog, store.refreshes, store.boundaries)

    def why(self, relation: str, row: WantedRow, *, version: int | None = None, rows: int = 3) -> Answer | Cause:
        """Why a row is in a relation: one derivation, down to stored rows. ``str`` of it is a tree for people.

        ``row`` has a value for each column, or is a dict of some columns, which picks the first row that has these
        values. Of many rows that one rests on, as in a group, ``rows`` are shown. If the row is not there, the answer
        says why not, and its ``is_there`` is false.

        With a ``version`` the answer is the ``Cause`` of what that version did to the row: the rows that were inserted
        or deleted in tables without which it would not have come or gone.
        """
        with self._store.in_use():
            transaction = self._session or self._begin()
            found = relation_named(relation, transaction.catalog)
            return self._why(transaction, found, wanted_values(row, found), version, rows)

    def why_not(self, relation: str, row: WantedRow, *, version: int | None = None, rows: int = 3) -> Answer | Cause:
        """Why a row is not in a relation: for each way in which it could have come, the first thing that fails. If the
        row is there, the answer says why. With a ``version``, the same as ``why``."""
        return self.why(relation, row, version=version, rows=rows)

    def _why(
        self, transaction: Transaction, found: Relation, wanted: Mapping[int, Value], version: int | None, rows: int = 3
    ) -> Answer | Cause:
        if version is None:
            return explained(found, wanted, transaction, rows)
        return cause(self._store, self._relation(found.name), wanted, version, rows)

    def _explained_row(self, statement: st.ExplainWhy, source: Source) -> pa.Table:
        transaction = self._session or self._begin()
        found = relation_named(statement.relation, transaction.catalog)
        values = bind_row(statement.row, found.schema, found.name, source)
        return pa.table({"explain": str(self._why(transaction, found, values, statement.version)).splitlines()})

    def as_rules(self, view: str, target: str | None = None) -> str:
        """The active rules that would keep a table (of the view's name, or another) as the view is, as a script."""
        with self._store.in_use():
            keyed = {name for name, keys in relation_keys(self._store.catalog).items() if keys}
            return as_rules(self._view(view), self._store.catalog, keyed, target)

    def classify(self, view: str, dml: str) -> Classification:
        """What a statement, or a transaction of several, is to a view before it runs, and why.

        The kind is untouched, irrelevant, autonomous, conditional or differential: the strongest that is true.
        Nothing is run.
        """
        return self._classified(view, parse_script(Source(dml, self._dialect, self._store.now())))

    def _classified(self, view: str, script: Sequence[tuple[st.Statement, Source]]) -> Classification:
        with self._store.in_use():
            relation = self._view(view)
            changes = [bind_change(statement, self._store.catalog, source) for statement, source in script]
            store = self._store
            return classify(relation, changes, store.catalog, store.refreshes.known, store.boundaries)

    def advise(self, view: str, dml: str) -> Advice:
        """For which values of its parameters a statement is irrelevant or autonomous to a view, and which columns the
        view would have to show for more of it to be autonomous: ``DELETE FROM t WHERE a < :p``. Nothing is run."""
        script = parse_script(Source(dml, self._dialect, self._store.now()))
        if len(script) != 1:
            raise TidemarkError("syntax", "advise takes one statement")
        return self._advised(view, *script[0])

    def _advised(self, view: str, statement: st.Statement, source: Source) -> Advice:
        with self._store.in_use():
            template = bind_template(statement, self._store.catalog, source)
            store = self._store
            return advise(self._view(view), template, store.catalog, store.refreshes.known, store.boundaries)

    def _effect(self, view: str, statement: st.Statement, source: Source) -> pa.Table:
        """EXPLAIN EFFECT: the class of a statement; of one with parameters, for which of them it is of which."""
        if not has_parameters(statement):
            effect = self._classified(view, [(statement, source)])
            return pa.table({"kind": [effect.kind], "reason": [effect.reason]})
        lines = [line.partition(": ") for line in str(self._advised(view, statement, source)).splitlines()]
        return pa.table({"kind": [kind for kind, _, _ in lines], "reason": [reason for _, _, reason in lines]})

    def _view(self, name: str) -> View:
        return must_be_view(self._relation(name), "a statement changes it or does not")

    def trace(self, version: int) -> pa.Table:
        """What was done for each affected node in the transaction that made the version."""
        with self._store.in_use():
            return trace(version, self._store)

    def _relation(self, name: str) -> Relation:
        return relation_named(name, self._store.catalog)

    def _logged(self, name: str) -> Relation:
        return logged_named(name, self._store.catalog)

    # Convenience and end

    def insert(self, table: str, rows: Rows) -> None:
        """Add rows, in a transaction of their own unless BEGIN opened one."""
        self._change(lambda transaction: transaction.insert(table, rows))

    def delete(self, table: str, rows: Rows) -> None:
        """Remove whole rows, in a transaction of their own unless BEGIN opened one."""
        self._change(lambda transaction: transaction.delete(table, rows))

    def sync(
        self, table: str, state: Rows | None = None, *, changed: Rows | None = None, present: Rows | None = None
    ) -> Synced:
        """Bring a table to a state that a source gives, which says nothing of what has changed; how much did.

        ``state`` is all that the source holds; it is compared with what is stored, in the engine, and the net change is
        one transaction. A source that can do more gives ``changed``, the rows that it wrote since the last time, and
        ``present``, the primary keys of all that it holds: the others are gone, and nothing else is sent or compared.
        """
        found: list[Synced] = []
        self._change(lambda transaction: found.append(transaction.sync(table, state, changed=changed, present=present)))
        return found[0]

    def _change(self, action: Callable[[Transaction], None]) -> None:
        with self._store.lock:
            if self._session is not None:
                action(self._session)
                return
            with self.transaction() as transaction:
                action(transaction)

    @property
    def engine(self) -> str:
        """The name of the engine: reference, duckdb or spark."""
        return self._store.engine.name

    def close(self) -> None:
        """Give up an open transaction and release everything."""
        with self._store.lock:
            for transaction in (self._open, self._session):
                if transaction is not None:
                    transaction.rollback()
            self._store.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
