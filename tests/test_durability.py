"""Durable databases: what is reopened is what was committed; who else may open it; what is refused as a database."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.support import changes_at, check_invariant, rows

Open = Callable[[], tm.Database]

SCRIPT = """
CREATE TABLE item (id INT PRIMARY KEY, kind VARCHAR(10), price DECIMAL(10,2) CHECK (price >= 0));
CREATE VIEW priced AS SELECT kind, price FROM item WHERE price IS NOT NULL;
CREATE MATERIALIZED VIEW per_kind AS SELECT kind, COUNT(*) AS n, SUM(price) AS total FROM priced GROUP BY kind;
CREATE MATERIALIZED VIEW kinds WITH (strategy = 'incremental') AS SELECT DISTINCT kind FROM per_kind WHERE n > 1;
INSERT INTO item VALUES (1, 'a', 1.50), (2, 'a', 2.25), (3, 'b', NULL), (4, 'b', 4);
UPDATE item SET price = 5 WHERE id = 3;
CREATE TABLE gone (x INT);
DROP TABLE gone;
DELETE FROM item WHERE id = 1;
"""


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same durable database each time."""
    if request.param == "duckdb":
        return lambda: tm.connect(f"duckdb:{tmp_path / 'data.duckdb'}")
    session: Any = request.getfixturevalue("spark")
    return lambda: tm.connect(session, lake=str(tmp_path / "lake"))


def everything(db: tm.Database) -> object:
    relations = ("item", "per_kind", "kinds")
    return (
        db.version,
        [rows(db.query(f"SELECT * FROM {name}")) for name in (*relations, "priced")],
        [rows(db.changes(name)) for name in relations],
        rows(db.execute("SHOW VIEWS")),
        db.explain("kinds"),
        [row["node"] for row in db.trace(db.version).to_pylist()],
    )


def test_reopening_restores_tables_views_changes_and_tidemarks(reopen: Open) -> None:
    with reopen() as db:
        db.execute(SCRIPT)
        before = everything(db)
    with reopen() as db:
        assert everything(db) == before
        check_invariant(db)
        db.execute("INSERT INTO item VALUES (5, 'b', 1)")
        assert changes_at(db, "per_kind") == {("b", 2, 9): -1, ("b", 3, 10): 1}
        with pytest.raises(tm.TidemarkError, match="primary_key"):
            db.execute("INSERT INTO item VALUES (5, 'c', 1)")
        with pytest.raises(tm.TidemarkError, match="check"):
            db.execute("INSERT INTO item VALUES (6, 'c', -1)")
        with pytest.raises(tm.TidemarkError, match="check"):
            db.execute("INSERT INTO item VALUES (6, 'much too long', 1)")
        with pytest.raises(tm.TidemarkError, match="exists"):
            db.execute("CREATE TABLE kinds (a INT)")
    with reopen() as db:
        check_invariant(db)
        assert rows(db.query("SELECT n FROM per_kind ORDER BY n")) == [(1,), (3,)]
        subscription = db.subscribe("per_kind", since=db.version - 1)
        change = subscription.poll(0)
        assert change is not None and change.inserted.num_rows == 1


def test_an_open_transaction_is_gone_after_close(reopen: Open) -> None:
    with reopen() as db:
        db.execute(SCRIPT)
        before = everything(db)
        db.execute("BEGIN; DELETE FROM item; CREATE TABLE more (a INT)")
    with reopen() as db:
        assert everything(db) == before


def test_a_second_connection_is_refused_while_the_first_is_open(reopen: Open) -> None:
    with reopen() as db:
        db.execute("CREATE TABLE t (a INT)")
        with pytest.raises(tm.TidemarkError) as caught:
            reopen()
        assert caught.value.code == "in_use"
        db.execute("INSERT INTO t VALUES (1)")
    with reopen() as db:
        assert rows(db.query("SELECT * FROM t")) == [(1,)]


