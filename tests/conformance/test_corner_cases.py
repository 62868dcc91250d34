"""The corner cases that have broken other systems (DESIGN §1), each a permanent test on every engine."""

from __future__ import annotations

import pytest

import tidemark as tm
from tests.support import changes_at, rows

TWO_TABLES = """
CREATE TABLE q (x INT, y INT);
CREATE TABLE r (y INT, z INT);
CREATE MATERIALIZED VIEW p AS SELECT q.x, r.z FROM q JOIN r ON q.y = r.y;
"""


def test_both_sides_of_a_join_change_in_one_transaction(db: tm.Database) -> None:
    db.execute(TWO_TABLES)
    db.execute("INSERT INTO q VALUES (1, 1); INSERT INTO r VALUES (1, 2), (2, 3)")
    with db.transaction() as tx:
        tx.execute("INSERT INTO q VALUES (1, 2), (5, 9); DELETE FROM q WHERE y = 1")
        tx.execute("INSERT INTO r VALUES (9, 9), (1, 4); DELETE FROM r WHERE z = 2")
    assert changes_at(db, "p") == {(1, 2): -1, (1, 3): 1, (5, 9): 1}


def test_a_deletion_on_one_side_meets_an_insertion_on_the_other(db: tm.Database) -> None:
    """The case that HiPAC's IncrJoin counts wrongly."""
    db.execute(TWO_TABLES)
    db.execute("INSERT INTO q VALUES (1, 1); INSERT INTO r VALUES (7, 7)")
    with db.transaction() as tx:
        tx.execute("DELETE FROM q WHERE x = 1; INSERT INTO r VALUES (1, 4)")
    assert changes_at(db, "p") == {}
    with db.transaction() as tx:
        tx.execute("INSERT INTO q VALUES (1, 1); DELETE FROM r WHERE y = 1")
    assert changes_at(db, "p") == {}


def test_a_self_join_counts_each_pair_once(db: tm.Database) -> None:
    db.execute("CREATE TABLE e (a INT, b INT)")
    db.execute("CREATE MATERIALIZED VIEW two AS SELECT x.a, y.b FROM e x JOIN e y ON x.b = y.a")
    db.execute("INSERT INTO e VALUES (1, 1), (1, 2)")
    assert changes_at(db, "two") == {(1, 1): 1, (1, 2): 1}
    with db.transaction() as tx:
        tx.execute("DELETE FROM e WHERE b = 1; INSERT INTO e VALUES (2, 1), (1, 2)")
    assert changes_at(db, "two") == {(1, 1): 1, (1, 2): -1, (2, 2): 2}


def test_a_key_is_deleted_and_inserted_again(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR); CREATE TABLE s (k INT, w INT)")
    db.execute("CREATE MATERIALIZED VIEW j AS SELECT t.k, v, w FROM t JOIN s USING (k)")
    db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'); INSERT INTO s VALUES (1, 10), (1, 11), (2, 20)")
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (1, 'c')")
    assert changes_at(db, "t") == {(1, "a"): -1, (1, "c"): 1}
    assert changes_at(db, "j") == {(1, "a", 10): -1, (1, "a", 11): -1, (1, "c", 10): 1, (1, "c", 11): 1}
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (1, 'c')")
    assert changes_at(db, "t") == {} and changes_at(db, "j") == {}


def test_an_update_changes_the_join_key(db: tm.Database) -> None:
    db.execute(TWO_TABLES)
    db.execute("INSERT INTO q VALUES (1, 1), (2, 2); INSERT INTO r VALUES (1, 10), (2, 20)")
    db.execute("UPDATE q SET y = 3 - y")
    assert changes_at(db, "p") == {(1, 10): -1, (2, 20): -1, (1, 20): 1, (2, 10): 1}


def test_an_update_that_changes_nothing_takes_a_version_and_changes_nothing(db: tm.Database) -> None:
    db.execute(TWO_TABLES)
    db.execute("INSERT INTO q VALUES (1, 1); INSERT INTO r VALUES (1, 10)")
    before = db.version
    db.execute("UPDATE q SET x = x")
    assert db.version == before + 1
    assert changes_at(db, "q") == {} and changes_at(db, "p") == {}
    assert db.trace(db.version).num_rows == 0


