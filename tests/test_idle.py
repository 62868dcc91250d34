"""Idle time: a while after the last commit the tables of a file have what was committed, and nobody waited for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidemark as tm
from tests.support import check_invariant, rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.limits import DUCKDB

SETUP = (
    "CREATE TABLE t (k INT PRIMARY KEY, g INT); CREATE MATERIALIZED VIEW n AS SELECT g, COUNT(*) AS n FROM t GROUP BY g"
)
REST = 0.05


def opened(path: Path, rest: float = REST) -> tm.Database:
    return tm.Database(DuckDBEngine(str(path / "x.duckdb"), limits=replace(DUCKDB, idle_seconds=rest)))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tm.Database]:
    with opened(tmp_path) as database:
        database.execute(SETUP)
        yield database
        check_invariant(database)


def waiting(db: tm.Database) -> int:
    """How many commits the tables do not have yet."""
    engine: Any = db._store.engine
    return len(engine._tail.entries)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tidemark idle time"]


def soon(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


def test_what_was_committed_is_merged_after_a_while(db: tm.Database) -> None:
    for number in range(3):
        db.execute(f"INSERT INTO t VALUES ({number}, 1)")
        assert waiting(db)
        assert soon(lambda: not waiting(db))
    assert soon(lambda: not threads()), "where there is nothing to do there is no thread"
    assert rows(db.query("SELECT * FROM n")) == [(1, 3)]


def test_it_is_put_off_by_each_commit(tmp_path: Path) -> None:
    with opened(tmp_path, rest=0.5) as db:
        db.execute(SETUP)
        for number in range(20):
            db.execute(f"INSERT INTO t VALUES ({number}, 1)")
            time.sleep(0.05)
        assert waiting(db) == 20, "this takes longer than a rest, and there was none"
        assert len(threads()) == 1
        assert soon(lambda: not waiting(db))


def test_an_open_transaction_is_waited_for(db: tm.Database) -> None:
    db.execute("INSERT INTO t VALUES (1, 1)")
    with db.transaction() as tx:
        time.sleep(4 * REST)
        assert waiting(db) == 1
        tx.execute("INSERT INTO t VALUES (2, 1)")
    assert soon(lambda: not waiting(db))


def test_nobody_is_told_that_it_is_busy(tmp_path: Path) -> None:
    """Also if no change waits for another one's turn."""
    engine = DuckDBEngine(str(tmp_path / "x.duckdb"), limits=replace(DUCKDB, idle_seconds=0.0))
    with tm.Database(engine, options={"busy_timeout": 0}) as db:
        db.execute(SETUP)
        for number in range(200):
            db.execute(f"INSERT INTO t VALUES ({number}, {number % 3})")
        assert rows(db.query("SELECT * FROM n")) == [(0, 67), (1, 67), (2, 66)]
        check_invariant(db)


def test_in_memory_there_is_nothing_to_merge() -> None:
    before = threads()
    with tm.connect("duckdb") as db:
        db.execute(SETUP + "; INSERT INTO t VALUES (1, 1)")
        assert threads() == before
        assert db._store.engine.idle_after is None


def test_closing_ends_it(tmp_path: Path) -> None:
    with opened(tmp_path, rest=1000) as db:
        db.execute(SETUP + "; INSERT INTO t VALUES (1, 1)")
        assert len(threads()) == 1
    assert soon(lambda: not threads())
    assert [path.name for path in tmp_path.iterdir()] == ["x.duckdb"]


def test_what_fails_is_told_in_the_log_and_tried_after_the_next_commit(
    db: tm.Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> Any:
        raise duckdb.IOException("IO Error: No space left on device")

    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr("tidemark.engines.duckdb.commits.write_plain", fails)
        db.execute("INSERT INTO t VALUES (1, 1)")
        assert soon(lambda: "in idle time" in caplog.text)
        assert waiting(db) == 1
    db.execute("INSERT INTO t VALUES (2, 1)")
    assert soon(lambda: not waiting(db))
    assert rows(db.query("SELECT * FROM n")) == [(1, 2)]


def test_a_thread_that_cannot_begin_fails_no_commit(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unable(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("tidemark.session.endings.threading.Thread", Unable)
        db.execute("INSERT INTO t VALUES (1, 1)")
    db.execute("INSERT INTO t VALUES (2, 1)")
    assert soon(lambda: not waiting(db))
