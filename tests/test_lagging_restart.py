"""What lags, and the log with its limits, after a restart: on a DuckDB file, and on a lake that is rewritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.support import rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.records import Noted

SETUP = """
CREATE TABLE t (a INT PRIMARY KEY, b INT);
CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
CREATE SNAPSHOT kept WITH (lag = 'keep') AS SELECT b, SUM(a) AS total FROM t GROUP BY b REFRESH ON DEMAND;
CREATE SNAPSHOT lost AS SELECT DISTINCT b FROM t REFRESH ON DEMAND;
CREATE CONTINUAL QUERY q AS SELECT a, b FROM t WHERE b > 0 TRIGGER ON CHANGE OF 3 ROWS;
"""


def check_restarts(open_again: Any) -> None:
    db = open_again()
    db.execute(SETUP)
    for a in range(6):
        db.insert("t", [(a, a % 3)])
    db.execute("ALTER LOG SET (versions = 4)")
    db.execute("DELETE FROM t WHERE a = 5; ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
    for a in range(6, 12):
        db.insert("t", [(a, a % 3, a)])
    before = {name: rows(db.query(f"SELECT * FROM {name}")) for name in ("t", "v", "kept", "lost", "q")}
    version, log = db.version, db.execute("SHOW LOG")
    results = db.execute("SHOW CONTINUAL QUERIES")["results"].to_pylist()
    for _ in range(2):
        db.close()
        db = open_again()
        assert (db.version, db.execute("SHOW LOG")) == (version, log)
        assert db.execute("SHOW CONTINUAL QUERIES")["results"].to_pylist() == results
        for name, expected in before.items():
            assert rows(db.query(f"SELECT * FROM {name}")) == expected, name
    with pytest.raises(tm.TidemarkError):
        db.changes("t")
    assert db.changes("t", since=db.version - 4).num_rows
    for name in ("kept", "lost", "q"):
        db.refresh(name)
        assert db.audit(name).num_rows == 0
    assert rows(db.query("SELECT * FROM kept")) == rows(db.query("SELECT b, SUM(a) AS total FROM t GROUP BY b"))
    assert db.audit("v").num_rows == 0
    db.close()


def test_on_a_file(tmp_path: Path) -> None:
    check_restarts(lambda: tm.Database(DuckDBEngine(str(tmp_path / "data.duckdb"))))


@pytest.mark.spark
def test_on_a_lake(tmp_path: Path, spark: Any) -> None:
    """The transactions table is rewritten each time that something is forgotten, and what was staged is swept."""
    path = str(tmp_path / "lake")
    check_restarts(lambda: tm.Database(SparkEngine(path, spark, forget_every=1, keep_merged_seconds=0)))


@pytest.mark.spark
def test_a_large_deletion_outlives_its_log(tmp_path: Path, spark: Any) -> None:
    """What was deleted lies in a file that the log shares with the content: it is swept when nothing needs it, not when
    the log does not."""

    def open_again() -> tm.Database:
        options = {"inline_rows": 1, "sweep_after_seconds": -1, "keep_merged_seconds": -1}
        return tm.Database(SparkEngine(str(tmp_path / "lake"), spark, **options))

    db = open_again()
    db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    db.insert("t", [(a, a) for a in range(100)])
    db.execute("DELETE FROM t WHERE a < 95")
    db.insert("t", [(100, 100)])
    db.execute("ALTER LOG SET (versions = 1)")
    for _ in range(3):
        db.close()
        db = open_again()
        assert rows(db.query("SELECT a FROM t")) == [(a,) for a in range(95, 101)]
    db.close()


@pytest.mark.spark
def test_what_is_forgotten_of_an_external_view_leaves_the_lake(tmp_path: Path, spark: Any) -> None:
    """There is no content that its changes would be needed for, inline or in files."""
    engine = SparkEngine(str(tmp_path / "lake"), spark, inline_rows=2, forget_every=1, sweep_after_seconds=-1)
    db = tm.Database(engine)
    db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE EXTERNAL VIEW v AS SELECT a FROM t WHERE b > 0")
    for a in range(0, 12, 4):
        db.insert("t", [(a, 1)])
        db.insert("t", [(a + 1, 1), (a + 2, 1), (a + 3, 1)])
    db.execute("DELETE FROM t WHERE a > 3")
    assert list((tmp_path / "lake").glob("states/v/**/*.parquet"))
    db.execute("ALTER LOG SET (versions = 0)")
    assert not list((tmp_path / "lake").glob("states/v/**/*.parquet"))
    assert "v" not in engine._transactions.small_deltas({})
    db.close()


@pytest.mark.spark
def test_a_lake_keeps_once_what_is_kept_for_who_lags(tmp_path: Path, spark: Any) -> None:
    """Each cut of the log writes anew the net effect that somebody needs, and each reader how far it has come."""

    def open_again() -> tuple[tm.Database, SparkEngine]:
        engine = SparkEngine(str(tmp_path / "lake"), spark, forget_every=1)
        return tm.Database(engine), engine

    db, engine = open_again()
    db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    db.execute("CREATE SNAPSHOT s WITH (lag = 'keep') AS SELECT b, SUM(a) AS c FROM t GROUP BY b REFRESH ON DEMAND")
    db.execute("ALTER LOG SET (versions = 1)")
    for a in range(30):
        db.insert("t", [(a, a % 3)])
        with db.subscribe("t", since=db.version, name="reader") as reader:
            reader.poll()
    noted = [row for row in engine._transactions.rows() if isinstance(row.record, Noted)]
    kept = [row.sequence for row in noted if "t" in engine._transactions.cells(row.sequence)]
    assert len(kept) == 1, "the net effect since the snapshot's tidemark"
    assert len(noted) < 8, "what each says nobody has said later"
    consumers = db.execute("SHOW CONSUMERS")
    db.close()
    db, engine = open_again()
    assert db.execute("SHOW CONSUMERS") == consumers
    db.refresh("s")
    assert rows(db.query("SELECT * FROM s")) == rows(db.query("SELECT b, SUM(a) AS c FROM t GROUP BY b"))
    assert db.audit("s").num_rows == 0
    db.close()


def test_the_log_is_bounded_though_each_process_does_little(tmp_path: Path) -> None:
    """The log is looked through after some versions, whichever processes made them."""
    most = 0
    for process in range(12):
        with tm.connect(f"duckdb:{tmp_path / 'short.duckdb'}") as db:
            if not process:
                db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
                db.execute("ALTER LOG SET (versions = 80)")
            for a in range(15):
                db.insert("t", [(process * 15 + a, a)])
            most = max(most, db.execute("SHOW LOG")["versions"].to_pylist()[0])  # type: ignore[index]
    assert 80 <= most <= 80 + 20, "a quarter of the limit more, at most"
