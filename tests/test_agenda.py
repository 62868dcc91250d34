"""Who is asked after a transaction: those whom it concerns, and no others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

import tidemark as tm
from tests.conformance.test_continual_queries import Clock
from tidemark.snapshots import triggers as asking
from tidemark.sql.catalog.catalog import View

SETUP = "CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE TABLE other (x INT)"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of those that are asked."""
    found: list[str] = []
    ask = asking.Asking.is_due

    def noting(self: asking.Asking, view: View, *rest: Any) -> bool:
        found.append(view.name)
        return ask(self, view, *rest)

    monkeypatch.setattr(asking.Asking, "is_due", noting)
    return found


@pytest.fixture
def db(clock: Clock, asked: list[str]) -> Iterator[tm.Database]:
    with tm.connect("reference", clock=clock) as database:
        database.execute(SETUP)
        yield database


def create(db: tm.Database, name: str, trigger: str, query: str = "SELECT a, b FROM t") -> None:
    db.execute(f"CREATE CONTINUAL QUERY {name} AS {query} TRIGGER {trigger}")


def test_of_many_queries_those_are_asked_that_a_change_can_matter_to(db: tm.Database, asked: list[str]) -> None:
    for number in range(30):
        trigger = ("ON CHANGE", "ON CHANGE OF 2 ROWS", "EVERY '1 hour'")[number % 3]
        create(db, f"q{number}", trigger, f"SELECT a FROM t WHERE b = {number}")
    create(db, "counting", "ON CHANGE OF 3 ROWS IN other")
    create(db, "state", "WHEN (SELECT COUNT(*) FROM other) > 5", "SELECT a FROM t WHERE b = 99")
    asked.clear()
    db.insert("t", [(1, 4)])
    assert asked == ["q4"]
    asked.clear()
    db.insert("t", [(2, 3)])
    assert asked == ["q3"], "what has answered is asked again when it is touched again"
    asked.clear()
    db.insert("other", [(1,)])
    assert asked == ["counting", "state"]
    asked.clear()
    db.insert("t", [(3, 5)])
    assert asked == [], "whose time has not come is not asked"


def test_when_a_time_has_come_each_is_asked_once(db: tm.Database, clock: Clock, asked: list[str]) -> None:
    create(db, "both", "EVERY '1 hour' AND ON CHANGE")
    create(db, "two", "(EVERY '1 hour' OR EVERY '3 hours') AND ON CHANGE IN other")
    asked.clear()
    clock.pass_by(minutes=61)
    assert (db.run_due(), sorted(asked)) == (0, ["both", "two"])
    assert (db.run_due(), sorted(asked)) == (0, ["both", "two"]), "the clock has said all it can say"
    clock.pass_by(hours=2)
    db.run_due()
    assert sorted(asked) == ["both", "two", "two"]
    assert db._continual.next_due() is None, "no thread has to wake up until something changes"
    db.insert("t", [(1, 1)])
    assert db.results("both").poll() is not None


def test_a_condition_that_stays_true_answers_when_there_is_something_to_tell(db: tm.Database) -> None:
    db.execute("CREATE CONTINUAL QUERY q AS SELECT a FROM t TRIGGER WHEN TRUE DELIVER COMPLETE")
    db.insert("t", [(1, 1)])
    db.insert("other", [(1,)])
    db.insert("t", [(2, 2)])
    assert [len(result.rows or ()) for result in _all(db)] == [1, 2]


def test_what_failed_is_tried_again_when_its_time_comes_again(db: tm.Database, clock: Clock, asked: list[str]) -> None:
    create(db, "q", "EVERY '1 hour'", "SELECT a, 1 / b AS c FROM t")
    db.insert("t", [(1, 0)])
    asked.clear()
    clock.pass_by(hours=1)
    assert db.run_due() == 1
    assert asked == ["q"]
    clock.pass_by(minutes=30)
    db.run_due()
    assert asked == ["q"]
    clock.pass_by(minutes=30)
    db.run_due()
    assert asked == ["q", "q"]
    db.execute("UPDATE t SET b = 1")
    assert asked == ["q", "q", "q"], "and when something that it reads has changed"
    assert [result.number for result in _all(db)] == [1]


def test_what_was_due_while_nobody_was_there_is_asked_at_the_first_occasion(clock: Clock, tmp_path: object) -> None:
    target = f"duckdb:{tmp_path}/data.duckdb"
    with tm.connect(target, clock=clock) as db:
        db.execute(SETUP)
        create(db, "q", "WHEN (SELECT COUNT(*) FROM other) > 0 AND AT '0 9 * * *'")
        db.execute("INSERT INTO t VALUES (1, 1); INSERT INTO other VALUES (1)")
        assert _all(db) == []
    clock.pass_by(hours=3)
    with tm.connect(target, clock=clock) as db:
        assert db.run_due() == 1
        assert [result.number for result in _all(db)] == [1]


def _all(db: tm.Database) -> list[tm.Result]:
    stream, found = db.results("q"), []
    while (result := stream.poll()) is not None:
        found.append(result)
    return found


def test_what_lies_beyond_the_calendar_never_comes_and_harms_nobody() -> None:
    clock = Clock()
    with tm.connect("duckdb", clock=clock) as db:
        db.execute("CREATE TABLE t (a INT); CREATE CONTINUAL QUERY now AS SELECT a FROM t TRIGGER ON CHANGE")
        for number, interval in enumerate(("99999999 years", "9000 years", "3000000 days", "99999999999 seconds")):
            db.execute(f"CREATE CONTINUAL QUERY q{number} AS SELECT a FROM t TRIGGER EVERY '{interval}'")
            db.execute(f"ALTER LOG SET (age = '{interval}')")
        waiting = db.subscribe("t", since=db.version, max_staleness=dt.timedelta.max)
        db.execute("INSERT INTO t VALUES (1)")
        clock.pass_by(days=365)
        db.run_due()
        assert waiting.poll(0.01) is None
        assert db.execute("SHOW CONTINUAL QUERIES")["results"].to_pylist() == [1, 0, 0, 0, 0]  # type: ignore[index]


def test_a_function_may_close_the_database(caplog: pytest.LogCaptureFixture) -> None:
    db = tm.connect("duckdb", clock=Clock())
    db.execute("CREATE TABLE t (a INT); CREATE CONTINUAL QUERY q AS SELECT a FROM t TRIGGER ON CHANGE")
    got: list[int] = []
    db.on_result("q", lambda result: db.close())
    db.on_result("q", lambda result: got.append(result.number))
    db.insert("t", [(1,)])
    assert got == [] and "failed" not in caplog.text
