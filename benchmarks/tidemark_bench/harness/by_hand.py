"""DuckDB itself, without Tidemark: what rivals do by SQL that is written by hand, in a durable file of their own.

Tables have no index: with one per key DuckDB was slower in these workloads from a few hundred thousand rows on. Keys
are checked as the index would, but only those that a transaction adds more often than it removes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

from tidemark.engines.duckdb.settings import config
from tidemark_bench.harness.clock import Spent, answered
from tidemark_bench.harness.database import TableChange, Work

T = TypeVar("T")
KEYS: Final = {"lineitem": ("l_orderkey", "l_linenumber"), "orders": ("o_orderkey",)}


class DuckDBFile:
    """A durable file."""

    def __init__(self, path: Path) -> None:
        self._connection = duckdb.connect(str(path.absolute()), config=config())

    def load(self, table: str, rows: pa.Table, columns: str | None = None) -> None:
        """Make a table of rows; ``columns`` declares it."""
        self._connection.register("loaded", rows)
        if columns is None:
            self.run(f"CREATE TABLE {table} AS FROM loaded")
        else:
            self.run(f"CREATE TABLE {table} ({columns})")
            self.run(f"INSERT INTO {table} FROM loaded")
        self._connection.unregister("loaded")

    def run(self, text: str) -> int:
        """Run a statement; how many rows it changed."""
        found = self._connection.execute(text).fetchall()
        return int(found[0][0]) if found else 0

    def together(self, action: Callable[[], T]) -> T:
        """Run an action as one transaction."""
        self._connection.execute("BEGIN")
        try:
            given = action()
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        return given

    def make_again(self, views: Mapping[str, str]) -> None:
        """Make a table of each definition, in place of the one that was there."""
        self.together(lambda: [self.run(f"CREATE OR REPLACE TABLE {name} AS {text}") for name, text in views.items()])

    def query(self, text: str) -> pa.Table:
        return self._connection.sql(text).to_arrow_table()

    def differing(self, view: str, other: pa.Table) -> int:
        """How many rows of a view are not in the other table, or the other way round."""
        self._connection.register("other", other)
        columns = ", ".join(other.column_names)
        mine, theirs = f"SELECT {columns} FROM {view}", f"SELECT {columns} FROM other"
        found = self.run(f"SELECT count(*) FROM (({mine} EXCEPT ALL {theirs}) UNION ALL ({theirs} EXCEPT ALL {mine}))")
        self._connection.unregister("other")
        return found

    def close(self) -> None:
        self._connection.close()


class ByHand(DuckDBFile):
    """Tables and views that a rival keeps. ``_apply`` is its transaction, and says how many rows it wrote."""

    def apply(self, work: Work) -> tuple[int, Spent]:
        """Run a transaction under the clock; how many rows of tables and views it wrote."""
        return answered(lambda: self.together(lambda: self._apply(work)))

    def _apply(self, work: Work) -> int:
        raise NotImplementedError

    def _make_delta(self, table: str) -> None:
        """A temporary table for the changed rows of a table, with a signed weight."""
        self.run(f"CREATE TEMP TABLE d_{table} AS SELECT *, 0 AS w FROM {table} LIMIT 0")

    def _fill_delta(self, table: str, change: TableChange) -> None:
        self.run(f"DELETE FROM d_{table}")
        weights = pa.array([-1] * change.delete.num_rows + [1] * change.insert.num_rows, pa.int32())
        rows = pa.concat_tables([change.delete, change.insert]).append_column("w", weights)
        self._connection.register("delta", rows)
        self.run(f"INSERT INTO d_{table} FROM delta")
        self._connection.unregister("delta")

    def _change(self, table: str, change: TableChange) -> int:
        """Bring a table up to date by key; a key that is missing or would stand twice is an error."""
        same = " AND ".join(f"{table}.{key} = d.{key}" for key in KEYS[table])
        keys = ", ".join(KEYS[table])
        grown = f"(SELECT {keys}, sum(w) AS w FROM d_{table} GROUP BY ALL HAVING sum(w) > 0) AS d"
        checked = f"SELECT 1 FROM {grown} WHERE d.w > 1 OR EXISTS (SELECT 1 FROM {table} WHERE {same}) LIMIT 1"
        if change.insert.num_rows and self._connection.execute(checked).fetchall():
            raise ValueError(f"a key would stand twice in {table}")
        gone = self.run(f"DELETE FROM {table} USING d_{table} AS d WHERE d.w < 0 AND {same}")
        if gone != change.delete.num_rows:
            raise ValueError(f"{table} had {gone} of the {change.delete.num_rows} rows that were to leave it")
        return gone + self.run(f"INSERT INTO {table} SELECT * EXCLUDE (w) FROM d_{table} WHERE w > 0")
