"""LEFT, RIGHT and FULL JOIN on every engine: padding that appears and vanishes, NULL keys, duplicates, chains."""

from __future__ import annotations

import pytest

import tidemark as tm
from tests.support import changes_at, rows

SPARK_VARIANTS = ("spark", "spark forced")

TABLES = "CREATE TABLE a (k INT, x VARCHAR); CREATE TABLE b (k INT, y INT NOT NULL)"


@pytest.fixture
def joins(db: tm.Database) -> tm.Database:
    db.execute(
        f"""
        {TABLES};
        CREATE MATERIALIZED VIEW left_ AS SELECT a.k, x, y FROM a LEFT JOIN b ON a.k = b.k;
        CREATE MATERIALIZED VIEW full_ AS SELECT k, x, y FROM a FULL JOIN b USING (k);
        CREATE MATERIALIZED VIEW narrow AS SELECT a.k, x, y FROM a LEFT JOIN b ON a.k = b.k AND b.y > length(a.x);
        """
    )
    return db


def test_padding_appears_and_vanishes(joins: tm.Database) -> None:
    joins.insert("a", [(1, "p")])
    assert changes_at(joins, "left_") == changes_at(joins, "full_") == {(1, "p", None): 1}
    joins.insert("b", [(1, 10), (1, 10)])
    assert changes_at(joins, "left_") == {(1, "p", None): -1, (1, "p", 10): 2}
    assert changes_at(joins, "full_") == {(1, "p", None): -1, (1, "p", 10): 2}
    joins.delete("b", [(1, 10)])
    assert changes_at(joins, "left_") == {(1, "p", 10): -1}
    joins.delete("b", [(1, 10)])
    assert changes_at(joins, "left_") == changes_at(joins, "full_") == {(1, "p", 10): -1, (1, "p", None): 1}


def test_both_sides_change_in_one_transaction(joins: tm.Database) -> None:
    with joins.transaction() as tx:
        tx.insert("a", [(1, "p"), (2, "q"), (2, "q")])
        tx.insert("b", [(2, 5), (3, 7)])
    assert changes_at(joins, "left_") == {(1, "p", None): 1, (2, "q", 5): 2}
    assert changes_at(joins, "full_") == {(1, "p", None): 1, (2, "q", 5): 2, (3, None, 7): 1}
    with joins.transaction() as tx:
        # The partner of 2 leaves while one of its rows does; 3 and 1 find partners, on either side.
        tx.delete("b", [(2, 5)])
        tx.delete("a", [(2, "q")])
        tx.insert("a", [(3, "r")])
        tx.insert("b", [(1, 9)])
    assert changes_at(joins, "left_") == {
        (2, "q", 5): -2,
        (2, "q", None): 1,
        (3, "r", 7): 1,
        (1, "p", None): -1,
        (1, "p", 9): 1,
    }
    assert changes_at(joins, "full_") == {**changes_at(joins, "left_"), (3, None, 7): -1}


def test_null_keys_never_find_a_partner(joins: tm.Database) -> None:
    with joins.transaction() as tx:
        tx.insert("a", [(None, "p"), (None, "p")])
        tx.insert("b", [(None, 1)])
    assert changes_at(joins, "left_") == {(None, "p", None): 2}
    assert changes_at(joins, "full_") == {(None, "p", None): 2, (None, None, 1): 1}


def test_a_condition_of_on_decides_about_partners_not_about_rows(joins: tm.Database) -> None:
    with joins.transaction() as tx:
        tx.insert("a", [(1, "ppp"), (1, "p")])
        tx.insert("b", [(1, 2)])
    assert changes_at(joins, "narrow") == {(1, "ppp", None): 1, (1, "p", 2): 1}
    joins.execute("UPDATE b SET y = 4")
    assert changes_at(joins, "narrow") == {(1, "ppp", None): -1, (1, "ppp", 4): 1, (1, "p", 2): -1, (1, "p", 4): 1}


def test_an_update_of_the_join_key_moves_the_padding(joins: tm.Database) -> None:
    with joins.transaction() as tx:
        tx.insert("a", [(1, "p"), (2, "q")])
        tx.insert("b", [(1, 5)])
    joins.execute("UPDATE b SET k = 2")
    assert changes_at(joins, "left_") == {(1, "p", 5): -1, (1, "p", None): 1, (2, "q", None): -1, (2, "q", 5): 1}


