"""The log: limits drop what nobody needs, consumers get what they need, and errors name the oldest version."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.conformance.conftest import open_database
from tests.support import rows, weights_of

SPARK_VARIANTS = ("spark",)

SETUP = """
CREATE TABLE t (a INT PRIMARY KEY, b INT);
CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
"""


@pytest.fixture
def db(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tm.Database]:
    """The sum of all changes is the content only while all of the log is there, so the end is checked by audits."""
    database = open_database(engine, request, tmp_path)
    yield database
    check_what_is_left(database)
    database.close()


def check_what_is_left(db: tm.Database) -> None:
    for view in db._store.catalog.materialized_views:
        assert db.audit(view.name).num_rows == 0


def fill(db: tm.Database, first: int, count: int) -> None:
    for a in range(first, first + count):
        db.insert("t", [(a, a % 3)])


def shown(db: tm.Database, what: str = "LOG") -> dict[str, dict[str, Any]]:
    table = db.execute(f"SHOW {what}")
    assert table is not None
    return {row["relation" if what == "LOG" else "name"]: row for row in table.to_pylist()}


def test_versions_beyond_the_limit_go_and_errors_name_the_oldest(db: tm.Database) -> None:
    db.execute(SETUP)
    fill(db, 0, 10)
    assert db.changes("t").num_rows == 10, "without limits everything is kept"
    db.execute("ALTER LOG SET (versions = 4)")
    oldest = db.version - 4
    assert shown(db)["t"]["oldest"] == oldest
    assert db.changes("t", since=oldest).num_rows == 4
    expected = rows(db.query(f"SELECT * FROM t AS OF VERSION {oldest}"))
    assert expected == [(a, a % 3) for a in range(6)]
    for ask in (
        lambda: db.changes("t", since=oldest - 1),
        lambda: db.changes("v"),
        lambda: db.subscribe("t", since=oldest - 1).poll(),
        lambda: db.query(f"SELECT * FROM v AS OF VERSION {oldest - 1}"),
    ):
        with pytest.raises(tm.TidemarkError) as error:
            ask()
        assert error.value.code == "version" and str(oldest) in str(error.value)
    with pytest.raises(tm.TidemarkError, match="no longer kept"):
        db.trace(3)
    db.execute("CREATE TABLE later (x INT); INSERT INTO later VALUES (1)")
    assert db.changes("later").num_rows == 1, "what is created later is logged from its beginning"
    fill(db, 10, 6)
    assert shown(db)["t"]["oldest"] > oldest, "it goes on by itself"
    assert rows(db.query("SELECT COUNT(*) FROM t")) == [(16,)]


def test_the_log_waits_for_who_says_so_and_keeps_the_net_effect(db: tm.Database) -> None:
    db.execute(SETUP)
    fill(db, 0, 3)
    db.execute("CREATE SNAPSHOT s WITH (lag = 'keep') AS SELECT b, SUM(a) AS total FROM t GROUP BY b REFRESH ON DEMAND")
    mark = db.version
    fill(db, 3, 6)
    db.execute("DELETE FROM t WHERE a < 6 AND a > 2")
    db.execute("CREATE SNAPSHOT later WITH (lag = 'keep') AS SELECT a FROM t REFRESH ON DEMAND")
    fill(db, 20, 8)
    db.execute("ALTER LOG SET (versions = 2)")
    assert shown(db, "CONSUMERS")["s"]["water_mark"] == mark
    # Between the two marks three rows came and went: they are gone from the log.
    assert shown(db)["t"]["versions"] <= 2 + 2 + 2
    with pytest.raises(tm.TidemarkError):
        db.changes("t", since=mark + 1)
    for name in ("s", "later"):
        db.execute(f"REFRESH {name}")
        assert db.audit(name).num_rows == 0
    expected = rows(db.query("SELECT b, SUM(a) AS total FROM t GROUP BY b"))
    assert rows(db.query("SELECT * FROM s")) == expected
    assert rows(db.query("SELECT * FROM later")) == rows(db.query("SELECT a FROM t"))


def test_the_log_does_not_wait_for_others(db: tm.Database) -> None:
    db.execute(SETUP)
    db.execute("CREATE SNAPSHOT invalid AS SELECT b, SUM(a) AS total FROM t GROUP BY b REFRESH ON DEMAND")
    db.execute("CREATE SNAPSHOT urged WITH (lag = 'refresh') AS SELECT DISTINCT b FROM t REFRESH ON DEMAND")
    fill(db, 0, 9)
    db.execute("ALTER LOG SET (versions = 3)")
    status = shown(db, "SNAPSHOTS")
    assert {name: row["status"] for name, row in status.items()} == {"invalid": "invalid", "urged": "active"}
    assert rows(db.query("SELECT * FROM urged")) == [(0,), (1,), (2,)]
    fill(db, 9, 1)
    before = db.version
    db.execute("REFRESH invalid")
    assert rows(db.query("SELECT * FROM invalid")) == [(0, 18), (1, 12), (2, 15)]
    made = db.changes("invalid", since=before).drop_columns(["_version"])
    assert weights_of(made) == {(0, 18): 1, (1, 12): 1, (2, 15): 1}, "the change is exact, though the log was gone"
    fill(db, 10, 1)
    db.execute("REFRESH invalid")
    assert rows(db.query("SELECT * FROM invalid")) == [(0, 18), (1, 22), (2, 15)]


def test_limits_by_size_and_what_is_no_limit(db: tm.Database) -> None:
    db.execute(SETUP)
    fill(db, 0, 12)
    before = sum(row["bytes"] for row in shown(db).values())
    db.execute(f"ALTER LOG SET (size = '{before // 2} B')")
    assert sum(row["bytes"] for row in shown(db).values()) <= before // 2
    oldest = shown(db)["t"]["oldest"]
    db.execute("ALTER LOG SET (size = none)")
    fill(db, 12, 3)
    assert shown(db)["t"]["oldest"] == oldest
    for wrong in ("versions = 'many'", "size = 'big'", "age = 'old'", "colour = 'red'"):
        with pytest.raises(tm.TidemarkError):
            db.execute(f"ALTER LOG SET ({wrong})")


def test_the_log_of_an_external_view_has_limits_too(db: tm.Database) -> None:
    db.execute(f"{SETUP}; CREATE EXTERNAL VIEW e AS SELECT a FROM t")
    fill(db, 0, 10)
    db.execute("ALTER LOG SET (versions = 4)")
    assert (shown(db)["e"]["oldest"], shown(db)["e"]["versions"]) == (db.version - 4, 4)
    assert db.changes("e", since=db.version - 4).num_rows == 4
    with pytest.raises(tm.TidemarkError, match="does not reach back"):
        db.changes("e")


def test_the_log_waits_for_who_is_open_and_not_longer(db: tm.Database) -> None:
    db.execute(SETUP)
    fill(db, 0, 1)
    db.execute("CREATE CONTINUAL QUERY q AS SELECT a FROM t TRIGGER ON CHANGE")
    first = db.version
    changes, results = db.subscribe("t", since=first), db.results("q")
    forgotten = db.subscribe("v", since=first, lag="invalidate")
    db.execute("ALTER LOG SET (versions = 2)")
    fill(db, 1, 6)
    waiting = {row["kind"]: row for row in shown(db, "CONSUMERS").values()}
    assert waiting["open subscription"]["relations"] == "t" and waiting["open subscription"]["water_mark"] == first
    assert waiting["open results"]["relations"] == "q" and waiting["open results"]["policy"] == "keep"
    assert shown(db)["t"]["oldest"] == first and shown(db)["v"]["oldest"] > first
    with pytest.raises(tm.TidemarkError, match="does not reach back"):
        forgotten.poll()
    assert [rows(change.inserted) for _ in range(6) if (change := changes.poll())] == [
        [(a, a % 3)] for a in range(1, 7)
    ]
    assert [result.number for _ in range(6) if (result := results.poll()) is not None] == list(range(1, 7))
    fill(db, 7, 3)
    assert db.version - shown(db)["t"]["oldest"] <= 8, "what it has read is not kept for it"
    results.close()
    del changes  # nobody has it any more
    gc.collect()
    fill(db, 10, 3)
    assert [row["kind"] for row in shown(db, "CONSUMERS").values()] == ["continual query"]
    assert db.version - shown(db)["t"]["oldest"] <= 4


def test_a_reader_that_names_a_number_gets_what_is_kept_after_it_or_an_error(db: tm.Database) -> None:
    """The result of the number itself may be gone: those after it are told, and none is passed over."""
    db.execute(SETUP)
    db.execute("CREATE CONTINUAL QUERY q AS SELECT a, b FROM t TRIGGER ON CHANGE")
    fill(db, 0, 8)
    db.execute("ALTER LOG SET (versions = 6)")
    oldest = min(db._continual.results_of("q"))
    assert 2 < oldest < 7
    assert db._continual.version_of("q", oldest - 1) < db.version
    for name in (None, "reader"):
        with db.results("q", after=oldest - 1, name=name) as reader:
            fill(db, 100 + 10 * reader.place, 6)
            result = reader.poll()
            assert result is not None and result.number == oldest, "the log waits for it, too"
    with pytest.raises(tm.TidemarkError) as lost:
        db.results("q", after=1, name="late").poll()
    assert lost.value.code == "version"


def test_one_that_cannot_be_refreshed_does_not_keep_the_rest_of_the_log(db: tm.Database) -> None:
    db.execute(SETUP)
    db.execute("CREATE TABLE u (a INT)")
    db.execute("CREATE SNAPSHOT bad WITH (lag = 'refresh') AS SELECT a, 10 / b AS c FROM t REFRESH ON DEMAND")
    db.execute("CREATE SNAPSHOT good WITH (lag = 'refresh') AS SELECT b FROM t REFRESH ON DEMAND")
    fill(db, 0, 3)
    for a in range(9):
        db.insert("u", [(a,)])
    db.execute("ALTER LOG SET (versions = 4)")
    assert shown(db)["u"]["oldest"] >= db.version - 5, "the log goes, but for the net effect that is needed"
    status = shown(db, "SNAPSHOTS")
    assert "zero" in status["bad"]["error"] and status["good"]["rows"] == 3
    db.execute("UPDATE t SET b = 5 WHERE b = 0; REFRESH bad")
    assert rows(db.query("SELECT * FROM bad")) == [(0, 2), (1, 10), (2, 5)]


def test_of_net_effects_no_single_versions_are_told(db: tm.Database) -> None:
    """The log keeps the net effect since the tidemark for a snapshot: it is no beginning for who reads versions."""
    db.execute(SETUP)
    fill(db, 0, 3)
    db.execute("CREATE SNAPSHOT s WITH (lag = 'keep') AS SELECT b FROM t REFRESH ON DEMAND")
    tidemark = db.version
    fill(db, 3, 9)
    db.execute("ALTER LOG SET (versions = 2)")
    oldest = shown(db)["t"]["oldest"]
    for ask in (
        lambda: db.changes("t", since=tidemark),
        lambda: db.subscribe("t", since=tidemark),
        lambda: db.subscribe("t", since=tidemark, name="late"),
    ):
        with pytest.raises(tm.TidemarkError, match=f"the oldest version is {oldest}") as lost:
            ask()
        assert lost.value.code == "version"
    assert len(rows(db.query(f"SELECT * FROM t AS OF VERSION {tidemark}"))) == 3


def test_what_is_created_anew_has_neither_the_subscribers_nor_the_log_of_what_had_its_name(db: tm.Database) -> None:
    db.execute(SETUP)
    db.execute("CREATE SNAPSHOT s WITH (lag = 'keep') AS SELECT b FROM t REFRESH ON DEMAND")
    fill(db, 0, 9)
    follower = db.subscribe("t", name="mirror")
    content = follower.poll()
    assert content is not None and len(content.inserted) == 9
    db.execute("ALTER LOG SET (versions = 2)")
    db.execute("DROP TABLE t CASCADE; CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 1)")
    follower.close()
    assert "mirror" not in shown(db, "CONSUMERS"), "it cannot be told that what it knew is gone by changes"
    assert db.changes("t", since=0).num_rows == 1
    again = db.subscribe("t", name="mirror").poll()
    assert again is not None and rows(again.inserted) == [(1, 1)]


def test_what_a_function_has_not_taken_is_kept_for_it(db: tm.Database, caplog: pytest.LogCaptureFixture) -> None:
    """It fails for a while under a short log: no result is passed over, and one that is gone is an error."""
    db.execute(SETUP)
    db.execute("CREATE CONTINUAL QUERY q AS SELECT a, b FROM t TRIGGER ON CHANGE")
    db.execute("ALTER LOG SET (versions = 1)")
    calls: list[int] = []
    taken: list[int] = []

    def answer(result: tm.Result) -> None:
        calls.append(result.number)
        if len(calls) <= 5:
            raise ValueError("not yet")
        taken.append(result.number)

    registered = db.on_result("q", answer)
    fill(db, 0, 10)
    assert calls[:6] == [1] * 6 and taken == list(range(1, 11))
    assert "failed" in caplog.text
    with pytest.raises(tm.TidemarkError, match="no longer kept"):
        db.on_result("q", answer, after=0)
    registered.cancel()
    fill(db, 10, 1)
    assert taken[-1] == 10


def test_those_who_are_too_late_catch_up_together_and_one_that_fails_is_waited_for(db: tm.Database) -> None:
    db.execute(SETUP)
    for name, query in (("one", "a"), ("two", "a"), ("failing", "a, 10 / (a - 5) AS c")):
        db.execute(f"CREATE SNAPSHOT {name} WITH (lag = 'refresh') AS SELECT {query} FROM t REFRESH EVERY '1 day'")
    mark, born = db.version, db.version
    fill(db, 0, 8)
    before = db.version
    db.execute("ALTER LOG SET (versions = 2)")
    assert db.version == before + 1, "both are brought up to date, in one version"
    found = {row["name"]: row for row in shown(db, "SNAPSHOTS").values()}
    assert [found[name]["rows"] for name in ("one", "two", "failing")] == [8, 8, 0]
    assert "10 / (a - 5)" in found["failing"]["error"]
    assert shown(db, "CONSUMERS")["failing"]["water_mark"] == mark
    assert shown(db)["v"]["oldest"] > born, "for others the log is cut all the same"
    db.execute("DELETE FROM t WHERE a = 5; REFRESH failing")
    assert db.audit("failing").num_rows == 0
    assert rows(db.query("SELECT COUNT(*) FROM failing")) == [(7,)]


def test_what_lost_the_log_is_compared_after_a_refresh(db: tm.Database) -> None:
    db.execute(SETUP)
    db.execute("CREATE SNAPSHOT s WITH (lag = 'invalidate') AS SELECT b FROM t REFRESH ON DEMAND")
    fill(db, 0, 9)
    db.execute("ALTER LOG SET (versions = 2)")
    with pytest.raises(tm.TidemarkError, match="the log was cut") as lost:
        db.audit("s")
    assert (lost.value.code, lost.value.hint) == ("version", "REFRESH s first")
    db.execute("REFRESH s")
    assert not db.audit("s").num_rows and len(rows(db.query("SELECT * FROM s"))) == 9
