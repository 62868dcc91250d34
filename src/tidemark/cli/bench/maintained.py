"""Tidemark under the clock."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tidemark.cli.bench import tpch
from tidemark.cli.bench.changes import Work
from tidemark.cli.bench.figures import Sample, timed
from tidemark.cli.bench.parts import Parts
from tidemark.database import connect
from tidemark.database.inspection import statements_started, watching
from tidemark.errors import TidemarkError


class Maintained:
    """The tables and both views in a durable database, so that commits cost what they cost."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.place = folder / ("data.duckdb" if engine == "duckdb" else "lake")
        self._database = connect(f"{engine}:{self.place}")

    def load(self, folder: Path) -> None:
        for table, columns in tpch.TABLES.items():
            self._database.execute(f"CREATE TABLE {table} ({columns})")
            self._database.insert(table, tpch.read(folder, table))

    def create(self, view: str) -> None:
        self._database.execute(f"CREATE MATERIALIZED VIEW {view} AS {tpch.VIEWS[view]}")

    def recompute(self, view: str) -> float:
        """Evaluate and store the definition anew, as an engine without incremental maintenance has to.

        A view that is declared complete shares nothing with the others, so that nothing of theirs helps it.
        """
        text = f"CREATE MATERIALIZED VIEW again WITH (strategy = 'complete') AS {tpch.VIEWS[view]}"
        spent = timed(lambda: self._database.execute(text))
        self._database.execute("DROP MATERIALIZED VIEW again")
        return spent

    def apply(self, work: Work) -> Sample:
        """Run a transaction under the clock."""
        before = statements_started(self._database)
        parts = Parts()
        with watching(self._database, parts):
            spent = timed(lambda: self._run(work))
        spent_on = parts.milliseconds()
        after = statements_started(self._database)
        steps = self._database.trace(self._database.version).to_pylist()
        changed = sum(change.delete.num_rows + change.insert.num_rows for change in work.values())
        return Sample(
            spent,
            changed + sum(step["rows_out"] for step in steps if "/shared-" not in step["node"]),
            _spent_on("v1", steps),
            _spent_on("v2", steps),
            sum(step["rows_read"] for step in steps),
            None if before is None or after is None else after - before,
            spent_on,
        )

    def _run(self, work: Work) -> None:
        with self._database.transaction() as transaction:
            for table, change in work.items():
                if change.delete.num_rows:
                    transaction.delete(table, change.delete)
                if change.insert.num_rows:
                    transaction.insert(table, change.insert)

    def data_files(self) -> int | None:
        """How many data files the lake has now."""
        return sum(1 for _ in self.place.rglob("*.parquet")) if self.place.is_dir() else None

    def content(self, view: str) -> pa.Table:
        return self._database.query(f"SELECT * FROM {view}")

    def check(self) -> None:
        """Refuse figures that belong to wrong answers."""
        for view in tpch.VIEWS:
            differing = self._database.audit(view).num_rows
            if differing:
                raise TidemarkError("internal", f"{differing} rows of {view} differ from its definition")

    def close(self) -> None:
        self._database.close()


def _spent_on(view: str, steps: list[dict[str, float]]) -> float:
    """The time spent on a view and on the inner nodes that are named after it."""
    return sum(step["milliseconds"] for step in steps if str(step["node"]).partition("/")[0] == view)
