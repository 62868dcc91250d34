"""CHECKPOINT: what others read is brought to the last version, and nothing else changes."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

import tidemark as tm
from tests.conformance.conftest import open_database
from tests.support import changes_at, rows

SPARK_VARIANTS = ("spark",)
SETUP = """
    CREATE TABLE t (k INT PRIMARY KEY, g INT);
    CREATE MATERIALIZED VIEW sums AS SELECT g, COUNT(*) AS n FROM t GROUP BY g;
    INSERT INTO t VALUES (1, 1), (2, 1), (3, 2);
    DELETE FROM t WHERE k = 3;
"""


@pytest.fixture
def filled(db: tm.Database) -> tm.Database:
    db.execute(SETUP)
    return db


def test_it_is_no_version_and_changes_nothing(filled: tm.Database) -> None:
    before = filled.version, rows(filled.changes("sums")), filled.trace(filled.version).to_pylist()
    follower = filled.subscribe("sums")
    assert filled.execute("CHECKPOINT") is None
    filled.checkpoint()
    assert (filled.version, rows(filled.changes("sums")), filled.trace(filled.version).to_pylist()) == before
    assert rows(filled.query("SELECT * FROM sums")) == [(1, 2)]
    assert follower.poll(0) is not None and follower.poll(0) is None


def test_the_database_goes_on_after_it(filled: tm.Database) -> None:
    for number in range(3):
        filled.execute(f"checkpoint; UPDATE t SET g = g + 1; CHECKPOINT; INSERT INTO t VALUES ({10 + number}, 1)")
    assert changes_at(filled, "sums") == {(1, 1): 1}
    assert rows(filled.query("SELECT * FROM sums AS OF VERSION 4")) == [(1, 2)]
    assert filled.version == 4 + 6


def test_an_empty_database_has_nothing_to_bring(db: tm.Database) -> None:
    db.execute("CHECKPOINT")
    assert db.version == 0


@pytest.mark.parametrize("sql", ["BEGIN; CHECKPOINT", "BEGIN; INSERT INTO t VALUES (4, 4); CHECKPOINT"])
def test_it_is_refused_in_a_transaction(filled: tm.Database, sql: str) -> None:
    with pytest.raises(tm.TidemarkError, match="a transaction is open already") as caught:
        filled.execute(sql)
    assert caught.value.code == "transaction" and caught.value.hint == "commit it or roll it back first"
    filled.execute("ROLLBACK")
    with pytest.raises(tm.TidemarkError, match="cannot stand inside a transaction"), filled.transaction() as tx:
        tx.execute("CHECKPOINT")
    with filled.transaction() as tx, pytest.raises(tm.TidemarkError, match="a transaction is open already"):
        filled.checkpoint()
    filled.execute("CHECKPOINT")


def test_it_waits_for_its_turn(filled: tm.Database) -> None:
    done = threading.Event()

    def checkpoint() -> None:
        filled.checkpoint()
        done.set()

    with filled.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (4, 4)")
        thread = threading.Thread(target=checkpoint)
        thread.start()
        assert not done.wait(0.1)
    thread.join()
    assert done.is_set() and rows(filled.query("SELECT * FROM sums")) == [(1, 2), (4, 1)]


def test_nothing_stands_behind_it(db: tm.Database) -> None:
    with pytest.raises(tm.TidemarkError, match="nothing more is expected here") as caught:
        db.execute("CHECKPOINT now")
    assert caught.value.code == "syntax"


def test_a_closed_database_has_none(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    filled = open_database(engine, request, tmp_path)
    filled.close()
    for ask in (filled.checkpoint, partial(filled.execute, "CHECKPOINT")):
        with pytest.raises(tm.TidemarkError) as caught:
            ask()
        assert caught.value.code == "closed"
