"""Quality of service: how soon, how much at once and how precisely a subscriber learns; and subscribers with a name."""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
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


def test_one_that_is_new_keeps_what_comes_after_the_content_that_it_was_given(db: tm.Database) -> None:
    db.insert("t", [(1, 1)])
    changes = db.subscribe("t", name="mirror")
    db.execute("ALTER LOG SET (versions = 1)")
    for a in range(2, 9):
        db.insert("t", [(a, a)])
    assert _consumers(db) == [("mirror", "open subscription")], "it has not dealt with the content yet"
    found = [change for _ in range(9) if (change := changes.poll()) is not None]
    assert [len(change.inserted) for change in found] == [1] * 8
    assert _consumers(db) == [("mirror", "subscriber")]
    db.unsubscribe("mirror")
    assert _consumers(db) == [], "though it is open still"
    db.insert("t", [(9, 9)])
    assert changes.poll() is not None
    changes.close()
    assert _consumers(db) == [], "one that was forgotten is not noted again"


def _consumers(db: tm.Database) -> list[tuple[str, str]]:
    shown = db.execute("SHOW CONSUMERS")
    assert shown is not None
    return list(zip(shown["name"].to_pylist(), shown["kind"].to_pylist(), strict=True))


def test_staleness_counts_from_the_first_change_that_concerns_the_subscriber(db: tm.Database, clock: Clock) -> None:
    db.execute("CREATE TABLE other (x INT)")
    changes = db.subscribe("t", since=db.version, max_staleness=60)
    db.insert("other", [(1,)])
    clock.pass_by(seconds=100)
    db.insert("t", [(1, 1)])
    assert changes.poll() is None, "what changed elsewhere is older, but says nothing of this"
    clock.pass_by(seconds=61)
    assert changes.poll() is not None


def test_a_modified_row_of_a_batch_is_one_where_a_key_tells(db: tm.Database) -> None:
    db.insert("t", [(1, 1), (2, 2)])
    changes = db.subscribe("t", since=db.version, batch=2, precision="net")
    db.execute("UPDATE t SET b = 5 WHERE a = 1")
    assert changes.poll() is None
    db.execute("UPDATE t SET b = 6 WHERE a = 2")
    change = changes.poll()
    assert change is not None and rows(change.inserted) == [(1, 5), (2, 6)]


