"""Looking at a database from outside, for tools: what is defined, what goes on, and stopping it."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidemark.algebra.clock import CLOCK
from tidemark.database.database import Database
from tidemark.database.naming import relation_named
from tidemark.database.progress import Listener
from tidemark.network.maintenance import maintenance
from tidemark.sql.catalog import RULE_TABLES, Catalog, Relation, Table, kind_of


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


def transaction_state(database: Database) -> TransactionState:
    """Whether a transaction that BEGIN opened is there.

    >>> from tidemark.database import connect
    >>> with connect("duckdb") as db:
    ...     _ = db.execute("BEGIN")
    ...     transaction_state(db).value
    'open'
    """
    session = database._session
    if session is None:
        return TransactionState.NONE
    return TransactionState.OPEN if session.failure is None else TransactionState.DOOMED


def relations(database: Database) -> tuple[Description, ...]:
    """Every relation in order of creation, as an open transaction sees them.

    >>> from tidemark.database import connect
    >>> with connect("duckdb") as db:
    ...     _ = db.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    ...     relations(db)[0].columns
    (ColumnDescription(name='a', type='INT', nullable=False, in_key=True),)
    """
    with database._store.lock:
        catalog = _catalog(database)
        named = (relation for name, relation in catalog.relations.items() if name != CLOCK and name not in RULE_TABLES)
        return tuple(_described(relation, catalog, database) for relation in named)


def relation(database: Database, name: str) -> Description:
    """One relation, by its name as it would be written in SQL."""
    with database._store.lock:
        catalog = _catalog(database)
        return _described(relation_named(name, catalog), catalog, database)


def _catalog(database: Database) -> Catalog:
    return database._store.catalog if database._session is None else database._session.catalog


def _described(found: Relation, catalog: Catalog, database: Database) -> Description:
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
def watching(database: Database, listener: Listener) -> Iterator[None]:
    """Tell ``listener`` each step of the transactions that are worked on meanwhile; see ``Progress``.

    >>> from tidemark.database import connect
    >>> with connect("duckdb") as db, watching(db, print):
    ...     _ = db.execute("CREATE TABLE t (a INT)")
    checking constraints
    committing
    """
    progress = database._store.progress
    before, progress.listener = progress.listener, listener
    try:
        yield
    finally:
        progress.listener = before


def interrupt(database: Database) -> None:
    """Let the statement that another thread runs fail, if its engine is at work at this moment.

    What it did is undone like after any failure. A moment between two steps is not seen; a listener that raises
    catches those. The reference engine cannot be interrupted.
    """
    database._store.engine.interrupt()


def statements_started(database: Database) -> int | None:
    """How many statements were started on Spark; None on other engines."""
    count: int | None = getattr(database._store.engine, "statements", None)
    return count


@contextmanager
def maintained_without(database: Database, *, filters: bool = False, autonomy: bool = False) -> Iterator[None]:
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


def how_maintained(database: Database, view: str) -> dict[str, str]:
    """How each node that serves a view is kept true, in words, by the label that the trace has."""
    with database._store.lock:
        return {each.node.label: each.how for each in maintenance(database._store.network, view)}
