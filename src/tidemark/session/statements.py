"""The statements as one table: who runs each, how, whether a transaction may hold it, and what people are shown of it.

A statement is either held by a transaction (``Held``), and alone it is a transaction of its own; or the database
answers it itself (``Answered``), and a transaction that is asked to hold it says why it cannot.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from tidemark.algebra.plans import Plan
from tidemark.answers.advise import effect_of
from tidemark.answers.analyze import committed_change, of_change, of_query, of_version
from tidemark.answers.show import SHOWN, Side
from tidemark.answers.why import Asked, explain_row
from tidemark.errors import TidemarkError
from tidemark.session.changes import NOTHING
from tidemark.session.definitions import (
    Defining,
    create_rule,
    drop,
    set_active,
    with_more_columns,
    with_source,
    with_source_table,
    with_table,
    with_views,
)
from tidemark.session.forms import Call
from tidemark.session.options import AllowedPaths
from tidemark.sql.bind.changes import BoundChange, bind_change
from tidemark.sql.bind.queries import QueryBinder
from tidemark.sql.bind.views import Definition
from tidemark.sql.catalog.catalog import Catalog
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.as_of import version_at
from tidemark.sql.parse.lagging import AlterLog, Refresh
from tidemark.sql.parse.rules import CreateRule, SetActive
from tidemark.sql.parse.sources import AlterSource, CreateSource, CreateSourceTable
from tidemark.sql.parse.text import Source
from tidemark.state.state import Store
from tidemark.state.times import Laps


class Kind(enum.Enum):
    """What a statement is to those who show what it did."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    CHANGE = "change"
    CREATION = "creation"
    DEFINITION = "definition"
    REFRESH = "refresh"
    ANSWER = "answer"
    TEXT = "text"
    VERDICT = "verdict"


class Holder(Defining, Protocol):
    """A transaction, as the statements that it holds need it."""

    def fetch(self, plan: Plan) -> pa.Table: ...
    def change(self, bound: BoundChange, named: Mapping[str, pa.Table] = NOTHING, text: str | None = None) -> None: ...
    def call(self, call: Call, source: Source) -> pa.Table | None: ...
    def run_all(self, sql: str) -> pa.Table | None: ...

    @property
    def allowed(self) -> AllowedPaths: ...

    @property
    def pending(self) -> Mapping[str, pa.Table]: ...

    @property
    def laps(self) -> Laps: ...


class Open(Protocol):
    """A transaction that can be ended."""

    def commit(self) -> None: ...
    def rollback(self) -> None: ...


class Asking(Protocol):
    """The methods of a database that do the same as a statement."""

    def explain(self, view: str) -> str: ...
    def audit(self, view: str) -> pa.Table: ...
    def refresh(self, name: str) -> None: ...
    def backup(self, path: str | os.PathLike[str]) -> None: ...
    def checkpoint(self) -> None: ...
    def publish(self, relation: str | None = None) -> None: ...


@dataclass(frozen=True)
class Desk:
    """What a database lends to the statements that it answers itself.

    ``session`` is the caller's transaction that BEGIN opened, ``reading`` what is committed, ``asking`` what the caller
    sees beside what is committed, and ``turn`` the turn to change something outside a transaction.
    """

    database: Asking
    begin: Callable[[], object]
    session: Callable[[], Open | None]
    must_have_none_open: Callable[[], None]
    reading: Callable[[], AbstractContextManager[Side]]
    asking: Callable[[], AbstractContextManager[tuple[Asked, Store]]]
    turn: Callable[[str], AbstractContextManager[None]]
    set_limits: Callable[[Mapping[str, str]], None]
    alter_source: Callable[[AlterSource], None]
    allowed: AllowedPaths


