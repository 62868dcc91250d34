"""EXCEPT, INTERSECT, VALUES and NATURAL joins, on every engine: content, and exact changes."""

from __future__ import annotations

import pytest

import tidemark as tm
from tests.support import bag_of, changes_at, rows
from tidemark.network import NodeKind

SPARK_VARIANTS = ("spark", "spark forced")

TABLES = "CREATE TABLE a (x INT, y VARCHAR); CREATE TABLE b (x INT, y VARCHAR)"


@pytest.fixture
def four(db: tm.Database) -> tm.Database:
    """The four operations over the same sides."""
    db.execute(
        f"""
        {TABLES};
        CREATE MATERIALIZED VIEW except_all AS SELECT * FROM a EXCEPT ALL SELECT * FROM b;
        CREATE MATERIALIZED VIEW except_ AS SELECT * FROM a EXCEPT SELECT * FROM b;
        CREATE MATERIALIZED VIEW intersect_all AS SELECT * FROM a INTERSECT ALL SELECT * FROM b;
        CREATE MATERIALIZED VIEW intersect_ AS SELECT * FROM a INTERSECT SELECT * FROM b;
        """
    )
    return db


def test_n_copies_minus_m_and_the_smaller_of_n_and_m(four: tm.Database) -> None:
    with four.transaction() as tx:
        tx.insert("a", [(1, "p")] * 5 + [(2, "p")] * 2 + [(3, "p")])
        tx.insert("b", [(1, "p")] * 2 + [(2, "p")] * 3 + [(4, "p")])
    assert changes_at(four, "except_all") == {(1, "p"): 3, (3, "p"): 1}
    assert changes_at(four, "except_") == {(3, "p"): 1}
    assert changes_at(four, "intersect_all") == {(1, "p"): 2, (2, "p"): 2}
    assert changes_at(four, "intersect_") == {(1, "p"): 1, (2, "p"): 1}
    four.delete("a", [(1, "p")] * 4)
    assert changes_at(four, "except_all") == {(1, "p"): -3}
    assert changes_at(four, "intersect_all") == {(1, "p"): -1}
    assert changes_at(four, "except_") == changes_at(four, "intersect_") == {}
    four.delete("b", [(1, "p")] * 2 + [(2, "p")])
    assert changes_at(four, "except_all") == changes_at(four, "except_") == {(1, "p"): 1}
    assert changes_at(four, "intersect_all") == changes_at(four, "intersect_") == {(1, "p"): -1}


def test_null_rows_are_equal(four: tm.Database) -> None:
    with four.transaction() as tx:
        tx.insert("a", [(None, None)] * 3 + [(1, None), (None, "p")])
        tx.insert("b", [(None, None), (1, None)])
    assert changes_at(four, "except_all") == {(None, None): 2, (None, "p"): 1}
    assert changes_at(four, "except_") == {(None, "p"): 1}
    assert changes_at(four, "intersect_all") == {(None, None): 1, (1, None): 1}
    assert changes_at(four, "intersect_") == {(None, None): 1, (1, None): 1}
    four.delete("b", [(None, None)])
    assert changes_at(four, "except_all") == {(None, None): 1}
    assert changes_at(four, "except_") == {(None, None): 1}
    assert changes_at(four, "intersect_all") == changes_at(four, "intersect_") == {(None, None): -1}


def test_both_sides_change_at_once(four: tm.Database) -> None:
    with four.transaction() as tx:
        tx.insert("a", [(1, "p"), (2, "p"), (3, "p")])
        tx.insert("b", [(2, "p"), (3, "p"), (3, "p")])
    with four.transaction() as tx:
        # The deltas of (1, 'p') are equal, those of (2, 'p') opposite; each would cancel if sides were mixed up.
        tx.insert("a", [(1, "p"), (2, "p")])
        tx.insert("b", [(1, "p")])
        tx.delete("b", [(2, "p")])
        tx.delete("a", [(3, "p")])
    assert changes_at(four, "except_all") == {(2, "p"): 2}
    assert changes_at(four, "except_") == {(1, "p"): -1, (2, "p"): 1}
    assert changes_at(four, "intersect_all") == {(1, "p"): 1, (2, "p"): -1, (3, "p"): -1}
    assert changes_at(four, "intersect_") == {(1, "p"): 1, (2, "p"): -1, (3, "p"): -1}


def test_the_same_row_moves_from_one_side_to_the_other(four: tm.Database) -> None:
    four.insert("a", [(1, "p")] * 2)
    with four.transaction() as tx:
        tx.delete("a", [(1, "p")])
        tx.insert("b", [(1, "p")])
    assert changes_at(four, "except_all") == {(1, "p"): -2}
    assert changes_at(four, "except_") == {(1, "p"): -1}
    assert changes_at(four, "intersect_all") == changes_at(four, "intersect_") == {(1, "p"): 1}
    with four.transaction() as tx:
        tx.insert("a", [(1, "p")])
        tx.delete("b", [(1, "p")])
    assert changes_at(four, "except_all") == {(1, "p"): 2}