def test_n_equal_rows_are_added_and_m_removed(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT)")
    db.execute("CREATE MATERIALIZED VIEW bag AS SELECT a FROM t")
    db.execute("CREATE MATERIALIZED VIEW d AS SELECT DISTINCT a FROM t")
    db.execute("INSERT INTO t VALUES (1, 1), (1, 2), (1, 2), (2, 1)")
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE a = 1 AND b = 2; INSERT INTO t VALUES (1, 3), (1, 3), (1, 3), (3, 1), (3, 1)")
    assert changes_at(db, "bag") == {(1,): 1, (3,): 2}
    assert changes_at(db, "d") == {(3,): 1}
    with db.transaction() as tx:
        tx.insert("t", [(3, 9)])
        tx.delete("t", [(3, 1), (3, 1), (2, 1)])
    assert changes_at(db, "bag") == {(3,): -1, (2,): -1}
    assert changes_at(db, "d") == {(2,): -1}


def test_null_join_keys_never_join_and_null_group_keys_are_one_group(db: tm.Database) -> None:
    db.execute(TWO_TABLES)
    db.execute("CREATE MATERIALIZED VIEW g AS SELECT y, COUNT(*) AS n, SUM(x) AS s FROM q GROUP BY y")
    db.execute("INSERT INTO q VALUES (1, NULL), (2, NULL), (NULL, NULL); INSERT INTO r VALUES (NULL, 1)")
    assert changes_at(db, "p") == {}
    assert rows(db.query("SELECT * FROM g")) == [(None, 3, 3)]
    db.execute("DELETE FROM q WHERE x = 1")
    assert changes_at(db, "g") == {(None, 3, 3): -1, (None, 2, 2): 1}
    db.execute("DELETE FROM q WHERE x = 2")
    assert changes_at(db, "g") == {(None, 2, 2): -1, (None, 1, None): 1}


def test_a_group_appears_and_vanishes(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k VARCHAR, v INT)")
    db.execute("CREATE MATERIALIZED VIEW g AS SELECT k, SUM(v) AS s, COUNT(v) AS c, COUNT(*) AS n FROM t GROUP BY k")
    db.execute("INSERT INTO t VALUES ('a', 0)")
    assert changes_at(db, "g") == {("a", 0, 1, 1): 1}
    db.execute("INSERT INTO t VALUES ('a', NULL), ('b', 5), ('b', -5)")
    assert changes_at(db, "g") == {("a", 0, 1, 1): -1, ("a", 0, 1, 2): 1, ("b", 0, 2, 2): 1}
    db.execute("DELETE FROM t WHERE v = 0")
    assert changes_at(db, "g") == {("a", 0, 1, 2): -1, ("a", None, 0, 1): 1}
    db.execute("DELETE FROM t")
    assert changes_at(db, "g") == {("a", None, 0, 1): -1, ("b", 0, 2, 2): -1}


