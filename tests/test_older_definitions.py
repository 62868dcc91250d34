"""Definitions that an earlier Tidemark took and this one would refuse: they are kept, and told of."""

from __future__ import annotations

import logging
from pathlib import Path

import duckdb
import pytest

import tidemark as tm
from tests.support import check_invariant, rows


def rewritten(path: Path, before: str, after: str, *more: str) -> None:
    """Let a file say what an earlier one could have said."""
    with duckdb.connect(str(path)) as connection:
        old, new = before.replace("'", "''"), after.replace("'", "''")
        connection.execute(
            f"UPDATE _tidemark.commits SET relations = replace(relations, '{old}', '{new}'), "
            f"catalog = list_transform(catalog, lambda one: replace(one, '{old}', '{new}'))"
        )
        for statement in more:
            connection.execute(statement)


def test_a_column_whose_name_is_reserved_now_is_kept_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    with tm.connect(f"duckdb:{path}") as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, _tyme INT); INSERT INTO t VALUES (1, 10)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, _tyme FROM t")
        db.execute("UPDATE t SET _tyme = 11")
        assert not caplog.records
    tables = ("main.t", "main.v", '_tidemark."log t"', '_tidemark."log v"')
    rewritten(path, "_tyme", "_time", *(f"ALTER TABLE {table} RENAME _tyme TO _time" for table in tables))
    with caplog.at_level(logging.WARNING), tm.connect(f"duckdb:{path}") as db:
        assert [f"the column '_time' of '{name}'" in caplog.text for name in ("t", "v")] == [True, True]
        assert rows(db.query("SELECT a, _time FROM v")) == [(1, 11)]
        db.execute("INSERT INTO t VALUES (2, 20)")
        changes = db.changes("v")
        assert changes.column_names == ["a", "_time", "_version", "_weight"]
        assert rows(changes) == [(1, 10, 3, 1), (1, 10, 4, -1), (1, 11, 4, 1), (2, 20, 5, 1)]
        assert "_time" in db.changes("t", paired=True).column_names
        told = db.subscribe("v", since=4).poll()
        assert told is not None and told.time is not None and rows(told.inserted) == [(2, 20)]
        for again in ("CREATE TABLE u (_time INT)", "CREATE MATERIALIZED VIEW w AS SELECT * FROM t"):
            with pytest.raises(tm.TidemarkError, match="reserved_name"):
                db.execute(again)
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT a, _time AS at FROM t")
        assert db.changes("w").column_names[-1] == "_time"
        for name in ("v", "w"):
            assert db.audit(name).num_rows == 0


def test_a_query_that_was_to_answer_early_waits(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with tm.connect(f"duckdb:{path}") as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY)")
        db.execute("CREATE CONTINUAL QUERY q WITH (lag = 'keep') AS SELECT a FROM t TRIGGER ON CHANGE OF 9 ROWS")
    rewritten(path, "lag = 'keep'", "lag = 'refresh'")
    with tm.connect(f"duckdb:{path}") as db:
        db.execute("ALTER LOG SET (versions = 1)")
        consumers = db.execute("SHOW CONSUMERS")
        assert consumers is not None and consumers["policy"].to_pylist() == ["keep"]
        for a in range(8):
            db.insert("t", [(a,)])
        assert db.results("q").poll() is None
        db.insert("t", [(8,)])
        assert db.results("q").poll() is not None


def test_times_that_an_earlier_tidemark_forgot_are_not_known(tmp_path: Path) -> None:
    """It dropped the commits up to the limits, also where a relation was kept for a subscriber from further back."""
    path = tmp_path / "file"
    with tm.connect(f"duckdb:{path}") as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY)")
        db.subscribe("t", since=1, name="slow").close()
        for a in range(10):
            db.insert("t", [(a,)])
        db.execute("ALTER LOG SET (versions = 4)")
        db.execute("ALTER LOG SET (versions = none)")
    rewritten(path, "", "", "DELETE FROM _tidemark.commits WHERE version BETWEEN 2 AND 7")
    with tm.connect(f"duckdb:{path}") as db:
        known = {row["_version"]: row["_time"] is not None for row in db.changes("t", since=1).to_pylist()}
        assert known == {version: version > 7 for version in range(2, 12)}
        changes = db.subscribe("t", name="slow")
        assert [change.time is not None for change in iter(changes.poll, None)] == list(known.values())
        with pytest.raises(tm.TidemarkError, match="the oldest version is 8"):
            db.query("SELECT * FROM t AS OF TIMESTAMP '2020-01-01'")
        db.insert("t", [(99,)])
        assert db.changes("t", since=11).to_pylist()[0]["_time"] is not None
        check_invariant(db)
