"""Ending a statement, from another thread or when its time is over: it fails and does nothing; else nothing happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.conformance.conftest import open_database
from tidemark.answers.describe import interrupt

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
    with interrupting(db), pytest.raises(tm.TidemarkError) as caught:
        db.execute(statement)
    assert caught.value.code == "interrupted"
    assert db.version == 2
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT x FROM n WHERE x = 1")
    assert db.version == 3


@pytest.mark.parametrize("engine", INTERRUPTIBLE, indirect=True)
def test_one_word_from_another_thread_ends_the_statement(db: tm.Database) -> None:
    """It is heard also if the engine is between two of its steps when it comes."""
    db.execute("CREATE TABLE n (x INT)")
    db.insert("n", [(number,) for number in range(MANY)])
    timer = threading.Timer(0.3, db.interrupt)
    timer.start()
    with pytest.raises(tm.TidemarkError) as caught:
        db.execute(SLOW)
    timer.join()
    assert caught.value.code == "interrupted"
    assert db.query("SELECT COUNT(*) AS n FROM n").to_pylist() == [{"n": MANY}]


@pytest.mark.parametrize("engine", INTERRUPTIBLE, indirect=True)
def test_a_transaction_whose_statement_was_interrupted_is_doomed(db: tm.Database) -> None:
    db.execute("CREATE TABLE n (x INT)")
    db.insert("n", [(number,) for number in range(MANY)])
    db.execute("BEGIN; INSERT INTO n VALUES (-1)")
    with interrupting(db), pytest.raises(tm.TidemarkError, match="interrupted"):
        db.execute(SLOW)
    with pytest.raises(tm.TidemarkError) as caught:
        db.execute("INSERT INTO n VALUES (-2)")
    assert caught.value.code == "doomed"
    db.execute("ROLLBACK; INSERT INTO n VALUES (-3)")
    assert db.query("SELECT x FROM n WHERE x < 0").to_pylist() == [{"x": -3}]


@pytest.mark.parametrize("engine", INTERRUPTIBLE, indirect=True)
def test_a_script_ends_with_the_statement_that_is_interrupted(db: tm.Database) -> None:
    db.execute("CREATE TABLE n (x INT)")
    db.insert("n", [(number,) for number in range(MANY)])
    with interrupting(db), pytest.raises(tm.TidemarkError, match="interrupted"):
        db.execute(f"{SLOW}; INSERT INTO n VALUES (-1)")
    assert db.version == 2


TIMED = ["duckdb", pytest.param("spark forced", marks=pytest.mark.spark)]


@pytest.mark.parametrize("engine", TIMED, indirect=True)
@pytest.mark.parametrize("statement", [SLOW, f"CREATE MATERIALIZED VIEW w AS {SLOW}"], ids=["query", "fill"])
def test_a_statement_that_takes_too_long_is_ended(db: tm.Database, statement: str) -> None:
    db.execute("CREATE TABLE n (x INT)")
    db.insert("n", [(number,) for number in range(MANY)])
    db._store.stopping.timeout = 0.3
    with pytest.raises(tm.TidemarkError, match=r"longer than 0\.3 seconds") as caught:
        db.execute(statement)
    assert caught.value.code == "timeout"
    db._store.stopping.timeout = None
    assert db.version == 2
    db.execute("INSERT INTO n VALUES (-1)")
    assert db.query("SELECT x FROM n WHERE x < 0").to_pylist() == [{"x": -1}]


@pytest.mark.parametrize("given", ["100ms", 0.1, "0.1 seconds"])
def test_the_time_of_statements_is_an_option_of_the_connection(given: Any) -> None:
    with tm.connect("duckdb", options={"statement_timeout": given}) as db:
        db.execute("CREATE TABLE n (x INT)")
        db.insert("n", [(number,) for number in range(MANY)])
        with pytest.raises(tm.TidemarkError) as caught:
            db.query(SLOW)
        assert caught.value.code == "timeout"
        with db.transaction() as tx:  # the time of a statement is not that of a transaction
            tx.insert("n", [(-1,)])
            threading.Event().wait(0.3)
            tx.insert("n", [(-2,)])
        assert db.query("SELECT COUNT(*) AS n FROM n").to_pylist() == [{"n": MANY + 2}]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"statement_timeout": "soon"}, "no span of time"),
        ({"statement_timeout": -1}, "no span of time"),
        ({"statement_timeout": True}, "no span of time"),
        ({"statement_timeouts": 1}, "there is no option 'statement_timeouts'"),
        (["statement_timeout"], "by name"),
    ],
)
def test_options_that_are_none_are_refused(options: Any, words: str) -> None:
    with pytest.raises(tm.TidemarkError, match=words) as caught:
        tm.connect("duckdb", options=options)
    assert caught.value.code == "option"


def test_a_commit_that_is_reached_is_not_ended_any_more() -> None:
    """What follows a commit, here the action of a rule, belongs to no statement."""
    with tm.connect("duckdb", options={"statement_timeout": "200ms"}) as db:
        db.execute("CREATE TABLE t (a INT)")
        db.register("wait", lambda rows: threading.Event().wait(0.5))
        db.execute("CREATE RULE r ON INSERT ON t WHEN SELECT a FROM inserted DO CALL wait WITH (coupling = 'detached')")
        db.execute("ACTIVATE RULE r")
        db.execute("INSERT INTO t VALUES (1)")
        assert [row["outcome"] for row in db.firings().to_pylist()] == ["done"]


def test_nothing_happens_to_an_engine_that_is_at_rest(db: tm.Database) -> None:
    db.interrupt()
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
