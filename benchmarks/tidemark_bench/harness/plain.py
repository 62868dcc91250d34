"""The engine by itself, without Tidemark: the same tables, and a view as the engine's plain CREATE TABLE AS.

That is what somebody would run who keeps no view: no log, no keys, no catalog of ours. It is durable all the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark_bench.harness.by_hand import DuckDBFile


class Plain(Protocol):
    """An engine with the tables. ``compute`` makes a table of a definition, ``rows`` counts it, ``forget`` drops it."""

    def load(self, table: str, rows: pa.Table) -> None: ...

    def compute(self, definition: str) -> None: ...

    def rows(self) -> int: ...

    def forget(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def plain_engine(engine: str, folder: Path, tables: Mapping[str, pa.Table]) -> Iterator[Plain]:
    """The engine with these tables."""
    opened = PlainDuckDB(folder / "plain.duckdb") if engine == "duckdb" else PlainSpark(folder / "plain")
    with closing(opened) as plain:
        for table, rows in tables.items():
            plain.load(table, rows)
        yield plain


class PlainDuckDB(DuckDBFile):
    """The tables in a durable file of their own."""

    def compute(self, definition: str) -> None:
        self.run(f"CREATE TABLE again AS {definition}")

    def rows(self) -> int:
        return self.run("SELECT COUNT(*) FROM again")

    def forget(self) -> None:
        self.run("DROP TABLE again")


class PlainSpark:
    """The tables as Parquet files, in a session of their own with Spark's own settings."""

    def __init__(self, folder: Path) -> None:
        # Only here: it takes a second to import, and DuckDB does not need it.
        from tidemark.engines.spark.session import local_session

        self._folder, self._session = folder.absolute(), local_session().newSession()

    def load(self, table: str, rows: pa.Table) -> None:
        place = self._folder / table
        place.mkdir(parents=True)
        pq.write_table(rows, place / "part.parquet", row_group_size=131_072)
        self._session.read.parquet(str(place)).createOrReplaceTempView(table)

    def compute(self, definition: str) -> None:
        place = str(self._folder / "again").replace("'", "\\'")
        self._session.sql(f"CREATE TABLE again USING parquet LOCATION '{place}' AS {definition}")

    def rows(self) -> int:
        return int(self._session.table("again").count())

    def forget(self) -> None:
        self._session.sql("DROP TABLE again")
        shutil.rmtree(self._folder / "again")

    def close(self) -> None:
        """The session lives on with Spark; what it holds are names of files."""
