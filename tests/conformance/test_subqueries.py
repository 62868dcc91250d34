"""Subqueries in expressions on every engine: semi and anti joins, NULL rules, scalar subqueries, LATERAL, changes."""

from __future__ import annotations

import pytest

import tidemark as tm
from tests.support import changes_at, rows

SPARK_VARIANTS = ("spark", "spark forced")

TABLES = "CREATE TABLE r (a INT, b INT); CREATE TABLE s (a INT, c INT NOT NULL); CREATE TABLE t (d INT)"


@pytest.fixture
def tables(db: tm.Database) -> tm.Database:
    db.execute(TABLES)
    return db


def view(db: tm.Database, query: str, name: str = "v") -> None:
    db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def test_a_row_stays_as_long_as_one_partner_does(tables: tm.Database) -> None:
    view(tables, "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)")
    view(tables, "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)", "w")
    with tables.transaction() as tx:
        tx.insert("r", [(1, 1), (1, 1), (None, 2)])
        tx.insert("s", [(1, 5), (1, 6)])
    assert changes_at(tables, "v") == {(1, 1): 2}
    assert changes_at(tables, "w") == {(None, 2): 1}
    tables.delete("s", [(1, 5)])
    assert changes_at(tables, "v") == changes_at(tables, "w") == {}
    with tables.transaction() as tx:
        tx.delete("s", [(1, 6)])
        tx.delete("r", [(1, 1)])
    assert changes_at(tables, "v") == {(1, 1): -2}
    assert changes_at(tables, "w") == {(1, 1): 1}


def test_not_in_follows_the_rules_of_null(tables: tm.Database) -> None:
    view(tables, "SELECT a FROM r WHERE a NOT IN (SELECT d FROM t)")
    view(tables, "SELECT a, a IN (SELECT d FROM t) AS there FROM r", "w")
    tables.insert("r", [(1, 0), (2, 0), (None, 0)])
    assert changes_at(tables, "v") == {(1,): 1, (2,): 1, (None,): 1}  # nothing is not in nothing
    assert changes_at(tables, "w") == {(1, False): 1, (2, False): 1, (None, False): 1}
    tables.insert("t", [(1,)])
    assert changes_at(tables, "v") == {(1,): -1, (None,): -1}
    assert changes_at(tables, "w") == {(1, False): -1, (1, True): 1, (None, False): -1, (None, None): 1}
    tables.insert("t", [(None,)])
    assert changes_at(tables, "v") == {(2,): -1}
    assert changes_at(tables, "w") == {(2, False): -1, (2, None): 1}
    tables.execute("DELETE FROM t WHERE d = 1")
    assert changes_at(tables, "v") == {}
    assert changes_at(tables, "w") == {(1, True): -1, (1, None): 1}
    tables.execute("DELETE FROM t")
    assert changes_at(tables, "v") == {(1,): 1, (2,): 1, (None,): 1}


def test_not_in_without_nulls_is_one_anti_join(tables: tm.Database) -> None:
    view(tables, "SELECT a, c FROM s WHERE c NOT IN (SELECT x.c FROM s AS x WHERE x.a = 1)")
    shown = tables.explain("v").split("node")[0]
    assert shown.count("Distinct") == 1 and "IS NULL" not in shown
    tables.insert("s", [(1, 5), (2, 5), (2, 6)])
    assert changes_at(tables, "v") == {(2, 6): 1}


def test_any_and_all(tables: tm.Database) -> None:
    view(tables, "SELECT a, a > ALL (SELECT d FROM t) AS over, a < ANY (SELECT d FROM t) AS under FROM r")
    tables.insert("r", [(1, 0), (3, 0)])
    assert changes_at(tables, "v") == {(1, True, False): 1, (3, True, False): 1}
    tables.insert("t", [(2,)])
    assert changes_at(tables, "v") == {
        (1, True, False): -1,
        (1, False, True): 1,
    }
    tables.insert("t", [(None,)])
    assert changes_at(tables, "v") == {(3, True, False): -1, (3, None, None): 1}


def test_marks_under_or(tables: tm.Database) -> None:
    view(tables, "SELECT a, b FROM r WHERE b > 5 OR EXISTS (SELECT 1 FROM s WHERE s.a = r.a) OR a IN (SELECT d FROM t)")
    tables.insert("r", [(1, 9), (2, 0), (3, 0)])
    assert changes_at(tables, "v") == {(1, 9): 1}
    with tables.transaction() as tx:
        tx.insert("s", [(1, 0), (2, 0)])
        tx.insert("t", [(2,)])
    assert changes_at(tables, "v") == {(2, 0): 1}
    tables.execute("DELETE FROM s")
    assert changes_at(tables, "v") == {}
    tables.execute("DELETE FROM t")
    assert changes_at(tables, "v") == {(2, 0): -1}


def test_a_total_of_nothing(tables: tm.Database) -> None:
    view(
        tables,
        "SELECT a, (SELECT COUNT(*) FROM s WHERE s.a = r.a) AS n, (SELECT SUM(c) FROM s WHERE s.a = r.a) AS q FROM r",
    )
    tables.insert("r", [(1, 0), (None, 0)])
    assert changes_at(tables, "v") == {(1, 0, None): 1, (None, 0, None): 1}
    tables.insert("s", [(1, 4), (1, 0), (None, 7)])
    assert changes_at(tables, "v") == {(1, 0, None): -1, (1, 2, 4): 1}
    tables.execute("DELETE FROM s WHERE a = 1")
    assert changes_at(tables, "v") == {(1, 2, 4): -1, (1, 0, None): 1}


