"""Spark DataFrames that go into a lake as the files that executors write, without passing through this process."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemark as tm
from tests.laws.upserts import play
from tests.support import changes_at, check_invariant, rows
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.frames import local_frame
from tidemark.storage import filed
from tidemark.storage.filed import FiledRows

pytestmark = pytest.mark.spark

SETUP = """
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR NOT NULL, c DECIMAL(6, 2) CHECK (c < 100));
CREATE TABLE bag (x BIGINT, d TIMESTAMP);
CREATE MATERIALIZED VIEW counted AS SELECT b, COUNT(*) AS n, SUM(c) AS c FROM t GROUP BY b;
CREATE MATERIALIZED VIEW joined AS SELECT t.a, bag.x FROM t JOIN bag ON bag.x = t.a;
CREATE MATERIALIZED VIEW texts AS SELECT DISTINCT b FROM t WHERE c > 1;
"""


def lake(path: Path, session: Any, **options: Any) -> tm.Database:
    """A lake into whose files all that Spark hands over goes."""
    return tm.Database(SparkEngine(str(path), session, **{"staged_rows": 0, **options}))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were brought from files into this process, each time."""
    found: list[int] = []
    table = FiledRows.table

    def counted(self: FiledRows) -> pa.Table:
        found.append(self.count)
        return table._of(self)

    monkeypatch.setattr(FiledRows, "table", property(counted))
    return found


def files(path: Path) -> set[Path]:
    return {one for one in (path / "tables").rglob("*.parquet") if "_delta_log" not in one.parts}


def test_views_follow_rows_that_stay_in_files(spark: Any, tmp_path: Path, read: list[int]) -> None:
    with lake(tmp_path / "lake", spark) as db:
        db.execute(SETUP)
        db.insert("bag", spark.sql("SELECT id % 3 AS x, TIMESTAMP_NTZ '2026-01-01 00:00:00' AS d FROM range(9)"))
        db.insert(
            "t", spark.sql("SELECT CAST(id AS INT) AS a, IF(id < 5, 'x', 'y') AS b, id * 0.5 AS c FROM range(10)")
        )
        assert rows(db.query("SELECT b, n FROM counted")) == [("x", 5), ("y", 5)]
        assert rows(db.query("SELECT a, COUNT(*) FROM joined GROUP BY a")) == [(0, 3), (1, 3), (2, 3)]
        db.upsert("t", spark.sql("SELECT id AS a, 'z' AS b, CAST(2.5 AS DECIMAL(9, 3)) AS c FROM range(4, 12)"))
        assert changes_at(db, "counted").keys() >= {("z", 8, 20), ("y", 5, 17.5)}
        assert changes_at(db, "joined") == {}
        assert db.changes("t", since=db.version - 1)["_weight"].to_pylist().count(1) == 8
        synced = db.sync("t", spark.sql("SELECT id AS a, 'z' AS b, CAST(2.5 AS DECIMAL(9, 3)) AS c FROM range(2, 11)"))
        assert synced == tm.Synced(inserted=2, deleted=5)
        assert changes_at(db, "joined") == {(0, 0): -3, (1, 1): -3}
        assert db.table("t").spark(spark).count() == 9
        check_invariant(db)
        assert read == []
    with lake(tmp_path / "lake", spark) as db:
        check_invariant(db)
        assert rows(db.query("SELECT COUNT(*), SUM(c) FROM t")) == [(9, 22.5)]


