"""A transaction: changes pile up as net deltas beside what is stored, until commit applies them all at once."""

from __future__ import annotations

import datetime as dt
import enum
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar, cast

import pyarrow as pa

from tidemark.algebra.compiled import key_of
from tidemark.algebra.expressions import Value
from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Plan, relations_of
from tidemark.algebra.scalar import Row
from tidemark.calculus.as_of import Block, resolve
from tidemark.engines.engine import Engine, read_only
from tidemark.engines.limits import PROCESS
from tidemark.errors import TidemarkError, is_fenced, too_complex
from tidemark.network import Wave
from tidemark.rules.actions import FIRINGS, HostProgram
from tidemark.rules.coupling import Reactions
from tidemark.rules.detached import DETACHED_TABLE
from tidemark.rules.firings import forgetting
from tidemark.session.changes import (
    NOTHING,
    STATE,
    WANTED,
    EvaluateRows,
    Keyed,
    Synced,
    added,
    brought_to,
    changes_key,
    coming,
    delta_of,
    differences,
    must_be_once,
    must_be_present,
    must_have_key,
    removed,
    replacing,
    upserted,
    written_once,
)
from tidemark.session.commit import derived, run
from tidemark.session.forms import Bound, Call, Form
from tidemark.session.options import AllowedPaths
from tidemark.session.prepared import Params, Prepared, handed, must_change, statements_of, taken_cell
from tidemark.session.statements import Answered, Held, row_of
from tidemark.sql.bind.changes import BoundChange, InsertCells, InsertRows, table_for_change
from tidemark.sql.catalog.catalog import Catalog, Table
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.shapes import template
from tidemark.sql.parse.text import Source, fold
from tidemark.state.boundary import bounded, deep
from tidemark.state.course import Course
from tidemark.state.draft import Derivation, Draft, Reacted, Work
from tidemark.state.frames import is_of_spark, taken_over
from tidemark.state.identity import moves
from tidemark.state.outcome import COMMIT_UNKNOWN, Outcome
from tidemark.state.point import Pending, seen, seen_near
from tidemark.state.rows import Rows, must_have_columns
from tidemark.state.state import Store
from tidemark.state.tidemarks import first_version, once_notes
from tidemark.state.times import Laps
from tidemark.state.values import must_be_text
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows as Change
from tidemark.storage.delta import Tables, as_rows
from tidemark.storage.filed import FiledRows, Files
from tidemark.strategy.settle import settle

T = TypeVar("T")
_logger = logging.getLogger("tidemark.transaction")
NO_NAMES: Final = frozenset[str]()
NO_NOTES: Final[Mapping[str, str | None]] = {}


class TransactionStage(enum.Enum):
    """How far a transaction is. This alone says whether it is open, whatever else was not done."""

    OPEN = "open"
    ENDING = "ending"
    ENDED = "ended"


class Owner(Protocol):
    """Who a transaction belongs to: told when it is used, when it begins to end, and when it has ended, also if that
    was interrupted; and asked before views are read that are refreshed on read."""

    def used(self, transaction: Transaction) -> None: ...

    def ending(self, transaction: Transaction) -> None: ...

    def ended(self, transaction: Transaction) -> None: ...

    def read_through(self, names: frozenset[str]) -> bool:
        """Bring views that are refreshed on read up to date; whether that could be done."""


class Nobody:
    """The owner of transactions that read, of which nobody need hear."""

    def used(self, transaction: Transaction) -> None: ...

    def ending(self, transaction: Transaction) -> None: ...

    def ended(self, transaction: Transaction) -> None: ...

    def read_through(self, names: frozenset[str]) -> bool:
        return False


NOBODY: Final[Owner] = Nobody()


@dataclass
class _ByKeys:
    """Calls of a statement by key that are to be run at once: their values, by the key that they are about."""

    plan: Keyed | None = None
    rows: dict[Row, Row] = field(default_factory=dict)

    def has_room(self, key: Row) -> bool:
        return key not in self.rows and len(self.rows) < PROCESS.calls_at_once

    def add(self, plan: Keyed, row: Row) -> None:
        self.plan = plan
        self.rows[plan.key_of(row)] = row

    def taken(self) -> tuple[Keyed | None, list[Row]]:
        """What waited; nothing does any more."""
        plan, rows = self.plan, list(self.rows.values())
        self.plan, self.rows = None, {}
        return plan, rows


