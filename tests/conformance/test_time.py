"""NOW() in filters of views: rows leave when their time comes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemark as tm
from tests.conformance.conftest import open_database
from tests.support import changes_at, check_invariant, rows

SPARK_VARIANTS = ("spark", "spark forced")

START = dt.datetime(2026, 11, 16, 12, 0, 0)


class Clock:
    """A clock that stands still until it is told the time."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> dt.datetime:
        return self.time.replace(tzinfo=dt.UTC)

    def go_on(self, **by: float) -> None:
        self.time += dt.timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(engine: str, clock: Clock, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tm.Database]:
    database = open_database(engine, request, tmp_path)
    database._store._clock = clock
    yield database
    check_invariant(database)
    database.close()


EVENTS = """
CREATE TABLE event (id INT PRIMARY KEY, at TIMESTAMP, kind VARCHAR);
CREATE MATERIALIZED VIEW recent AS SELECT id, at FROM event WHERE at > NOW() - INTERVAL '1 hour' AND kind <> 'noise';
CREATE MATERIALIZED VIEW kinds AS SELECT kind, COUNT(*) AS n FROM event WHERE at > NOW() - INTERVAL '1 hour'
  GROUP BY kind;
INSERT INTO event VALUES (1, '2026-11-16 11:30:00', 'a'), (2, '2026-11-16 11:50:00', 'a'),
  (3, '2026-11-16 10:00:00', 'a'), (4, '2026-11-16 11:55:00', 'noise'), (5, NULL, 'b');
"""


def test_rows_leave_when_their_time_comes(db: tm.Database, clock: Clock) -> None:
    db.execute(EVENTS)
    assert [row[0] for row in rows(db.query("SELECT id FROM recent"))] == [1, 2]
    clock.go_on(minutes=40)
    db.tick()
    assert changes_at(db, "recent") == {(1, dt.datetime(2026, 11, 16, 11, 30)): -1}
    assert changes_at(db, "kinds") == {("a", 2): -1, ("a", 1): 1}
    clock.go_on(minutes=30)
    db.execute("INSERT INTO event VALUES (6, '2026-11-16 13:09:00', 'b')")
    assert changes_at(db, "recent") == {
        (2, dt.datetime(2026, 11, 16, 11, 50)): -1,
        (6, dt.datetime(2026, 11, 16, 13, 9)): 1,
    }
    assert rows(db.query("SELECT * FROM kinds")) == [("b", 1)]


def test_rows_come_when_their_time_comes(db: tm.Database, clock: Clock) -> None:
    db.execute("CREATE TABLE job (id INT, due TIMESTAMP, done TIMESTAMP)")
    db.execute("CREATE MATERIALIZED VIEW due AS SELECT id FROM job WHERE due <= NOW() AND done IS NULL")
    db.execute("INSERT INTO job VALUES (1, '2026-11-16 12:30:00', NULL), (2, '2026-11-16 11:00:00', NULL)")
    assert rows(db.query("SELECT * FROM due")) == [(2,)]
    clock.go_on(hours=1)
    db.tick()
    assert changes_at(db, "due") == {(1,): 1}


def test_a_row_may_come_and_go_within_one_step(db: tm.Database, clock: Clock) -> None:
    db.execute("CREATE TABLE slot (id INT, begins TIMESTAMP, ends TIMESTAMP)")
    db.execute("CREATE MATERIALIZED VIEW open AS SELECT id FROM slot WHERE begins <= NOW() AND NOW() < ends")
    db.execute("INSERT INTO slot VALUES (1, '2026-11-16 12:10:00', '2026-11-16 12:20:00')")
    clock.go_on(minutes=15)
    db.tick()
    assert changes_at(db, "open") == {(1,): 1}
    clock.go_on(hours=2)
    db.execute("INSERT INTO slot VALUES (2, '2026-11-16 12:30:00', '2026-11-16 13:00:00')")
    assert changes_at(db, "open") == {(1,): -1}


def test_the_current_date_moves_a_view_too(db: tm.Database, clock: Clock) -> None:
    db.execute("CREATE TABLE t (id INT, day DATE); CREATE TABLE u (id INT, name VARCHAR)")
    db.execute(
        "CREATE MATERIALIZED VIEW today AS SELECT t.id, name FROM t JOIN u ON t.id = u.id WHERE day = CURRENT_DATE"
    )
    db.execute("INSERT INTO t VALUES (1, '2026-11-16'), (2, '2026-11-17'); INSERT INTO u VALUES (1, 'a'), (2, 'b')")
    clock.go_on(days=1)
    db.tick()
    assert changes_at(db, "today") == {(1, "a"): -1, (2, "b"): 1}


def test_a_tick_without_views_of_the_time_does_nothing(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT)")
    version = db.version
    db.tick()
    assert db.version == version