def test_one_state_serves_the_four_operations_over_the_same_sides(four: tm.Database) -> None:
    kinds = [node.kind for node in four._store.network.nodes.values()]
    assert kinds.count(NodeKind.STATE) == 1 and kinds.count(NodeKind.VIEW) == 4


def test_changes_that_leave_the_result_alone_end_the_wave(four: tm.Database) -> None:
    four.insert("b", [(1, "p")] * 3)
    assert all(changes_at(four, view) == {} for view in ("except_all", "except_", "intersect_all", "intersect_"))
    with four.transaction() as tx:
        tx.insert("a", [(7, "q")])
        tx.delete("a", [(7, "q")])
    assert four.trace(four.version).num_rows == 0


def test_a_relation_except_itself_is_empty(db: tm.Database) -> None:
    db.execute(TABLES)
    db.execute("CREATE MATERIALIZED VIEW nothing AS SELECT * FROM a EXCEPT ALL SELECT * FROM a")
    db.execute("CREATE MATERIALIZED VIEW all_ AS SELECT * FROM a INTERSECT ALL SELECT * FROM a")
    db.insert("a", [(1, "p"), (1, "p"), (None, "q")])
    assert changes_at(db, "nothing") == {}
    assert changes_at(db, "all_") == {(1, "p"): 2, (None, "q"): 1}
    db.delete("a", [(1, "p")])
    assert changes_at(db, "nothing") == {} and changes_at(db, "all_") == {(1, "p"): -1}


def test_except_all_under_a_join_and_a_grouping_multiplies(db: tm.Database) -> None:
    db.execute(
        f"""
        {TABLES}; CREATE TABLE price (x INT, cents DECIMAL(20,2));
        CREATE MATERIALIZED VIEW joined AS SELECT q.x, p.cents
            FROM (SELECT x, y FROM a EXCEPT ALL SELECT x, y FROM b) AS q JOIN price AS p ON p.x = q.x;
        CREATE MATERIALIZED VIEW total AS SELECT q.x, COUNT(*) AS n, SUM(p.cents) AS cents
            FROM (SELECT x, y FROM a EXCEPT ALL SELECT x, y FROM b) AS q JOIN price AS p ON p.x = q.x GROUP BY q.x;
        """
    )
    with db.transaction() as tx:
        tx.insert("a", [(1, "p")] * 5 + [(2, "p")])
        tx.insert("b", [(1, "p")] * 2 + [(2, "p")])
        tx.execute("INSERT INTO price VALUES (1, 0.10), (2, 7)")
    assert [(x, n, str(cents)) for x, n, cents in rows(db.query("SELECT * FROM total"))] == [(1, 3, "0.30")]
    with db.transaction() as tx:
        tx.delete("a", [(1, "p")])
        tx.delete("b", [(2, "p")])
        tx.execute("UPDATE price SET cents = 0.20 WHERE x = 1")
    assert {(x, str(c)): w for (x, c), w in changes_at(db, "joined").items()} == {
        (1, "0.10"): -3,
        (1, "0.20"): 2,
        (2, "7.00"): 1,
    }
    assert [(x, n, str(cents)) for x, n, cents in rows(db.query("SELECT * FROM total"))] == [
        (1, 2, "0.40"),
        (2, 1, "7.00"),
    ]


def test_chains_go_from_left_to_right_and_intersect_binds_tighter(db: tm.Database) -> None:
    db.execute("CREATE TABLE p (n INT); CREATE TABLE q (n INT); CREATE TABLE r (n INT)")
    one = "SELECT n FROM p EXCEPT ALL SELECT n FROM q EXCEPT ALL SELECT n FROM r"
    two = "SELECT n FROM p EXCEPT ALL (SELECT n FROM q EXCEPT ALL SELECT n FROM r)"
    three = "SELECT n FROM p UNION ALL SELECT n FROM q INTERSECT ALL SELECT n FROM r"
    four = "SELECT n FROM p EXCEPT SELECT n FROM q UNION SELECT n FROM r EXCEPT ALL SELECT n FROM q"
    for name, query in (("one", one), ("two", two), ("three", three), ("four", four)):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    with db.transaction() as tx:
        tx.insert("p", [(1,)] * 4 + [(2,)])
        tx.insert("q", [(1,)] * 2 + [(3,)] * 2)
        tx.insert("r", [(1,), (3,), (3,), (3,)])
    assert changes_at(db, "one") == {(1,): 1, (2,): 1}
    assert changes_at(db, "two") == {(1,): 3, (2,): 1}
    assert changes_at(db, "three") == {(1,): 5, (2,): 1, (3,): 2}
    assert changes_at(db, "four") == {(2,): 1}
    with db.transaction() as tx:
        tx.delete("r", [(1,), (3,), (3,)])
        tx.delete("q", [(1,)])
        tx.insert("p", [(3,)])
    assert changes_at(db, "one") == {(1,): 2}
    assert changes_at(db, "two") == {}
    assert changes_at(db, "three") == {(1,): -1}
    assert changes_at(db, "four") == {}