def test_a_transaction_reads_and_forgets_what_lies_in_files(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "lake"
    with lake(path, spark) as db:
        db.execute(SETUP)
        before = files(path)
        some = spark.sql("SELECT id AS a, 'x' AS b, CAST(NULL AS DECIMAL(6, 2)) AS c FROM range(5)")
        more = spark.sql("SELECT id AS a, 'y' AS b, 1 AS c FROM range(5, 9)")
        with pytest.raises(LookupError), db.transaction() as tx:
            tx.insert("t", some)
            assert files(path) > before
            assert rows(tx.query("SELECT COUNT(*) FROM t")) == [(5,)]
            assert rows(tx.query("SELECT b, n FROM counted")) == [("x", 5)]
            tx.insert("t", more)
            assert rows(tx.query("SELECT b, n FROM counted")) == [("x", 5), ("y", 4)]
            raise LookupError
        assert files(path) == before
        with db.transaction() as tx:
            tx.insert("t", some)
            tx.insert("t", more)
            tx.execute("UPDATE t SET b = 'w' WHERE a >= 4")
            tx.execute("DELETE FROM t WHERE a = 0")
            tx.upsert("t", spark.sql("SELECT 1 AS a, 'v' AS b, 2 AS c"))
            tx.delete("t", [(2, "x", None)])
        assert rows(db.query("SELECT a, b FROM t")) == [(1, "v"), (3, "x"), *((n, "w") for n in range(4, 9))]
        check_invariant(db)
        db.execute("BEGIN")
        db.insert("bag", spark.sql("SELECT 7 AS x, CAST(NULL AS TIMESTAMP_NTZ) AS d FROM range(3)"))
        db.execute("CREATE MATERIALIZED VIEW late AS SELECT x, COUNT(*) AS n FROM bag GROUP BY x")
        db.execute("COMMIT")
        assert rows(db.query("SELECT * FROM late")) == [(7, 3)]
        check_invariant(db)


REFUSED = [
    ("insert", "SELECT 1 AS a, 'x' AS b, 1 AS c", "primary_key", r"\(a=1\)"),
    ("insert", "SELECT 7 AS a, 'x' AS b, 1 AS c FROM range(2)", "primary_key", r"\(a=7\)"),
    ("upsert", "SELECT 7 AS a, 'x' AS b, 1 AS c FROM range(2)", "primary_key", r"\(a=7\) stands twice"),
    ("sync", "SELECT 1 AS a, CAST(id AS STRING) AS b, 1 AS c FROM range(2)", "primary_key", r"\(a=1\)"),
    ("insert", "SELECT 7 AS a, CAST(NULL AS STRING) AS b, 1 AS c", "not_null", "'b'"),
    ("upsert", "SELECT CAST(NULL AS INT) AS a, 'x' AS b, 1 AS c", "not_null", "'a'"),
    ("sync", "SELECT 7 AS a, 'x' AS b, 100 AS c", "check", "c < 100"),
    ("insert", "SELECT 3000000000 AS a, 'x' AS b, 1 AS c", "type", "column 'a' of 't' is not a INT: 3000000000"),
    ("upsert", "SELECT 7 AS a, 'x' AS b, 1.555 AS c", "type", "column 'c' of 't' is not a DECIMAL.6,2.: 1.555"),
    ("upsert", "SELECT 7 AS a, 'x' AS b, 10000 AS c", "type", "'c'"),
    ("insert", "SELECT 7 AS a, CAST(X'FF' AS STRING) AS b, 1 AS c", "type", "'b'"),
    ("insert", "SELECT 7 AS a, 'x' AS b, 1 AS c, 1 AS d", "columns", "extra: d"),
    ("insert", "SELECT 7 AS a, 'x' AS b, 1 / 0 AS c", "type", "Spark gives no rows"),
    ("insert", "SELECT 7 AS a, 'x' AS b, CAST(1 / 0 AS INT) AS c", "division_by_zero", ""),
]


def test_what_is_refused_leaves_neither_rows_nor_files(spark: Any, tmp_path: Path, read: list[int]) -> None:
    path = tmp_path / "lake"
    with lake(path, spark) as db:
        db.execute(SETUP + "INSERT INTO t VALUES (1, 'one', 1)")
        before, version = files(path), db.version
        for method, text, code, words in REFUSED:
            with pytest.raises(tm.TidemarkError, match=words or None) as error:
                getattr(db, method)("t", spark.sql(text))
            assert error.value.code == code, (text, error.value)
            assert files(path) == before, text
        assert db.version == version
        assert read == []


TYPES = "CREATE TABLE k (s SMALLINT, r DOUBLE, d DATE, m TIMESTAMP, f BOOLEAN, n DECIMAL(9, 3), l INT[])"
KINDS = """
SELECT CAST(1 AS TINYINT) AS s, CAST(0.5 AS FLOAT) AS r, DATE '0001-01-01' AS d, DATE '9999-12-31' AS m, TRUE AS f,
    CAST(7 AS BIGINT) AS n, array(1, NULL) AS l
UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL
"""
TIMES = """
SELECT 1 AS s, CAST('NaN' AS DOUBLE) AS r, DATE '1500-01-01' AS d,
    timestamp_micros(1793511000000001 + 3600000000 * id) AS m, FALSE AS f, 1.500 AS n,
    CAST(NULL AS ARRAY<INT>) AS l FROM range(2)
"""


def test_values_of_every_kind_are_what_they_were(spark: Any, tmp_path: Path, read: list[int]) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "America/New_York")
    own.conf.set("spark.sql.ansi.enabled", "false")
    with lake(tmp_path / "lake", spark) as db:
        db.execute(TYPES)
        db.insert("k", own.sql(KINDS))
        first = (1, 0.5, dt.date(1, 1, 1), dt.datetime(9999, 12, 31), True, 7)
        assert rows(db.query("SELECT s, r, d, m, f, n FROM k WHERE s IS NOT NULL")) == [first]
        assert rows(db.query("SELECT COUNT(*) FROM k WHERE s IS NULL AND n IS NULL AND l IS NULL")) == [(1,)]
        db.sync("k", own.sql(TIMES))
        # The clocks of that zone show the same time for both.
        moments = [dt.datetime(2026, 11, 1, hour, 30, 0, 1) for hour in (5, 6)]
        assert rows(db.query("SELECT m FROM k")) == [(moment,) for moment in moments]
        assert read == []