def test_a_statement_that_runs_once_takes_the_time_at_which_it_began(db: tm.Database, clock: Clock) -> None:
    db.execute("CREATE TABLE t (at TIMESTAMP, day DATE)")
    db.execute("INSERT INTO t VALUES (NOW(), CURRENT_DATE)")
    clock.go_on(hours=1)
    assert rows(db.query("SELECT at, day, NOW() > at AS later FROM t")) == [(START, START.date(), True)]


def test_time_goes_forward_only(db: tm.Database, clock: Clock) -> None:
    db.execute(EVENTS)
    with pytest.raises(tm.TidemarkError) as caught:
        db.tick(START - dt.timedelta(days=1))
    assert caught.value.code == "time"
    clock.go_on(hours=-3)
    db.execute("DELETE FROM event WHERE id = 2")
    assert [row[0] for row in rows(db.query("SELECT id FROM recent"))] == [1]


@pytest.mark.parametrize(
    "query", ["SELECT NOW() AS n FROM event", "SELECT id FROM event GROUP BY id, NOW()", "SELECT random() AS r"]
)
def test_other_uses_of_what_is_not_deterministic_are_refused(db: tm.Database, query: str) -> None:
    db.execute("CREATE TABLE event (id INT)")
    with pytest.raises(tm.TidemarkError) as caught:
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert caught.value.code == "not_deterministic"


def test_a_condition_is_not_asked_of_rows_that_leave_as_the_clock_steps(db: tm.Database, clock: Clock) -> None:
    """The row could not be divided by at the new time, nor the second one before its time is over."""
    db.execute("CREATE TABLE e (id INT, until TIMESTAMP, x INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT id FROM e WHERE 100 / (EXTRACT(minute FROM NOW()) - x) > 0")
    db.execute("INSERT INTO e VALUES (1, '2026-11-16 13:00:00', 5)")
    clock.go_on(minutes=5)
    with pytest.raises(tm.TidemarkError, match="division_by_zero"):
        db.tick()
    db.execute("UPDATE e SET x = 1")
    assert changes_at(db, "v") == {(1,): 1}


def test_a_condition_behind_the_time_is_asked_only_while_it_is_time(db: tm.Database, clock: Clock) -> None:
    db.execute("CREATE TABLE e (id INT, until TIMESTAMP, x INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT id FROM e WHERE until > NOW() AND 100 / x > 0")
    db.execute("INSERT INTO e VALUES (1, '2026-11-16 11:00:00', 0), (2, '2026-11-16 12:10:00', 1)")
    clock.go_on(minutes=5)
    db.tick()
    assert rows(db.query("SELECT * FROM v")) == [(2,)]
    clock.go_on(minutes=10)
    db.execute("UPDATE e SET x = 0")
    assert changes_at(db, "v") == {(2,): -1}


def test_views_of_one_table_derive_no_more_than_what_changes_with_the_time(db: tm.Database, clock: Clock) -> None:
    db.execute(EVENTS)
    clock.go_on(minutes=40)
    db.tick()
    steps = db.trace(db.version).to_pylist()
    assert {step["node"].split("/")[0] for step in steps} == {"recent", "kinds"}
    assert all(step["rows_out"] <= 2 for step in steps), steps


def test_the_time_is_read_by_several_conditions_of_which_one_asks_a_subquery(db: tm.Database, clock: Clock) -> None:
    db.execute("CREATE TABLE job (id INT, until TIMESTAMP, due TIMESTAMP); CREATE TABLE urgent (id INT)")
    rest = "AND (EXISTS (SELECT 1 FROM urgent WHERE urgent.id = job.id) OR due < NOW())"
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT id FROM job WHERE until + INTERVAL '1 minute' > NOW() {rest}")
    db.execute(f"CREATE MATERIALIZED VIEW w AS SELECT id FROM job WHERE until > NOW() {rest}")
    db.execute("INSERT INTO job VALUES (1, '2026-11-16 13:00:00', '2026-11-16 12:10:00')")
    db.execute(
        "INSERT INTO job VALUES (2, '2026-11-16 12:15:00', '2026-11-16 12:30:00'); INSERT INTO urgent VALUES (2)"
    )
    assert rows(db.query("SELECT * FROM v")) == rows(db.query("SELECT * FROM w")) == [(2,)]
    clock.go_on(minutes=12)
    db.tick()
    assert changes_at(db, "v") == changes_at(db, "w") == {(1,): 1}
    clock.go_on(minutes=10)
    db.tick()
    assert changes_at(db, "v") == changes_at(db, "w") == {(2,): -1}


def test_an_age_of_today_is_the_time_of_the_clock(db: tm.Database, clock: Clock) -> None:
    db.execute(
        """
        CREATE TABLE person (id INT PRIMARY KEY, born DATE);
        CREATE MATERIALIZED VIEW adult AS SELECT id FROM person WHERE AGE(born) >= INTERVAL '18 years';
        INSERT INTO person VALUES (1, '2008-11-16'), (2, '2008-11-18'), (3, NULL)
        """
    )
    assert rows(db.query("SELECT id FROM adult")) == [(1,)]
    clock.go_on(days=2)
    db.tick()
    assert changes_at(db, "adult") == {(2,): 1}
