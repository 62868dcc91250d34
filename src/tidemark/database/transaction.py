"""A transaction: changes pile up as net deltas beside what is stored, until commit applies them all at once."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from tidemark.algebra.plans import Plan
from tidemark.database.actions import FIRINGS, Program
from tidemark.database.changing import NOTHING, added, delta_of, removed
from tidemark.database.defining import with_more_columns, with_table, with_views, without
from tidemark.database.detaching import DETACHED_TABLE
from tidemark.database.firings import forgetting
from tidemark.database.reacting import Reactions
from tidemark.database.rows import Rows
from tidemark.database.ruling import must_see_updates, rules_meant, with_activation, with_rule_tables
from tidemark.database.seeing import seen
from tidemark.database.store import Store, Work
from tidemark.database.syncing import Synced, differences, must_be_present
from tidemark.database.watching import dropped, timers, unwatched
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError, too_complex
from tidemark.log import deltas as delta_tables
from tidemark.network import Wave
from tidemark.rules.graph import warnings
from tidemark.sql import statements as st
from tidemark.sql.catalog import RULE_TABLES, Catalog, Table
from tidemark.sql.changes import Change, bind_change, table_for_change
from tidemark.sql.continual_statements import AlterLog, Refresh
from tidemark.sql.parsing import parse_script
from tidemark.sql.queries import QueryBinder
from tidemark.sql.rule_statements import CreateRule, SetActive
from tidemark.sql.rules import bind_rule
from tidemark.sql.text import Source, fold

T = TypeVar("T")


class Transaction:
    """Atomic over tables. Nothing is visible outside, or stored, before commit; rollback just forgets.

    Use it as a context manager through ``Database.transaction``.
    """

    def __init__(self, store: Store, dialect: str, ended: Callable[[Transaction], None], program: Program) -> None:
        self.store = store
        self._program = program
        self.reactions = Reactions(self, program)
        self._now: dt.datetime | None = None
        self._ended = ended
        self._dialect = dialect
        self.catalog: Catalog = store.catalog
        self.pending: dict[str, pa.Table] = {}
        self._said: dict[str, list[str | None]] = {}
        self.statements = 0
        self._change_alone: Change | None = None
        self._brought: Work | None = None
        self.is_open = True
        self.failure: TidemarkError | None = None
        self._wave: Wave | None = None
        self._named: Mapping[str, pa.Table] = NOTHING
        self.is_committed = self._is_checked = False

    # What users call

    def execute(self, sql: str) -> pa.Table | None:
        """Run one statement or a script inside the transaction; the last result, if there is one."""
        result: pa.Table | None = None
        script = self._guarded(lambda: self._parsed(sql))
        for statement, source in script:
            result = self.guarded_run(statement, source)
        return result

    def query(self, sql: str) -> pa.Table:
        """The rows of a query, with this transaction's own changes."""
        return self._guarded(lambda: self._query_text(sql))

    def insert(self, table: str, rows: Rows) -> None:
        """Add rows: a list of tuples or dicts, or an Arrow table with the table's columns."""
        self._guarded(lambda: self._insert(self._table(table), rows))

    def delete(self, table: str, rows: Rows) -> None:
        """Remove whole rows, one equal row for each; a row that is not there is an error."""
        self._guarded(lambda: self._delete(self._table(table), rows))

    def sync(
        self, table: str, state: Rows | None = None, *, changed: Rows | None = None, present: Rows | None = None
    ) -> Synced:
        """Bring a table to the state that a source gives; see ``Database.sync``."""
        return self._guarded(lambda: self._sync(self._table(table), state, changed, present))

    def commit(self) -> None:
        """Make everything true at once, or, if that fails, nothing."""
        with self.store.lock:
            self._must_be_open()
            if self.statements:
                self._program.must_not_be_calling()
            if self.failure is not None:
                self._leave()
                raise TidemarkError(
                    "doomed",
                    f"the transaction was rolled back, because a statement in it failed: {self.failure.message}",
                )
            try:
                if self.statements:
                    self._check_rules()
                notes = self._forget_firings() if FIRINGS in self.pending else {}
                brought = self._brought or Work(self.catalog, {}, 0)
                work = replace(
                    brought,
                    catalog=self.catalog,
                    pending=self.pending,
                    statements=self.statements,
                    now=self._now,
                    change=self._alone(),
                    wave=self._wave,
                    is_checked=self._is_checked,
                    said=self._said,
                    notes={**brought.notes, **notes},
                )
                self.store.commit(work)
            except BaseException:
                self._leave()
                raise
            self.is_committed = True
            self._end()

    def rollback(self) -> None:
        """Forget everything that was done in this transaction."""
        with self.store.lock:
            self._must_be_open()
            if self.reactions.acting.is_nested:
                self._program.must_not_be_calling()
            self._leave()

    def signal(self, name: str, payload: object = "") -> None:
        """Tell rules of an event outside the database: those ON SIGNAL name. A payload that is no text goes as JSON."""
        self._guarded(lambda: self._signal(name, payload))

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.is_open:
            return
        if kind is not None:
            self.rollback()
        else:
            self.commit()

    # Statements

    def guarded_run(self, statement: st.Statement, source: Source) -> pa.Table | None:
        """Run one parsed statement; its failure dooms the transaction."""
        return self._guarded(lambda: self.run(statement, source))

    def run(self, statement: st.Statement, source: Source) -> pa.Table | None:
        """Run one parsed statement."""
        match statement:
            case st.Query(tree=tree, as_of=version):
                return self.fetch(QueryBinder(source, self.catalog, version=version).bind(tree))
            case st.Insert() | st.Update() | st.Delete():
                self._change(bind_change(statement, self.catalog, source), statement.text)
            case st.CreateTable():
                self._redefine(with_table(statement, self.catalog, source))
            case st.CreateView() | st.CreateProgram():
                self._redefine(with_views(statement, self.catalog, source))
            case Refresh() | AlterLog():
                raise TidemarkError(
                    "transaction", "this statement cannot stand inside a transaction", hint="COMMIT first"
                )
            case st.AlterTable():
                self._redefine(with_more_columns(statement, self.catalog, source))
            case st.Drop():
                self._drop(statement)
            case CreateRule():
                return self._create_rule(statement, source)
            case SetActive():
                self._set_active(statement, source)
            case st.Begin() | st.Commit() | st.Rollback():
                raise TidemarkError("transaction", "BEGIN, COMMIT and ROLLBACK cannot stand inside this transaction")
            case _:
                raise TidemarkError("unsupported", "this statement cannot stand inside a transaction")
        return None

    def fetch(self, plan: Plan) -> pa.Table:
        """The rows of a bound query at this point of the transaction."""
        return self._engine.fetch(*seen(plan, self, self._named))

    def evaluate(self, plan: Plan) -> pa.Table:
        """The net rows of a plan at this point of the transaction, with their weights."""
        return self._guarded(lambda: self._evaluate(plan))

    def _evaluate(self, plan: Plan, named: Mapping[str, pa.Table] = NOTHING) -> pa.Table:
        return self._engine.evaluate(*seen(plan, self, {**self._named, **named}))

    @property
    def _engine(self) -> Engine:
        return self.store.reading(self.catalog)

    def _parsed(self, sql: str) -> list[tuple[st.Statement, Source]]:
        return parse_script(Source(sql, self._dialect, self.store.now()))

    def _query_text(self, sql: str) -> pa.Table:
        script = self._parsed(sql)
        if len(script) != 1 or not isinstance(script[0][0], st.Query):
            raise TidemarkError("syntax", "query takes one SELECT", hint="use execute for other statements")
        result = self.run(*script[0])
        assert result is not None
        return result

    # Changes of tables

    def change(self, bound: Change, named: Mapping[str, pa.Table] = NOTHING) -> None:
        """Run a bound statement over what is given by name."""
        before, self._named = self._named, named
        try:
            self._change(bound)
        finally:
            self._named = before

    def _alone(self) -> Change | None:
        """The statement that was all that this transaction did."""
        return self._change_alone if self.statements == 1 else None

    def _change(self, bound: Change, text: str | None = None) -> None:
        self._change_alone = bound
        self._apply(bound.table.name, delta_of(bound, self._evaluate), text)

    def _insert(self, table: Table, rows: Rows) -> None:
        self._apply(table.name, added(table, rows))

    def _delete(self, table: Table, rows: Rows) -> None:
        self._apply(table.name, removed(table, rows, self._evaluate))

    def _sync(self, table: Table, state: Rows | None, changed: Rows | None, present: Rows | None) -> Synced:
        plan, named = differences(table, state, changed, present)
        must_be_present(table, named, self._engine.evaluate)
        delta = self._evaluate(plan, named)
        self._apply(table.name, delta)
        return Synced.of(delta)

    def _apply(self, table: str, delta: pa.Table, text: str | None = None) -> None:
        """Add a statement's delta to the transaction's net delta of the table (delta-union)."""
        self._program.must_not_be_calling()
        if self.catalog is not self.store.catalog or table in self.store.network.read:
            self._wave = None
        self._is_checked = False
        self.keep(table, delta, text)
        watched = self.catalog.immediately_watched
        # An action stands between what set it off and the turn of other rules, so they are considered after any of it.
        if table in watched or (watched and self.reactions.acting.is_nested):
            self.reactions.after_statement()

    def _signal(self, name: str, payload: object) -> None:
        self._program.must_not_be_calling()
        if not isinstance(name, str):
            raise TidemarkError("type", f"the name of a signal is a text, not {name!r}")
        try:
            text = payload if isinstance(payload, str) else json.dumps(payload, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TidemarkError("type", f"the payload of a signal is a text or goes into JSON: {error}") from error
        if self.reactions.signal(fold(name), text):
            self.statements += 1

    def _table(self, name: str) -> Table:
        exact = name if self.catalog.get(name) is not None else fold(name)
        return table_for_change(exact, self.catalog, Source("", self._dialect))

    def keep(self, table: str, delta: pa.Table, text: str | None = None) -> None:
        """Add a change to those of a table. What was derived goes on if nothing is derived from that table.

        ``text`` is the statement that is the whole reason for the change, if one is."""
        self._said.setdefault(table, []).append(text)
        if table in RULE_TABLES and (self.catalog is not self.store.catalog or table in self.store.network.read):
            self._wave = None
        before = self.pending.get(table)
        after = delta if before is None else delta_tables.combine(before, delta)
        for deltas in (self.pending, *([] if self._wave is None else [self._wave.deltas])):
            if after.num_rows:
                deltas[table] = after
            else:
                deltas.pop(table, None)
        self.statements += 1

    # Definitions

    def _redefine(self, catalog: Catalog) -> None:
        """Go on with other definitions. What is pending of a table has the columns that the table has now, and of one
        that is gone nothing is."""
        if catalog is self.catalog:
            self.statements += 1
            return
        self._program.must_not_be_calling()
        self.statements += 1
        before, self.catalog, self._wave = self.catalog, catalog, None
        for name in tuple(self.pending):
            table = catalog.get(name)
            if table is None:
                del self.pending[name]
            elif isinstance(table, Table) and len(table.schema) > (known := len(before.relations[name].schema)):
                values = table.defaults[known:]
                self.pending[name] = delta_tables.extended(self.pending[name], table.schema, values)
                self.reactions.altered(name, table.schema, values)

    def _drop(self, statement: st.Drop) -> None:
        before = self.catalog.rules
        self._redefine(without(statement, self.catalog))
        for rule in [rule for name, rule in before.items() if name not in self.catalog.rules]:
            for activation in rule.active:
                self.reactions.deactivated(activation)
            self._queue(dropped(rule, self.store, self.pending.get(DETACHED_TABLE)))
            detached = self.reactions.detached
            self.reactions.detached = [entry for entry in detached if entry.rule_name != rule.name]

    def _create_rule(self, statement: CreateRule, source: Source) -> pa.Table | None:
        if statement.name in self.catalog.rules:
            raise TidemarkError("exists", f"there is already a rule {statement.name!r}", hint="DROP RULE it first")
        rule = bind_rule(statement, self.catalog, source)
        must_see_updates(rule, self.catalog)
        self._redefine(with_rule_tables(self.catalog, rule).with_rule(rule))
        found = warnings(rule, self.catalog)
        return pa.table({"warning": pa.array(found, pa.string())}) if found else None

    def _set_active(self, statement: SetActive, source: Source) -> None:
        for rule in rules_meant(statement, self.catalog):
            changed = with_activation(rule, statement, self.catalog, source)
            self._redefine(self.catalog.with_rule(changed))
            before, after = ({one.arguments for one in active} for active in (rule.active, changed.active))
            fresh = [activation for activation in changed.active if activation.arguments not in before]
            for activation in rule.active:
                if activation.arguments not in after:
                    self.reactions.deactivated(activation)
            if self.pending:
                for activation in fresh:
                    self.reactions.activated(activation)
            self._queue(unwatched(changed, self.store, self.pending.get(DETACHED_TABLE)))
            self._queue(timers(changed, fresh, self.store, source))

    def _queue(self, deltas: Iterable[pa.Table]) -> None:
        for delta in deltas:
            self.keep(DETACHED_TABLE, delta)

    # The end

    def bring(self, work: Work) -> None:
        """Commit what brings something that lags up to date, and what rules make of its change."""
        self._brought, self.pending, self.statements = work, dict(work.pending), work.statements
        with self.store.lock:
            try:
                self.reactions.after_statement()
            except BaseException:
                self._leave()
                raise
            self.commit()

    def tick(self, now: dt.datetime) -> None:
        """Move the clock on, and do nothing else."""
        self._now, self.statements = now, self.statements + 1
        self.commit()

    def _check_rules(self) -> None:
        """The check phase, and what it leaves to be done apart."""
        if self.catalog.activations:
            self._now = self._now or self.store.now()
            self.pending = dict(self.store.in_time(self.catalog, self.pending, self._now))
            self._wave = None
            if self.catalog is self.store.catalog:
                self._wave = self.store.derive(self.catalog, self.pending, self._alone())
                self._is_checked = self._wave.is_checked
            self.reactions.check()
        self._queue(entry.added() for entry in self.reactions.detached)
        self._queue(self.reactions.partials.changes(self.store.version + 1))

    def _forget_firings(self) -> Mapping[str, str | None]:
        """Take what the log no longer reaches back to out of the history of firings; the notes that go with it."""
        found = forgetting(self.store)
        if found is None:
            return {}
        self.keep(FIRINGS, found[0])
        return found[1]

    def _leave(self) -> None:
        """End without a commit; rules that are independent of it get what they are owed."""
        try:
            if self.pending and self.store.catalog.has_independent:
                self.reactions.rolled_back(self.store.catalog)
        finally:
            self._end()

    # State

    def derived_deltas(self) -> dict[str, pa.Table]:
        """The deltas of tables and of views, derived at the first read of a view after a change."""
        if not self.pending and self.catalog is self.store.catalog:
            return {}
        if self._wave is None:
            self._wave = self.store.derive(self.catalog, self.pending)
            self._is_checked = self._wave.is_checked
        return self._wave.deltas

    def _guarded(self, action: Callable[[], T]) -> T:
        """Run an action; a failure dooms the transaction until rollback."""
        with self.store.lock:
            self._must_be_open()
            if self.failure is not None:
                raise TidemarkError(
                    "doomed",
                    f"a statement of this transaction failed before: {self.failure.message}",
                    hint="roll the transaction back",
                )
            try:
                return action()
            except RecursionError as error:
                self.doom(error)
                raise too_complex() from error
            except BaseException as error:
                self.doom(error)
                raise

    def doom(self, error: BaseException) -> None:
        """Remember the first failure: nothing but rollback is possible after it."""
        if self.failure is None:
            known = isinstance(error, TidemarkError)
            self.failure = error if known else TidemarkError("internal", f"{type(error).__name__}: {error}")  # type: ignore[assignment]

    def _must_be_open(self) -> None:
        if not self.is_open:
            raise TidemarkError("transaction", "the transaction has ended")

    def _end(self) -> None:
        self.is_open = False
        self.pending = {}
        self._said = {}
        self._named = NOTHING
        self._wave = None
        self._ended(self)