def test_a_total_without_groups_is_always_one_row(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (v INT)")
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(v) AS s FROM t")
    assert changes_at(db, "total") == {(0, None): 1}
    db.execute("INSERT INTO t VALUES (3), (4)")
    assert changes_at(db, "total") == {(0, None): -1, (2, 7): 1}
    db.execute("DELETE FROM t")
    assert changes_at(db, "total") == {(2, 7): -1, (0, None): 1}


def test_views_on_views_on_views_carry_deletions_through(db: tm.Database) -> None:
    db.execute(
        """
        CREATE TABLE sale (shop INT, item INT, n INT);
        CREATE MATERIALIZED VIEW per_item AS SELECT shop, item, SUM(n) AS n FROM sale GROUP BY shop, item;
        CREATE MATERIALIZED VIEW strong AS SELECT shop, item FROM per_item WHERE n >= 10;
        CREATE MATERIALIZED VIEW shops AS SELECT shop, COUNT(*) AS items FROM strong GROUP BY shop;
        CREATE MATERIALIZED VIEW busy AS SELECT DISTINCT items FROM shops;
        INSERT INTO sale VALUES (1, 1, 10), (1, 2, 4), (2, 1, 10);
        """
    )
    assert rows(db.query("SELECT * FROM busy")) == [(1,)]
    db.execute("UPDATE sale SET n = 12 WHERE item = 2")
    assert changes_at(db, "shops") == {(1, 1): -1, (1, 2): 1}
    assert changes_at(db, "busy") == {(2,): 1}
    db.execute("DELETE FROM sale WHERE shop = 1 AND item = 1")
    assert changes_at(db, "shops") == {(1, 2): -1, (1, 1): 1}
    assert changes_at(db, "busy") == {(2,): -1}
    db.execute("DELETE FROM sale")
    assert rows(db.query("SELECT * FROM busy")) == []


def test_changes_that_cancel_within_a_transaction_leave_nothing(db: tm.Database) -> None:
    """AMOS: min_stock 100 → 150 → 100 has no net effect."""
    db.execute("CREATE TABLE item (id INT PRIMARY KEY, min_stock INT)")
    db.execute("CREATE MATERIALIZED VIEW high AS SELECT id FROM item WHERE min_stock > 120")
    db.execute("INSERT INTO item VALUES (1, 100)")
    with db.transaction() as tx:
        tx.execute("UPDATE item SET min_stock = 150 WHERE id = 1")
        assert rows(tx.query("SELECT * FROM high")) == [(1,)]
        tx.execute("UPDATE item SET min_stock = 100 WHERE id = 1")
        assert rows(tx.query("SELECT * FROM high")) == []
    assert changes_at(db, "item") == {} and changes_at(db, "high") == {}


def test_a_union_all_adds_and_a_union_keeps_one(db: tm.Database) -> None:
    db.execute("CREATE TABLE a (x INT); CREATE TABLE b (x BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW both_ AS SELECT x FROM a UNION ALL SELECT x FROM b")
    db.execute("CREATE MATERIALIZED VIEW either_ AS SELECT x FROM a UNION SELECT x FROM b")
    with db.transaction() as tx:
        tx.execute("INSERT INTO a VALUES (1), (1), (2); INSERT INTO b VALUES (1), (3)")
    assert changes_at(db, "both_") == {(1,): 3, (2,): 1, (3,): 1}
    assert changes_at(db, "either_") == {(1,): 1, (2,): 1, (3,): 1}
    with db.transaction() as tx:
        tx.execute("DELETE FROM a; INSERT INTO b VALUES (2)")
    assert changes_at(db, "both_") == {(1,): -2}
    assert changes_at(db, "either_") == {}


def test_three_tables_change_at_once(db: tm.Database) -> None:
    db.execute(
        "CREATE TABLE c (k INT, n VARCHAR); CREATE TABLE o (k INT, c INT); CREATE TABLE l (o INT, v DECIMAL(9,2))"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT n, SUM(v) AS s, COUNT(*) AS m FROM c, o, l "
        "WHERE o.c = c.k AND l.o = o.k GROUP BY n"
    )
    with db.transaction() as tx:
        tx.execute("INSERT INTO c VALUES (1, 'x'), (2, 'y'); INSERT INTO o VALUES (10, 1), (20, 2), (30, 2)")
        tx.execute("INSERT INTO l VALUES (10, 1.5), (10, 2.25), (20, 3), (30, 4)")
    with db.transaction() as tx:
        tx.execute("UPDATE c SET n = 'x' WHERE k = 2; DELETE FROM o WHERE k = 20; INSERT INTO l VALUES (30, 0.25)")
        tx.execute("UPDATE o SET c = 2 WHERE k = 10")
    assert [(n, str(s), m) for n, s, m in rows(db.query("SELECT * FROM v"))] == [("x", "8.00", 4)]


@pytest.mark.small
def test_a_view_that_is_evaluated_completely_gives_the_same_changes(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, v INT)")
    query = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
    db.execute(f"CREATE MATERIALIZED VIEW a AS {query}")
    db.execute(f"CREATE MATERIALIZED VIEW b WITH (strategy = 'complete') AS {query}")
    db.execute("INSERT INTO t VALUES (1, 1), (1, 2), (2, 5)")
    db.execute("DELETE FROM t WHERE v = 2")
    assert changes_at(db, "a") == changes_at(db, "b") == {(1, 3): -1, (1, 1): 1}
    used = {row["node"]: row["strategy"] for row in db.trace(db.version).to_pylist()}
    assert used["b"] == "complete" and used["a"] == "autonomous"
