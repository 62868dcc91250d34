"""The database as users hold it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pyarrow as pa

from tidemark.algebra.clock import CLOCK
from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import Given, Negate, Plan, Stored, union
from tidemark.algebra.types import VERSION
from tidemark.calculus.as_of import Block, resolve
from tidemark.database.actions import FIRINGS, FIRINGS_SCHEMA, Program
from tidemark.database.advising import Advice, advise
from tidemark.database.apart import dead_letters, discard, next_due, replay
from tidemark.database.apart import run_due as run_actions
from tidemark.database.auditing import audit, audit_as_of
from tidemark.database.causes import cause
from tidemark.database.classifying import Classification, classify
from tidemark.database.clock import must_be_later, naive, stored_time
from tidemark.database.consumers import Consumers, must_be_policy
from tidemark.database.continual import Continual
from tidemark.database.delivery import Callback, Delivery, Registered
from tidemark.database.detaching import DETACHED_TABLE
from tidemark.database.explain import explain
from tidemark.database.firings import counts
from tidemark.database.following import Mark
from tidemark.database.logkeeping import LogKeeper
from tidemark.database.pairing import key_of, relation_keys
from tidemark.database.pairing import paired as pairs_of
from tidemark.database.results import Results
from tidemark.database.retained import must_reach, retained
from tidemark.database.rows import Rows
from tidemark.database.scheduler import Job, Scheduler
from tidemark.database.showing import SHOWN
from tidemark.database.showing_rules import show_assertions, show_rules
from tidemark.database.store import Store
from tidemark.database.subscription import Quality, Subscription
from tidemark.database.syncing import Synced
from tidemark.database.transaction import Transaction
from tidemark.database.why import WantedRow, explained, wanted_values
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.network.settle import settle
from tidemark.provenance import Answer, Cause
from tidemark.sql import statements as st
from tidemark.sql.asrules import as_rules
from tidemark.sql.catalog import RULE_TABLES, Relation, View
from tidemark.sql.changes import bind_change
from tidemark.sql.continual_statements import QUERY, AlterLog, Refresh
from tidemark.sql.templates import bind_template, has_parameters
from tidemark.sql.text import Source, dialect_named, fold
from tidemark.sql.why import bind_row

TRACE = pa.schema(
    [
        ("node", pa.string()),
        ("strategy", pa.string()),
        ("reason", pa.string()),
        ("rows_in", pa.int64()),
        ("rows_out", pa.int64()),
        ("rows_read", pa.int64()),
        ("milliseconds", pa.float64()),
        ("rows_filtered", pa.int64()),
        ("rows_rederived", pa.int64()),
    ]
)


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
        self._is_running = False
        if clock is None:
            actions = Job(lambda: next_due(self._store), lambda: self._run_actions(is_timed=True))
            queries = Job(self._continual.next_due, self._continual.run_due)
            Scheduler(self._store, (actions, queries), self._is_free)

    # Statements

    def execute(self, sql: str) -> pa.Table | None:
        """Run one statement or a script; the last result, or None.

        Each statement is its own transaction, unless BEGIN opened one. Syntax errors are found before anything runs.
        """
        result: pa.Table | None = None
        with self._store.lock:
            self._store.must_be_open()
            for statement, source in self._parsed(sql):
                result = self._run(statement, source)
        return result

    def query(self, sql: str) -> pa.Table:
        """The rows of a query at the current version (with the changes of a transaction that BEGIN opened)."""
        with self._store.lock:
            self._store.must_be_open()
            return (self._session or self._begin()).query(sql)

    def transaction(self) -> Transaction:
        """A transaction, to be used in a ``with`` block: it commits at the end, or rolls back on an exception.

        What it did is seen through it alone until it commits. One transaction at a time can be open.
        """
        with self._store.lock:
            self._store.must_be_open()
            self._must_be_free()
            self._open = self._begin()
            return self._open

    def _begin(self) -> Transaction:
        return Transaction(self._store, self._dialect, self._forget, self._program)

    def _forget(self, ended: Transaction) -> None:
        self._open = None if self._open is ended else self._open
        self._session = None if self._session is ended else self._session
        self._aftermath(ended)
        self._delivery.ended()

    # Rules

    def _aftermath(self, ended: Transaction) -> None:
        """What is left to do for rules after a transaction: tell who listens, and run what was detached."""
        reactions = ended.reactions
        if ended.is_committed:
            for channel, rows in reactions.notices:
                self._program.tell(channel, rows)
        else:
            known = {activation.name for activation in self._store.catalog.activations}
            independent = [entry for entry in reactions.detached if entry.is_independent and entry.rule in known]
            if independent:
                apart = self._begin()
                for entry in independent:
                    apart.keep(DETACHED_TABLE, entry.added())
                apart.commit()
        if reactions.detached and not self._is_running:
            self._run_actions()

    def _run_actions(self, *, is_timed: bool = False) -> int:
        """Run the actions of rules that wait in the queue and whose time has come; how many were run."""
        was_running, self._is_running = self._is_running, True
        try:
            return run_actions(self._store, self._begin, is_timed=is_timed)
        finally:
            self._is_running = was_running

    def signal(self, name: str, payload: object = "") -> None:
        """Tell rules of an event outside the database (``ON SIGNAL name``); the payload, if it is no text, as JSON.

        It is a transaction of its own, unless BEGIN opened one. A signal that no rule waits for does nothing.
        """
        self._change(lambda transaction: transaction.signal(name, payload))

    def register(self, name: str, function: Callable[..., object]) -> None:
        """Lend rules a function: ``CALL name`` calls it with an Arrow table of the instances and, if it takes a second
        argument, a key that is the same if the call is repeated."""
        self._must_be_callable(name, function)
        self._program.functions[fold(name)] = function

    def listen(self, channel: str, listener: Callable[[str, pa.Table], None]) -> None:
        """Call the listener with the channel and an Arrow table of instances when a rule's NOTIFY is committed."""
        self._must_be_callable(channel, listener)
        self._program.listeners.setdefault(fold(channel), []).append(listener)

    @staticmethod
    def _must_be_callable(name: object, function: object) -> None:
        if not isinstance(name, str) or not callable(function):
            raise TidemarkError("type", f"a name and a function are needed, not {name!r} and {function!r}")

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
        with self._store.lock:
            self._store.must_be_open()
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
        return self._has_no_transaction() and not self._is_running

    def _must_be_free(self) -> None:
        self._program.must_not_be_calling()
        if not self._has_no_transaction():
            raise TidemarkError("transaction", "a transaction is open already", hint="commit it or roll it back first")

    def _parsed(self, sql: str) -> list[tuple[st.Statement, Source]]:
        try:
            if not isinstance(sql, str):
                raise TidemarkError("type", f"SQL is text, not {type(sql).__name__}")
            return st.parse_script(Source(sql, self._dialect, self._store.now()))
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
        store = self._store
        if what in ("rules", "assertions"):
            if what == "rules":
                return show_rules(store.catalog, counts(store, self.firings()))
            return show_assertions(store.catalog, store.engine.rows)
        if what == "tables":
            names = [t.name for t in store.catalog.tables if t.name != CLOCK and t.name not in RULE_TABLES]
            return pa.table(
                {
                    "name": pa.array(names, pa.string()),
                    "columns": pa.array([str(store.catalog.relations[n].schema) for n in names], pa.string()),
                    "rows": pa.array([store.engine.rows(n) for n in names], pa.int64()),
                }
            )
        if what == "log":
            return self._log.shown()
        if what == "consumers":
            return self._consumers.shown()
        if what in SHOWN:
            return SHOWN[what](store, self._continual)
        views = [view for view in store.catalog.views if view.lag is None or view.lag.is_read_through]
        return pa.table(
            {
                "name": pa.array([view.name for view in views], pa.string()),
                "materialized": pa.array([view.materialized for view in views], pa.bool_()),
                "rows": pa.array([store.engine.rows(v.name) if v.materialized else None for v in views], pa.int64()),
                "tidemark": pa.array([self._tidemark(v) for v in views], pa.int64()),
            }
        )

    def _tidemark(self, view: View) -> int | None:
        if view.lag is not None:
            return self._continual.standing(view.name).tidemark
        return self._store.version if view.materialized or view.external else None

    def refresh(self, name: str) -> None:
        """Bring a snapshot up to date now, or ask a continual query, whatever its trigger says.

        What changed since its tidemark is read from the log. If nothing did, no version is made.
        """
        with self._store.lock:
            self._store.must_be_open()
            self._must_be_free()
            self._continual.refresh(self._relation(name).name)

    def run_due(self) -> int:
        """Do what is due now, and say how much that was: actions of rules that wait for their time or that a crash left
        behind, snapshots, and continual queries whose trigger holds.

        Every transaction does that too, and so does a thread of this process when a time has come, unless the
        connection was given a clock of its own: then time passes when this is called.
        """
        with self._store.lock:
            self._store.must_be_open()
            self._must_be_free()
            done = self._run_actions() + self._continual.run_due()
            self._store.committed.notify_all()  # time has passed for those who wait, too
            return done

    def results(self, query: str, after: int = 0, *, name: str | None = None, lag: str = "keep") -> Results:
        """The results of a continual query as they come, those after a number first: an iterator, with ``poll``.

        Results are numbered from 1 and durable, as far as the log is kept; number 0, with ``after=-1``, is the whole
        answer at the creation. A reader with a ``name`` goes on where it was, also in another process, and what it
        has not read is kept for it, as for a subscriber.
        """
        with self._store.lock:
            self._store.must_be_open()
            must_be_policy(lag)
            found = self._query_named(query)
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
        with self._store.lock:
            self._store.must_be_open()
            name = self._query_named(query)
            last = self._continual.standing(name).results if after is None else after
            return self._delivery.register(name, function, last)

    def _query_named(self, name: str) -> str:
        found = self._relation(name)
        if not isinstance(found, View) or found.lag is None or found.lag.kind != QUERY:
            raise TidemarkError(
                "wrong_kind", f"{found.name!r} is no continual query", hint="subscribe() follows others"
            )
        return found.name

    # Time

    def tick(self, now: dt.datetime | None = None) -> None:
        """Move the clock on to now: rows of views whose filter names NOW() leave, or come, when their time has come.

        Every transaction does that too; a tick is a transaction that does nothing else. ``now`` is the time of the
        connection's clock if it is not given, and cannot be before the time at which the database's clock stands.
        Without a view that names NOW() nothing happens.
        """
        with self._store.lock:
            self._store.must_be_open()
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
        with self._store.lock:
            self._store.must_be_open()
            found = self._current(self._stored_relation(relation))
            if not isinstance(since, int) or since < 0:
                raise TidemarkError("version", f"there is no version {since!r}", hint="since=0 gives all changes")
            if paired:
                key = key_of(found, self._store.catalog)
                return pairs_of(self._changes(found.name, since), found.schema, key).table
            return self._changes(found.name, since)

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

    def _changes(self, name: str, since: int) -> pa.Table:
        store = self._store
        relation = store.catalog.relations[name]
        must_reach(store, name, since, each_version=True)
        logged = store.engine.changes(name, since)
        born = store.created[name]
        if not isinstance(relation, View) or born <= since:
            return logged
        # The initial content is not kept apart: it is the content now, rolled back over the log.
        later = delta_tables.net(logged.drop_columns([VERSION]))
        plan = union((self._content(relation), Negate(Given("log", relation.schema))), relation.schema)
        initial = store.engine.evaluate(*settle(plan, {"log": later}, store.engine))
        stamp = pa.array([born] * initial.num_rows, pa.int64())
        return pa.concat_tables([initial.add_column(len(relation.schema), VERSION, stamp).cast(logged.schema), logged])

    def _content(self, relation: Relation) -> Plan:
        """A relation as it is now: what is stored of it, or, of an external view, what its definition says."""
        if isinstance(relation, View) and relation.external:
            return resolve(relation.plan, Block())
        return Stored(relation.name, relation.schema)

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
        with self._store.lock:
            self._store.must_be_open()
            subscriber, name = name, self._stored_relation(relation).name
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
                lambda: engine.fetch(*settle(self._content(found), {}, engine)),
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
        return self._changes(self._current(self._store.catalog.relations[name]).name, since)

    def unsubscribe(self, name: str) -> None:
        """Forget a subscriber with a name, and with it what the log keeps for it."""
        with self._store.lock:
            self._store.must_be_open()
            self._consumers.unsubscribe(name)

    # Answers about views

    def audit(self, view: str) -> pa.Table:
        """The rows whose stored weight differs from the definition evaluated on the base tables (first principle).

        ``_weight`` is what is stored minus what should be. Empty when all is well. Approximate columns (sums of DOUBLE)
        are compared within a tolerance.
        """
        with self._store.lock:
            self._store.must_be_open()
            found = self._stored_relation(view)
            if not isinstance(found, View):
                raise TidemarkError("not_a_view", f"{found.name!r} is a table: there is nothing to compare it with")
            if found.external:
                return delta_tables.no_change(found.schema)  # nothing is stored that could differ
            if found.lag is not None:
                standing = self._continual.standing(found.name)
                if standing.invalid:
                    what = f"{found.name!r} cannot be compared with its definition as of version {standing.tidemark}"
                    raise TidemarkError("version", f"{what}: the log was cut", hint=f"REFRESH {found.name} first")
                return audit_as_of(found, self._store, standing.tidemark)
            return audit(found, self._store.catalog, self._store.engine)

    def explain(self, view: str) -> str:
        """How a view is kept true: its plan, its partial differentials, and the strategy."""
        with self._store.lock:
            self._store.must_be_open()
            relation = self._relation(view)
            if not isinstance(relation, View):
                raise TidemarkError("not_a_view", f"{relation.name!r} is a table: there is nothing to derive")
            store = self._store
            return explain(relation, store.network, store.catalog, store.refreshes, store.boundaries)

    def why(self, relation: str, row: WantedRow, *, version: int | None = None, rows: int = 3) -> Answer | Cause:
        """Why a row is in a relation: one derivation, down to stored rows. ``str`` of it is a tree for people.

        ``row`` has a value for each column, or is a dict of some columns, which picks the first row that has these
        values. Of many rows that one rests on, as in a group, ``rows`` are shown. If the row is not there, the answer
        says why not, and its ``is_there`` is false.

        With a ``version`` the answer is the ``Cause`` of what that version did to the row: the rows that were inserted
        or deleted in tables without which it would not have come or gone.
        """
        with self._store.lock:
            self._store.must_be_open()
            transaction = self._session or self._begin()
            found = self._relation_in(transaction, relation)
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
        found = self._relation_in(transaction, statement.relation)
        values = bind_row(statement.row, found.schema, found.name, source)
        return pa.table({"explain": str(self._why(transaction, found, values, statement.version)).splitlines()})

    def _relation_in(self, transaction: Transaction, name: str) -> Relation:
        catalog = transaction.catalog
        relation = catalog.get(name) or catalog.get(fold(str(name)))
        if relation is None:
            raise TidemarkError("unknown_relation", f"there is no relation {name!r}", hint=catalog.suggestions(name))
        return relation

    def as_rules(self, view: str, target: str | None = None) -> str:
        """The active rules that would keep a table (of the view's name, or another) as the view is, as a script."""
        with self._store.lock:
            self._store.must_be_open()
            keyed = {name for name, keys in relation_keys(self._store.catalog).items() if keys}
            return as_rules(self._view(view), self._store.catalog, keyed, target)

    def classify(self, view: str, dml: str) -> Classification:
        """What a statement, or a transaction of several, is to a view before it runs, and why.

        The kind is untouched, irrelevant, autonomous, conditional or differential: the strongest that is true.
        Nothing is run.
        """
        if not isinstance(dml, str):
            raise TidemarkError("type", f"SQL is text, not {type(dml).__name__}")
        return self._classified(view, st.parse_script(Source(dml, self._dialect, self._store.now())))

    def _classified(self, view: str, script: Sequence[tuple[st.Statement, Source]]) -> Classification:
        with self._store.lock:
            self._store.must_be_open()
            relation = self._view(view)
            changes = [bind_change(statement, self._store.catalog, source) for statement, source in script]
            store = self._store
            return classify(relation, changes, store.catalog, store.refreshes.known, store.boundaries)

    def advise(self, view: str, dml: str) -> Advice:
        """For which values of its parameters a statement is irrelevant or autonomous to a view, and which columns the
        view would have to show for more of it to be autonomous: ``DELETE FROM t WHERE a < :p``. Nothing is run."""
        if not isinstance(dml, str):
            raise TidemarkError("type", f"SQL is text, not {type(dml).__name__}")
        script = st.parse_script(Source(dml, self._dialect, self._store.now()))
        if len(script) != 1:
            raise TidemarkError("syntax", "advise takes one statement")
        return self._advised(view, *script[0])

    def _advised(self, view: str, statement: st.Statement, source: Source) -> Advice:
        with self._store.lock:
            self._store.must_be_open()
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
        relation = self._relation(name)
        if not isinstance(relation, View):
            raise TidemarkError("not_a_view", f"{relation.name!r} is a table: a statement changes it or does not")
        return relation

    def trace(self, version: int) -> pa.Table:
        """What was done for each affected node in the transaction that made the version."""
        with self._store.lock:
            self._store.must_be_open()
            if isinstance(version, int) and 0 < version <= retained(self._store).full:
                raise TidemarkError("version", f"the trace of version {version} is no longer kept")
            text = self._store.engine.trace(version) if isinstance(version, int) else None
            if text is None:
                raise TidemarkError("version", f"there is no version {version}", hint=f"the last one is {self.version}")
            return pa.Table.from_pylist(json.loads(text), schema=TRACE)

    def _relation(self, name: str) -> Relation:
        relation = self._store.catalog.get(name) or self._store.catalog.get(fold(str(name)))
        if relation is None:
            raise TidemarkError(
                "unknown_relation",
                f"there is no relation {name!r}",
                hint=self._store.catalog.suggestions(name),
            )
        return relation

    def _stored_relation(self, name: str) -> Relation:
        relation = self._relation(name)
        if isinstance(relation, View) and not relation.is_logged:
            raise TidemarkError(
                "not_materialized",
                f"{relation.name!r} is a plain view: its changes are not kept",
                hint="CREATE MATERIALIZED VIEW, or CREATE EXTERNAL VIEW",
            )
        return relation

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