def _none(statement: Any) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table. ``names`` are the relations that such a statement fills, refreshes or audits."""

    kind: Kind
    names: Callable[[Any], tuple[str, ...]] = _none


@dataclass(frozen=True, kw_only=True)
class Held(Row):
    """A transaction holds it. If it only ``reads``, it needs none when it stands alone. One that stood alone may have
    more to say when it is ``committed``, in a version."""

    run: Callable[[Any, Holder, Source], pa.Table | None]
    reads: bool = False
    committed: Callable[[pa.Table, Store, int], pa.Table] | None = None


@dataclass(frozen=True, kw_only=True)
class Answered(Row):
    """The database answers it. ``refusal`` is what a transaction says of it; what ``ends`` a transaction is run in one
    that has failed, too."""

    run: Callable[[Any, Desk, Source], pa.Table | None]
    refusal: Callable[[], TidemarkError]
    ends: bool = False


AnyRow: TypeAlias = Held | Answered


def row_of(statement: st.Statement | Call) -> AnyRow:
    """The row of a statement."""
    if isinstance(statement, Call):
        return CALLS[statement.reads]
    return STATEMENTS[type(statement)]


# Why a transaction does not hold a statement


def _alone() -> TidemarkError:
    return TidemarkError("transaction", "this statement cannot stand inside a transaction", hint="COMMIT first")


def _nested() -> TidemarkError:
    return TidemarkError("transaction", "BEGIN, COMMIT and ROLLBACK cannot stand inside this transaction")


def _outside() -> TidemarkError:
    return TidemarkError("unsupported", "this statement cannot stand inside a transaction")


# Statements that a transaction holds


def _query(statement: st.Query, transaction: Holder, source: Source) -> pa.Table:
    binder = QueryBinder(source, transaction.catalog, version=version_at(statement.as_of, source))
    return transaction.fetch(binder.bind(statement.tree))


def _change(statement: st.Insert | st.Update | st.Delete, transaction: Holder, source: Source) -> None:
    transaction.change(bind_change(statement, transaction.catalog, source), text=statement.text)


def _call(statement: Call, transaction: Holder, source: Source) -> pa.Table | None:
    return transaction.call(statement, source)


def _analyze_query(statement: st.AnalyzeQuery, transaction: Holder, source: Source) -> pa.Table:
    seconds, rows = _timed(statement, transaction, source)
    version = version_at(statement.query.as_of, source)
    plan = QueryBinder(source, transaction.catalog, version=version).bind(statement.query.tree)
    return of_query(0 if rows is None else rows.num_rows, seconds, plan)


def _analyze_change(statement: st.AnalyzeChange, transaction: Holder, source: Source) -> pa.Table:
    before = transaction.pending
    seconds, _ = _timed(statement, transaction, source)
    return of_change(before, transaction.pending, seconds)


def _timed(
    statement: st.AnalyzeQuery | st.AnalyzeChange, transaction: Holder, source: Source
) -> tuple[Mapping[str, float], pa.Table | None]:
    """Run the statement as it would be run by itself; the seconds by phase, and its result."""
    laps = transaction.laps
    laps.begin(None)
    before = dict(laps.seconds)
    try:
        result = transaction.run_all(statement.text)
    except TidemarkError as error:
        if error.place is None:
            raise
        raise error.restated(place=error.place.inside(source.place(statement.start))) from error
    laps.begin(None)
    spent = {phase: seconds - before.get(phase, 0.0) for phase, seconds in laps.seconds.items()}
    return {phase: seconds for phase, seconds in spent.items() if seconds}, result


def _create_table(statement: st.CreateTable, transaction: Holder, source: Source) -> None:
    transaction.redefine(with_table(statement, transaction.catalog, source))


def _create_views(statement: Definition, transaction: Holder, source: Source) -> None:
    transaction.redefine(with_views(statement, transaction.catalog, source))


def _filled(statement: Definition) -> tuple[str, ...]:
    return statement.names if statement.materialized else ()


def _alter_table(statement: st.AlterTable, transaction: Holder, source: Source) -> None:
    transaction.redefine(with_more_columns(statement, transaction.catalog, source, _reading_of(transaction)))


def _create_source(statement: CreateSource, transaction: Holder, source: Source) -> None:
    _redefine(with_source(statement, transaction.catalog, source, _reading_of(transaction)), transaction)


def _create_source_table(statement: CreateSourceTable, transaction: Holder, source: Source) -> None:
    _redefine(with_source_table(statement, transaction.catalog, source, _reading_of(transaction)), transaction)


def _redefine(catalog: Catalog, transaction: Holder) -> None:
    """Go on with other definitions. What is there already makes no version: such scripts are run every hour."""
    if catalog is not transaction.catalog:
        transaction.redefine(catalog)


def _reading_of(transaction: Holder) -> Callable[[str], None]:
    return transaction.allowed.must_let_read


# Statements that the database answers


def _begin(statement: st.Begin, desk: Desk, source: Source) -> None:
    desk.begin()


def _commit(statement: st.Commit, desk: Desk, source: Source) -> None:
    _opened(desk).commit()


def _rollback(statement: st.Rollback, desk: Desk, source: Source) -> None:
    _opened(desk).rollback()


def _opened(desk: Desk) -> Open:
    session = desk.session()
    if session is None:
        raise TidemarkError("transaction", "no transaction is open", hint="BEGIN opens one")
    return session


def _explain(statement: st.Explain, desk: Desk, source: Source) -> pa.Table:
    return pa.table({"explain": desk.database.explain(statement.name).splitlines()})


def _analyze_version(statement: st.AnalyzeVersion, desk: Desk, source: Source) -> pa.Table:
    with desk.reading() as side:
        return of_version(statement.version, side.store)


def _explain_effect(statement: st.ExplainEffect, desk: Desk, source: Source) -> pa.Table:
    with desk.reading() as side:
        return effect_of(statement, side.store, source)


def _explain_why(statement: st.ExplainWhy, desk: Desk, source: Source) -> pa.Table:
    with desk.asking() as (transaction, store):
        return explain_row(statement, transaction, store, source)


def _audit(statement: st.Audit, desk: Desk, source: Source) -> pa.Table:
    return desk.database.audit(statement.name)


def _named(statement: st.Audit | Refresh) -> tuple[str, ...]:
    return (statement.name,)


def _show(statement: st.Show, desk: Desk, source: Source) -> pa.Table:
    with desk.reading() as side:
        return SHOWN[statement.what](side)


def _backup(statement: st.Backup, desk: Desk, source: Source) -> None:
    desk.must_have_none_open()
    desk.allowed.must_allow(statement.path, "BACKUP")
    desk.database.backup(statement.path)


def _checkpoint(statement: st.Checkpoint, desk: Desk, source: Source) -> None:
    desk.must_have_none_open()
    desk.database.checkpoint()


def _publish(statement: st.Publish, desk: Desk, source: Source) -> None:
    desk.must_have_none_open()
    desk.database.publish(statement.name)


def _refresh(statement: Refresh, desk: Desk, source: Source) -> None:
    desk.database.refresh(statement.name)


def _alter_source(statement: AlterSource, desk: Desk, source: Source) -> None:
    with desk.turn("ALTER SOURCE"):
        desk.alter_source(statement)


def _alter_log(statement: AlterLog, desk: Desk, source: Source) -> None:
    with desk.turn("ALTER LOG"):
        desk.set_limits(statement.options)


STATEMENTS: Final[Mapping[type, AnyRow]] = {
    st.Begin: Answered(kind=Kind.BEGIN, run=_begin, refusal=_nested),
    st.Commit: Answered(kind=Kind.COMMIT, run=_commit, refusal=_nested, ends=True),
    st.Rollback: Answered(kind=Kind.ROLLBACK, run=_rollback, refusal=_nested, ends=True),
    st.Query: Held(kind=Kind.ANSWER, run=_query, reads=True),
    st.Insert: Held(kind=Kind.CHANGE, run=_change),
    st.Update: Held(kind=Kind.CHANGE, run=_change),
    st.Delete: Held(kind=Kind.CHANGE, run=_change),
    st.CreateTable: Held(kind=Kind.CREATION, run=_create_table),
    st.CreateView: Held(kind=Kind.CREATION, run=_create_views, names=_filled),
    st.CreateProgram: Held(kind=Kind.CREATION, run=_create_views, names=_filled),
    CreateRule: Held(kind=Kind.CREATION, run=create_rule),
    SetActive: Held(kind=Kind.ANSWER, run=set_active),
    st.AlterTable: Held(kind=Kind.DEFINITION, run=_alter_table),
    st.Drop: Held(kind=Kind.DEFINITION, run=drop),
    Refresh: Answered(kind=Kind.REFRESH, run=_refresh, refusal=_alone, names=_named),
    CreateSource: Held(kind=Kind.DEFINITION, run=_create_source),
    CreateSourceTable: Held(kind=Kind.CREATION, run=_create_source_table),
    AlterSource: Answered(kind=Kind.ANSWER, run=_alter_source, refusal=_alone),
    AlterLog: Answered(kind=Kind.ANSWER, run=_alter_log, refusal=_alone),
    st.Explain: Answered(kind=Kind.TEXT, run=_explain, refusal=_outside),
    st.ExplainWhy: Answered(kind=Kind.TEXT, run=_explain_why, refusal=_outside),
    st.ExplainEffect: Answered(kind=Kind.ANSWER, run=_explain_effect, refusal=_outside),
    st.AnalyzeQuery: Held(kind=Kind.TEXT, run=_analyze_query, reads=True),
    st.AnalyzeChange: Held(kind=Kind.TEXT, run=_analyze_change, committed=committed_change),
    st.AnalyzeVersion: Answered(kind=Kind.TEXT, run=_analyze_version, refusal=_outside),
    st.Audit: Answered(kind=Kind.VERDICT, run=_audit, refusal=_outside, names=_named),
    st.Show: Answered(kind=Kind.ANSWER, run=_show, refusal=_outside),
    st.Backup: Answered(kind=Kind.ANSWER, run=_backup, refusal=_outside),
    st.Checkpoint: Answered(kind=Kind.ANSWER, run=_checkpoint, refusal=_alone),
    st.Publish: Answered(kind=Kind.ANSWER, run=_publish, refusal=_alone),
}
CALLS: Final[Mapping[bool, AnyRow]] = {
    True: Held(kind=Kind.ANSWER, run=_call, reads=True),
    False: Held(kind=Kind.CHANGE, run=_call),
}
"""Statements that were bound before or have parameters, by whether they only read."""
