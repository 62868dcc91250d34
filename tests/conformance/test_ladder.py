"""The ladder of strategies: what is irrelevant, what is autonomous, and that neither is ever wrong, on every engine.

After each test the invariant of DESIGN §1 is checked for every view (the ``db`` fixture).
"""

from __future__ import annotations

from typing import Any

import pytest

import tidemark as tm
from tests.support import changes_at, rows


def step(db: tm.Database, node: str, version: int | None = None) -> dict[str, Any]:
    """The line of the trace about one node; a node that keeps something for a view is named up to its digest."""
    lines: list[dict[str, Any]] = db.trace(db.version if version is None else version).to_pylist()
    [found] = [line for line in lines if line["node"].partition("-")[0] == node]
    return found


def strategies(db: tm.Database) -> dict[str, str]:
    """The strategy of each node in the last transaction."""
    return {line["node"].partition("-")[0]: line["strategy"] for line in db.trace(db.version).to_pylist()}


class TestWhatIsKnownMustBeTrueBeforeAndAfter:
    """Relevance and autonomy rest on CHECK, NOT NULL and keys. Rows that leave or come may not obey them yet, or never
    did."""

    def test_a_view_read_while_a_check_is_violated_shows_the_row(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT CHECK (a >= 0))")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, a FROM t WHERE a < 0")
        with db.transaction() as tx:
            tx.execute("INSERT INTO t VALUES (1, -5)")
            assert rows(tx.query("SELECT * FROM v")) == [(1, -5)]
            tx.execute("UPDATE t SET a = 5")
            assert rows(tx.query("SELECT * FROM v")) == []
        assert strategies(db) == {"v": "irrelevant"}
        assert step(db, "v")["reason"] == "no row of t can matter"

    def test_a_view_read_while_a_key_stands_twice_shows_both_rows(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT, j INT); CREATE TABLE s (j INT, y INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT t.k, t.a, s.y FROM t JOIN s ON t.j = s.j")
        db.execute("INSERT INTO s VALUES (1, 10), (1, 20); INSERT INTO t VALUES (7, 1, 1)")
        with db.transaction() as tx:
            tx.execute("INSERT INTO t VALUES (7, 2, 1)")
            assert rows(tx.query("SELECT * FROM v")) == [(7, 1, 10), (7, 1, 20), (7, 2, 10), (7, 2, 20)]
            tx.execute("DELETE FROM t WHERE a = 1")
            assert rows(tx.query("SELECT * FROM v")) == [(7, 2, 10), (7, 2, 20)]
        assert strategies(db) == {"v": "autonomous"}

    def test_rows_that_leave_need_not_obey_a_check_that_the_transaction_adds(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT, a INT); INSERT INTO t VALUES (1, 5), (2, 2)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE a > 3")
        with db.transaction() as tx:
            tx.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 0 CHECK (a < 3)")
            tx.execute("DELETE FROM t WHERE a = 5")
            assert rows(tx.query("SELECT * FROM v")) == []
        assert changes_at(db, "v") == {(1,): -1}
        db.execute("INSERT INTO t VALUES (3, 1, 0)")
        assert step(db, "v")["reason"] == "no row of t can matter"

    def test_a_partner_that_leaves_need_not_obey_a_new_check_either(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT, a INT); CREATE TABLE u (b INT)")
        db.execute("INSERT INTO t VALUES (1, 5), (2, 2); INSERT INTO u VALUES (2), (3)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT t.k, u.b FROM t, u WHERE a > b")
        with db.transaction() as tx:
            tx.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 0 CHECK (a <= 2)")
            tx.execute("ALTER TABLE u ADD COLUMN c INT DEFAULT 0 CHECK (b > 2)")
            tx.execute("DELETE FROM t WHERE a = 5; DELETE FROM u WHERE b = 2")
        assert changes_at(db, "v") == {(1, 2): -1, (1, 3): -1}

    def test_rows_that_were_there_may_be_null_in_a_column_that_is_added_not_null(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (1)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE k < 9")
        with db.transaction() as tx:
            tx.execute("ALTER TABLE t ADD COLUMN c INT NOT NULL CHECK (c > k)")
            tx.execute("DELETE FROM t")
            tx.execute("INSERT INTO t VALUES (2, 3)")
        assert changes_at(db, "v") == {(1,): -1, (2,): 1}

    @pytest.mark.parametrize(
        "definition",
        [
            "SELECT w.k, w.a, s.y FROM w JOIN s ON w.a = s.a",
            "SELECT w.k, s.y FROM w JOIN s ON w.k = s.a",
            "SELECT w.k, COUNT(*) AS n FROM w JOIN s ON w.a = s.a GROUP BY w.k",
            "SELECT DISTINCT w.k FROM w JOIN s ON w.a = s.a",
            "SELECT x.k, y.k AS l FROM w x JOIN w y ON x.a = y.a",
            "SELECT w.k, s.y FROM w LEFT JOIN s ON w.a = s.a",
        ],
    )
    def test_a_view_that_gets_a_key_by_being_replaced_had_none_before(self, db: tm.Database, definition: str) -> None:
        db.execute("CREATE TABLE t (k INT, a INT); CREATE TABLE s (a INT, y INT)")
        db.execute("INSERT INTO t VALUES (1, 1), (1, 2), (2, 2), (3, 5); INSERT INTO s VALUES (1, 1), (2, 1), (2, 2)")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT k, a FROM t")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {definition}")
        with db.transaction() as tx:
            tx.execute("CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT k, MAX(a) AS a FROM t WHERE k < 3 GROUP BY k")
            inside = rows(tx.query("SELECT * FROM v"))
        assert rows(db.query("SELECT * FROM v")) == inside
        db.execute("DELETE FROM t WHERE a = 2")


def test_what_a_part_of_a_change_meets_is_told_from_what_all_of_it_meets(db: tm.Database) -> None:
    """One row goes, and of another one a column changes that the view does not read: only the first one's rows go."""
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT, note VARCHAR)")
    db.execute("INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 1, 'c'), (4, 2, 'd')")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT x.k AS k, y.k AS l FROM t x JOIN t y ON x.a = y.a")
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE k = 1")
        tx.execute("UPDATE t SET note = 'z' WHERE k = 2")
    assert changes_at(db, "v") == {(1, 1): -1, (1, 2): -1, (1, 3): -1, (2, 1): -1, (3, 1): -1}
    assert strategies(db) == {"v": "autonomous"}
    assert step(db, "v")["rows_filtered"] == 2
