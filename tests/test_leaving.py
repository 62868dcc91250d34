"""At the end of a process nothing is said on the standard error stream, whatever was left open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading, time
import tidemark as tm
{session}
def main():
    db = tm.connect({target})
    db.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    db.execute("INSERT INTO t VALUES (1), (2)")
    db.execute("CREATE SNAPSHOT s AS SELECT a FROM t REFRESH EVERY '1 hour'")
    assert db.query("SELECT * FROM v").num_rows == 2
    {how}
    return db

def follow(db, begun):
    for change in db.subscribe("v"):
        begun.set()

def followed(db):
    begun = threading.Event()
    threading.Thread(target=follow, args=(db, begun), daemon=True).start()
    begun.wait()

db = main()
"""
SESSION = """
from pyspark.sql import SparkSession
session = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1").getOrCreate())
"""
HOW = {
    "closed": "db.close()",
    "left open": "pass",
    "followed": "followed(db)",
    "in a transaction": "db.execute('BEGIN; DELETE FROM t')",
    "by an exit": "sys.exit(0)",
    "held elsewhere": "import builtins; builtins.held = [db]; held.append(held)",
}


def run(target: str, how: str, session: str = "") -> list[str]:
    """The lines of the standard error stream, without those of Spark's own log."""
    program = PROGRAM.format(target=target, how=how, session=session)
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    spark = ("WARN", "log4j", "WARNING:", "Setting default log level", "To adjust logging level", "INFO")
    return [line for line in found.stderr.splitlines() if line.strip() and not any(word in line for word in spark)]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("target", ["duckdb", "duckdb:{}"])
def test_duckdb_ends_in_silence(target: str, how: str, tmp_path: Path) -> None:
    path = tmp_path / "data.duckdb"
    assert run(repr(target.format(path)), HOW[how]) == []


@pytest.mark.spark
@pytest.mark.parametrize("how", ["closed", "followed"])
def test_a_session_of_ones_own_ends_in_silence(how: str, tmp_path: Path) -> None:
    assert run(f"session, lake={str(tmp_path / 'lake')!r}", HOW[how], SESSION) == []


def test_a_thread_that_works_at_the_end_is_not_waited_for(tmp_path: Path) -> None:
    """One that holds the database keeps nobody from leaving."""
    program = """
import threading, time
import tidemark as tm
db = tm.connect("duckdb")
def work():
    with db._store.lock:
        held.set()
        time.sleep(60)
held = threading.Event()
threading.Thread(target=work, daemon=True).start()
held.wait()
"""
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=30)
