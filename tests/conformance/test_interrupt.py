"""Interrupting an engine from another thread: what it is doing fails and does nothing; else nothing happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tidemark as tm
from tests.conformance.conftest import open_database
from tidemark.database.inspection import interrupt

SLOW = "SELECT COUNT(*) AS n FROM n AS a JOIN n AS b ON a.x < b.x JOIN n AS c ON b.x < c.x"
"""Takes seconds over so many rows, unless it is interrupted. No longer, because a task of Spark that is in the midst
of such a loop does not hear of it and keeps its core until the loop ends."""

MANY = 1_200

INTERRUPTIBLE = [
    "duckdb",
    *(pytest.param(name, marks=pytest.mark.spark) for name in ("spark forced", "spark in process")),
]
"""The reference engine stops between steps only; the others are these again."""


@contextmanager
def interrupting(database: tm.Database) -> Iterator[None]:
    """Ask again and again, as somebody would who presses Ctrl-C until it helps."""
    is_over = threading.Event()

    def press() -> None:
        while not is_over.wait(0.05):
            interrupt(database)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("engine", INTERRUPTIBLE, indirect=True)
@pytest.mark.parametrize("statement", [SLOW, f"CREATE MATERIALIZED VIEW w AS {SLOW}"], ids=["query", "fill"])
def test_what_is_interrupted_fails_and_does_nothing(db: tm.Database, statement: str) -> None:
    db.execute("CREATE TABLE n (x INT)")
    db.insert("n", [(number,) for number in range(MANY)])
    with interrupting(db), pytest.raises(tm.TidemarkError, match="Interrupted") as caught:
        db.execute(statement)
    assert caught.value.code == "evaluation_failed"
    assert db.version == 2
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT x FROM n WHERE x = 1")
    assert db.version == 3


def test_nothing_happens_to_an_engine_that_is_at_rest(db: tm.Database) -> None:
    interrupt(db)
    db.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 1")
    interrupt(db)
    db.execute("INSERT INTO t VALUES (1), (2)")
    interrupt(db)
    assert db.query("SELECT a FROM v").to_pylist() == [{"a": 2}]


def test_nothing_happens_to_an_engine_that_is_closed(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database = open_database(engine, request, tmp_path)
    database.execute("CREATE TABLE t (a INT)")
    database.close()
    interrupt(database)
