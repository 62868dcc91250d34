"""The rival: the same closure kept by SQL that is written by hand, on DuckDB itself, and evaluated anew by it.

It knows that there is one recursive view over one table, and that the graph has no cycles: what follows from an
inserted edge is derived without asking in each round whether it was there already.

1. What the deleted edges led to is overestimated, edge by edge backwards, and deleted.
2. Of these rows those come back that an edge and a row of the closure still lead to; the inserted edges lead to others;
   and all that follows from both is derived, edge by edge backwards.
3. What is not in the closure yet is inserted, and one COMMIT makes all of it durable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from tidemark.cli.bench.clock import Spent, spent_on
from tidemark.cli.bench.recursion.workload import EdgeChange

CLOSURE: Final = """
    WITH RECURSIVE p(x, y) AS (SELECT a, b FROM edge UNION SELECT edge.a, p.y FROM edge JOIN p ON edge.b = p.x)
    SELECT x, y FROM p
"""
STEPS: Final = (
    """
    CREATE OR REPLACE TEMP TABLE gone AS
    WITH RECURSIVE g(x, y) AS (
        (SELECT a, b FROM going UNION ALL SELECT going.a, c.y FROM going JOIN closure AS c ON c.x = going.b)
        UNION SELECT edge.a, g.y FROM g JOIN edge ON edge.b = g.x
    )
    SELECT x, y FROM g
    """,
    "DELETE FROM edge USING going WHERE edge.a = going.a AND edge.b = going.b",
    "INSERT INTO edge SELECT a, b FROM coming",
    "DELETE FROM closure USING gone WHERE closure.x = gone.x AND closure.y = gone.y",
    """
    INSERT INTO closure
    WITH RECURSIVE more(x, y) AS (
        (SELECT gone.x, gone.y FROM gone JOIN edge ON edge.a = gone.x AND edge.b = gone.y
         UNION ALL
         SELECT gone.x, gone.y FROM gone JOIN edge ON edge.a = gone.x
         JOIN closure AS c ON c.x = edge.b AND c.y = gone.y
         UNION ALL SELECT a, b FROM coming
         UNION ALL SELECT coming.a, c.y FROM coming JOIN closure AS c ON c.x = coming.b)
        UNION SELECT edge.a, more.y FROM more JOIN edge ON edge.b = more.x
    )
    SELECT x, y FROM more WHERE NOT EXISTS (SELECT 1 FROM closure AS c WHERE c.x = more.x AND c.y = more.y)
    """,
)


class ByHand:
    """The edges and their closure in a durable DuckDB file."""

    def __init__(self, path: Path, edges: pa.Table) -> None:
        self._connection = duckdb.connect(str(path))
        self._connection.execute("CREATE TABLE edge (a INTEGER NOT NULL, b INTEGER NOT NULL)")
        self._connection.register("loaded", edges)
        self._connection.execute("INSERT INTO edge FROM loaded ORDER BY a, b")
        self._connection.unregister("loaded")
        self._connection.execute(f"CREATE TABLE closure AS FROM ({CLOSURE}) ORDER BY x, y")

    def apply(self, change: EdgeChange) -> Spent:
        """Run a transaction under the clock."""
        return spent_on(lambda: self._run(change))

    def _run(self, change: EdgeChange) -> None:
        self._connection.register("going", change.delete)
        self._connection.register("coming", change.insert)
        self._connection.execute("BEGIN")
        for step in STEPS:
            self._connection.execute(step)
        self._connection.execute("COMMIT")

    def recomputed(self) -> Spent:
        """The closure evaluated anew and fetched, but not stored."""
        return spent_on(lambda: self._connection.sql(CLOSURE).to_arrow_table())

    def content(self) -> pa.Table:
        return self._connection.sql("SELECT x, y FROM closure").to_arrow_table()

    def close(self) -> None:
        self._connection.close()
