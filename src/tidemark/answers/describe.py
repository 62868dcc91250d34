"""Looking at a database from outside, for tools: what is defined, what goes on, and stopping it."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from tidemark.algebra.history import CLOCK
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import RULE_TABLES, Catalog, Relation, Table, kind_of
from tidemark.state.boundary import bounded
from tidemark.state.events import Listener, watched
from tidemark.state.names import relation_named
from tidemark.state.state import Store
from tidemark.strategy.maintenance import maintenance


class Session(Protocol):
    """A transaction that BEGIN opened."""

    catalog: Catalog
    failure: TidemarkError | None


class Inspected(Protocol):
    """A database as tools look at it: its state, and the transaction that BEGIN opened, whoever did."""

    @property
    def _store(self) -> Store: ...

    @property
    def _anybodys_session(self) -> Session | None: ...

    def interrupt(self) -> None: ...


@dataclass(frozen=True)
class ColumnDescription:
    name: str
    type: str
    nullable: bool
    in_key: bool


@dataclass(frozen=True)
class Description:
    """A relation: ``rows`` is None if none are stored, ``created`` if that is not committed yet."""

    name: str
    kind: str
    columns: tuple[ColumnDescription, ...]
    definition: str
    rows: int | None
    created: int | None
    strategy: str | None
    depends_on: tuple[str, ...]
    dependents: tuple[str, ...]

    @property
    def is_materialized(self) -> bool:
        return self.kind == "materialized view"


class TransactionState(enum.Enum):
    """What became of BEGIN: nothing is open, a transaction is, or one in which a statement failed."""

    NONE = "none"
    OPEN = "open"
    DOOMED = "doomed"


@bounded
def committed_at(database: Inspected, version: int) -> dt.datetime | None:
    """When a version was committed, in UTC; None if there is no such version, or that is not known any more."""
    with database._store.lock:
        return database._store.times.get(version)


@bounded
def transaction_state(database: Inspected) -> TransactionState:
    """Whether a transaction that BEGIN opened is there, whoever opened it.

    >>> from tidemark.session import connect
    >>> with connect("duckdb") as db:
    ...     _ = db.execute("BEGIN")
    ...     transaction_state(db).value
    'open'
    """
    session = database._anybodys_session
    if session is None:
        return TransactionState.NONE
    return TransactionState.OPEN if session.failure is None else TransactionState.DOOMED


@bounded
def relations(database: Inspected) -> tuple[Description, ...]:
    """Every relation in order of creation, as an open transaction sees them.

    >>> from tidemark.session import connect
    >>> with connect("duckdb") as db:
    ...     _ = db.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    ...     relations(db)[0].columns
    (ColumnDescription(name='a', type='INT', nullable=False, in_key=True),)
    """
    with database._store.lock:
        catalog = _catalog(database)
        named = (relation for name, relation in catalog.relations.items() if name != CLOCK and name not in RULE_TABLES)
        return tuple(_described(relation, catalog, database) for relation in named)


@bounded
def relation(database: Inspected, name: str) -> Description:
    """One relation, by its name as it would be written in SQL."""
    with database._store.lock:
        catalog = _catalog(database)
        return _described(relation_named(name, catalog), catalog, database)


def _catalog(database: Inspected) -> Catalog:
    session = database._anybodys_session
    return database._store.catalog if session is None else session.catalog


def _described(found: Relation, catalog: Catalog, database: Inspected) -> Description:
    store = database._store
    known = store.catalog.get(found.name)
    is_committed = known is not None and known.identity is found.identity
    kind, key, strategy = "table", tuple[int, ...](), None
    if isinstance(found, Table):
        key = found.primary_key
    elif found.materialized:
        kind, strategy = kind_of(found), found.options.get("strategy", "auto")
    else:
        kind = kind_of(found)
    return Description(
        found.name,
        kind,
        tuple(
            ColumnDescription(field.name, str(field.type), field.nullable, position in key)
            for position, field in enumerate(found.schema.fields)
        ),
        found.definition,
        rows=store.engine.rows(found.name) if is_committed and _is_stored(found) else None,
        created=store.created[found.name] if is_committed else None,
        strategy=strategy,
        depends_on=() if isinstance(found, Table) else tuple(sorted(found.depends_on)),
        dependents=tuple(view.name for view in catalog.dependents(found.name)),
    )


def _is_stored(relation: Relation) -> bool:
    return isinstance(relation, Table) or relation.materialized


@contextmanager
def watching(database: Inspected, listener: Listener) -> Iterator[None]:
    """Tell ``listener`` each step of the transactions that are worked on meanwhile.

    It may raise: the transaction then fails like any other, and nothing of it is stored.

    >>> from tidemark.session import connect
    >>> with connect("duckdb") as db, watching(db, print):
    ...     _ = db.execute("CREATE TABLE t (a INT)")
    checking constraints
    committing
    """
    with watched(database._store.events, listener):
        yield


@bounded
def interrupt(database: Inspected) -> None:
    """End the statement that another thread runs; see ``Database.interrupt``."""
    database.interrupt()


@bounded
def statements_started(database: Inspected) -> int | None:
    """How many statements were started on Spark; None on other engines."""
    count: int | None = getattr(database._store.engine, "statements", None)
    return count


@contextmanager
def maintained_without(database: Inspected, *, filters: bool = False, autonomy: bool = False) -> Iterator[None]:
    """Bring views up to date without relevance filters, or without autonomous steps, for a while.

    The answers are the same. This is for measuring what those are worth; a definition meanwhile ends it.
    """
    refreshes = database._store.refreshes
    before = refreshes.without_filters, refreshes.without_autonomy
    refreshes.without_filters, refreshes.without_autonomy = filters, autonomy
    try:
        yield
    finally:
        refreshes.without_filters, refreshes.without_autonomy = before


@bounded
def how_maintained(database: Inspected, view: str) -> dict[str, str]:
    """How each node that serves a view is kept true, in words, by the label that the trace has."""
    with database._store.lock:
        return {each.node.label: each.how for each in maintenance(database._store.network, view)}
