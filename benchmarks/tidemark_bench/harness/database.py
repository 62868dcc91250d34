"""Tidemark under the clock, in durable databases, so that commits cost what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemark.answers.describe import statements_started, watching
from tidemark.errors import TidemarkError
from tidemark.session import Database
from tidemark_bench.harness.clock import Parts, Spent, spent_on, timed


@dataclass(frozen=True)
class TableChange:
    """Whole rows that leave and come. An update is both, with the same key."""

    delete: pa.Table
    insert: pa.Table

    @property
    def rows(self) -> int:
        return int(self.delete.num_rows + self.insert.num_rows)


Work = dict[str, TableChange]
"""The changes of a transaction, by table."""


@dataclass(frozen=True)
class Applied:
    """A transaction: what it took, the milliseconds of its parts, the lines of its trace, and on Spark the number of
    statements that it started."""

    spent: Spent
    parts: dict[str, float]
    steps: list[dict[str, Any]]
    statements: int | None

    def step(self, node: str) -> dict[str, Any]:
        """The one step of a node."""
        [found] = [step for step in self.steps if step["node"] == node]
        return found


def target(engine: str, folder: Path, name: str | None = None) -> str:
    """What to connect to for a database in a folder."""
    file = f"{name or 'data'}.duckdb" if engine == "duckdb" else name or "lake"
    return f"{engine}:{folder / file}"


def load(database: Database, columns: Mapping[str, str], rows: Mapping[str, pa.Table]) -> None:
    """Create tables and fill them, each in a transaction of its own."""
    for table, content in rows.items():
        database.execute(f"CREATE TABLE {table} ({columns[table]})")
        database.insert(table, content)


def applied(database: Database, work: Work) -> Applied:
    """Run a transaction under the clock."""
    before, parts = statements_started(database), Parts()
    with watching(database, parts):
        spent = spent_on(lambda: _run(database, work))
    spent_on_parts, after = parts.milliseconds(), statements_started(database)
    steps = database.trace(database.version).to_pylist()
    return Applied(spent, spent_on_parts, steps, None if before is None or after is None else after - before)


def _run(database: Database, work: Work) -> None:
    with database.transaction() as transaction:
        for table, change in work.items():
            if change.delete.num_rows:
                transaction.delete(table, change.delete)
            if change.insert.num_rows:
                transaction.insert(table, change.insert)


def created_again(database: Database, definition: str) -> Spent:
    """What it takes to create a view once more, which evaluates and stores its definition and all that a view has here.

    A view that is declared complete shares nothing with the others, so that nothing of theirs helps it.
    """
    text = f"CREATE MATERIALIZED VIEW again WITH (strategy = 'complete') AS {definition}"
    spent = spent_on(lambda: database.execute(text))
    database.execute("DROP MATERIALIZED VIEW again")
    return spent


def created(database: Database, view: str, definition: str, options: str = "") -> float:
    """How many milliseconds it takes to create a view."""
    return timed(lambda: database.execute(f"CREATE MATERIALIZED VIEW {view} {options}AS {definition}"))


def content(database: Database, view: str) -> pa.Table:
    return database.query(f"SELECT * FROM {view}")


def must_be_true(database: Database, *views: str) -> None:
    """Refuse figures that belong to wrong answers: each view must equal its definition."""
    for view in views:
        must_agree(database.audit(view).num_rows, view, "its definition")


def must_agree(differing: int, view: str, other: str) -> None:
    if differing:
        raise TidemarkError("internal", f"{differing} rows of {view} differ from {other}")