def test_a_scalar_subquery_has_at_most_one_row(tables: tm.Database) -> None:
    view(tables, "SELECT a, (SELECT c FROM s WHERE s.a = r.a) AS c FROM r")
    tables.insert("s", [(2, 5), (2, 6)])  # two rows that nobody asks for
    tables.insert("r", [(1, 0)])
    assert changes_at(tables, "v") == {(1, None): 1}
    tables.insert("s", [(1, 7)])
    assert changes_at(tables, "v") == {(1, None): -1, (1, 7): 1}
    for change in ("INSERT INTO s VALUES (1, 8)", "INSERT INTO r VALUES (2, 0)"):
        with pytest.raises(tm.TidemarkError) as caught:
            tables.execute(change)
        assert caught.value.code == "cardinality"
    with tables.transaction() as tx:  # two rows for a moment, one in the end
        tx.insert("s", [(1, 8)])
        tx.delete("s", [(1, 7)])
    assert changes_at(tables, "v") == {(1, 7): -1, (1, 8): 1}
    with pytest.raises(tm.TidemarkError) as caught:
        tables.query("SELECT (SELECT c FROM s WHERE a = 2) AS c")
    assert caught.value.code == "cardinality"


def test_a_subquery_can_refer_two_levels_up(tables: tm.Database) -> None:
    view(
        tables,
        """SELECT a, b FROM r WHERE EXISTS (
            SELECT 1 FROM s WHERE s.a = r.a AND NOT EXISTS (SELECT 1 FROM t WHERE t.d = s.c AND t.d > r.b))""",
    )
    with tables.transaction() as tx:
        tx.insert("r", [(1, 0), (1, 5)])
        tx.insert("s", [(1, 3)])
    assert changes_at(tables, "v") == {(1, 0): 1, (1, 5): 1}
    tables.insert("t", [(3,)])
    assert changes_at(tables, "v") == {(1, 0): -1}
    tables.insert("s", [(1, 4)])
    assert changes_at(tables, "v") == {(1, 0): 1}


def test_subqueries_around_grouping(tables: tm.Database) -> None:
    view(
        tables,
        """SELECT a, SUM(b) AS q, (SELECT COUNT(*) FROM s WHERE s.a = r.a) AS n FROM r
        GROUP BY a HAVING SUM(b) > (SELECT COUNT(*) FROM t)""",
    )
    tables.insert("r", [(1, 1), (1, 1), (2, 1)])
    assert changes_at(tables, "v") == {(1, 2, 0): 1, (2, 1, 0): 1}
    with tables.transaction() as tx:
        tx.insert("t", [(9,)])
        tx.insert("s", [(1, 1)])
    assert changes_at(tables, "v") == {(2, 1, 0): -1, (1, 2, 0): -1, (1, 2, 1): 1}


def test_lateral(tables: tm.Database) -> None:
    view(tables, "SELECT r.a, q.c FROM r LEFT JOIN LATERAL (SELECT c FROM s WHERE s.a = r.a AND c > r.b) AS q ON TRUE")
    view(tables, "SELECT r.a, q.n FROM r, LATERAL (SELECT COUNT(*) AS n FROM s WHERE s.c < r.b) AS q", "w")
    tables.insert("r", [(1, 1), (1, 1)])
    assert changes_at(tables, "v") == {(1, None): 2}
    assert changes_at(tables, "w") == {(1, 0): 2}
    tables.insert("s", [(1, 2), (1, 0)])
    assert changes_at(tables, "v") == {(1, None): -2, (1, 2): 2}
    assert changes_at(tables, "w") == {(1, 0): -2, (1, 1): 2}


def test_statements_take_subqueries(tables: tm.Database) -> None:
    tables.insert("r", [(1, 0), (2, 0), (2, 0), (None, 0)])
    tables.insert("s", [(1, 10), (2, 20), (3, 30)])
    tables.execute("UPDATE r SET b = (SELECT SUM(c) FROM s WHERE s.a = r.a) WHERE a IN (SELECT a FROM s)")
    assert rows(tables.query("SELECT * FROM r")) == [(None, 0), (1, 10), (2, 20), (2, 20)]
    tables.execute("DELETE FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.c < 15)")
    assert rows(tables.query("SELECT * FROM r")) == [(1, 10)]
    tables.execute("INSERT INTO t SELECT c FROM s WHERE a NOT IN (SELECT a FROM r)")
    assert rows(tables.query("SELECT * FROM t")) == [(20,), (30,)]


def test_a_transaction_sees_its_own_changes_in_subqueries(tables: tm.Database) -> None:
    view(tables, "SELECT a FROM r WHERE a NOT IN (SELECT c FROM s)")
    with tables.transaction() as tx:
        tx.insert("r", [(1, 0), (2, 0)])
        tx.insert("s", [(0, 1)])
        assert rows(tx.query("SELECT a FROM v")) == [(2,)]
        assert rows(tx.query("SELECT a FROM r WHERE EXISTS (SELECT 1 FROM v WHERE v.a = r.a)")) == [(2,)]
        tx.execute("DELETE FROM r WHERE a IN (SELECT c FROM s)")
        assert rows(tx.query("SELECT a FROM r")) == [(2,)]
