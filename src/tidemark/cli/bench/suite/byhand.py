"""V3 by hand: what an expert writes on DuckDB for extrema and distinct counts per supplier.

The change is applied to lineitem by key, then the suppliers that it names are evaluated again from their lines, and
replace what the view has of them. Extrema and distinct counts cannot be had from the change alone, and counts per
supplier and part would be a second table, of 800,000 rows at scale 1, to write to in every transaction.
"""

from __future__ import annotations

from typing import Final

from tidemark.cli.bench.changes import Work
from tidemark.cli.bench.handwritten import HandWritten
from tidemark.cli.bench.suite.workload import Tables

V3: Final = """
SELECT l_suppkey, MIN(l_extendedprice) AS cheapest, MAX(l_shipdate) AS latest, COUNT(DISTINCT l_partkey) AS parts
FROM lineitem GROUP BY l_suppkey"""
LEAVE: Final = "DELETE FROM v3 WHERE l_suppkey IN (SELECT l_suppkey FROM d_lineitem)"
ENTER: Final = "INSERT INTO v3 " + V3.replace(
    "GROUP BY", "WHERE l_suppkey IN (SELECT l_suppkey FROM d_lineitem) GROUP BY"
)


class SuppliersByHand(HandWritten):
    """lineitem and V3 in a durable DuckDB file."""

    def fill(self, tables: Tables) -> None:
        self._connection.register("loaded", tables["lineitem"])
        self._connection.execute("CREATE TABLE lineitem AS FROM loaded")
        self._connection.unregister("loaded")
        self._connection.execute(f"CREATE TABLE v3 AS {V3}")
        self._connection.execute("CREATE TEMP TABLE d_lineitem AS SELECT *, 0 AS w FROM lineitem LIMIT 0")

    def _apply(self, work: Work) -> int:
        self._fill_delta("lineitem", work["lineitem"])
        return self._change("lineitem", work["lineitem"]) + self._run(LEAVE) + self._run(ENTER)
