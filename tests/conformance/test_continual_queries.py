"""Continual queries: every form of trigger, end and delivery, with a clock that the test moves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemark as tm
from tests.conformance.conftest import HERE
from tests.support import check_invariant, rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.reference import ReferenceEngine

START = dt.datetime(2027, 1, 1, 8, 0)  # a Friday
SETUP = """
CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR, balance INT);
INSERT INTO account VALUES (1, 'Ada', 100), (2, 'Ben', 200);
"""
QUERY = "SELECT id, owner, balance FROM account WHERE balance > 50"


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> dt.datetime:
        return self.now

    def pass_by(self, **time: float) -> None:
        self.now += dt.timedelta(**time)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(engine: str, clock: Clock) -> tm.Database:
    if engine == "reference":
        return tm.Database(ReferenceEngine(), clock=clock)
    by_statements = engine == "duckdb by statements"
    return tm.Database(DuckDBEngine(by_statements=by_statements, gather_at=2 if by_statements else 128), clock=clock)


@pytest.fixture(params=HERE)
def db(request: pytest.FixtureRequest, clock: Clock) -> Iterator[tm.Database]:
    database = opened(request.param, clock)
    database.execute(SETUP)
    yield database
    check_invariant(database)
    database.close()


def create(db: tm.Database, clauses: str, query: str = QUERY, name: str = "q") -> None:
    db.execute(f"CREATE CONTINUAL QUERY {name} AS {query} {clauses}")


def delivered(db: tm.Database, name: str = "q", after: int = 0) -> list[tm.Result]:
    stream, found = db.results(name, after=after), []
    while (result := stream.poll()) is not None:
        found.append(result)
    return found


def listed(table: pa.Table | None) -> list[tuple[Any, ...]] | None:
    return None if table is None else rows(table)


def numbers(db: tm.Database) -> list[int]:
    return [result.number for result in delivered(db)]


def test_on_change_answers_when_the_result_changed(db: tm.Database) -> None:
    create(db, "TRIGGER ON CHANGE")
    db.execute("INSERT INTO account VALUES (3, 'Cy', 10)")
    assert numbers(db) == [], "the row does not reach the result"
    with db.transaction() as tx:
        tx.execute("UPDATE account SET balance = 70 WHERE id = 3")
        tx.execute("UPDATE account SET balance = 201 WHERE id = 2")
        tx.execute("DELETE FROM account WHERE id = 1")
    [result] = delivered(db)
    assert (listed(result.inserted), listed(result.deleted)) == ([(3, "Cy", 70)], [(1, "Ada", 100)])
    assert result.updated is not None and result.updated.to_pylist() == [
        {
            "key": {"id": 2},
            "old": {"id": 2, "owner": "Ben", "balance": 200},
            "new": {"id": 2, "owner": "Ben", "balance": 201},
        }
    ]
    assert (result.number, result.time, result.rows) == (1, START, None)
    assert delivered(db, after=1) == []


def test_a_number_of_rows_is_waited_for_and_what_cancels_does_not_count(db: tm.Database) -> None:
    create(db, "TRIGGER ON CHANGE OF 3 ROWS")
    db.execute("INSERT INTO account VALUES (3, 'Cy', 70)")
    db.execute("DELETE FROM account WHERE id = 3")
    db.execute("INSERT INTO account VALUES (4, 'Cy', 70)")
    db.execute("UPDATE account SET balance = 210 WHERE id = 2")
    assert numbers(db) == [], "two rows have changed, net; a modified one is one"
    db.execute("INSERT INTO account VALUES (5, 'Dan', 80)")
    [result] = delivered(db)
    assert listed(result.inserted) == [(4, "Cy", 70), (5, "Dan", 80)]
    assert result.updated is not None and result.updated.num_rows == 1


def test_changes_of_another_relation_can_be_counted(db: tm.Database) -> None:
    db.execute("CREATE TABLE visit (at INT)")
    create(db, "TRIGGER ON CHANGE OF 2 ROWS IN visit DELIVER COMPLETE")
    db.execute("INSERT INTO account VALUES (3, 'Cy', 70); INSERT INTO visit VALUES (1)")
    assert numbers(db) == []
    db.execute("INSERT INTO visit VALUES (1)")
    [result] = delivered(db)
    assert listed(result.rows) == [(1, "Ada", 100), (2, "Ben", 200), (3, "Cy", 70)]


def test_an_epsilon_over_accumulated_changes(db: tm.Database) -> None:
    create(db, "TRIGGER WHEN ABS(SUM(new.balance) - SUM(old.balance)) > 1000")
    db.execute("UPDATE account SET balance = 700 WHERE id = 1")
    db.execute("UPDATE account SET balance = 300 WHERE id = 1; INSERT INTO account VALUES (3, 'Cy', 800)")
    assert numbers(db) == [], "200 and 800 more"
    db.execute("UPDATE account SET balance = 201 WHERE id = 2")
    assert numbers(db) == [1]
    db.execute("DELETE FROM account WHERE id IN (1, 3)")
    assert [listed(result.deleted) for result in delivered(db, after=1)] == [[(1, "Ada", 300), (3, "Cy", 800)]]


def test_an_epsilon_on_a_base_table(db: tm.Database) -> None:
    create(db, "TRIGGER WHEN COUNT(*) > 2 AND MIN(new.id) > 2 IN account DELIVER INSERTIONS")
    db.execute("INSERT INTO account VALUES (3, 'Cy', 1), (4, 'Cy', 90)")
    assert numbers(db) == []
    db.execute("INSERT INTO account VALUES (5, 'Cy', 1)")
    [result] = delivered(db)
    assert (listed(result.inserted), result.deleted) == ([(4, "Cy", 90)], None)


def test_a_condition_over_the_state(db: tm.Database) -> None:
    create(db, "TRIGGER WHEN (SELECT SUM(balance) FROM account) > 500")
    db.execute("UPDATE account SET balance = 300 WHERE id = 1")
    assert numbers(db) == [], "500 in all"
    db.execute("INSERT INTO account VALUES (3, 'Cy', 1)")
    [result] = delivered(db)
    assert result.updated is not None and result.updated["new"][0].as_py()["balance"] == 300


def test_times_of_a_calendar(db: tm.Database, clock: Clock) -> None:
    create(db, "TRIGGER AT '0 9 * * mon'")
    db.execute("INSERT INTO account VALUES (3, 'Cy', 70)")
    clock.pass_by(days=2, hours=23)
    assert db.run_due() == 0, "Monday, 7 o'clock"
    clock.pass_by(hours=2)
    assert db.run_due() == 1
    [result] = delivered(db)
    assert (listed(result.inserted), result.time) == ([(3, "Cy", 70)], clock.now)
    clock.pass_by(days=7)
    assert db.run_due() == 1, "asked, though nothing has changed"
    assert numbers(db) == [1], "and only what is new is delivered"


def test_an_interval_since_the_last_time(db: tm.Database, clock: Clock) -> None:
    create(db, "TRIGGER EVERY '1 hour' DELIVER COMPLETE")
    clock.pass_by(minutes=59)
    db.execute("INSERT INTO account VALUES (3, 'Cy', 70)")
    assert numbers(db) == []
    clock.pass_by(minutes=2)
    db.execute("INSERT INTO account VALUES (4, 'Cy', 71)")
    assert [len(result.rows or ()) for result in delivered(db)] == [4], "a transaction sees that its time has come"
    clock.pass_by(minutes=59)
    assert db.run_due() == 0
    clock.pass_by(days=3)
    assert db.run_due() == 1, "many missed times are made up for once"
    assert numbers(db) == [1, 2]


def test_combinations(db: tm.Database, clock: Clock) -> None:
    create(db, "TRIGGER (EVERY '1 hour' AND ON CHANGE) OR ON CHANGE OF 2 ROWS")
    clock.pass_by(hours=5)
    assert db.run_due() == 0, "nothing has changed"
    db.execute("INSERT INTO account VALUES (3, 'Cy', 70)")
    assert numbers(db) == [1]
    db.execute("INSERT INTO account VALUES (4, 'Cy', 70)")
    assert numbers(db) == [1], "one row, and the hour is not over"
    db.execute("INSERT INTO account VALUES (5, 'Cy', 70)")
    assert numbers(db) == [1, 2]
    db.execute("INSERT INTO account VALUES (6, 'Cy', 70)")
    clock.pass_by(hours=1)
    assert (db.run_due(), numbers(db)) == (1, [1, 2, 3])


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("2 RESULTS", [1, 2]),
        ("'2027-01-01 08:30'", [1]),
        ("WHEN EXISTS (SELECT 1 FROM account WHERE id = 5)", [1, 2]),
        ("WHEN (SELECT COUNT(*) FROM account) > 100 OR 3 RESULTS", [1, 2, 3]),
    ],
)
def test_ends(db: tm.Database, clock: Clock, until: str, expected: list[int]) -> None:
    create(db, f"TRIGGER ON CHANGE UNTIL {until}")
    for number in range(3, 8):
        db.execute(f"INSERT INTO account VALUES ({number}, 'Cy', 70)")
        clock.pass_by(hours=1)
    assert numbers(db) == expected
    status = db.execute("SHOW CONTINUAL QUERIES")
    assert status is not None and status["status"].to_pylist() == ["stopped"]
    assert [result.number for result in db.results("q")] == expected, "an iterator ends with the query"
    with pytest.raises(tm.TidemarkError) as error:
        db.refresh("q")
    assert error.value.code == "stopped"


def test_deliveries_and_the_first_answer(db: tm.Database) -> None:
    for form in ("CHANGES", "INSERTIONS", "DELETIONS", "COMPLETE"):
        create(db, f"TRIGGER ON CHANGE DELIVER {form}", "SELECT owner FROM account", name=form.lower())
    db.execute("UPDATE account SET owner = 'Ben' WHERE id = 1")
    found = {form: delivered(db, form, after=-1) for form in ("changes", "insertions", "deletions", "complete")}
    for first, _ in found.values():
        assert (first.number, listed(first.rows)) == (0, [("Ada",), ("Ben",)])
    last = {form: results[-1] for form, results in found.items()}
    assert (listed(last["changes"].inserted), listed(last["changes"].deleted)) == ([("Ben",)], [("Ada",)])
    assert last["changes"].updated is None, "the rows have no key to be paired by"
    assert (listed(last["insertions"].inserted), last["insertions"].deleted) == ([("Ben",)], None)
    assert (last["deletions"].inserted, listed(last["deletions"].deleted)) == (None, [("Ada",)])
    assert listed(last["complete"].rows) == [("Ben",), ("Ben",)]


def test_functions_get_each_result_once_and_again_if_they_fail(db: tm.Database) -> None:
    create(db, "TRIGGER ON CHANGE")
    seen: list[int] = []

    def take(result: tm.Result) -> None:
        if not seen:
            seen.append(-1)
            raise RuntimeError("not now")
        seen.append(result.number)
        if result.number == 1:
            db.execute("INSERT INTO account VALUES (9, 'Eve', 99)")

    registered = db.on_result("q", take)
    db.execute("INSERT INTO account VALUES (3, 'Cy', 70)")
    assert seen == [-1], "the transaction stands, whatever the function does"
    db.execute("INSERT INTO account VALUES (4, 'Cy', 70)")
    assert seen == [-1, 1, 2, 3]
    registered.cancel()
    db.execute("INSERT INTO account VALUES (5, 'Cy', 70)")
    assert seen == [-1, 1, 2, 3]
    assert numbers(db) == [1, 2, 3, 4]


def test_a_query_that_fails_does_not_fail_the_transaction_and_recovers(db: tm.Database) -> None:
    create(db, "TRIGGER ON CHANGE", "SELECT id, 100 / balance AS part FROM account")
    db.execute("INSERT INTO account VALUES (3, 'Cy', 0)")
    shown = db.execute("SHOW CONTINUAL QUERIES")
    assert shown is not None and "100 / balance" in shown["error"][0].as_py()
    assert rows(db.query("SELECT COUNT(*) FROM account")) == [(3,)]
    db.execute("UPDATE account SET balance = 50 WHERE id = 3")
    [result] = delivered(db)
    assert listed(result.inserted) == [(3, 2)]
    shown = db.execute("SHOW CONTINUAL QUERIES")
    assert shown is not None and shown["error"].to_pylist() == [None]


def test_a_snapshot_with_a_period(db: tm.Database, clock: Clock) -> None:
    db.execute("CREATE SNAPSHOT s AS SELECT owner FROM account REFRESH EVERY '1 day'")
    db.execute("INSERT INTO account VALUES (3, 'Cy', 1)")
    clock.pass_by(hours=23)
    assert db.run_due() == 0
    clock.pass_by(hours=2)
    assert (db.run_due(), rows(db.query("SELECT * FROM s"))) == (1, [("Ada",), ("Ben",), ("Cy",)])


@pytest.mark.parametrize(
    ("clauses", "code"),
    [
        ("", "syntax"),
        ("TRIGGER", "syntax"),
        ("TRIGGER EVERY 'soon'", "syntax"),
        ("TRIGGER EVERY '-1 hour'", "syntax"),
        ("TRIGGER AT '61 * * * *'", "syntax"),
        ("TRIGGER AT '* * *'", "syntax"),
        ("TRIGGER ON CHANGE OF 0 ROWS", "syntax"),
        ("TRIGGER ON CHANGE IN nowhere", "unknown_relation"),
        ("TRIGGER WHEN SUM(new.nothing) > 1", "unknown_column"),
        ("TRIGGER WHEN new.balance > 1", "grouping"),
        ("TRIGGER WHEN COUNT(*)", "type"),
        ("TRIGGER ON CHANGE UNTIL", "syntax"),
        ("TRIGGER ON CHANGE UNTIL WHEN COUNT(*) > 3", "unsupported"),
        ("TRIGGER ON CHANGE DELIVER EVERYTHING", "syntax"),
        ("TRIGGER ON CHANGE OR", "syntax"),
        ("TRIGGER ON CHANGE FOR EVER", "syntax"),
    ],
)
def test_what_is_not_a_trigger_is_refused(db: tm.Database, clauses: str, code: str) -> None:
    version = db.version
    with pytest.raises(tm.TidemarkError) as error:
        create(db, clauses)
    assert (error.value.code, db.version) == (code, version)


def test_results_and_times_survive_a_restart(tmp_path: Path, clock: Clock) -> None:
    path = str(tmp_path / "data.duckdb")
    with tm.connect(f"duckdb:{path}", clock=clock) as db:
        db.execute(SETUP)
        create(db, "TRIGGER ON CHANGE")
        create(db, "TRIGGER EVERY '1 hour'", name="hourly")
        db.execute("INSERT INTO account VALUES (3, 'Cy', 70)")
        before = delivered(db)
    clock.pass_by(hours=30)
    with tm.connect(f"duckdb:{path}", clock=clock) as db:
        [again] = delivered(db)
        assert (again.number, again.time, listed(again.inserted)) == (1, START, listed(before[0].inserted))
        assert db.run_due() == 1, "what was missed is made up for, once"
        assert [listed(result.inserted) for result in delivered(db, "hourly")] == [[(3, "Cy", 70)]]
        db.execute("DELETE FROM account WHERE id = 3")
        assert numbers(db) == [1, 2]


def test_a_thread_executes_what_is_due(tmp_path: Path) -> None:
    with tm.connect("duckdb") as db:
        db.execute(SETUP)
        create(db, "TRIGGER EVERY '200 milliseconds'")
        stream = db.results("q")
        db.execute("INSERT INTO account VALUES (3, 'Cy', 70)")
        result = stream.poll(timeout=20)
        assert result is not None and listed(result.inserted) == [(3, "Cy", 70)]


def test_a_function_waits_for_the_results_of_one_query_and_not_of_its_name(db: tm.Database) -> None:
    create = f"CREATE CONTINUAL QUERY q AS {QUERY} TRIGGER ON CHANGE"
    db.execute(create)
    first: list[int] = []
    second: list[int] = []
    db.on_result("q", lambda result: first.append(result.number))
    db.execute("INSERT INTO account VALUES (3, 'Cy', 300); INSERT INTO account VALUES (4, 'Di', 300)")
    db.execute(f"DROP CONTINUAL QUERY q; {create}")
    db.on_result("q", lambda result: second.append(result.number))
    for number in range(5, 9):
        db.execute(f"INSERT INTO account VALUES ({number}, 'Ed', 300)")
    assert (first, second) == ([1, 2], [1, 2, 3, 4])


def test_one_that_cannot_be_committed_does_not_keep_others_from_answering(db: tm.Database) -> None:
    """A view above one of them fails: that one has the error, and the others answer."""
    db.execute(f"CREATE CONTINUAL QUERY first AS {QUERY} TRIGGER ON CHANGE")
    db.execute("CREATE CONTINUAL QUERY bad AS SELECT id, balance FROM account TRIGGER ON CHANGE")
    db.execute(f"CREATE CONTINUAL QUERY last AS {QUERY} TRIGGER ON CHANGE")
    db.execute("CREATE MATERIALIZED VIEW above AS SELECT id, 100 / balance AS share FROM bad")
    db.execute("INSERT INTO account VALUES (3, 'Cy', 300), (4, 'Di', 0)")
    shown = {row["name"]: row for row in db.execute("SHOW CONTINUAL QUERIES").to_pylist()}  # type: ignore[union-attr]
    assert {name: row["results"] for name, row in shown.items()} == {"first": 1, "bad": 0, "last": 1}
    assert "zero" in shown["bad"]["error"] and shown["first"]["error"] is None
    db.execute("UPDATE account SET balance = 400 WHERE id = 4")
    assert [len(rows(result.inserted)) for result in [db.results("bad").poll()] if result is not None] == [2]


def test_the_time_passes_for_what_is_refreshed(db: tm.Database, clock: Clock) -> None:
    """A refresh is a transaction: what its definition says of NOW() is about now, and not about the last version."""
    db.execute("CREATE TABLE event (id INT PRIMARY KEY, at TIMESTAMP)")
    db.execute("INSERT INTO event VALUES (1, TIMESTAMP '2027-01-01 09:00:00')")
    past = "SELECT id FROM event WHERE at <= NOW()"
    db.execute(f"CREATE SNAPSHOT asked AS {past} REFRESH ON DEMAND")
    db.execute(f"CREATE MATERIALIZED VIEW happened AS {past}")
    db.execute("CREATE CONTINUAL QUERY hourly AS SELECT COUNT(*) AS n FROM happened TRIGGER EVERY '1 hour'")
    clock.pass_by(hours=2)
    db.execute("REFRESH asked")
    assert rows(db.query("SELECT * FROM asked")) == [(1,)]
    db.execute("INSERT INTO event VALUES (2, TIMESTAMP '2027-01-01 11:00:00')")
    assert rows(db.query("SELECT * FROM hourly")) == [(1,)]
    clock.pass_by(hours=2)
    db.run_due()
    assert rows(db.query("SELECT * FROM hourly")) == [(2,)]
    assert rows(db.query("SELECT * FROM asked")) == [(1,)]
    for name in ("asked", "hourly", "happened"):
        assert db.audit(name).num_rows == 0
    version = db.version
    db.execute("REFRESH asked; REFRESH asked")
    assert db.version == version + 1, "no time has passed: nothing is to be told"


@pytest.mark.parametrize("way", ["statement", "insert", "block", "session", "refresh"])
def test_a_function_can_change_the_database_whatever_made_the_result(db: tm.Database, way: str) -> None:
    """What it does is a transaction of its own: it is called when the one that made the result has ended."""
    trigger = "EVERY '1 day'" if way == "refresh" else "ON CHANGE"
    db.execute(f"CREATE CONTINUAL QUERY q AS {QUERY} TRIGGER {trigger}; CREATE TABLE told (number INT)")
    got: list[int] = []

    def answer(result: tm.Result) -> None:
        got.append(result.number)
        db.execute(f"INSERT INTO told VALUES ({result.number})")
        with db.transaction() as transaction:
            transaction.insert("told", [(-result.number,)])

    db.on_result("q", answer)
    match way:
        case "statement" | "refresh":
            db.execute("INSERT INTO account VALUES (3, 'Cy', 300)")
            if way == "refresh":
                db.refresh("q")
        case "insert":
            db.insert("account", [(3, "Cy", 300)])
        case "block":
            with db.transaction() as transaction:
                transaction.insert("account", [(3, "Cy", 300)])
        case "session":
            db.execute("BEGIN; INSERT INTO account VALUES (3, 'Cy', 300); COMMIT")
    assert got == [1] and rows(db.query("SELECT number FROM told")) == [(-1,), (1,)]


@pytest.mark.parametrize("changes", ["ON CHANGE IN {}", "WHEN COUNT(*) > 0 IN {}"])
def test_triggers_look_at_relations_of_every_kind(db: tm.Database, changes: str) -> None:
    """A version that changes what a trigger looks at makes it hold then, and not with the next transaction."""
    select = "SELECT id, balance FROM account"
    db.execute(f"CREATE MATERIALIZED VIEW lazy WITH (refresh = 'on read') AS {select}")
    db.execute(f"CREATE EXTERNAL VIEW outside AS {select}; CREATE SNAPSHOT snap AS {select} REFRESH ON DEMAND")
    db.execute(f"CREATE MATERIALIZED VIEW view AS {select}")
    names = ("account", "lazy", "outside", "view", "snap")
    for name in names:
        db.execute(f"CREATE CONTINUAL QUERY q_{name} AS {select} TRIGGER {changes.format(name)}")
    db.execute(f"CREATE CONTINUAL QUERY itself AS {select} TRIGGER {changes.format('itself')}")
    db.execute("CREATE CONTINUAL QUERY above AS SELECT id FROM snap TRIGGER ON CHANGE")

    def results() -> dict[str, int]:
        shown = db.execute("SHOW CONTINUAL QUERIES")
        assert shown is not None and set(shown["error"].to_pylist()) == {None}
        return dict(zip(shown["name"].to_pylist(), shown["results"].to_pylist(), strict=True))

    db.execute("INSERT INTO account VALUES (3, 'Cy', 300)")
    expected = {**{f"q_{name}": 1 for name in names}, "q_snap": 0, "itself": 1, "above": 0}
    assert results() == expected
    db.execute("REFRESH snap")
    expected |= {"q_snap": 1, "above": 1}
    assert results() == expected
    db.execute("SELECT * FROM lazy; REFRESH snap")
    assert results() == expected, "nothing has changed since"


def test_a_failure_after_the_commit_of_an_execution_does_not_take_its_tidemark_back(
    db: tm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next execution would tell the same changes again, and the content would have rows twice."""
    create(db, "TRIGGER ON CHANGE")
    bring = db._continual._bring
    failures = [tm.TidemarkError("internal", "no memory for what follows the commit")]

    def failing_once(work: Any) -> None:
        bring(work)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(db._continual, "_bring", failing_once)
    db.execute("INSERT INTO account VALUES (3, 'Cy', 300)")
    assert not failures, "the failure was not met"
    db.execute("INSERT INTO account VALUES (4, 'Di', 400)")
    assert rows(db.query("SELECT id FROM q")) == [(1,), (2,), (3,), (4,)]
    assert [listed(result.inserted) for result in delivered(db)] == [[(3, "Cy", 300)], [(4, "Di", 400)]]
