"""The rival: what an expert writes by hand for these two views and these transactions, on DuckDB itself.

It knows what no engine can know in general: which tables change, that V1 has a key, that both views share one join, and
that V2 needs no more than its own sums and counts. A transaction is Arrow rows that leave and come, as for Tidemark:

1. they go to temporary delta tables with a signed weight,
2. orders as they were, joined with the changed lines, are the first half of the changed join; then lineitem is changed
   by key, and the changed orders, joined with the lines as they are now, are the second half; then orders is changed,
3. V1 loses and gains the net rows of the changed join that pass its filter; V2 is merged with its sums per group,
4. one COMMIT makes it durable.

Tables have no index: with one per key DuckDB was slower in this workload from a few hundred thousand rows on. Keys are
checked as the index would, but only those that a transaction adds more often than it removes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from tidemark.cli.bench import tpch
from tidemark.cli.bench.changes import TableChange, Work
from tidemark.cli.bench.figures import Sample, timed

KEYS: Final = {"lineitem": ("l_orderkey", "l_linenumber"), "orders": ("o_orderkey",)}
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


class HandWritten:
    """The tables and both views in a durable DuckDB file."""

    def __init__(self, path: Path) -> None:
        self._connection = duckdb.connect(str(path))

    def load(self, folder: Path) -> None:
        for table in tpch.TABLES:
            self._connection.register("loaded", tpch.read(folder, table))
            self._connection.execute(f"CREATE TABLE {table} ({_without_keys(table)})")
            self._connection.execute(f"INSERT INTO {table} FROM loaded")
            self._connection.unregister("loaded")
        for view, definition in tpch.VIEWS.items():
            self._connection.execute(f"CREATE TABLE {view} AS {definition}")
        for table in KEYS:
            self._connection.execute(f"CREATE TEMP TABLE d_{table} AS SELECT *, 0 AS w FROM {table} LIMIT 0")
        self._connection.execute(
            f"CREATE TEMP TABLE changed AS SELECT {JOINED}, 0 AS w FROM customer, orders, lineitem LIMIT 0"
        )

    def apply(self, work: Work) -> Sample:
        """Run a transaction under the clock."""
        written: list[int] = []
        spent = timed(lambda: written.append(self._transaction(work)))
        return Sample(spent, written[0])

    def _transaction(self, work: Work) -> int:
        """Run a transaction; how many rows of tables and views it wrote."""
        self._connection.execute("BEGIN")
        try:
            written = self._apply(work)
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        return written

    def _apply(self, work: Work) -> int:
        for table, change in work.items():
            self._fill_delta(table, change)
        written = joined = 0
        for table, term in (("lineitem", CHANGED_LINES), ("orders", CHANGED_ORDERS)):
            if table in work:
                joined += self._run(term)
                written += self._change(table, work[table])
        if joined:
            self._run(NET_V1)
            written += self._run(LEAVE_V1) + self._run(ENTER_V1) + self._run(MERGE_V2)
            self._run("DELETE FROM changed")
        return written

    def _fill_delta(self, table: str, change: TableChange) -> None:
        self._run(f"DELETE FROM d_{table}")
        weights = pa.array([-1] * change.delete.num_rows + [1] * change.insert.num_rows, pa.int32())
        rows = pa.concat_tables([change.delete, change.insert]).append_column("w", weights)
        self._connection.register("delta", rows)
        self._run(f"INSERT INTO d_{table} FROM delta")
        self._connection.unregister("delta")

    def _change(self, table: str, change: TableChange) -> int:
        """Bring a table up to date by key; a key that is missing or would stand twice is an error."""
        same = " AND ".join(f"{table}.{key} = d.{key}" for key in KEYS[table])
        keys = ", ".join(KEYS[table])
        grown = f"(SELECT {keys}, sum(w) AS w FROM d_{table} GROUP BY ALL HAVING sum(w) > 0) AS d"
        checked = f"SELECT 1 FROM {grown} WHERE d.w > 1 OR EXISTS (SELECT 1 FROM {table} WHERE {same}) LIMIT 1"
        if change.insert.num_rows and self._connection.execute(checked).fetchall():
            raise ValueError(f"a key would stand twice in {table}")
        gone = self._run(f"DELETE FROM {table} USING d_{table} AS d WHERE d.w < 0 AND {same}")
        if gone != change.delete.num_rows:
            raise ValueError(f"{table} had {gone} of the {change.delete.num_rows} rows that were to leave it")
        return gone + self._run(f"INSERT INTO {table} SELECT * EXCLUDE (w) FROM d_{table} WHERE w > 0")

    def _run(self, text: str) -> int:
        """Run a statement; how many rows it changed."""
        found = self._connection.execute(text).fetchall()
        return int(found[0][0]) if found else 0

    def differing(self, view: str, other: pa.Table) -> int:
        """How many rows of a view are not in the other table, or the other way round."""
        self._connection.register("other", other)
        columns = ", ".join(other.column_names)
        mine, theirs = f"SELECT {columns} FROM {view}", f"SELECT {columns} FROM other"
        found = self._connection.execute(
            f"SELECT count(*) FROM (({mine} EXCEPT ALL {theirs}) UNION ALL ({theirs} EXCEPT ALL {mine}))"
        ).fetchall()
        self._connection.unregister("other")
        return int(found[0][0])

    def query(self, text: str) -> pa.Table:
        return self._connection.sql(text).to_arrow_table()

    def close(self) -> None:
        self._connection.close()


def _without_keys(table: str) -> str:
    """The columns of a table without the index that a primary key would bring."""
    columns = tpch.TABLES[table].partition(", PRIMARY KEY")[0]
    return columns.replace("PRIMARY KEY", "NOT NULL")
