"""Steps that rest on a proof about a statement, or on the few rows of a view, instead of rows below (BLAKELEY 4).

They are tried where many rows would have to be read; here always.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import tidemark as tm
from tests.support import changes_at
from tidemark.analysis.autonomy.dml import AnalysedStatement
from tidemark.strategy.cache import RefreshCache
from tidemark.strategy.nodes import Node, Refresh

SPARK_VARIANTS = ("spark forced",)


@pytest.fixture
def db(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> tm.Database:
    engine = db._store.engine
    monkeypatch.setattr(engine, "limits", replace(engine.limits, worth_a_proof=0))
    return db


def last(db: tm.Database, node: str) -> tuple[str, int]:
    [step] = [step for step in db.trace(db.version).to_pylist() if step["node"] == node]
    return step["strategy"], step["rows_read"]


def test_a_deletion_by_what_a_view_shows_needs_no_table(db: tm.Database) -> None:
    """Theorem 4.2, without keys: equal rows, and rows with NULL."""
    db.execute(
        "CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT);"
        "CREATE MATERIALIZED VIEW v AS SELECT a, c FROM r JOIN s ON r.b = s.b;"
        "INSERT INTO s VALUES (1, 10), (1, 10), (2, NULL);"
        "INSERT INTO r VALUES (5, 1), (5, 1), (7, 1), (7, 2), (NULL, 1)"
    )
    db.execute("DELETE FROM r WHERE a > 6")
    assert last(db, "v") == ("autonomous", 0)
    assert changes_at(db, "v") == {(7, 10): -2, (7, None): -1}
    db.execute("DELETE FROM r WHERE b = 1")
    assert last(db, "v")[0] == "differential"
    assert db.audit("v").num_rows == 0


def test_an_update_of_what_a_view_shows_needs_no_table(db: tm.Database) -> None:
    """Theorems 4.3 A to D."""
    db.execute(
        "CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT);"
        "CREATE MATERIALIZED VIEW v AS SELECT a, c FROM r JOIN s ON r.b = s.b WHERE a < 100;"
        "INSERT INTO s VALUES (1, 10), (1, 10); INSERT INTO r VALUES (5, 1), (60, 1), (NULL, 1)"
    )
    db.execute("UPDATE r SET a = a + 40 WHERE a > 4")
    assert last(db, "v") == ("autonomous", 0)
    assert changes_at(db, "v") == {(5, 10): -2, (60, 10): -2, (45, 10): 2}
    db.execute("UPDATE r SET a = a - 40 WHERE a > 4")
    assert last(db, "v")[0] == "differential", "a row may enter that the view does not show"
    assert db.audit("v").num_rows == 0


def test_a_covered_insertion_follows_from_the_few_rows_of_a_view(db: tm.Database) -> None:
    """Theorem 4.4 with Example 4.9 i: every row of r2 that could join the new row joins one that is there."""
    db.execute(
        "CREATE TABLE r1 (h INT NOT NULL, i INT NOT NULL);"
        "CREATE TABLE r2 (j INT PRIMARY KEY, k INT NOT NULL, l INT NOT NULL);"
        "CREATE MATERIALIZED VIEW v AS SELECT h, i, j, k, l FROM r1 JOIN r2 ON i < j;"
        "INSERT INTO r2 VALUES (22, 15, 10), (23, 50, 30); INSERT INTO r1 VALUES (1, 20), (2, 22)"
    )
    db.execute("INSERT INTO r1 VALUES (4, 21)")
    assert last(db, "v") == ("autonomous", 0)
    assert changes_at(db, "v") == {(4, 21, 22, 15, 10): 1, (4, 21, 23, 50, 30): 1}
    db.execute("INSERT INTO r1 VALUES (5, 19)")
    assert last(db, "v")[0] == "differential", "a row of r2 with j = 20 would not be seen"
    assert db.audit("v").num_rows == 0


def test_no_proof_is_looked_for_where_little_was_read_the_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def counted(cache: RefreshCache, node: Node, statement: AnalysedStatement) -> Refresh | None:
        asked.append(node.name)
        return by_statement(cache, node, statement)

    by_statement = RefreshCache.by_statement
    monkeypatch.setattr(RefreshCache, "by_statement", counted)
    with tm.connect("duckdb") as db:
        engine = db._store.engine
        monkeypatch.setattr(engine, "limits", replace(engine.limits, worth_a_proof=100))
        db.execute(
            "CREATE TABLE r (a INT PRIMARY KEY, b INT); CREATE TABLE s (b INT, c INT);"
            "CREATE MATERIALIZED VIEW v WITH (strategy = 'incremental') AS SELECT a, c FROM r JOIN s ON r.b = s.b"
        )
        db.insert("s", [(n, n) for n in range(200)])
        db.insert("r", [(n, n) for n in range(200)])
        asked.clear()
        for b in range(3):
            db.execute(f"UPDATE r SET b = {b} WHERE a = {b + 7}")
        assert not asked, "each row of the change before met one"
        assert last(db, "v")[0] == "differential"
        db.execute("UPDATE r SET b = b + 1 WHERE a < 150")
        assert asked == ["v"], "more that changed reads more"
        assert db.audit("v").num_rows == 0