def test_what_something_looks_at_row_by_row_comes_here(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake(tmp_path / "lake", spark) as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, m DECIMAL(5, 2)); CREATE TABLE seen (a INT)")
        db.insert("t", spark.sql("SELECT 1 AS a, 0.5D AS m"))  # a DOUBLE for a DECIMAL: exact here, not on Spark
        db.execute("CREATE RULE r ON INSERT ON t WHEN SELECT a FROM t DO INSERT INTO seen SELECT a FROM condition")
        db.execute("ACTIVATE RULE r")
        db.upsert("t", spark.sql("SELECT CAST(id AS INT) AS a, 2 AS m FROM range(3)"))
        assert rows(db.query("SELECT a FROM seen")) == [(0,), (2,)]
        assert rows(db.query("SELECT a, m FROM t")) == [(0, 2), (1, 2), (2, 2)]
        db.execute("DEACTIVATE RULE r")
        version = db.version
        monkeypatch.setattr(filed, "MOST_READ", 3)
        with pytest.raises(tm.TidemarkError, match="a change of 4 rows lies in files") as error, db.transaction() as tx:
            tx.insert("t", spark.sql("SELECT CAST(id AS INT) AS a, 2 AS m FROM range(10, 14)"))
            tx.execute("UPDATE t SET m = 3")
        assert error.value.code == "unsupported"
        assert db.version == version


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_table_whose_changes_lie_in_files_is_what_a_dictionary_would_be(
    seed: int, spark: Any, tmp_path: Path
) -> None:
    """The law of ``tests/laws/test_upserts.py``."""
    frames = (lambda table: local_frame(spark, table), lambda table: local_frame(spark, table), lambda table: table)
    with lake(tmp_path / "lake", spark, merge_minimum=2) as db:
        play(db, seed, 5, frames)