def test_a_second_process_is_refused_while_the_first_is_open(tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    with tm.connect(target) as db:
        db.execute("CREATE TABLE t (a INT)")
        program = (
            f"import tidemark as tm\ntry:\n    tm.connect({target!r})\nexcept tm.TidemarkError as e:\n    print(e.code)"
        )
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "in_use", found.stderr


def test_a_foreign_or_corrupt_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    import duckdb

    garbage = tmp_path / "garbage.duckdb"
    garbage.write_bytes(b"this is not a database" * 500)
    foreign = tmp_path / "foreign.duckdb"
    with duckdb.connect(str(foreign)) as connection:
        connection.execute("CREATE TABLE theirs (a INT)")
    content = {path: path.read_bytes() for path in (garbage, foreign)}
    for target in (garbage, foreign, tmp_path, tmp_path / "no" / "such" / "folder.duckdb"):
        with pytest.raises(tm.TidemarkError) as caught:
            tm.connect(f"duckdb:{target}")
        assert caught.value.code == "not_a_database"
    assert {path: path.read_bytes() for path in content} == content


def test_a_database_from_a_newer_version_is_refused(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "newer.duckdb"
    tm.connect(f"duckdb:{path}").close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE _tidemark.format SET version = 99")
    with pytest.raises(tm.TidemarkError, match="format"):
        tm.connect(f"duckdb:{path}")


def test_stored_content_is_plain_tables_for_other_readers(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "data.duckdb"
    with tm.connect(f"duckdb:{path}") as db:
        db.execute(SCRIPT)
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("SELECT kind, n FROM per_kind ORDER BY kind").fetchall() == [("a", 1), ("b", 2)]


def test_damage_done_by_somebody_else_is_found_by_audit_and_told_once_when_the_tables_follow(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "data.duckdb"
    with tm.connect(f"duckdb:{path}") as db:
        db.execute(SCRIPT)
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE per_kind SET n = 77 WHERE kind = 'b'")
    with tm.connect(f"duckdb:{path}") as db:
        assert sorted(db.audit("per_kind")["_weight"].to_pylist()) == [-1, 1]
        db.execute("DELETE FROM item WHERE kind = 'b'")
        with pytest.raises(tm.TidemarkError, match="per_kind should lose 1 rows, but 0 were found") as caught:
            db.query("SELECT * FROM per_kind")
        assert caught.value.code == "damaged"
        assert rows(db.query("SELECT id FROM item WHERE kind = 'b'")) == []
        assert rows(db.audit("per_kind").select(["kind", "_weight"])) == [("b", 1)]


@pytest.mark.parametrize("target", ["oracle", "duckdb2:x", "", "reference:path"])
def test_an_unknown_target_is_refused(target: str) -> None:
    with pytest.raises(tm.TidemarkError, match="target"):
        tm.connect(target)


def test_arrays_are_there_again(reopen: Open) -> None:
    with reopen() as db:
        db.execute(
            "CREATE TABLE post (id INT, tags VARCHAR[], price DECIMAL(5,2)[]);"
            "CREATE MATERIALIZED VIEW tagged AS SELECT tag, ARRAY_AGG(id ORDER BY id DESC) AS ids"
            " FROM post, UNNEST(tags) AS x(tag) GROUP BY tag;"
            "INSERT INTO post VALUES (1, ARRAY['a', NULL], ARRAY[1.5]), (2, ARRAY['a'], NULL),"
            " (3, ARRAY[]::VARCHAR[], NULL);"
            "ALTER TABLE post ADD COLUMN days DATE[] DEFAULT ARRAY[DATE '2024-01-31', NULL];"
            "DELETE FROM post WHERE id = 2; INSERT INTO post VALUES (4, NULL, NULL, NULL)"
        )
        before = [rows(db.query(f"SELECT * FROM {name}")) for name in ("post", "tagged")]
        logged = [rows(db.changes(name)) for name in ("post", "tagged")]
        assert before[1] == [(None, (1,)), ("a", (1,))]
    with reopen() as db:
        assert [rows(db.query(f"SELECT * FROM {name}")) for name in ("post", "tagged")] == before
        assert [rows(db.changes(name)) for name in ("post", "tagged")] == logged
        check_invariant(db)
        db.execute("INSERT INTO post (id, tags) VALUES (5, ARRAY['a'])")
        assert changes_at(db, "tagged") == {("a", (1,)): -1, ("a", (5, 1)): 1}
        db.execute("DELETE FROM post WHERE id <> 5")
        check_invariant(db)


def test_structs_are_there_again(reopen: Open) -> None:
    with reopen() as db:
        db.execute(
            "CREATE TABLE place (id INT, at STRUCT(x DECIMAL(5,2), name VARCHAR));"
            "CREATE MATERIALIZED VIEW named AS SELECT at, COUNT(*) AS n, MAX((at).name) AS name FROM place GROUP BY at;"
            "INSERT INTO place VALUES (1, ROW(1.5, 'sea')), (2, ROW(1.5, 'sea')), (3, ROW(NULL, NULL)), (4, NULL);"
            "ALTER TABLE place ADD COLUMN seen STRUCT(day DATE, times INT) DEFAULT ROW('2024-01-31', NULL);"
            "DELETE FROM place WHERE id = 2; INSERT INTO place VALUES (5, ROW(2, NULL), NULL)"
        )
        before = [rows(db.query(f"SELECT * FROM {name}")) for name in ("place", "named")]
        logged = [rows(db.changes(name)) for name in ("place", "named")]
        assert before[0][0] == (1, (Decimal("1.50"), "sea"), (dt.date(2024, 1, 31), None))
    with reopen() as db:
        assert [rows(db.query(f"SELECT * FROM {name}")) for name in ("place", "named")] == before
        assert [rows(db.changes(name)) for name in ("place", "named")] == logged
        check_invariant(db)
        db.execute("INSERT INTO place (id, at) VALUES (6, ROW(NULL, NULL))")
        assert changes_at(db, "named") == {((None, None), 1, None): -1, ((None, None), 2, None): 1}
        db.execute("DELETE FROM place WHERE id <> 6")
        check_invariant(db)


def test_a_table_that_has_rows_is_not_said_to_have_none(tmp_path: Path) -> None:
    """DuckDB 2.0 finds no first row in a file that was reopened, updated and inserted into (row_group_pruner)."""
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    with tm.connect(target) as db:
        db.execute("CREATE TABLE t (n INT NOT NULL); CREATE MATERIALIZED VIEW v AS SELECT n FROM t WHERE n > -9")
        db.insert("t", [(n,) for n in range(5)])
    for start in (5000, 9000, 20000):
        with tm.connect(target) as db:
            db.execute("UPDATE t SET n = n + 1000")
            db.insert("t", [(start + n,) for n in range(20)])
            assert str(db.why_not("t", {"n": 99})) == "no row of t has n = 99"
            assert "has no rows" not in str(db.why_not("v", {"n": 99}))