def rows_read(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each reading of the log gives, from now on."""
    read: list[int] = []
    whole = db._store.engine.changes

    def reading(relation: str, since: int) -> pa.Table:
        found = whole(relation, since)
        read.append(found.num_rows)
        return found

    monkeypatch.setattr(db._store.engine, "changes", reading)
    return read


def test_a_batch_that_grows_slowly_is_read_once(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = db.subscribe("t", since=db.version, batch=20)
    read = rows_read(db, monkeypatch)
    for a in range(20):
        assert changes.poll() is None
        db.insert("t", [(a, a)])
    told = [changes.poll() for _ in range(20)]
    assert None not in told and changes.poll() is None
    assert read == [1] * 20, "not what it has seen again and again"


def test_what_cancels_is_acknowledged_for_a_subscriber_with_a_name(db: tm.Database) -> None:
    changes = db.subscribe("t", since=db.version, name="mirror", precision="net")
    with db.transaction() as tx:
        tx.insert("t", [(1, 1)])
    db.delete("t", [(1, 1)])
    assert changes.poll() is None
    shown = db.execute("SHOW CONSUMERS")
    assert shown is not None and shown["water_mark"].to_pylist() == [db.version]


@pytest.mark.parametrize(
    "wrong", [{"batch": "3"}, {"batch": True}, {"batch": 2.5}, {"max_staleness": "soon"}, {"max_staleness": math.nan}]
)
def test_what_is_not_even_a_number_is_refused(db: tm.Database, wrong: dict[str, object]) -> None:
    with pytest.raises(tm.TidemarkError) as error:
        db.subscribe("t", **wrong)  # type: ignore[arg-type]
    assert error.value.code == "type"


def test_without_a_name_a_policy_is_checked_too(db: tm.Database) -> None:
    with pytest.raises(tm.TidemarkError, match="keep or invalidate"):
        db.subscribe("t", lag="refresh")


def test_a_view_that_is_refreshed_on_read_is_refreshed_for_who_follows_it(db: tm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW lazy WITH (refresh = 'on read') AS SELECT b, COUNT(*) AS n FROM t GROUP BY b")
    changes = db.subscribe("lazy", since=db.version)
    db.insert("t", [(1, 7), (2, 7)])
    change = changes.poll()
    assert change is not None and rows(change.inserted) == [(7, 2)]


class Waiting:
    """A thread that waits in a subscription, as a program does."""

    def __init__(self, changes: tm.Subscription) -> None:
        self.found: list[tm.Change] = []
        self.thread = threading.Thread(target=lambda: self.found.extend(changes), daemon=True)
        self.thread.start()

    def until(self, count: int) -> list[int]:
        deadline = time.monotonic() + 20
        while len(self.found) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        return [len(change.inserted) for change in self.found]


def test_threads_wait_for_batches_times_and_the_end() -> None:
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT)")
        options: dict[str, dict[str, Any]] = {
            "at once": {},
            "batch": {"batch": 4, "precision": "net"},
            "stale": {"max_staleness": 0.4, "precision": "net"},
        }
        open_ones = {name: db.subscribe("t", since=db.version, **quality) for name, quality in options.items()}
        waiting = {name: Waiting(changes) for name, changes in open_ones.items()}
        for a in range(6):
            db.insert("t", [(a,)])
        assert waiting["at once"].until(6) == [1] * 6
        assert sum(waiting["batch"].until(1)) >= 4
        assert sum(waiting["stale"].until(1)) in range(1, 7)
        open_ones["at once"].close()
        waiting["at once"].thread.join(timeout=20)
        assert not waiting["at once"].thread.is_alive(), "closing it lets who waits return"
    for one in waiting.values():
        one.thread.join(timeout=20)
        assert not one.thread.is_alive(), "and so does closing the database"
    assert sum(len(change.inserted) for change in waiting["stale"].found) <= 6


def test_with_a_clock_of_its_own_time_passes_when_it_is_said(db: tm.Database, clock: Clock) -> None:
    changes = db.subscribe("t", since=db.version, max_staleness=3600)
    waiting = Waiting(changes)
    db.insert("t", [(1, 1)])
    time.sleep(0.05)
    assert waiting.found == []
    clock.pass_by(hours=1)
    db.run_due()
    assert waiting.until(1) == [1]
    changes.close()
    waiting.thread.join(timeout=20)


def test_who_waits_for_ever_or_longer_is_woken() -> None:
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT)")
        found: list[Any] = []
        for timeout in (None, math.inf, 1e300):
            changes = db.subscribe("t", since=db.version, batch=2, max_staleness=dt.timedelta.max)
            waiting = threading.Thread(target=lambda c=changes, t=timeout: found.append(c.poll(t)))
            waiting.start()
            db.insert("t", [(1,)])
            db.insert("t", [(2,)])
            waiting.join(10)
            assert not waiting.is_alive()
        assert [len(change.inserted) for change in found] == [1, 1, 1]


def test_the_content_that_comes_first_is_up_to_date(db: tm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW lazy WITH (refresh = 'on read') AS SELECT b, COUNT(*) AS n FROM t GROUP BY b")
    db.insert("t", [(1, 1)])
    for name in (None, "reader"):
        first = db.subscribe("lazy", name=name).poll()
        assert first is not None and rows(first.inserted) == rows(db.query("SELECT * FROM lazy"))
        db.execute("UPDATE t SET b = b + 1")


def test_a_name_that_is_open_twice_never_goes_back(db: tm.Database) -> None:
    slow, quick = (db.subscribe("t", name="mirror", since=db.version) for _ in range(2))
    for a in range(4):
        db.insert("t", [(a, a)])
    slow.poll()
    while quick.poll() is not None:
        pass
    slow.close()
    assert db.execute("SHOW CONSUMERS")["water_mark"].to_pylist() == [db.version]  # type: ignore[index]


def test_what_is_kept_for_one_that_lags_is_not_made_anew_with_every_cut(
    db: tm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("CREATE SNAPSHOT late WITH (lag = 'keep') AS SELECT a FROM t REFRESH ON DEMAND")
    db.execute("ALTER LOG SET (versions = 4)")
    read = rows_read(db, monkeypatch)
    for a in range(400):
        db.insert("t", [(a, a)])
    assert sum(read) < 12 * 400, "each row costs the same, however many there are"
    db.refresh("late")
    assert db.audit("late").num_rows == 0 and db.query("SELECT COUNT(*) AS n FROM late")["n"].to_pylist() == [400]


def test_a_clock_that_is_set_back_does_not_hold_a_change_up() -> None:
    now = [dt.datetime(2027, 1, 1, 8)]
    with tm.connect("duckdb", clock=lambda: now[0]) as db:
        db.execute("CREATE TABLE t (a INT)")
        changes = db.subscribe("t", since=1, max_staleness=60)
        now[0] -= dt.timedelta(days=1)
        db.execute("INSERT INTO t VALUES (1)")
        now[0] += dt.timedelta(minutes=2)
        assert changes.poll() is not None
