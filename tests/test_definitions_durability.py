"""Changed definitions survive: what is reopened, or found after ``kill -9``, is what was committed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.support import changes_at, check_invariant, materialized, rows, stored
from tests.test_crash import killed_after
from tests.test_durability import Open, reopen  # noqa: F401 (a fixture)
from tidemark.engines.limits import DUCKDB
from tidemark.engines.spark import SparkEngine

WORKER = Path(__file__).parent / "crash_definitions_worker.py"

STEPS = (
    "CREATE TABLE item (id INT PRIMARY KEY, kind VARCHAR DEFAULT 'k'); CREATE TABLE other (id INT, size INT)",
    "CREATE VIEW plain AS SELECT * FROM item WHERE id > 1",
    "CREATE MATERIALIZED VIEW v AS SELECT * FROM plain NATURAL JOIN other",
    "CREATE MATERIALIZED VIEW n AS SELECT kind, COUNT(*) AS n FROM v GROUP BY kind",
    "INSERT INTO item VALUES (1, 'a'), (2, 'a'), (3, 'b'); INSERT INTO other VALUES (1, 10), (2, 20), (3, 30)",
    "ALTER TABLE item ADD COLUMN size INT DEFAULT 20, ADD COLUMN price DECIMAL(10,2) DEFAULT 1.5 CHECK (price > 0)",
    "INSERT INTO item (id) VALUES (4); INSERT INTO other VALUES (4, 40)",
    "CREATE OR REPLACE VIEW plain AS SELECT id, kind, price FROM item WHERE id <> 3",
    "BEGIN; ALTER TABLE other ADD COLUMN at DATE DEFAULT '2024-02-29';"
    "CREATE MATERIALIZED VIEW w AS SELECT * FROM other;"
    "ALTER TABLE other ADD COLUMN x DOUBLE PRECISION DEFAULT 1e-3; COMMIT",
    "CREATE OR REPLACE MATERIALIZED VIEW n AS SELECT kind, COUNT(*) AS n FROM v WHERE size > 10 GROUP BY kind",
    "CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT id, size, x FROM other",
    "UPDATE item SET size = 5, kind = 'c' WHERE id IN (1, 4); DELETE FROM other WHERE id = 2",
)


def everything(db: tm.Database) -> object:
    return (
        db.version,
        {name: rows(db.query(f"SELECT * FROM {name}")) for name in stored(db)},
        {name: rows(db.changes(name)) for name in stored(db)},
        {name: db.explain(name) for name in materialized(db)},
    )


def test_definitions_that_changed_are_there_after_reopening(reopen: Open) -> None:  # noqa: F811
    before: object = None
    for step in STEPS:
        with reopen() as db:
            assert before is None or everything(db) == before
            db.execute(step)
            check_invariant(db)
            before = everything(db)
    with reopen() as db:
        assert everything(db) == before
        assert rows(db.query("SELECT * FROM v")) == [(1, "c", 10), (4, "c", 40)]
        assert rows(db.query("SELECT * FROM n")) == [("c", 1)]
        db.execute("INSERT INTO item (id) VALUES (9); INSERT INTO other (id, size) VALUES (9, 90)")
        assert changes_at(db, "w") == {(9, 90, 0.001): 1} and changes_at(db, "n") == {("k", 1): 1}
        with pytest.raises(tm.TidemarkError, match="check"):
            db.execute("UPDATE item SET price = 0")


def test_large_changes_that_were_logged_before_have_the_default_too(reopen: Open) -> None:  # noqa: F811
    count = max(DUCKDB.inline_rows, 20_000) + 1
    with reopen() as db:
        db.execute("CREATE TABLE t (a INT, b VARCHAR)")
        db.insert("t", [(i, None) for i in range(count)])
        db.execute("DELETE FROM t WHERE a % 2 = 0; DELETE FROM t WHERE a = 1")
        db.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 7; ALTER TABLE t ADD COLUMN d VARCHAR DEFAULT 'd'")
        db.execute("INSERT INTO t SELECT a + 100000, b, c, d FROM t; DELETE FROM t WHERE a = 3")
        check_invariant(db)
    with reopen() as db:
        check_invariant(db)
        assert rows(db.query("SELECT c, d, COUNT(*) AS n FROM t GROUP BY c, d")) == [(7, "d", count // 2 * 2 - 3)]
        assert set(db.changes("t")["d"].to_pylist()) == {"d"}


@pytest.mark.spark
def test_other_readers_of_a_lake_see_the_new_column_with_its_default(tmp_path: Path, spark: Any) -> None:
    from deltalake import DeltaTable

    lake = tmp_path / "lake"
    with tm.Database(SparkEngine(str(lake), spark)) as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); CREATE TABLE empty (a INT)")
        db.execute("ALTER TABLE t ADD COLUMN b VARCHAR DEFAULT 'x'; ALTER TABLE empty ADD COLUMN b INT DEFAULT 3")
        seen = DeltaTable(str(lake / "tables" / "t")).to_pyarrow_table()
        assert rows(seen.select(["a", "b"])) == [(1, "x"), (2, "x")]
        assert DeltaTable(str(lake / "tables" / "empty")).to_pyarrow_table().column_names == ["a", "b"]
        db.execute("INSERT INTO empty (a) VALUES (1)")
        db._store.engine.merge("empty")  # type: ignore[attr-defined]
        assert rows(DeltaTable(str(lake / "tables" / "empty")).to_pyarrow_table()) == [(1, 3)]


def test_views_of_one_program_are_opened_again_each_for_itself(tmp_path: Path) -> None:
    """Each is bound to what it needs: columns that came later, and what only the others stood on, are not that."""
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    with tm.connect(target) as db:
        db.execute("CREATE TABLE e (a INT, b INT); CREATE TABLE c (a INT); INSERT INTO e VALUES (1, 2), (2, 3)")
        db.execute("""
            CREATE MATERIALIZED VIEW w (x, y), z (x) AS DATALOG $$
                z(x) :- e(x, y), y > 2.
                w(x, y) :- z(x), c(y).
            $$
        """)
        db.execute("INSERT INTO c VALUES (7)")
    with tm.connect(target) as db:
        assert (rows(db.query("SELECT * FROM w")), rows(db.query("SELECT * FROM z"))) == ([(2, 7)], [(2,)])
        db.execute("ALTER TABLE e ADD COLUMN more INT; INSERT INTO e VALUES (5, 6, 7)")
    with tm.connect(target) as db:
        assert rows(db.query("SELECT * FROM w")) == [(2, 7), (5, 7)]
        db.execute("DROP MATERIALIZED VIEW w; DROP TABLE c")
    with tm.connect(target) as db:
        db.execute("DELETE FROM e WHERE a = 2")
        assert rows(db.query("SELECT * FROM z")) == [(5,)]
        check_invariant(db)


# kill -9


def check_after_crash(db: tm.Database, acknowledged: int) -> int:
    """Each step altered a table, added to it and replaced a view, in one transaction: all of that is there, or none."""
    columns = db.query("SELECT * FROM t").column_names
    last = len(columns) - 1
    assert acknowledged <= last <= acknowledged + 1
    assert columns == ["n", *(f"c{number}" for number in range(1, last + 1))]
    expected = [(n, *(c if c > n else -c for c in range(1, last + 1))) for n in range(1, last + 1)]
    assert rows(db.query("SELECT * FROM t")) == expected
    assert rows(db.query("SELECT * FROM v")) == ([(n + last,) for n in range(1, last + 1)] if last else [])
    assert len(rows(db.query("SELECT * FROM whole"))) == last
    check_invariant(db)
    return last


def crash_again_and_again(target: str, reopen_: Callable[[], tm.Database], times: int, longest: float) -> None:
    generator = random.Random(20240229)
    last = 0
    for _ in range(times):
        acknowledged = killed_after(target, last + 1, generator.randint(1, 3), generator.uniform(0, longest), WORKER)
        with reopen_() as db:
            last = check_after_crash(db, acknowledged)
    assert last >= times, "the workers hardly committed anything: the test proves nothing"


def test_duckdb_survives_kill_9_in_the_middle_of_definitions(tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    crash_again_and_again(target, lambda: tm.connect(target), times=8, longest=0.15)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_survives_kill_9_in_the_middle_of_definitions(tmp_path: Path, spark: Any) -> None:
    lake = str(tmp_path / "lake")
    crash_again_and_again(f"spark:{lake}", lambda: tm.connect(spark, lake=lake), times=3, longest=0.8)