def test_changes_that_cancel_change_nothing(joins: tm.Database) -> None:
    joins.insert("a", [(1, "p")])
    with joins.transaction() as tx:
        tx.insert("b", [(1, 5)])
        assert rows(tx.query("SELECT * FROM left_")) == [(1, "p", 5)]
        tx.delete("b", [(1, 5)])
    assert changes_at(joins, "left_") == changes_at(joins, "full_") == {}


def test_padded_columns_can_be_null(joins: tm.Database) -> None:
    field = joins.query("SELECT y FROM left_").schema.field("y")
    assert field.nullable
    joins.execute("CREATE MATERIALIZED VIEW lonely AS SELECT k FROM left_ WHERE y IS NULL")
    joins.insert("a", [(1, "p")])
    assert changes_at(joins, "lonely") == {(1,): 1}
    joins.insert("b", [(1, 1)])
    assert changes_at(joins, "lonely") == {(1,): -1}


def test_using_and_natural_merge_columns(db: tm.Database) -> None:
    db.execute(
        """
        CREATE TABLE a (k INT, x INT); CREATE TABLE b (k BIGINT, y INT); CREATE TABLE c (k INT, z INT);
        CREATE MATERIALIZED VIEW v AS SELECT * FROM a FULL JOIN b USING (k) NATURAL FULL JOIN c;
        CREATE MATERIALIZED VIEW w AS SELECT k, a.k AS ak, b.k AS bk FROM a RIGHT JOIN b USING (k);
        """
    )
    with db.transaction() as tx:
        tx.insert("a", [(1, 10), (None, 11)])
        tx.insert("b", [(2, 20)])
        tx.insert("c", [(1, 30), (2, 31), (3, 32)])
    assert rows(db.query("SELECT * FROM v")) == [
        (None, 11, None, None),
        (1, 10, None, 30),
        (2, None, 20, 31),
        (3, None, None, 32),
    ]
    assert str(db.query("SELECT * FROM v").schema.field("k").type) == "int64"
    assert rows(db.query("SELECT * FROM w")) == [(2, None, 2)]


def test_views_on_chains_of_outer_joins(db: tm.Database) -> None:
    db.execute(
        """
        CREATE TABLE a (k INT); CREATE TABLE b (k INT, m INT); CREATE TABLE c (m INT, n INT); CREATE TABLE d (n INT);
        CREATE MATERIALIZED VIEW chain AS
            SELECT a.k, b.m, c.n, d.n AS last FROM a
            LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.m = c.m LEFT JOIN d ON c.n = d.n;
        CREATE MATERIALIZED VIEW lengths AS SELECT k, COUNT(m) AS ms, COUNT(last) AS ends FROM chain GROUP BY k;
        """
    )
    db.insert("a", [(1,), (2,)])
    assert changes_at(db, "lengths") == {(1, 0, 0): 1, (2, 0, 0): 1}
    with db.transaction() as tx:
        tx.insert("b", [(1, 5)])
        tx.insert("c", [(5, 7)])
        tx.insert("d", [(7,), (7,)])
    assert changes_at(db, "chain") == {(1, None, None, None): -1, (1, 5, 7, 7): 2}
    assert changes_at(db, "lengths") == {(1, 0, 0): -1, (1, 2, 2): 1}
    db.execute("DELETE FROM c")
    assert changes_at(db, "chain") == {(1, 5, 7, 7): -2, (1, 5, None, None): 1}
    assert changes_at(db, "lengths") == {(1, 2, 2): -1, (1, 1, 0): 1}


def test_a_condition_that_fails_is_asked_of_real_pairs_only(db: tm.Database) -> None:
    db.execute(
        """
        CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT);
        CREATE MATERIALIZED VIEW v AS SELECT a.k, x, y FROM a LEFT JOIN b ON a.k = b.k AND x / y > 1;
        """
    )
    with db.transaction() as tx:
        tx.insert("a", [(1, 6), (2, 6)])
        tx.insert("b", [(1, 2), (3, 0)])
    assert changes_at(db, "v") == {(1, 6, 2): 1, (2, 6, None): 1}
    with db.transaction() as tx:  # the pair that would fail comes and goes within the transaction
        tx.insert("a", [(3, 1)])
        tx.delete("b", [(3, 0)])
    assert changes_at(db, "v") == {(3, 1, None): 1}
    with pytest.raises(tm.TidemarkError) as caught:
        db.insert("b", [(2, 0)])
    assert caught.value.code == "division_by_zero"