def test_set_operations_in_views_on_views(db: tm.Database) -> None:
    db.execute(
        f"""
        {TABLES};
        CREATE VIEW missing AS SELECT x FROM a EXCEPT SELECT x FROM b;
        CREATE MATERIALIZED VIEW m AS SELECT x FROM missing WHERE x > 0;
        CREATE MATERIALIZED VIEW per AS SELECT x % 2 AS odd, COUNT(*) AS n FROM m GROUP BY x % 2;
        CREATE MATERIALIZED VIEW odd AS SELECT odd FROM per INTERSECT SELECT 1 EXCEPT SELECT x FROM b;
        """
    )
    with db.transaction() as tx:
        tx.insert("a", [(1, "p"), (3, "p"), (4, "p"), (-5, "p")])
        tx.insert("b", [(3, "z")])
    assert changes_at(db, "m") == {(1,): 1, (4,): 1}
    assert changes_at(db, "odd") == {(1,): 1}
    with db.transaction() as tx:
        tx.insert("b", [(1, "z")])
        tx.delete("b", [(3, "z")])
    assert changes_at(db, "m") == {(1,): -1, (3,): 1}
    assert changes_at(db, "per") == {}
    assert changes_at(db, "odd") == {(1,): -1}


def test_sides_of_different_types_meet_in_the_common_type(db: tm.Database) -> None:
    db.execute("CREATE TABLE i (n INT); CREATE TABLE d (n DECIMAL(5,2))")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT n FROM i EXCEPT ALL SELECT n FROM d")
    with db.transaction() as tx:
        tx.execute("INSERT INTO i VALUES (1), (2); INSERT INTO d VALUES (1.00), (2.50)")
    assert [str(n) for (n,) in rows(db.query("SELECT * FROM v"))] == ["2.00"]


