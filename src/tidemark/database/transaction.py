"""A transaction: changes pile up as net deltas beside what is stored, until commit applies them all at once."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from tidemark.algebra.expressions import Column
from tidemark.algebra.plans import Given, Plan, Project, Scan, Touched, relations_of
from tidemark.database.actions import FIRINGS, NO_PROGRAM, Program
from tidemark.database.clock import with_clock
from tidemark.database.declared import must_be_as_declared
from tidemark.database.detaching import (
    CONDITION_STAGE,
    DETACHED_TABLE,
    PARTIAL_STAGE,
    TIMER_STAGE,
    Entry,
)
from tidemark.database.firings import forgetting
from tidemark.database.history import past
from tidemark.database.queueing import queued_in
from tidemark.database.reacting import Reactions
from tidemark.database.reading import expanded, readable
from tidemark.database.rows import Rows, as_table
from tidemark.database.ruling import (
    bound_anew,
    must_see_updates,
    rules_meant,
    with_activation,
    with_rule_tables,
    without_rule,
    without_rules_on,
)
from tidemark.database.standing import dropped_as, must_mean_the_same
from tidemark.database.store import Store, Work
from tidemark.database.syncing import Synced, differences, must_be_present
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError, too_complex
from tidemark.log import deltas as delta_tables
from tidemark.network import Wave
from tidemark.network.settle import settle
from tidemark.rules.graph import warnings
from tidemark.sql import statements as st
from tidemark.sql.activerules import Activation, Rule
from tidemark.sql.catalog import RULE_TABLES, Catalog, Relation, Table, View, kind_of
from tidemark.sql.changes import (
    LEAVING,
    Change,
    DeleteRows,
    InsertQuery,
    InsertRows,
    UpdateRows,
    bind_change,
    table_for_change,
)
from tidemark.sql.continual_statements import AlterLog, Refresh
from tidemark.sql.programs import Definition, bind_definition
from tidemark.sql.queries import QueryBinder
from tidemark.sql.redefine import bind_alter, with_altered, with_replaced
from tidemark.sql.rule_statements import CreateRule, SetActive
from tidemark.sql.rules import bind_rule, first_time
from tidemark.sql.tables import bind_table
from tidemark.sql.text import Source, fold
from tidemark.sql.trigger_conditions import check_lag

T = TypeVar("T")
NOTHING: Mapping[str, pa.Table] = {}


class Transaction:
    """Atomic over tables. Nothing is visible outside, or stored, before commit; rollback just forgets.

    Use it as a context manager through ``Database.transaction``.
    """

    def __init__(
        self, store: Store, dialect: str, ended: Callable[[Transaction], None], program: Program = NO_PROGRAM
    ) -> None:
        self._store = self.store = store
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
        with self._store.lock:
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
                self._store.commit(work)
            except BaseException:
                self._leave()
                raise
            self.is_committed = True
            self._end()

    def bring(self, work: Work) -> None:
        """Commit what brings something that lags up to date, and what rules make of its change."""
        self._brought, self.pending, self.statements = work, dict(work.pending), work.statements
        with self._store.lock:
            try:
                self.reactions.after_statement()
            except BaseException:
                self._leave()
                raise
            self.commit()

    def _check_rules(self) -> None:
        """The check phase, and what it leaves to be done apart."""
        if self.catalog.activations:
            self._now = self._now or self._store.now()
            self.pending = dict(self._store.in_time(self.catalog, self.pending, self._now))
            self._wave = None
            if self.catalog is self._store.catalog:
                self._wave = self._store.derive(self.catalog, self.pending, self._alone())
                self._is_checked = self._wave.is_checked
            self.reactions.check()
        for entry in self.reactions.detached:
            self.keep(DETACHED_TABLE, entry.added())
        for change in self.reactions.partials.changes(self._store.version + 1):
            self.keep(DETACHED_TABLE, change)

    def rollback(self) -> None:
        """Forget everything that was done in this transaction."""
        with self._store.lock:
            self._must_be_open()
            if self.reactions.is_acting:
                self._program.must_not_be_calling()
            self._leave()

    def _leave(self) -> None:
        """End without a commit; rules that are independent of it get what they are owed."""
        try:
            if self.pending and self._store.catalog.has_independent:
                self.reactions.rolled_back(self._store.catalog)
        finally:
            self._end()

    def signal(self, name: str, payload: object = "") -> None:
        """Tell rules of an event outside the database: those ON SIGNAL name. A payload that is no text goes as JSON."""
        self._guarded(lambda: self._signal(name, payload))

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

    def tick(self, now: dt.datetime) -> None:
        """Move the clock on, and do nothing else."""
        self._now, self.statements = now, self.statements + 1
        self.commit()

    # Rules

    def change(self, bound: Change, named: Mapping[str, pa.Table] = NOTHING) -> None:
        """Run a bound statement over what is given by name."""
        before, self._named = self._named, named
        try:
            self._change(bound)
        finally:
            self._named = before

    def keep(self, table: str, delta: pa.Table, text: str | None = None) -> None:
        """Add a change to those of a table. What was derived goes on if nothing is derived from that table.

        ``text`` is the statement that is the whole reason for the change, if one is."""
        self._said.setdefault(table, []).append(text)
        if table in RULE_TABLES and (self.catalog is not self._store.catalog or table in self._store.network.read):
            self._wave = None
        before = self.pending.get(table)
        after = delta if before is None else delta_tables.combine(before, delta)
        for deltas in (self.pending, *([] if self._wave is None else [self._wave.deltas])):
            if after.num_rows:
                deltas[table] = after
            else:
                deltas.pop(table, None)
        self.statements += 1

    def _forget_firings(self) -> Mapping[str, str | None]:
        """Take what the log no longer reaches back to out of the history of firings; the notes that go with it."""
        found = forgetting(self._store)
        if found is None:
            return {}
        self.keep(FIRINGS, found[0])
        return found[1]

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
            known = {activation.arguments for activation in rule.active}
            fresh = [activation for activation in changed.active if activation.arguments not in known]
            self._redefine(self.catalog.with_rule(changed))
            self._unwatch(rule, changed)
            if self.pending:
                for activation in fresh:
                    self.reactions.activated(activation)
            self._set_timers(changed, fresh, source)

    def _set_timers(self, rule: Rule, fresh: list[Activation], source: Source) -> None:
        """Timers of what is watched now. Of what is not any more, those are taken away, and what has begun and not
        happened yet: sequences, closures and delays. What happened while it was watched is still done."""
        names = {activation.name for activation in rule.active}
        stages = {TIMER_STAGE, PARTIAL_STAGE} | ({CONDITION_STAGE} if rule.delay is not None else set())
        self._forget_entries(rule, lambda entry: entry.stage in stages and entry.rule not in names)
        now = self._store.now()
        for activation in fresh:
            for event in rule.times:
                due = first_time(event, now, source)
                self.keep(DETACHED_TABLE, Entry.timer(activation.name, event, self._store.version + 1, due).added())

    def _forget_entries(self, rule: Rule, is_over: Callable[[Entry], bool]) -> None:
        entries = queued_in(self._store, self.pending.get(DETACHED_TABLE))
        for entry in [entry for entry in entries if entry.rule_name == rule.name and is_over(entry)]:
            self.keep(DETACHED_TABLE, entry.added(-1))

    def _unwatch(self, before: Rule, after: Rule | None) -> None:
        names = {activation.name for activation in after.active} if after is not None else set()
        for activation in before.active:
            if activation.name not in names:
                self.reactions.deactivated(activation)

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
                self._create_table(statement, source)
            case st.CreateView() | st.CreateProgram():
                self._create_view(statement, source)
            case Refresh() | AlterLog():
                raise TidemarkError(
                    "transaction", "this statement cannot stand inside a transaction", hint="COMMIT first"
                )
            case st.AlterTable():
                self._alter_table(statement, source)
            case st.Drop():
                self._drop(statement, source)
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
        return self._engine.fetch(*self._readable(plan))

    def evaluate(self, plan: Plan) -> pa.Table:
        """The net rows of a plan at this point of the transaction, with their weights."""
        return self._guarded(lambda: self._evaluate(plan))

    def _evaluate(self, plan: Plan) -> pa.Table:
        return self._engine.evaluate(*self._readable(plan))

    @property
    def _engine(self) -> Engine:
        return self._store.reading(self.catalog)

    def _readable(self, plan: Plan, named: Mapping[str, pa.Table] = NOTHING) -> tuple[Plan, Mapping[str, pa.Table]]:
        """The plan over what is stored and pending, and over what is given under a name. Views are brought up to date
        only if the plan reads one."""
        stored = self._store.stored_of(self.catalog)
        if self.catalog.lagging_views:
            stored = self._refreshed(relations_of(plan), stored)
        plan = expanded(plan, self.catalog, stored)
        derived = any(isinstance(self.catalog.get(name), View) for name in relations_of(plan))
        resolved, given = readable(plan, stored, self.derived_deltas() if derived else self.pending)
        return settle(resolved, {**given, **self._named, **named, **past(plan, self._store)}, self._engine)

    def _refreshed(self, names: frozenset[str], stored: frozenset[str]) -> frozenset[str]:
        """What is stored and true: views that are refreshed on read are, unless this transaction has changes of its
        own, which then see them through their definitions."""
        read = self.catalog.read_through & names
        if not read:
            return stored
        if self.pending or self.catalog is not self._store.catalog:
            return stored - read
        self._store.before_read(read)
        return stored

    def _parsed(self, sql: str) -> list[tuple[st.Statement, Source]]:
        if not isinstance(sql, str):
            raise TidemarkError("type", f"SQL is text, not {type(sql).__name__}")
        return st.parse_script(Source(sql, self._dialect, self._store.now()))

    def _query_text(self, sql: str) -> pa.Table:
        script = self._parsed(sql)
        if len(script) != 1 or not isinstance(script[0][0], st.Query):
            raise TidemarkError("syntax", "query takes one SELECT", hint="use execute for other statements")
        result = self.run(*script[0])
        assert result is not None
        return result

    # Changes of tables

    def _alone(self) -> Change | None:
        """The statement that was all that this transaction did."""
        return self._change_alone if self.statements == 1 else None

    def _change(self, bound: Change, text: str | None = None) -> None:
        self._change_alone = bound
        match bound:
            case InsertRows(table=table, rows=rows):
                self._insert(table, rows, text)
            case InsertQuery(table=table, plan=plan):
                self._apply(table.name, self._evaluate(plan), text)
            case DeleteRows(table=table, plan=plan):
                self._apply(table.name, delta_tables.negated(self._evaluate(plan)), text)
            case UpdateRows(table=table, plan=plan, coming=coming):
                leaving = self._evaluate(plan)
                new_rows = self._engine.evaluate(*self._readable(coming, {LEAVING: leaving}))
                self._apply(table.name, delta_tables.combine(delta_tables.negated(leaving), new_rows), text)

    def _insert(self, table: Table, rows: Rows, text: str | None = None) -> None:
        added = delta_tables.weighted(as_table(rows, table.schema, table.name))
        self._apply(table.name, delta_tables.net(added), text)

    def _delete(self, table: Table, rows: Rows) -> None:
        wanted = delta_tables.net(delta_tables.weighted(as_table(rows, table.schema, table.name)))
        found = self._found(table, wanted)
        missing = delta_tables.inserted(delta_tables.combine(wanted, delta_tables.negated(found)))
        if missing.num_rows:
            row = missing.select(range(missing.num_columns - 1)).slice(0, 1).to_pylist()[0]
            raise TidemarkError(
                "absent",
                f"{table.name!r} does not hold the row that is to be deleted (or not as often): {row}",
                hint="delete takes whole rows, as they are stored",
            )
        self._apply(table.name, delta_tables.negated(wanted))

    def _found(self, table: Table, wanted: pa.Table) -> pa.Table:
        """The rows that have the key of a wanted row (or, without a key, equal one), with their weights."""
        keys = table.primary_key or tuple(range(len(table.schema)))
        given = Given("wanted", table.schema)
        wanted_keys = Project(given, tuple(table.schema.names), _first(keys, given.columns()))
        resolved, deltas = self._readable(Touched(Scan(table.name, table.schema), wanted_keys, keys))
        return self._engine.evaluate(resolved, {**deltas, "wanted": wanted})

    def _sync(self, table: Table, state: Rows | None, changed: Rows | None, present: Rows | None) -> Synced:
        plan, named = differences(table, state, changed, present)
        must_be_present(table, named, self._engine.evaluate)
        delta = self._engine.evaluate(*self._readable(plan, named))
        self._apply(table.name, delta)
        return Synced.of(delta)

    def _apply(self, table: str, delta: pa.Table, text: str | None = None) -> None:
        """Add a statement's delta to the transaction's net delta of the table (delta-union)."""
        self._program.must_not_be_calling()
        if self.catalog is not self._store.catalog or table in self._store.network.read:
            self._wave = None
        self._is_checked = False
        self.keep(table, delta, text)
        watched = self.catalog.immediately_watched
        # An action stands between what set it off and the turn of other rules, so they are considered after any of it.
        if table in watched or (watched and self.reactions.is_acting):
            self.reactions.after_statement()

    def _table(self, name: str) -> Table:
        exact = name if self.catalog.get(name) is not None else fold(name)
        return table_for_change(exact, self.catalog, Source("", self._dialect))

    # Definitions

    def _create_table(self, statement: st.CreateTable, source: Source) -> None:
        table = bind_table(statement, source)
        if statement.tree.args.get("exists") and self.catalog.get(table.name) is not None:
            self.statements += 1
            return
        self._define(table)

    def _create_view(self, statement: Definition, source: Source) -> None:
        known = [name for name in statement.names if self.catalog.get(name) is not None]
        if statement.if_not_exists and len(known) == len(statement.names):
            self.statements += 1
            return
        if statement.or_replace and known and len(statement.names) > 1:
            raise TidemarkError(
                "unsupported", "several views of one program cannot be replaced at once", hint="drop them first"
            )
        defined: list[View] = []
        for view in bind_definition(statement, self.catalog, source):
            defined.append(view)
            if statement.or_replace and view.name in known:
                self._replace(view, source)
                defined += self.catalog.above(view.name)
            else:
                self._define(view)
            self.catalog = with_clock(self.catalog, view)
            check_lag(view, self.catalog, source)
        must_be_as_declared(self.catalog, defined)

    def _replace(self, view: View, source: Source) -> None:
        before = self.catalog.relations[view.name]
        if not isinstance(before, View) or kind_of(before) != kind_of(view):
            raise TidemarkError(
                "wrong_kind",
                f"{view.name!r} is of another kind ({kind_of(before)}) than what is to replace it ({kind_of(view)})",
                hint=f"DROP {kind_of(before).upper()} {view.name} first",
            )
        after = with_replaced(self.catalog, view, source)
        must_mean_the_same(self.catalog, after, view.name)
        self._redefine(bound_anew(after, view.name))

    def _alter_table(self, statement: st.AlterTable, source: Source) -> None:
        if statement.tree.args.get("exists") and self.catalog.get(statement.name) is None:
            self.statements += 1
            return
        table = table_for_change(statement.name, self.catalog, source, statement.tree.this)
        altered = bind_alter(statement, table, source)
        if altered is table:
            self.statements += 1
            return
        after = with_altered(self.catalog, altered)
        must_mean_the_same(self.catalog, after, table.name)
        self._redefine(bound_anew(after, altered.name))
        if table.name in self.pending:
            added = altered.defaults[len(table.schema) :]
            self.pending[table.name] = delta_tables.extended(self.pending[table.name], altered.schema, added)
            self.reactions.altered(table.name, altered.schema, added)

    def _redefine(self, catalog: Catalog) -> None:
        self._program.must_not_be_calling()
        self.catalog = catalog
        self._wave = None
        self.statements += 1

    def _define(self, relation: Relation) -> None:
        self.catalog.must_be_new(relation.name)
        if relation.name.startswith("_") or not relation.name:
            raise TidemarkError("reserved_name", "names that begin with _ are reserved, and a name cannot be empty")
        self._redefine(self.catalog.with_relation(relation))

    def _without_rules(self, catalog: Catalog) -> None:
        """Drop rules, and with them all that waits to be done by them."""
        gone = [rule for name, rule in self.catalog.rules.items() if catalog.rules.get(name) is not rule]
        self._redefine(catalog)
        for rule in gone:
            self._unwatch(rule, None)
            self._forget_entries(rule, lambda entry: True)
            detached = self.reactions.detached
            self.reactions.detached = [entry for entry in detached if entry.rule_name != rule.name]

    def _drop(self, statement: st.Drop, source: Source) -> None:
        if statement.kind == "RULE":
            self._without_rules(without_rule(statement, self.catalog))
            return
        if statement.name in RULE_TABLES:
            raise TidemarkError("reserved_name", f"{statement.name!r} is kept for rules and cannot be dropped")
        relation = self.catalog.get(statement.name)
        if relation is None:
            if statement.if_exists:
                self.statements += 1
                return
            raise TidemarkError(
                "unknown_relation",
                f"there is no {statement.name!r}",
                hint=self.catalog.suggestions(statement.name),
            )
        kind = "TABLE" if not isinstance(relation, View) else _dropped_as(relation)
        if kind != statement.kind:
            raise TidemarkError("wrong_kind", f"{statement.name!r} is a {kind.lower()}", hint=f"DROP {kind}")
        dependents = self.catalog.dependents(statement.name)
        if dependents and not statement.cascade:
            names = ", ".join(view.name for view in self.catalog.above(statement.name))
            raise TidemarkError(
                "dependents",
                f"{statement.name!r} is needed by {names}",
                hint="drop them first, or use CASCADE",
            )
        self._without_rules(without_rules_on(statement, self.catalog))
        for view in dependents:
            if self.catalog.get(view.name) is not None:
                self._drop(st.Drop(_dropped_as(view), view.name, if_exists=True, cascade=True), source)
        self._redefine(self.catalog.without(statement.name))
        self.pending.pop(statement.name, None)

    # State

    def derived_deltas(self) -> dict[str, pa.Table]:
        """The deltas of tables and of views, derived at the first read of a view after a change."""
        if not self.pending and self.catalog is self._store.catalog:
            return {}
        if self._wave is None:
            self._wave = self._store.derive(self.catalog, self.pending)
            self._is_checked = self._wave.is_checked
        return self._wave.deltas

    def _guarded(self, action: Callable[[], T]) -> T:
        """Run an action; a failure dooms the transaction until rollback."""
        with self._store.lock:
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


def _dropped_as(view: View) -> str:
    """What stands behind DROP for a view."""
    return "ASSERTION" if view.options.get("assertion") else dropped_as(view)


def _first(positions: tuple[int, ...], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns with the given ones in front."""
    return tuple(columns[p] for p in positions) + tuple(c for c in columns if c.index not in positions)
