"""The rival: what an expert writes by hand for these two views and these transactions, on DuckDB itself.

It knows what no engine can know in general: which tables change, that V1 has a key, that both views share one join, and
that V2 needs no more than its own sums and counts. A transaction is Arrow rows that leave and come, as for Tidemark:

1. they go to temporary delta tables with a signed weight,
2. orders as they were, joined with the changed lines, are the first half of the changed join; then lineitem is changed
   by key, and the changed orders, joined with the lines as they are now, are the second half; then orders is changed,
3. V1 loses and gains the net rows of the changed join that pass its filter; V2 is merged with its sums per group,
4. one COMMIT makes it durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from tidemark_bench import tpch
from tidemark_bench.harness.by_hand import KEYS, ByHand
from tidemark_bench.harness.database import Work

JOINED: Final = (
    "c_custkey, c_name, c_nationkey, c_mktsegment, o_orderkey, o_orderdate, l_linenumber, l_extendedprice, l_discount, "
    "l_shipdate"
)
CHANGED_LINES: Final = f"""
    INSERT INTO changed SELECT {JOINED}, w
    FROM d_lineitem JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey
"""
CHANGED_ORDERS: Final = f"""
    INSERT INTO changed SELECT {JOINED}, w
    FROM d_orders JOIN customer ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
"""
NET_V1: Final = """
    CREATE OR REPLACE TEMP TABLE d_v1 AS
    SELECT c_custkey, c_name, o_orderkey, o_orderdate, l_linenumber, l_extendedprice, sum(w) AS w FROM changed
    WHERE c_mktsegment = 'BUILDING' AND o_orderdate >= DATE '1995-01-01' AND l_shipdate >= DATE '1995-06-01'
    GROUP BY ALL HAVING sum(w) <> 0
"""
LEAVE_V1: Final = """
    DELETE FROM v1 USING d_v1 AS d
    WHERE d.w < 0 AND v1.o_orderkey = d.o_orderkey AND v1.l_linenumber = d.l_linenumber
"""
ENTER_V1: Final = "INSERT INTO v1 SELECT * EXCLUDE (w) FROM d_v1 WHERE w > 0"
MERGE_V2: Final = """
    MERGE INTO v2 USING (
        SELECT n_name, year(o_orderdate) AS year, sum(w * l_extendedprice * (1 - l_discount)) AS revenue,
               sum(w) AS items
        FROM changed JOIN nation ON n_nationkey = c_nationkey GROUP BY ALL
    ) AS d ON v2.n_name = d.n_name AND v2.year = d.year
    WHEN MATCHED AND v2.items + d.items = 0 THEN DELETE
    WHEN MATCHED THEN UPDATE SET revenue = v2.revenue + d.revenue, items = v2.items + d.items
    WHEN NOT MATCHED THEN INSERT VALUES (d.n_name, d.year, d.revenue, d.items)
"""


class ViewsByHand(ByHand):
    """The tables and both views."""

    def fill(self, tables: Mapping[str, pa.Table]) -> None:
        for table, rows in tables.items():
            self.load(table, rows, without_keys(table))
        for view, definition in tpch.VIEWS.items():
            self.run(f"CREATE TABLE {view} AS {definition}")
        for table in KEYS:
            self._make_delta(table)
        self.run(f"CREATE TEMP TABLE changed AS SELECT {JOINED}, 0 AS w FROM customer, orders, lineitem LIMIT 0")

    def _apply(self, work: Work) -> int:
        for table, change in work.items():
            self._fill_delta(table, change)
        written = joined = 0
        for table, term in (("lineitem", CHANGED_LINES), ("orders", CHANGED_ORDERS)):
            if table in work:
                joined += self.run(term)
                written += self._change(table, work[table])
        if joined:
            self.run(NET_V1)
            written += self.run(LEAVE_V1) + self.run(ENTER_V1) + self.run(MERGE_V2)
            self.run("DELETE FROM changed")
        return written


def without_keys(table: str) -> str:
    """The columns of a table without the index that a primary key would bring."""
    columns = tpch.TABLES[table].partition(", PRIMARY KEY")[0]
    return columns.replace("PRIMARY KEY", "NOT NULL")
