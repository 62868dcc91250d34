"""Verifying what is stored: first the bytes, then what they say.

Files against their checksums; tables against their keys and their logs; and, if it is asked for, views against their
definitions. Everything is looked at, whatever was found before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tidemark.algebra.aggregates import AggregateFunction
from tidemark.algebra.plans import Aggregate, AggregateCall, Given, Negate, Stored, union
from tidemark.algebra.types import WEIGHT
from tidemark.engines.engine import Checked
from tidemark.errors import TidemarkError
from tidemark.session.connect import connect
from tidemark.session.database import Database
from tidemark.sql.catalog.catalog import Table, View
from tidemark.state.history import must_reach
from tidemark.state.state import Store
from tidemark.storage import delta as deltas


@dataclass(frozen=True)
class Report:
    """What was found. All is well if nothing is damaged; of what is unverified nothing can be said."""

    damage: tuple[str, ...]
    unverified: tuple[str, ...]
    checked: int
    """How many files, or tables of a file, were read."""
    relations: int = 0
    version: int | None = None


def check(target: str, tell: Callable[[str], None] = lambda what: None, *, audit: bool = False) -> Report:
    """Verify all that a durable database stores; ``audit`` compares views with their definitions, too."""
    found = _bytes(target, tell)
    report = Report(found.damage, found.unverified, found.files)
    try:
        database = connect(target)
    except TidemarkError as error:
        if error.code != "damaged":
            raise
        return replace(report, damage=tuple(dict.fromkeys([*report.damage, error.message])))
    with database:
        relations = _relations(database)
        more = [problem for relation in relations for problem in _of_relation(database, relation, tell)]
        if audit:
            more += [problem for relation in relations for problem in _audited(database, relation, tell)]
        return replace(
            report,
            damage=tuple(dict.fromkeys([*report.damage, *more])),
            relations=len(relations),
            version=database.version,
        )


def _bytes(target: str, tell: Callable[[str], None]) -> Checked:
    engine, _, path = target.partition(":")
    if engine == "duckdb" and path:
        from tidemark.engines.duckdb.reader import check_file

        return check_file(os.path.realpath(path), tell)
    if engine == "spark" and path:
        from tidemark.engines.spark.backup import check_lake

        return check_lake(path, tell)
    raise TidemarkError(
        "target",
        f"{target!r} stores nothing that could be checked",
        hint="name a durable database: duckdb:path/to/file.duckdb or spark:path/to/lake",
    )


def _relations(database: Database) -> list[Table | View]:
    """The tables and the views that are stored."""
    found = database._store.catalog.relations.values()
    return [relation for relation in found if isinstance(relation, Table) or relation.materialized]


def _of_relation(database: Database, relation: Table | View, tell: Callable[[str], None]) -> Iterator[str]:
    tell(relation.name)
    store = database._store
    for check in (_count_problem, _log_problem, _key_problem):
        try:
            problem = check(store, relation)
        except TidemarkError as error:
            problem = error.message
        if problem:
            yield f"{relation.name}: {problem}"


def _count_problem(store: Store, relation: Table | View) -> str:
    """Reading gives as many rows as there should be."""
    counted = Aggregate(_stored(relation), ("n",), (), (AggregateCall(AggregateFunction.COUNT_ROWS),))
    [row] = store.engine.fetch(counted, {}).to_pylist()
    rows = store.engine.rows(relation.name)
    return "" if row["n"] == rows else f"{row['n']} rows can be read, but {rows} are stored"


def _log_problem(store: Store, relation: Table | View) -> str:
    """What is logged adds up to the content: of a table all of it, of a view all that came after its first rows."""
    since = 0 if isinstance(relation, Table) else store.created[relation.name]
    try:
        must_reach(store, relation.name, since)
    except TidemarkError:
        return ""  # the log was cut: it no longer says all
    logged = store.engine.changes(relation.name, since).select([*relation.schema.names, WEIGHT])
    given = {"log": deltas.net(logged.cast(relation.schema.weighted))}
    rest = store.engine.evaluate(
        union((_stored(relation), Negate(Given("log", relation.schema))), relation.schema), given
    )
    wrong = rest if isinstance(relation, Table) else deltas.deleted(rest)
    return f"its log does not add up to its content: {wrong.num_rows} rows differ" if wrong.num_rows else ""


def _key_problem(store: Store, relation: Table | View) -> str:
    if isinstance(relation, View) or not relation.primary_key:
        return ""
    stored = _stored(relation)
    keys = tuple(stored.column(position) for position in relation.primary_key)
    names = (*(key.name for key in keys), "n")
    counted = Aggregate(stored, names, keys, (AggregateCall(AggregateFunction.COUNT_ROWS),))
    found = store.engine.evaluate(counted, {})
    twice = sum(count > 1 for count in found.column(len(keys)).to_pylist())
    return f"{twice} duplicate key{'' if twice == 1 else 's'}" if twice else ""


def _stored(relation: Table | View) -> Stored:
    return Stored(relation.name, relation.schema)


def _audited(database: Database, relation: Table | View, tell: Callable[[str], None]) -> Iterator[str]:
    if isinstance(relation, Table):
        return
    tell(f"AUDIT {relation.name}")
    try:
        differing = database.audit(relation.name).num_rows
    except TidemarkError as error:
        yield f"{relation.name}: {error.message}"
        return
    if differing:
        yield f"{relation.name}: {differing} rows differ from its definition"
