"""The time of commits: in changes, in AS OF TIMESTAMP and in SHOW VERSIONS, as far back as the log reaches."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import tidemark as tm
from tests.conformance.test_continual_queries import Clock
from tests.conformance.test_triggers_and_limits import Reopen, clock, fill, reopen
from tests.support import rows
from tidemark.client import LocalView, ViewSource

__all__ = ["clock", "reopen"]
SPARK_VARIANTS = ("spark",)
SETUP = """
CREATE TABLE t (a INT PRIMARY KEY, b INT);
CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
CREATE EXTERNAL VIEW outside AS SELECT a FROM t;
CREATE VIEW plain AS SELECT a FROM t WHERE b > 0;
CREATE MATERIALIZED VIEW lazy WITH (refresh = 'on read') AS SELECT a FROM t;
CREATE SNAPSHOT s AS SELECT a FROM t REFRESH ON DEMAND;
"""
NAMES = ("t", "v", "outside", "plain", "lazy", "s")


@pytest.fixture
def began(clock: Clock) -> dt.datetime:
    return clock.now


def minute(began: dt.datetime, minutes: float) -> str:
    return f"TIMESTAMP '{began + dt.timedelta(minutes=minutes)}'"


def filled(db: tm.Database, clock: Clock, first: int, count: int) -> None:
    """One insertion a minute, each after its minute has passed."""
    for a in range(first, first + count):
        clock.now += dt.timedelta(minutes=1)
        fill(db, a, 1)


def versions(db: tm.Database) -> list[dict[str, Any]]:
    shown = db.execute("SHOW VERSIONS")
    assert shown is not None
    return shown.to_pylist()  # type: ignore[no-any-return]


def test_changes_carry_the_time_of_their_commit(reopen: Reopen, clock: Clock, began: dt.datetime) -> None:
    db = reopen()
    db.execute(SETUP)
    filled(db, clock, 0, 3)
    for name in ("t", "v", "outside"):
        changes = db.changes(name)
        assert changes.column_names[-3:] == ["_version", "_weight", "_time"]
        assert changes.schema.field("_time").type == pa.timestamp("us")
        assert changes.schema.field("_weight").type == pa.int64()
        first = db.version - 3
        for row in changes.to_pylist():
            assert row["_time"] == began + dt.timedelta(minutes=row["_version"] - first), name
    paired = db.changes("t", since=first, paired=True)
    assert [row["_time"].minute for row in paired.to_pylist()] == [began.minute + n for n in (1, 2, 3)]
    assert db.changes("t", since=db.version).schema == changes_schema(db), "also when there are none"


def changes_schema(db: tm.Database) -> pa.Schema:
    return db.changes("t").schema


def test_the_content_of_a_new_view_has_the_time_of_its_creation(reopen: Reopen, clock: Clock) -> None:
    db = reopen()
    db.execute(SETUP)
    filled(db, clock, 0, 2)
    clock.now += dt.timedelta(hours=1)
    db.execute("CREATE MATERIALIZED VIEW later AS SELECT a FROM t")
    made = clock.now
    filled(db, clock, 2, 1)
    db = reopen()
    assert [row["_time"] for row in sorted(db.changes("later").to_pylist(), key=lambda row: row["a"])] == [
        made,
        made,
        clock.now,
    ]


def test_subscribers_readers_and_local_views_are_told_the_time(reopen: Reopen, clock: Clock) -> None:
    db = reopen()
    db.execute(SETUP)
    db.execute("CREATE CONTINUAL QUERY q AS SELECT a FROM t TRIGGER ON CHANGE")
    source = ViewSource(db, "v")
    with LocalView(source.first()) as local:
        filled(db, clock, 0, 2)
        at_first = db.subscribe("v").poll()
        assert at_first is not None and at_first.time == clock.now
        for option in ({}, {"paired": True}):
            with db.subscribe("v", since=db.version - 4, **option) as changes:  # type: ignore[arg-type]
                told = [change.time for change in iter(changes.poll, None)]
            assert told == [clock.now - dt.timedelta(minutes=1), clock.now]
        with db.subscribe("v", since=0, precision="net") as net:
            change = net.poll()
            assert change is not None and change.time == clock.now
        assert local.apply(source.changes(local.tidemark)).time == clock.now
        assert local.apply(source.changes(local.tidemark)).time == clock.now, "nothing has changed since"
    results = [result.time for result in iter(db.results("q").poll, None)]
    assert results == [clock.now - dt.timedelta(minutes=1), clock.now]


def test_as_of_a_time_is_as_of_the_last_version_then(reopen: Reopen, clock: Clock, began: dt.datetime) -> None:
    db = reopen()
    db.execute(SETUP)
    filled(db, clock, 0, 2)
    db.execute("REFRESH s")
    filled(db, clock, 2, 2)
    db = reopen()
    first = len(NAMES)
    for at, version in ((0, first), (0.5, first), (1, first + 1), (2.9, first + 3), (3, first + 4), (4, first + 5)):
        for name in NAMES:
            by_time = db.query(f"SELECT * FROM {name} AS OF {minute(began, at)} AS x")
            assert rows(by_time) == rows(db.query(f"SELECT * FROM {name} AS OF VERSION {version} x")), (name, at)
        joined = "SELECT t.a, v.n FROM t JOIN v ON t.b = v.b WHERE t.a >= 0 AS OF "
        assert rows(db.query(joined + minute(began, at))) == rows(db.query(f"{joined} VERSION {version}"))
    assert len(rows(db.query(f"SELECT * FROM t AS OF {minute(began, 60)}"))) == 4, "nothing later is known"
    zoned = (began + dt.timedelta(minutes=1)).replace(tzinfo=dt.UTC).astimezone(dt.timezone(dt.timedelta(hours=2)))
    assert rows(db.query(f"SELECT a FROM t AS OF TIMESTAMP '{zoned.isoformat()}'")) == [(0,)]


def test_a_script_and_a_transaction_read_times_when_they_come_to_them(
    reopen: Reopen, clock: Clock, began: dt.datetime
) -> None:
    db = reopen()
    db.execute(SETUP)
    filled(db, clock, 0, 2)
    found = db.execute(f"DELETE FROM t; SELECT * FROM t AS OF {minute(began, 2)}")
    assert rows(found) == [], "the deletion was committed at that time, too"
    with db.transaction() as tx:
        tx.execute(f"INSERT INTO t SELECT a + 10, b FROM t AS OF {minute(began, 1)} WHERE a = 0")
        assert rows(tx.query("SELECT a FROM t")) == [(10,)]
        assert rows(tx.query(f"SELECT a FROM t AS OF {minute(began, 1)}")) == [(0,)]


def test_equal_times_and_a_clock_that_goes_back(reopen: Reopen, clock: Clock, began: dt.datetime) -> None:
    db = reopen()
    db.execute(SETUP)
    fill(db, 0, 3)
    clock.now -= dt.timedelta(days=400)
    fill(db, 3, 1)
    db = reopen()
    fill(db, 4, 1)
    assert {row["_time"] for row in db.changes("t").to_pylist()} == {began}, "times do not decrease"
    assert len(rows(db.query(f"SELECT * FROM t AS OF {minute(began, 0)}"))) == 5, "the last of them"
    clock.now = began + dt.timedelta(minutes=1)
    fill(db, 5, 1)
    assert db.changes("t", since=db.version - 1).to_pylist()[0]["_time"] == clock.now
    assert len(rows(db.query(f"SELECT * FROM t AS OF {minute(began, 0.5)}"))) == 5


def test_a_clock_of_any_zone(engine: str, tmp_path: Any, request: pytest.FixtureRequest) -> None:
    east = dt.timezone(dt.timedelta(hours=5))
    target = {"spark": "spark:", "reference": "reference"}.get(engine, "duckdb:") + (
        "" if engine == "reference" else f"{tmp_path}/stored"
    )
    if engine == "spark":
        request.getfixturevalue("spark")
    with tm.connect(target, clock=lambda: dt.datetime(2027, 1, 1, 5, tzinfo=east)) as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
        assert db.changes("t").to_pylist()[0]["_time"] == dt.datetime(2027, 1, 1)
    if engine != "reference":
        with tm.connect(target) as db:
            assert db.changes("t").to_pylist()[0]["_time"] == dt.datetime(2027, 1, 1)


def test_times_before_the_first_version_or_the_log_are_errors(reopen: Reopen, clock: Clock, began: dt.datetime) -> None:
    db = reopen()
    db.execute(SETUP)
    refused(db, minute(began, -1), "there was no version", f"the oldest version is 1, committed at {began}")
    filled(db, clock, 0, 10)
    db.execute("ALTER LOG SET (versions = 4)")
    for _ in range(2):
        oldest = db.version - 4
        time = clock.now - dt.timedelta(minutes=4)
        for name in ("t", "v", "plain"):
            assert rows(db.query(f"SELECT * FROM {name} AS OF TIMESTAMP '{time}'")) == rows(
                db.query(f"SELECT * FROM {name} AS OF VERSION {oldest}")
            )
        before = f"TIMESTAMP '{time - dt.timedelta(microseconds=1)}'"
        refused(db, before, "does not reach back", f"the oldest version is {oldest}, committed at {time}")
        assert [row["version"] for row in versions(db)] == list(range(db.version, oldest - 1, -1))
        db = reopen()


def refused(db: tm.Database, point: str, message: str, hint: str) -> None:
    with pytest.raises(tm.TidemarkError) as error:
        db.query(f"SELECT * FROM t AS OF {point}")
    assert error.value.code == "version" and message in error.value.message
    assert hint in str(error.value.hint)


def test_the_times_of_what_is_kept_for_a_subscriber_are_kept(reopen: Reopen, clock: Clock, began: dt.datetime) -> None:
    db = reopen()
    db.execute(SETUP)
    filled(db, clock, 0, 2)
    follower = db.subscribe("t", since=db.version, name="slow")
    mark = db.version
    filled(db, clock, 2, 10)
    follower.close()
    for round_ in range(1, 4):  # a lake rewrites its transactions now and then
        db.execute(f"ALTER LOG SET (versions = {4 - round_})")
    db = reopen()
    changes = db.changes("t", since=mark).to_pylist()
    assert [row["_time"] for row in changes] == [began + dt.timedelta(minutes=n) for n in range(3, 13)]
    assert len(rows(db.query(f"SELECT * FROM t AS OF {minute(began, 2)}"))) == 2
    assert len(rows(db.query(f"SELECT * FROM t AS OF {minute(began, 5.5)}"))) == 5
    with pytest.raises(tm.TidemarkError, match="does not reach back"):
        db.query(f"SELECT * FROM v AS OF {minute(began, 5.5)}")
    assert versions(db)[-1]["version"] == mark


def test_show_versions(reopen: Reopen, clock: Clock, began: dt.datetime) -> None:
    db = reopen()
    assert versions(db) == []
    db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT b FROM t WHERE NOW() > TIMESTAMP '2000-01-01'")
    filled(db, clock, 0, 1)
    db.execute("UPDATE t SET b = b")
    with db.transaction() as tx:
        tx.execute("DELETE FROM t")
        tx.execute("CREATE TABLE u (x INT)")
    expected = [
        (5, began + dt.timedelta(minutes=1), "u", "t, v"),
        (4, began + dt.timedelta(minutes=1), "", ""),
        (3, began + dt.timedelta(minutes=1), "", "t, v"),
        (2, began, "v", ""),
        (1, began, "t", ""),
    ]
    for _ in range(2):
        assert [tuple(row.values()) for row in versions(db)] == expected
        db = reopen()
    db.execute("ALTER LOG SET (versions = 1)")
    assert [(row["version"], row["changed"]) for row in versions(db)] == [(5, "t, v"), (4, None)]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT * FROM t AS OF TIMESTAMP 'yesterday'", "version"),
        ("SELECT * FROM t AS OF TIMESTAMP 4", "version"),
        ("SELECT * FROM t WHERE a = 1 AS OF TIMESTAMP 4", "version"),
        ("SELECT * FROM t AS OF TIMESTAMP NOW()", "version"),
        ("SELECT * FROM t AS OF VERSION '2027-01-01'", "version"),
        ("SELECT * FROM t WHERE a = 1 AS OF VERSION 1 AS OF TIMESTAMP '2030-01-01'", "syntax"),
        ("CREATE VIEW old AS SELECT * FROM t AS OF TIMESTAMP '2030-01-01'", "unsupported"),
        ("CREATE VIEW old AS SELECT * FROM t WHERE a = 1 AS OF TIMESTAMP '2030-01-01'", "unsupported"),
        ("WITH c AS (SELECT 1 AS one) SELECT * FROM c AS OF TIMESTAMP '2030-01-01'", "unsupported"),
        ("DELETE FROM t WHERE a = 1 AS OF TIMESTAMP '2030-01-01'", "unsupported"),
        ("SELECT * FROM nothing AS OF TIMESTAMP '2030-01-01'", "unknown_relation"),
        ("CREATE TABLE x (_time INT)", "reserved_name"),
        ("CREATE TABLE x (_TIME TIMESTAMP)", "reserved_name"),
        ("ALTER TABLE t ADD COLUMN _time INT", "reserved_name"),
        ("CREATE VIEW x AS SELECT a AS _time FROM t", "reserved_name"),
        ("CREATE MATERIALIZED VIEW x AS SELECT a AS _time FROM t", "reserved_name"),
        ("CREATE MATERIALIZED VIEW x (_time) AS DATALOG $$ x(a) :- t(a, b). $$", "reserved_name"),
    ],
)
@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
def test_what_is_no_time_or_not_free_is_refused(reopen: Reopen, sql: str, code: str) -> None:
    db = reopen()
    db.execute(SETUP)
    with pytest.raises(tm.TidemarkError) as error:
        db.execute(sql)
    assert error.value.code == code
