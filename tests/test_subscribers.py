"""Quality of service: how soon, how much at once and how precisely a subscriber learns; and subscribers with a name."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import tidemark as tm
from tests.conformance.test_continual_queries import Clock
from tests.support import rows


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(clock: Clock) -> tm.Database:
    database = tm.connect("duckdb", clock=clock)
    database.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    return database


def test_a_batch_is_waited_for(db: tm.Database) -> None:
    changes = db.subscribe("t", since=db.version, batch=3)
    db.insert("t", [(1, 1), (2, 2)])
    db.delete("t", [(2, 2)])
    assert changes.poll() is None
    db.insert("t", [(3, 3), (4, 4)])
    found = [changes.poll(), changes.poll(), changes.poll()]
    assert [len(change.inserted) for change in found if change is not None] == [2, 0, 2], "each version, in order"
    assert changes.poll() is None


def test_what_is_old_enough_is_told_though_it_is_little(db: tm.Database, clock: Clock) -> None:
    changes = db.subscribe("t", since=db.version, batch=100, max_staleness=60, precision="net")
    db.insert("t", [(1, 1)])
    clock.pass_by(seconds=30)
    db.execute("UPDATE t SET b = 2")
    assert changes.poll() is None
    clock.pass_by(seconds=31)
    change = changes.poll()
    assert change is not None and (rows(change.inserted), rows(change.deleted)) == ([(1, 2)], [])
    assert change.version == db.version
    db.execute("UPDATE t SET b = 3; UPDATE t SET b = 2")
    clock.pass_by(hours=1)
    assert changes.poll() is None, "nothing changed, net"


def test_waiting_ends_when_the_staleness_is_reached() -> None:
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT)")
        changes = db.subscribe("t", since=db.version, max_staleness=dt.timedelta(milliseconds=300))
        db.insert("t", [(1,)])
        assert changes.poll() is None
        assert changes.poll(timeout=20) is not None


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"max_staleness": -1}, {"precision": "roughly"}, {"lag": "wait"}])
def test_what_is_no_quality_is_refused(db: tm.Database, wrong: dict[str, object]) -> None:
    with pytest.raises(tm.TidemarkError):
        db.subscribe("t", name="x", **wrong)  # type: ignore[arg-type]


def test_a_subscriber_with_a_name_goes_on_where_it_was(tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    with tm.connect(target) as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
        changes = db.subscribe("t", name="mirror")
        first = changes.poll()
        assert first is not None and rows(first.inserted) == [(1,)]
        db.insert("t", [(2,)])
        db.insert("t", [(3,)])
        second = changes.poll()
        assert second is not None and rows(second.inserted) == [(2,)]
        # It ends without having dealt with the second.
        db._store.close()
    with tm.connect(target) as db:
        db.execute("ALTER LOG SET (versions = 1)")
        for a in range(10, 20):
            db.insert("t", [(a,)])
        shown = db.execute("SHOW CONSUMERS")
        assert shown is not None and shown["name"].to_pylist() == ["mirror"]
        changes = db.subscribe("t", name="mirror")
        assert [rows(change.inserted) for _ in range(12) if (change := changes.poll()) is not None] == [
            [(a,)] for a in (2, 3, *range(10, 20))
        ], "the log waited, and kept each version"
        changes.close()
        db.execute("INSERT INTO t VALUES (99)")
        assert db.execute("SHOW CONSUMERS")["water_mark"].to_pylist() == [db.version - 1]  # type: ignore[index]
        db.unsubscribe("mirror")
        db.execute("ALTER LOG SET (versions = 0)")
        with pytest.raises(tm.TidemarkError):
            db.changes("t", since=2)


def test_a_subscriber_that_may_be_forgotten_begins_anew(db: tm.Database) -> None:
    changes = db.subscribe("t", name="mirror", since=db.version, lag="invalidate")
    db.execute("ALTER LOG SET (versions = 2)")
    for a in range(9):
        db.insert("t", [(a, a)])
    with pytest.raises(tm.TidemarkError) as error:
        changes.poll()
    assert error.value.code == "version"
    first = db.subscribe("t", name="mirror").poll()
    assert first is not None and len(first.inserted) == 9


def test_versions_that_are_too_old_go(db: tm.Database, clock: Clock) -> None:
    db.insert("t", [(1, 1)])
    db.execute("ALTER LOG SET (age = '1 day')")
    known = db.version
    clock.pass_by(hours=20)
    db.insert("t", [(2, 2)])
    db.execute("ALTER LOG SET (age = '1 day')")
    assert db.changes("t").num_rows == 2, "nothing is a day old"
    clock.pass_by(hours=5)
    db.insert("t", [(3, 3)])
    db.execute("ALTER LOG SET (age = '1 day')")
    assert db.changes("t", since=known).num_rows == 2
    with pytest.raises(tm.TidemarkError) as error:
        db.changes("t")
    assert error.value.code == "version" and f"the oldest version is {known}" in str(error.value)
