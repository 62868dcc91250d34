"""The sides of the pipeline's benchmark: the other jobs, plain Spark, and whoever reads what is published."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from tidemark.engines.duckdb.settings import config
from tidemark_bench.harness.clock import Spent, spent_by_all
from tidemark_bench.harness.database import TableChange, Work, must_agree
from tidemark_bench.refreshes import unequal

FEED: Final = "delta.enableChangeDataFeed"
MATCHED: Final = {"orders": ("o_orderkey",), "lineitem": ("l_orderkey", "l_linenumber")}
_GONE: Final = "gone"
FILE_ROWS: Final = 1_000_000
DIGITS: Final = 9
"""Of doubles so many decimal places are compared, or as many as the other side has where it has decimals."""
_SIGNS: Final = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


class Jobs:
    """Delta tables in a folder, written by delta-rs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, table: str, rows: pa.Table) -> None:
        """The table as a first job leaves it."""
        place = str(self.folder / table)
        write_deltalake(place, rows.slice(0, FILE_ROWS), configuration={FEED: "true"})
        for start in range(FILE_ROWS, rows.num_rows, FILE_ROWS):
            write_deltalake(place, rows.slice(start, FILE_ROWS), mode="append")

    def feed(self, *, is_on: bool) -> None:
        for table in MATCHED:
            self._table(table).alter.set_table_properties({FEED: str(is_on).lower()})

    def merge(self, work: Work) -> None:
        """One MERGE into each table: by the key a row comes, is changed, or goes."""
        for table, change in work.items():
            key = MATCHED[table]
            columns = change.insert.column_names
            values = {name: f"s.{name}" for name in columns}
            (
                self._table(table)
                .merge(
                    _upserted_and_gone(change, key),
                    " AND ".join(f"t.{name} = s.{name}" for name in key),
                    source_alias="s",
                    target_alias="t",
                )
                .when_matched_delete(f"s.{_GONE}")
                .when_matched_update(values)
                .when_not_matched_insert(values)
                .execute()
            )

    def files(self, table: str) -> list[str]:
        """The files of the last version."""
        return list(self._table(table).file_uris())

    def _table(self, table: str) -> DeltaTable:
        return DeltaTable(str(self.folder / table))


def _upserted_and_gone(change: TableChange, key: Sequence[str]) -> pa.Table:
    """Rows for a MERGE: those that a key has afterwards, and those of keys that nothing has."""
    gone = change.delete.join(change.insert.select(list(key)), list(key), join_type="left anti")
    came = change.insert
    parts = [(came, False), (gone.select(came.column_names), True)]
    return pa.concat_tables(
        [rows.append_column(_GONE, pa.array([is_] * rows.num_rows, pa.bool_())) for rows, is_ in parts]
    )


class PlainSpark:
    """Spark's own session with Spark's own settings: the files of the tables, and each view made anew from them."""

    def __init__(self, folder: Path, tables: Iterable[str]) -> None:
        # Only here: it takes a second to import, and other benchmarks do not need it.
        from tidemark.engines.spark.session import local_session

        self._folder, self._tables = folder.absolute(), list(tables)
        self._session = local_session().newSession()

    def recomputed(self, files: Mapping[str, Sequence[str]], views: Mapping[str, str]) -> Spent:
        """What it takes to make all views anew; what was made before is removed first, beside the clock."""
        for view in views:
            self._session.sql(f"DROP TABLE IF EXISTS {_again(view)}")
            shutil.rmtree(self._folder / view, ignore_errors=True)
        return spent_by_all(partial(self._recompute, files, views))

    def _recompute(self, files: Mapping[str, Sequence[str]], views: Mapping[str, str]) -> None:
        for table in self._tables:
            self._session.read.parquet(*files[table]).createOrReplaceTempView(table)
        for view, definition in views.items():
            place = str(self._folder / view).replace("'", "\\'")
            self._session.sql(f"CREATE TABLE {_again(view)} USING parquet LOCATION '{place}' AS {definition}")

    def content(self, view: str) -> pa.Table:
        return pq.read_table(self._folder / view)


def _again(view: str) -> str:
    return f"again_{view}"


class Published:
    """The Delta tables of the views, as other programs read them."""

    def __init__(self, lake: Path, plain: PlainSpark) -> None:
        self._lake, self._plain = lake, plain

    def contents(self, views: Iterable[str]) -> dict[str, tuple[int, pa.Table]]:
        """The last version of each, and what it holds."""
        tables = {view: self._table(view) for view in views}
        return {view: (table.version(), table.to_pyarrow_table()) for view, table in tables.items()}

    def must_be_true(self, views: Iterable[str], before: Mapping[str, tuple[int, pa.Table]]) -> None:
        """Each view holds what plain Spark computes, and its change data feed leads there from what it held before."""
        for view in views:
            table = self._table(view)
            content = table.to_pyarrow_table()
            must_agree(differing(content, self._plain.content(view)), view, "what plain Spark computes")
            version, old = before[view]
            feed = old.slice(0, 0)
            if table.version() > version:
                feed = pa.table(table.load_cdf(starting_version=version + 1).read_all())
            must_agree(unaccounted(old, feed, content), view, "what it held before and its change data feed")

    def _table(self, view: str) -> DeltaTable:
        return DeltaTable(str(self._lake / "tables" / view))


def differing(left: pa.Table, right: pa.Table) -> int:
    """How many rows differ; doubles but for their last digits, and for those that the other side's decimals lack.

    >>> differing(pa.table({"a": [1, 2, 2]}), pa.table({"a": [2, 1, 1]}))
    2
    >>> differing(pa.table({"a": [1.0]}), pa.table({"a": [1.0 + 1e-14]}))
    0
    """
    kinds = list(zip(left.schema.types, right.schema.types, strict=True))
    mixed = [{one, other} for one, other in kinds if pa.types.is_floating(one) or pa.types.is_floating(other)]
    if mixed:
        scales = [kind.scale for both in mixed for kind in both if pa.types.is_decimal(kind)]
        return unequal(left, right, 10.0 ** -min(scales, default=DIGITS))
    one, other = "SELECT * FROM one", "SELECT * FROM other"
    return _counted(f"({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one})", one=left, other=right)


def unaccounted(old: pa.Table, feed: pa.Table, new: pa.Table) -> int:
    """How many rows of the new content, or of the old one, the feed does not account for.

    >>> old, new = pa.table({"a": [1, 2]}), pa.table({"a": [2, 2]})
    >>> kinds = pa.table({"a": [1, 2], "_change_type": ["delete", "insert"]})
    >>> unaccounted(old, kinds, new), unaccounted(old, kinds.slice(1), new)
    (0, 1)
    """
    names = ", ".join(f'"{name}"' for name in new.column_names)
    parts = [f"SELECT {names}, 1 AS w FROM old", f"SELECT {names}, -1 FROM new"]
    if feed.num_rows:
        signs = " ".join(f"WHEN '{kind}' THEN {sign}" for kind, sign in _SIGNS.items())
        parts.append(f"SELECT {names}, CASE _change_type {signs} END FROM feed")
    text = f"SELECT 1 FROM ({' UNION ALL '.join(parts)}) GROUP BY {names} HAVING sum(w) <> 0"
    return _counted(text, old=old, new=new, feed=feed)


def _counted(text: str, **tables: pa.Table) -> int:
    with duckdb.connect(config=config()) as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        (found,) = connection.execute(f"SELECT count(*) FROM ({text})").fetchall()[0]
    return int(found)
