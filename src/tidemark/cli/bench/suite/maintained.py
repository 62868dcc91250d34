"""Tidemark with all tables of TPC-H and one view at a time, under the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemark.cli.bench.changes import Work
from tidemark.cli.bench.figures import timed
from tidemark.cli.bench.queries import TABLES
from tidemark.cli.bench.suite.figures import NodeTime, Timing
from tidemark.cli.bench.suite.workload import Tables
from tidemark.database import connect
from tidemark.database.inspection import how_maintained, statements_started
from tidemark.errors import TidemarkError


class MaintainedQueries:
    """A durable database, so that commits cost what they cost."""

    def __init__(self, engine: str, folder: Path) -> None:
        place = folder / ("data.duckdb" if engine == "duckdb" else "lake")
        self.database = connect(f"{engine}:{place}")

    def load(self, tables: Tables) -> float:
        return timed(lambda: self._load(tables))

    def _load(self, tables: Tables) -> None:
        self.database.execute(TABLES)
        with self.database.transaction() as transaction:
            for name, rows in tables.items():
                transaction.insert(name, rows)

    def create(self, view: str, definition: str) -> float:
        text = f"CREATE MATERIALIZED VIEW {view} WITH (strategy = 'incremental') AS {definition}"
        return timed(lambda: self.database.execute(text))

    def recompute(self, definition: str) -> Timing:
        """Evaluate and store the definition anew, as an engine without incremental maintenance has to."""
        text = f"CREATE MATERIALIZED VIEW again WITH (strategy = 'complete') AS {definition}"
        spent, busy = _clocked(lambda: self.database.execute(text))
        self.database.execute("DROP MATERIALIZED VIEW again")
        return Timing(spent, busy)

    def how(self, view: str) -> dict[str, str]:
        """How each node that serves the view is kept true, by its label."""
        return how_maintained(self.database, view)

    def apply(self, work: Work) -> Timing:
        """Run a transaction under the clock."""
        before = statements_started(self.database)
        spent, busy = _clocked(lambda: self._run(work))
        after = statements_started(self.database)
        steps: list[dict[str, Any]] = self.database.trace(self.database.version).to_pylist()
        nodes = tuple(NodeTime(step["node"], step["milliseconds"], step["rows_read"]) for step in steps)
        return Timing(spent, busy, nodes, None if before is None or after is None else after - before)

    def _run(self, work: Work) -> None:
        with self.database.transaction() as transaction:
            for table, change in work.items():
                if change.delete.num_rows:
                    transaction.delete(table, change.delete)
                if change.insert.num_rows:
                    transaction.insert(table, change.insert)

    def content(self, view: str) -> pa.Table:
        return self.database.query(f"SELECT * FROM {view}")

    def check(self, view: str) -> None:
        """Refuse figures that belong to wrong answers."""
        differing = self.database.audit(view).num_rows
        if differing:
            raise TidemarkError("internal", f"{differing} rows of {view} differ from its definition")

    def drop(self, view: str) -> None:
        self.database.execute(f"DROP MATERIALIZED VIEW {view}")

    def close(self) -> None:
        self.database.close()


def _clocked(action: Callable[[], object]) -> tuple[float, float]:
    """How many milliseconds an action takes, by the clock and of all processors."""
    processors = time.process_time()
    spent = timed(action)
    return spent, (time.process_time() - processors) * 1000