def test_a_literal_on_one_side_is_read_as_the_type_of_the_other(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (n INT, day DATE)")
    db.execute("INSERT INTO t VALUES (1, '2024-01-31'), (NULL, NULL), (1, '2024-02-01')")
    assert rows(db.query("SELECT n FROM t EXCEPT ALL SELECT NULL")) == [(1,), (1,)]
    assert rows(db.query("SELECT NULL UNION ALL SELECT n FROM t WHERE n = 1")) == [(None,), (1,), (1,)]
    assert rows(db.query("SELECT '2024-01-31' INTERSECT SELECT day FROM t")) == rows(
        db.query("SELECT day FROM t WHERE day < DATE '2024-02-01'")
    )


def test_a_view_evaluated_completely_has_the_same_changes(db: tm.Database) -> None:
    query = "SELECT x FROM a EXCEPT ALL SELECT x FROM b INTERSECT SELECT x FROM a"
    db.execute(f"{TABLES}; CREATE MATERIALIZED VIEW v AS {query}")
    db.execute(f"CREATE MATERIALIZED VIEW w WITH (strategy = 'complete') AS {query}")
    with db.transaction() as tx:
        tx.insert("a", [(1, "p")] * 3 + [(None, "p")])
        tx.insert("b", [(1, "q"), (None, "r")])
    assert changes_at(db, "v") == changes_at(db, "w") == {(1,): 2}
    db.execute("DELETE FROM b WHERE x IS NULL")
    assert changes_at(db, "v") == changes_at(db, "w") == {(None,): 1}


def test_queries_and_changes_in_a_transaction_see_set_operations(db: tm.Database) -> None:
    db.execute(f"{TABLES}; CREATE MATERIALIZED VIEW v AS SELECT x FROM a EXCEPT SELECT x FROM b")
    db.execute("INSERT INTO a VALUES (1, 'p'), (1, 'q'), (2, 'p')")
    with db.transaction() as tx:
        tx.execute("INSERT INTO b SELECT x, y FROM a EXCEPT VALUES (2, 'p')")
        assert rows(tx.query("SELECT * FROM v")) == [(2,)]
        assert rows(tx.query("SELECT x FROM a EXCEPT ALL SELECT x FROM b")) == [(2,)]
        assert rows(tx.query("SELECT x FROM a INTERSECT ALL SELECT x FROM b ORDER BY 1 LIMIT 5")) == [(1,), (1,)]
    assert changes_at(db, "v") == {(1,): -1}


def test_a_view_is_filled_from_what_is_there(db: tm.Database) -> None:
    db.execute(f"{TABLES}; INSERT INTO a VALUES (1, 'p'), (1, 'p'), (2, NULL); INSERT INTO b VALUES (1, 'p')")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM a EXCEPT ALL SELECT * FROM b")
    assert changes_at(db, "v") == {(1, "p"): 1, (2, None): 1}
    db.execute("DELETE FROM b")
    assert changes_at(db, "v") == {(1, "p"): 1}


def test_values_as_a_query_in_from_and_beside_set_operators(db: tm.Database) -> None:
    db.execute(TABLES)
    assert rows(db.query("VALUES (1, 'x'), (2, NULL), (1, 'x')")) == [(1, "x"), (1, "x"), (2, None)]
    assert db.query("VALUES (1, 'x')").column_names == ["column1", "column2"]
    assert rows(db.query("VALUES (3), (1), (2) ORDER BY column1 DESC LIMIT 1")) == [(3,)]
    assert rows(db.query("VALUES (1), (2), (2) EXCEPT ALL VALUES (2)")) == [(1,), (2,)]
    assert rows(db.query("VALUES (NULL), (1) INTERSECT VALUES (NULL), (2)")) == [(None,)]
    db.execute(
        """
        CREATE MATERIALIZED VIEW named AS
            SELECT a.y, v.name FROM a JOIN (VALUES (1, 'one'), (2, 'two'), (2, 'zwei')) AS v (x, name) ON v.x = a.x;
        CREATE MATERIALIZED VIEW others AS SELECT x FROM a EXCEPT VALUES (1), (NULL);
        CREATE MATERIALIZED VIEW wanted AS VALUES (1), (2) EXCEPT SELECT x FROM a;
        CREATE MATERIALIZED VIEW fixed (k, v) AS VALUES (1, 1.5), (1, 1.5), (2, 3);
        """
    )
    assert bag_of(db.query("SELECT k FROM fixed")) == {(1,): 2, (2,): 1}
    assert rows(db.query("SELECT * FROM wanted")) == [(1,), (2,)]
    db.execute("INSERT INTO a VALUES (1, 'p'), (2, 'q'), (3, 'r'), (NULL, 's')")
    assert changes_at(db, "named") == {("p", "one"): 1, ("q", "two"): 1, ("q", "zwei"): 1}
    assert changes_at(db, "others") == {(2,): 1, (3,): 1}
    assert changes_at(db, "wanted") == {(1,): -1, (2,): -1}
    db.execute("DELETE FROM a WHERE x = 2")
    assert changes_at(db, "named") == {("q", "two"): -1, ("q", "zwei"): -1}
    assert changes_at(db, "others") == {(2,): -1}
    assert changes_at(db, "wanted") == {(2,): 1}


def test_a_natural_join_joins_on_all_common_columns(db: tm.Database) -> None:
    db.execute("CREATE TABLE l (k INT, m INT, u VARCHAR); CREATE TABLE r (v VARCHAR, m INT, k INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM l NATURAL JOIN r")
    db.execute("INSERT INTO l VALUES (1, 1, 'a'), (1, 2, 'b'), (NULL, 1, 'c')")
    db.execute("INSERT INTO r VALUES ('x', 1, 1), ('y', 2, 1), ('z', 1, NULL)")
    assert db.query("SELECT * FROM v").column_names == ["k", "m", "u", "v"]
    assert rows(db.query("SELECT * FROM v")) == [(1, 1, "a", "x"), (1, 2, "b", "y")]
    with db.transaction() as tx:
        tx.execute("UPDATE l SET m = 2 WHERE u = 'a'; DELETE FROM r WHERE v = 'x'")
    assert changes_at(db, "v") == {(1, 1, "a", "x"): -1, (1, 2, "a", "y"): 1}


def test_a_natural_join_without_common_columns_is_a_product(db: tm.Database) -> None:
    db.execute("CREATE TABLE l (a INT); CREATE TABLE r (b INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM l NATURAL JOIN r")
    with db.transaction() as tx:
        tx.execute("INSERT INTO l VALUES (1), (2); INSERT INTO r VALUES (NULL)")
    assert changes_at(db, "v") == {(1, None): 1, (2, None): 1}


def test_many_copies_are_counted_and_not_repeated(db: tm.Database) -> None:
    db.execute(TABLES)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT x FROM a EXCEPT ALL SELECT x FROM b")
    with db.transaction() as tx:
        tx.insert("a", [(1, "p")] * 1000)
        tx.insert("b", [(1, "p")] * 999)
    assert changes_at(db, "v") == {(1,): 1}
    db.insert("b", [(1, "q")] * 500)
    assert changes_at(db, "v") == {(1,): -1}
    db.delete("b", [(1, "q")] * 500)
    assert changes_at(db, "v") == {(1,): 1}