@bounded
class Transaction:
    """Atomic over tables. Nothing is visible outside, or stored, before commit; rollback just forgets.

    Use it as a context manager through ``Database.transaction``.
    """

    def __init__(
        self,
        store: Store,
        dialect: str,
        owner: Owner,
        program: HostProgram,
        prepared: Prepared | None = None,
        allowed: AllowedPaths | None = None,
    ) -> None:
        self.store = store
        self._prepared = Prepared() if prepared is None else prepared
        self.course = Course()
        self._program = program
        self.allowed = allowed or AllowedPaths()
        """Which places statements may reach."""
        self._notes: Mapping[str, str | None] = NO_NOTES
        self._now: dt.datetime | None = None
        self._owner = owner
        self._dialect = dialect
        self.catalog: Catalog = store.catalog
        self._pending = Pending()
        self._said: dict[str, list[str | None]] = {}
        self.statements = 0
        self._change_alone: Callable[[], BoundChange] | None = None
        self._brought: Work | None = None
        self._key: str | None = None
        self._repeats: int | None = None
        """The version of the transaction that this one repeats."""
        self.stage = TransactionStage.OPEN
        self.is_left = False
        """Whether the ``with`` block is over. If its end was interrupted, the next transaction ends it."""
        self.outcome = Outcome()
        self.failure: TidemarkError | None = None
        self._derivation: Derivation | None = None
        self._named: Mapping[str, pa.Table] = NOTHING
        self._reactions: Reactions | None = None
        self._files: list[Files] = []
        self.laps = Laps()
        """Where its time goes: what it does is told to begin, and that no call of it goes on any more."""

    @property
    def reactions(self) -> Reactions:
        """What rules make of it. One that no rule has to do with has none."""
        if self._reactions is None:
            self._reactions = Reactions(self, self._program)
        return self._reactions

    @property
    def has_reactions(self) -> bool:
        return self._reactions is not None

    @property
    def pending(self) -> Mapping[str, pa.Table]:
        """The net change of each table so far."""
        return self._pending.net()

    @property
    def is_open(self) -> bool:
        return self.stage is not TransactionStage.ENDED

    @property
    def is_committed(self) -> bool:
        return self.outcome.version is not None

    @property
    def version(self) -> int | None:
        """The version that it made, once it is committed; if it repeats one by its key, the version of that."""
        return self.outcome.version if self._repeats is None else self._repeats

    def once(self, key: str) -> None:
        """Let it be done once under a key: if it was done before, this one changes nothing."""
        with self.store.lock:
            self._key, self._repeats = key, first_version(key, self.store.notes, self.store.now())

    # What users call

    def execute(self, sql: str, params: Params = None) -> pa.Table | None:
        """Run one statement or a script inside the transaction; the last result, if there is one. One statement takes
        parameters; see ``Database.execute``."""
        return self._guarded(lambda: self.run_all(sql, params))

    def run_all(self, sql: str, params: Params = None) -> pa.Table | None:
        """Run the statements of a text; the last result, if there is one."""
        result: pa.Table | None = None
        self.laps.begin("parse")
        for statement, source in self._parsed(sql, params):
            self.store.stopping.begin()
            result = self.run(statement, source)
        return result

    def query(self, sql: str, params: Params = None) -> pa.Table:
        """The rows of a query, with this transaction's own changes."""
        return self._guarded(lambda: self._query_text(sql, params))

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]] | Iterable[Mapping[str, Any]]) -> None:
        """Run one INSERT, UPDATE or DELETE for each row of parameters, in order."""
        self._altering(lambda: self._run_many(sql, rows), None)

    def insert(self, table: str, rows: Rows) -> None:
        """Add rows: a list of tuples or dicts, or an Arrow table or another frame with the table's columns."""
        self._altering(lambda: self._insert(self._table(table), rows), None)

    def delete(self, table: str, rows: Rows) -> None:
        """Remove whole rows, one equal row for each; a row that is not there is an error."""
        self._altering(lambda: self._delete(self._table(table), rows), None)

    def upsert(self, table: str, rows: Rows) -> None:
        """Add rows, each instead of the one that has its PRIMARY KEY, if there is one; see ``Database.upsert``."""
        self._altering(lambda: self._upsert(self._table(table), rows), None)

    def sync(
        self, table: str, state: Rows | None = None, *, changed: Rows | None = None, present: Rows | None = None
    ) -> Synced:
        """Bring a table to the state that a source gives; see ``Database.sync``."""
        return self._altering(lambda: self._sync(self._table(table), state, changed, present), Synced(0, 0))

    def commit(self) -> None:
        """Make everything true at once, or, if that fails, nothing."""
        with self.store.lock, deep():
            self._must_be_open()
            if self.statements:
                self._program.calls.must_be_none()
            self._owner.ending(self)
            self.stage = TransactionStage.ENDING
            if self.failure is not None:
                self._leave()
                raise TidemarkError(
                    "doomed",
                    f"the transaction was rolled back, because a statement in it failed: {self.failure.message}",
                )
            try:
                if self._key is not None and self.statements:
                    self.note(once_notes(self._key, self.store.version + 1, self.store.notes, self.store.now()))
                run(Draft(self.store, self._work(), self._react if self._may_react else None, self._derivation))
            except BaseException as error:
                self._failed(error)
                raise
            self._end()

    def _failed(self, error: BaseException) -> None:
        """A commit has failed; or it has not, and somebody interrupts what comes after it."""
        if self.is_committed or (isinstance(error, TidemarkError) and error.code == COMMIT_UNKNOWN):
            self._end()
        else:
            self._leave()

    def rollback(self) -> None:
        """Forget everything that was done in this transaction."""
        with self.store.lock:
            self._must_be_open()
            if self._reactions is not None and self._reactions.acting.is_nested:
                self._program.calls.must_be_none()
            self._owner.ending(self)
            self.stage = TransactionStage.ENDING
            self._leave()

    def signal(self, name: str, payload: object = "") -> None:
        """Tell rules of an event outside the database: those ON SIGNAL name. A payload that is no text goes as JSON."""
        self._altering(lambda: self._signal(name, payload), None)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.is_left = True  # before all that can be interrupted
        if not self.is_open:
            return
        if kind is not None:
            self.rollback()
        else:
            self.commit()

    # Statements

    def guarded_run(self, statement: st.Statement | Call, source: Source) -> pa.Table | None:
        """Run one parsed statement; its failure dooms the transaction."""
        return self._guarded(lambda: self.run(statement, source))

    def run(self, statement: st.Statement | Call, source: Source) -> pa.Table | None:
        """Run one parsed statement."""
        row = row_of(statement)
        if isinstance(row, Answered):
            raise row.refusal()
        if not row.reads:
            self._must_write("this statement")
        if self._repeats is not None and not row.reads:
            return None
        self.laps.begin("bind")
        return row.run(statement, self, source)

    def fetch(self, plan: Plan) -> pa.Table:
        """The rows of a bound query at this point of the transaction."""
        self.laps.begin("read")
        return self._engine.fetch(*seen(plan, self, self._named, self._unrefreshed(plan)))

    def read(self, plan: Callable[[Catalog], Plan]) -> pa.Table:
        """The rows of a plan over what is defined at this point of the transaction."""
        return self._guarded(lambda: self.fetch(plan(self.catalog)))

    def evaluate(self, plan: Plan) -> pa.Table:
        """The net rows of a plan at this point of the transaction, with their weights."""
        return self._guarded(lambda: self._evaluate(plan))

    def _evaluate(self, plan: Plan, named: Mapping[str, pa.Table] = NOTHING) -> pa.Table:
        return self._rows_of(plan, as_rows(named)).table

    def _rows_of(self, plan: Plan, named: Mapping[str, Change]) -> Change:
        """The same in the form in which they come."""
        known = Tables({**as_rows(self._named), **named})
        resolved, given = seen(plan, self, known, self._unrefreshed(plan))
        found = self._engine.follow(resolved, as_rows(given))
        return Change.of(self._engine.evaluate(resolved, given)) if found is None else found.rows

    def _unrefreshed(self, plan: Plan) -> frozenset[str]:
        """Of the views refreshed on read that a plan reads, those that are not true now: all, if this transaction has
        changes of its own, or somebody else is changing the database. They are seen through their definitions."""
        if not self.catalog.lagging_views:
            return NO_NAMES
        read = self.catalog.read_through & relations_of(plan)
        if not read or self._pending or self.catalog is not self.store.catalog:
            return read
        return NO_NAMES if self._owner.read_through(read) else read

    @property
    def _engine(self) -> Engine:
        return self.store.reading(self.catalog)

    def _parsed(self, sql: str, params: Params = None) -> Sequence[tuple[st.Statement | Call, Source]]:
        return statements_of(self.store.source(sql, self._dialect), params, self._prepared)

    def _query_text(self, sql: str, params: Params) -> pa.Table:
        self.laps.begin("parse")
        script = self._parsed(sql, params)
        if len(script) != 1 or not _is_query(script[0][0]):
            raise TidemarkError("syntax", "query takes one SELECT", hint="use execute for other statements")
        result = self.run(*script[0])
        assert result is not None
        return result

    # Statements that were bound before

    def call(self, call: Call, source: Source) -> pa.Table | None:
        """Run a statement that was bound before, or with parameters. One of which that cannot be said goes the long
        way."""
        text = None if call.is_handed else source.text.strip().rstrip(";").rstrip()
        step: Callable[[], pa.Table | None] | None = None
        if call.verb == "INSERT":
            step = self._insertion(call.rows or (call,), source, text)
        if step is None:
            form = None if call.rows and not call.is_handed else self._prepared.form(call, self.catalog, source)
            step = None if form is None else self._step(form, call, text)
        if step is not None:
            return step()
        result: pa.Table | None = None
        for statement, its in parse_script(source):
            result = self.run(statement, its)
        return result

    def _step(self, form: Form, call: Call, text: str | None) -> Callable[[], pa.Table | None] | None:
        """What is to be done over the values of a call; None if a constant is not what the others of its shape are."""
        try:
            if isinstance(form.bound, Plan):
                return partial(self.fetch, cast("Plan", form.filled(call.values)))
            if call.reads:
                raise TidemarkError("syntax", "a query is expected here")
            plan = form.keyed
            if plan is None:
                return partial(self._change, cast("BoundChange", form.filled(call.values)), text)
            row = form.row_of(call.values)
            return partial(self._change_by_key, plan, (row,), partial(form.filled, call.values), text)
        except TidemarkError:
            if call.is_handed:
                raise
            return None

    def _insertion(self, calls: Sequence[Call], source: Source, text: str | None) -> Callable[[], None] | None:
        """What is to be done over the rows of an INSERT, each a call of its own; None if one is more than values."""
        rows, table = [], None
        cells: tuple[Callable[[Sequence[Any]], Value], ...] = ()
        known: tuple[object, ...] | None = None  # the key of calls that are all bound to the same
        for call in calls:
            if call.key != known:
                form = self._prepared.form(call, self.catalog, source)
                if form is None or form.cells is None:
                    return None
                table, cells = cast("InsertCells", form.bound).table, form.cells
                known = call.key if self._prepared.serves_all(call, self.catalog) else None
            try:
                rows.append(tuple([cell(call.values) for cell in cells]))
            except TidemarkError:
                return None  # the long way says which column it is
        assert table is not None, "there is a row"
        return partial(self._insert_values, table, tuple(rows), text)

    def _insert_values(self, table: Table, rows: tuple[tuple[Value, ...], ...], text: str | None) -> None:
        self.laps.begin("find")
        self._change_alone = lambda: InsertRows(table, rows)
        self._apply(table.name, coming(table, rows), text)

    def _change_by_key(
        self, plan: Keyed, rows: Sequence[Row], whole: Callable[[], Bound] | None, text: str | None
    ) -> None:
        """Run a statement by key, for values of it that are about different keys."""
        self.laps.begin("find")
        self._change_alone = cast("Callable[[], BoundChange] | None", whole)
        table = plan.table
        evaluate = self._near(table, plan.columns, [plan.key_of(row) for row in rows])
        delta, pairs = plan.delta(rows, evaluate)
        self._apply(table.name, delta, text, pairs if self._in_pairs(table, plan.changes_key) else None)

    def _run_many(self, sql: str, rows: Iterable[Sequence[Any]] | Iterable[Mapping[str, Any]]) -> None:
        source = self.store.source(sql, self._dialect)
        listed = listed_rows(rows)
        must_change(source)
        if not listed:
            return
        first = handed(source, listed[0])
        together = self._together(first, source)
        if together is not None:
            if len(listed) <= delta_tables.FEW:
                step = self._insertion([handed(source, row) for row in listed], source, None)
                if step is not None:
                    return step()
            table, cells = together
            found = [template(source.text, source.dialect).values(row) for row in listed]
            self._insert(table, [tuple(cell(values) for cell in cells) for values in found])
            return
        waiting = _ByKeys()
        for row in listed:
            self._next_of_many(handed(source, row), source, waiting)
        self._run_waiting(waiting)

    def _next_of_many(self, call: Call, source: Source, waiting: _ByKeys) -> None:
        """Run one call of many, or let it wait for others that it can be run with: those by the same plan and about
        different keys, between which nobody looks at the table."""
        form = self._prepared.form(call, self.catalog, source)
        plan = None if form is None else form.keyed
        if form is None or plan is None or plan.changes_key or not plan.is_stable or self._is_followed(plan.table.name):
            self._run_waiting(waiting)
            self.store.stopping.begin()
            self.laps.begin("bind")
            self.call(call, source)
            return
        row = form.row_of(call.values)
        if waiting.plan is not plan or not waiting.has_room(plan.key_of(row)):
            self._run_waiting(waiting)
        waiting.add(plan, row)

    def _run_waiting(self, waiting: _ByKeys) -> None:
        plan, rows = waiting.taken()
        if plan is not None:
            self.store.stopping.begin()
            self._change_by_key(plan, rows, None, None)
            self.laps.begin("bind")

    def _is_followed(self, table: str) -> bool:
        """Whether somebody looks at the table after each statement."""
        watched = self.catalog.immediately_watched
        is_followed = table in watched or table in self.catalog.followed_in_sequences
        return is_followed or bool(watched and self.has_reactions)

    def _together(self, first: Call, source: Source) -> tuple[Table, list[Callable[[Sequence[Any]], Any]]] | None:
        """The table, and how the cells of a new row come from values, if all rows can be added at once: each is taken
        as it is handed over, and nobody looks at the table in between."""
        form = self._prepared.form(first, self.catalog, source)
        if form is None or not isinstance(form.bound, InsertCells) or len(form.bound.rows) != 1:
            return None
        table, [cells] = form.bound.table, form.bound.rows
        found = [taken_cell(cell) for cell in cells]
        if self._is_followed(table.name):
            return None
        known = [cell for cell in found if cell is not None]
        return (table, known) if len(known) == len(found) else None

    # Changes of tables

    def change(self, bound: BoundChange, named: Mapping[str, pa.Table] = NOTHING, text: str | None = None) -> None:
        """Run a bound statement over what is given by name."""
        before, self._named = self._named, named
        try:
            self._change(bound, text)
        finally:
            self._named = before

    def _alone(self) -> Callable[[], BoundChange] | None:
        """What gives the statement that was all that this transaction did."""
        return self._change_alone if self.statements == 1 else None

    def _change(self, bound: BoundChange, text: str | None = None) -> None:
        self.laps.begin("find")
        self._change_alone = lambda: bound
        table = bound.table
        in_pairs = self._in_pairs(table, changes_key(bound))
        delta, pairs = delta_of(bound, self._rows_of, in_pairs=in_pairs)
        self._apply(table.name, delta, text, pairs)

    def _in_pairs(self, table: Table, changes_key: bool) -> bool:
        """Whether it is to be remembered which row became which."""
        is_keyless = not table.primary_key and table.name in self.catalog.watched_events
        return is_keyless or changes_key or self.course.has_pairs(table.name)

    def _insert(self, table: Table, rows: Rows) -> None:
        self.laps.begin("find")
        staged = self._staged(table, rows)
        self._apply(table.name, Change.of(added(table, taken_over(rows))) if staged is None else staged)

    def _delete(self, table: Table, rows: Rows) -> None:
        self.laps.begin("find")
        self._apply(table.name, Change.of(removed(table, taken_over(rows), self._evaluate)))

    def _upsert(self, table: Table, rows: Rows) -> None:
        self.laps.begin("find")
        must_have_key(table)
        staged = self._staged(table, rows, is_all=True)
        if staged is not None and staged.is_by_reference:
            must_be_once(table, staged, self._engine.evaluate)
            self._apply(table.name, self._compared(table, replacing(table), {WANTED: staged}))
            return
        coming = written_once(table, taken_over(rows) if staged is None else staged)
        if not coming.count:
            evaluate: EvaluateRows = self._rows_of
        elif coming.count <= PROCESS.calls_at_once:
            evaluate = self._near(table, table.primary_key, list(map(key_of(table.primary_key), coming.bag)))
        else:
            evaluate = self._rows_of
        self._apply(table.name, upserted(table, coming, evaluate))

    def _staged(self, table: Table, rows: Rows | None, *, is_all: bool = False) -> Change | None:
        """The rows of a Spark DataFrame as a change that the engine has written to files, or a small one; None if they
        go through this process: where the engine has no files, where something looks at the rows of a change one by one
        (rules, what lags, the clock), and where they meet other changes or definitions of this transaction. ``is_all``
        says that they meet any other change, else it is all but other rows that come in files."""
        if not is_of_spark(rows) or self._engine is not self.store.engine:
            return None
        must_have_columns(rows.columns, table.schema, table.name)  # type: ignore[union-attr]
        pending = self._pending.net().rows.get(table.name)
        is_alone = pending is None or (not is_all and pending.is_by_reference)
        if not is_alone or not self._goes_by_files(table):
            return None
        found = self.store.engine.staged(table.name, rows)
        if isinstance(found, FiledRows):
            self._files += found.files
        return found

    def _goes_by_files(self, table: Table) -> bool:
        catalog = self.catalog
        is_looked_at = catalog.activations or catalog.lagging_views or CLOCK in catalog.relations or self._reactions
        return catalog is self.store.catalog and not is_looked_at and not self.course.has_pairs(table.name)

    def _compared(self, table: Table, plan: Plan, given: Mapping[str, Change]) -> Change:
        """The net rows of a plan over what is stored and what lies in files."""
        resolved = resolve(plan, Block())
        engine = self.store.engine
        found = next(iter(given.values()))
        if not engine.rows(table.name):
            return found  # whatever comes is new
        change = engine.compared(table.name, resolved, Tables(given))
        if isinstance(change, FiledRows):
            self._files += change.files
        return change

    def _near(self, table: Table, columns: tuple[int, ...], keys: Sequence[Row]) -> EvaluateRows:
        """Evaluates plans that read one table by the values of some columns."""
        near, engine = self._pending.near(table.name, table.schema, columns, keys), self._engine

        def evaluate(plan: Plan, named: Mapping[str, Change]) -> Change:
            resolved, given = seen_near(plan, table.name, self.store, self.catalog, near)
            given |= named
            found = engine.follow(resolved, given)
            if found is not None:
                return found.rows
            return Change.of(engine.evaluate(*settle(resolved, Tables(given), engine)))

        return evaluate

    def _sync(self, table: Table, state: Rows | None, changed: Rows | None, present: Rows | None) -> Synced:
        self.laps.begin("find")
        staged = None if changed is not None or present is not None else self._staged(table, state, is_all=True)
        if staged is not None and staged.is_by_reference:
            change = self._compared(table, brought_to(table), {STATE: staged})
            self._apply(table.name, change)
            return Synced.of_rows(change)
        if staged is not None:
            state = delta_tables.expand(staged.table)
        plan, named = differences(table, *map(taken_over, (state, changed, present)))
        must_be_present(table, named, self._engine.evaluate)
        delta = self._evaluate(plan, named)
        self._apply(table.name, Change.of(delta))
        return Synced.of(delta)

    def compared(self, table: Table, rows: pa.Table) -> pa.Table:
        """The net change that brings a table to these rows."""
        return self._guarded(lambda: self._evaluate(*differences(table, rows, None, None)))

    def receive(self, table: Table, delta: pa.Table) -> None:
        """Take over the change of a table that follows a source, and that nothing else changes."""
        self._guarded(lambda: self._apply(table.name, Change.of(delta)))

    def note(self, notes: Mapping[str, str | None]) -> None:
        """Let notes be committed with what this transaction does."""
        self._notes = {**self._notes, **notes}

    def _apply(self, table: str, delta: Change, text: str | None = None, pairs: Change | None = None) -> None:
        """Add a statement's delta to the transaction's net delta of the table (delta-union)."""
        self._program.calls.must_be_none()
        self._keep(table, delta, text, pairs)
        if table in self.catalog.followed_in_sequences:
            self.laps.begin("rules")
            self.reactions.follow()
        watched = self.catalog.immediately_watched
        # An action stands between what set it off and the turn of other rules, so they are considered after any of it.
        if table in watched or (watched and self.reactions.acting.is_nested):
            self.laps.begin("rules")
            self.reactions.after_statement()

    def _signal(self, name: str, payload: object) -> None:
        self._program.calls.must_be_none()
        self._must_write("a signal")
        must_be_text(name, "the name of a signal")
        try:
            text = payload if isinstance(payload, str) else json.dumps(payload, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TidemarkError("type", f"the payload of a signal is a text or goes into JSON: {error}") from error
        if self.reactions.signal(fold(name), must_be_text(text, "the payload of a signal")):
            self.statements += 1

    def _table(self, name: str) -> Table:
        exact = name if self.catalog.get(name) is not None else fold(name)
        return table_for_change(exact, self.catalog, Source("", self._dialect))

    def keep(self, table: str, delta: pa.Table, text: str | None = None, pairs: pa.Table | None = None) -> None:
        """The same of Arrow tables."""
        self._keep(table, Change.of(delta), text, None if pairs is None else Change.of(pairs))

    def _keep(self, table: str, delta: Change, text: str | None = None, pairs: Change | None = None) -> None:
        """Add a change to those of a table.

        ``text`` is the statement that is the whole reason for the change, if one is; ``pairs`` says which row became
        which."""
        self._must_write(f"a change of {table}")
        self.course.take(table, delta, pairs)
        self._said.setdefault(table, []).append(text)
        self._pending.add(table, delta)
        self.statements += 1

    # Definitions

    def redefine(self, catalog: Catalog) -> None:
        """Go on with other definitions. What is pending of a table has the columns that the table has now, and of one
        that is gone nothing is."""
        if catalog is self.catalog:
            self.statements += 1
            return
        self._program.calls.must_be_none()
        self.statements += 1
        before, self.catalog = self.catalog, catalog
        pending = dict(self.pending)
        for name in {**pending, **dict.fromkeys(self.course.relations)}:
            table = catalog.get(name)
            if table is None:
                pending.pop(name, None)
                self.course.forget(name)
            elif isinstance(table, Table) and len(table.schema) > (known := len(before.relations[name].schema)):
                values = table.defaults[known:]
                if name in pending:
                    pending[name] = delta_tables.extended(pending[name], table.schema, values)
                self.course.altered(name, table.schema, values)
                if self._reactions is not None:
                    self._reactions.altered(name, table.schema, values)
        self._pending = Pending(pending)

    def _queue(self, deltas: Iterable[pa.Table]) -> None:
        for delta in deltas:
            self.keep(DETACHED_TABLE, delta)

    # The end

    def bring(self, work: Work) -> None:
        """Commit what brings a lagging relation up to date, and what rules make of its change."""
        self._brought, self._pending, self.statements = work, Pending(work.pending), work.statements
        with self.store.lock:
            try:
                self.reactions.after_statement()
            except BaseException:
                self._owner.ending(self)
                self._leave()
                raise
            self.commit()

    def tick(self, now: dt.datetime) -> None:
        """Move the clock on, and do nothing else."""
        self._now, self.statements = now, self.statements + 1
        self.commit()

    @property
    def _may_react(self) -> bool:
        """Whether rules may have to do with it."""
        return bool(self.catalog.activations) or self._reactions is not None or FIRINGS in self.pending

    def _react(self, work: Work) -> Reacted:
        """The check phase of rules, once the clock was moved on, and what it leaves to be done apart."""
        self._now, self._pending = work.now, Pending(work.pending)
        if self.catalog.activations:
            self._now = self._now or self.store.now()
            known = self._served()
            if self.catalog is self.store.catalog and (known is None or known.change is not self._alone()):
                self._derivation = derived(self.store, self.catalog, self.pending, self._alone())
            self.reactions.check()
        if self._reactions is not None:
            self._queue(entry.added() for entry in self._reactions.detached)
            self._queue(self._reactions.sequences.partials.changes(self.store.version + 1))
        notes = self._forget_firings() if FIRINGS in self.pending else {}
        made = self._work()
        return replace(made, notes={**made.notes, **notes}) if notes else made, self._derivation

    def _work(self) -> Work:
        """What this transaction asks to be committed."""
        made = Work(
            self.catalog,
            self.pending,
            self.statements,
            self._now,
            self._alone(),
            said=self._said,
            moved=self._moved() if self.course.has_paired else NOTHING,
            notes=self._notes,
            spent=self.laps.seconds,
            outcome=self.outcome,
        )
        brought = self._brought
        if brought is None:
            return made
        return replace(made, own=brought.own, steps=brought.steps, notes={**brought.notes, **self._notes})

    def _moved(self) -> dict[str, pa.Table]:
        """Which rows of which tables this transaction has given other keys."""
        found = {}
        for name in self.course.paired():
            table = self.catalog.get(name)
            if isinstance(table, Table) and table.primary_key:
                delta = moves(table, self.course.between(name, 0, self.course.place))
                if delta is not None:
                    found[name] = delta
        return found

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
            if (self._pending or self.course.place) and self.store.catalog.has_independent:
                self.reactions.rolled_back(self.store.catalog)
        finally:
            self._end()

    # State

    def derived_deltas(self) -> Mapping[str, pa.Table]:
        """The deltas of tables and of views, derived at the first read of a view after a change."""
        wave = self.derived_wave()
        return {} if wave is None else wave.deltas

    def derived_wave(self) -> Wave | None:
        if not self._pending and self.catalog is self.store.catalog:
            return None
        known = self._served()
        self._derivation = (
            derived(self.store, self.catalog, self.pending) if known is None else known.over(self.pending)
        )
        return self._derivation.wave

    def _served(self) -> Derivation | None:
        """What was derived before, if it is of what is pending now."""
        read = self.store.network.read if self.catalog is self.store.catalog else None
        known = self._derivation
        is_served = known is not None and known.serves(self.store.version, self.catalog, self.pending, read)
        return known if is_served else None

    def _altering(self, action: Callable[[], T], nothing: T) -> T:
        """Run an action that changes something, unless all of it was done before."""
        return self._guarded(action if self._repeats is None else lambda: nothing)

    def _guarded(self, action: Callable[[], T]) -> T:
        """Run an action; a failure dooms the transaction until rollback."""
        with self.store.lock, deep():
            self._must_be_open()
            self.must_not_be_doomed()
            try:
                return action()
            except RecursionError as error:
                self.doom(too_complex())
                raise too_complex() from error
            except BaseException as error:
                self.doom(error)
                raise
            finally:
                self.laps.begin(None)

    def _must_write(self, what: str) -> None:
        if self.store.is_read_only:
            raise read_only(what)
        self.store.engine.must_hold()

    def must_not_be_doomed(self) -> None:
        if self.failure is not None:
            raise TidemarkError(
                "doomed",
                f"a statement of this transaction failed before: {self.failure.message}",
                hint="roll the transaction back",
            )

    def doom(self, error: BaseException) -> None:
        """Remember the first failure: nothing but rollback is possible after it."""
        if self.failure is None:
            known = isinstance(error, TidemarkError)
            self.failure = error if known else TidemarkError("internal", f"{type(error).__name__}: {error}")  # type: ignore[assignment]

    def _must_be_open(self) -> None:
        if not self.is_open:
            raise TidemarkError("transaction", "the transaction has ended")
        self._owner.used(self)

    def _end(self) -> None:
        self._close()
        try:
            self._owner.ended(self)
        except Exception as error:
            if not self.is_committed:
                raise
            # It is committed: what comes after must not fail it, and is made up for.
            if not is_fenced(error):  # which the engine tells once
                _logger.exception("what follows a transaction could not be done")
                self.store.doubt()

    def finish(self) -> None:
        """Do what an exception left undone of its end."""
        self._close()
        self._owner.ended(self)

    def _close(self) -> None:
        self.stage = TransactionStage.ENDED
        self._pending, self._said, self._named, self._derivation = Pending(), {}, NOTHING, None
        files, self._files = self._files, []
        for one in files:
            one.discard()  # nothing happens if a commit has named them


def _is_query(statement: st.Statement | Call) -> bool:
    row = row_of(statement)
    return isinstance(row, Held) and row.reads


def listed_rows(rows: Iterable[Any]) -> list[Any]:
    """Rows of parameters."""
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise TidemarkError("parameter", "the rows of executemany are a list of tuples or dicts")
    return list(taken_over(rows))
