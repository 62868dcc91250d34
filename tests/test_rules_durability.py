"""Rules outlive the process; a crash during detached actions loses nothing and doubles nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.support import check_invariant, rows
from tests.test_crash import killed_after

WORKER = Path(__file__).parent / "crash_rules_worker.py"


def crash_and_recover(target: str, reopen: Callable[[], tm.Database], times: int, longest: float) -> None:
    generator, last, left_behind = random.Random(7), 0, 0
    for _ in range(times):
        acknowledged = killed_after(target, last + 1, generator.randint(1, 3), generator.uniform(0, longest), WORKER)
        with reopen() as db:
            last = len(rows(db.query("SELECT n FROM done")))
            assert acknowledged <= last <= acknowledged + 1
            left_behind += db.run_due()
            expected = [(n,) for n in range(1, last + 1)]
            assert rows(db.query("SELECT n FROM copied")) == expected, "each action was done exactly once"
            assert rows(db.query("SELECT n FROM again")) == expected, "so was each that it set off"
            assert rows(db.query("SELECT n FROM both")) == expected, "a sequence goes on after a crash"
            assert db.run_due() == 0
            check_invariant(db)
    assert left_behind, "no crash fell between a commit and its detached action: the test proves nothing"


def test_duckdb_loses_and_doubles_no_detached_action(tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    crash_and_recover(target, lambda: tm.connect(target), times=10, longest=0.15)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_loses_and_doubles_no_detached_action(tmp_path: Path, spark: Any) -> None:
    lake = str(tmp_path / "lake")
    crash_and_recover(f"spark:{lake}", lambda: tm.connect(spark, lake=lake), times=3, longest=1.5)


def test_rules_and_assertions_are_there_after_opening_again(tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    with tm.connect(target) as db:
        db.execute("""
            CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE TABLE log (k INT, w INT);
            CREATE RULE low(:k) ON INSERT OR UPDATE ON t FOR EACH (k) WHEN SELECT * FROM t WHERE k = :k AND v < 10
                DO BEGIN INSERT INTO log SELECT k, v FROM condition; DELETE FROM log WHERE k < 0; END
                WITH (priority = 2, coupling = 'immediate');
            CREATE RULE idle WHEN SELECT k FROM t DO NOTIFY nobody;
            ACTIVATE RULE low(1); ACTIVATE RULE low(2); DEACTIVATE RULE low(2);
            CREATE ASSERTION small CHECK (NOT EXISTS (SELECT k FROM t WHERE v > 99));
            ALTER TABLE t ADD COLUMN note VARCHAR;
            INSERT INTO t VALUES (2, 1, 'a')""")
        before = db.execute("SHOW RULES")
    with tm.connect(target) as db:
        assert db.execute("SHOW RULES") == before
        db.execute("INSERT INTO t VALUES (1, 5, 'b')")
        assert rows(db.query("SELECT * FROM log")) == [(1, 5)]
        with pytest.raises(tm.TidemarkError, match="small"):
            db.execute("INSERT INTO t VALUES (3, 100, 'c')")
        db.execute("DROP RULE low; DROP RULE idle; DROP ASSERTION small")
    with tm.connect(target) as db:
        db.execute("INSERT INTO t VALUES (3, 100, 'c')")
        assert db.execute("SHOW RULES").num_rows == 0  # type: ignore[union-attr]


def test_rules_are_as_old_after_opening_again_as_before(tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    names = ["a", "b", "c", "d"]
    with tm.connect(target) as db:
        db.execute("CREATE TABLE t (k INT)")
        for name in names:
            db.execute(f"CREATE RULE {name} WHEN SELECT k FROM t DO NOTIFY x")
        db.execute("ACTIVATE RULE d; ACTIVATE RULE b; ACTIVATE RULE a; ALTER TABLE t ADD COLUMN v INT; ACTIVATE RULE c")
        db.execute("BEGIN; DROP RULE b; CREATE RULE b WHEN SELECT k FROM t DO NOTIFY x; ACTIVATE RULE b; COMMIT")
        order = ["a", "c", "d", "b"]
        assert [activation.name for activation in db._store.catalog.activations] == order
    with tm.connect(target) as db:
        assert [activation.name for activation in db._store.catalog.activations] == order


def test_the_history_of_firings_is_as_old_as_the_log_and_counters_are_older(tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    with tm.connect(target) as db:
        db.execute("""
            CREATE TABLE t (k INT); CREATE TABLE log (k INT);
            CREATE RULE r WHEN SELECT k FROM t DO INSERT INTO log SELECT k FROM condition; ACTIVATE RULE r;
            ALTER LOG SET (versions = 8)""")
    for round_ in range(4):
        with tm.connect(target) as db:
            for k in range(10):
                db.execute(f"INSERT INTO t VALUES ({10 * round_ + k})")
            assert 8 <= db.firings().num_rows <= 16
            assert db.firings(since=db.version - 2)["version"].to_pylist() == [db.version - 1, db.version]
            [shown] = db.execute("SHOW RULES").to_pylist()  # type: ignore[union-attr]
            assert (shown["firings"], shown["instances"], shown["failures"]) == (*[10 * round_ + 10] * 2, 0)
            assert db.query("SELECT * FROM log").num_rows == 10 * round_ + 10


def sequence_half_way(reopen: Callable[[], tm.Database]) -> None:
    """What began in a transaction, after the event that would have ended it, is ended by a later process."""
    with reopen() as db:
        db.execute("CREATE TABLE e (k INT); CREATE TABLE f (k INT); CREATE TABLE log (w VARCHAR, a INT, b INT)")
        for coupling in ("deferred", "detached"):
            for name, events in (
                ("seq", "INSERT ON e THEN INSERT ON f"),
                ("all_of", "ANY INSERT ON e UNTIL INSERT ON f"),
            ):
                db.execute(f"""
                    CREATE RULE {name}_{coupling} ON {events}
                        WHEN SELECT i.k AS a, j.k AS b FROM inserted_e i, inserted_f j
                        DO INSERT INTO log SELECT '{name} {coupling}', a, b FROM condition
                        WITH (coupling = '{coupling}');
                    ACTIVATE RULE {name}_{coupling}""")
        db.execute("BEGIN; INSERT INTO f VALUES (1); INSERT INTO e VALUES (1); INSERT INTO e VALUES (2); COMMIT")
        assert rows(db.query("SELECT * FROM log")) == []
    with reopen() as db:
        db.execute("BEGIN; INSERT INTO f VALUES (2); INSERT INTO e VALUES (3); COMMIT")
        expected = [(name, a, 2) for name in ("all_of deferred", "all_of detached") for a in (1, 2)]
        expected += [(f"seq {coupling}", 2, 2) for coupling in ("deferred", "detached")]
        assert rows(db.query("SELECT * FROM log")) == sorted(expected)
    with reopen() as db:
        db.execute("DELETE FROM log; INSERT INTO f VALUES (3)")
        names = ("all_of deferred", "all_of detached", "seq deferred", "seq detached")
        assert rows(db.query("SELECT * FROM log")) == [(name, 3, 3) for name in names]


def test_a_sequence_half_way_goes_on_in_another_process(tmp_path: Path) -> None:
    sequence_half_way(lambda: tm.connect(f"duckdb:{tmp_path / 'data.duckdb'}"))


@pytest.mark.spark
def test_a_sequence_half_way_goes_on_in_another_process_on_a_lake(tmp_path: Path, spark: Any) -> None:
    sequence_half_way(lambda: tm.connect(spark, lake=str(tmp_path / "lake")))
