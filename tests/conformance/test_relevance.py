"""Changes of columns that a view does not read, on every engine: they end where nothing of them matters."""

from __future__ import annotations

import pytest

import tidemark as tm
from tests.support import changes_at, rows

Steps = dict[str, str]


@pytest.fixture
def shop(db: tm.Database) -> tm.Database:
    db.execute(
        """
        CREATE TABLE customer (id INT PRIMARY KEY, region VARCHAR, balance INT, note VARCHAR);
        CREATE TABLE sale (customer INT, amount INT, note VARCHAR);
        CREATE MATERIALIZED VIEW by_region AS
          SELECT region, SUM(amount) AS total FROM customer JOIN sale ON customer.id = sale.customer GROUP BY region;
        CREATE MATERIALIZED VIEW customers AS SELECT COUNT(*) AS n FROM customer;
        CREATE MATERIALIZED VIEW listed AS SELECT * FROM customer;
        CREATE MATERIALIZED VIEW joined AS SELECT region, amount FROM customer, sale WHERE id = customer AND balance > 5
        """
    )
    with db.transaction() as tx:
        tx.insert("customer", [(1, "north", 10, "a"), (2, "south", 3, "b"), (3, None, 7, None)])
        tx.insert("sale", [(1, 5, "x"), (1, 5, "y"), (2, 8, None), (3, 1, "z")])
    return db


def steps(db: tm.Database) -> Steps:
    """The strategy of each node in the last transaction. The join is shared by two views, and named after the first."""
    return {step["node"].partition("-")[0]: step["strategy"] for step in db.trace(db.version).to_pylist()}


def test_an_update_of_a_column_that_nobody_reads_is_irrelevant(shop: tm.Database) -> None:
    shop.execute("UPDATE customer SET note = 'changed'")
    assert steps(shop) == {
        "by_region/shared": "irrelevant",
        "customers/counts": "irrelevant",
        "listed": "autonomous",
    }
    reasons = {step["node"].partition("/")[0]: step["reason"] for step in shop.trace(shop.version).to_pylist()}
    assert reasons["by_region"] == "no column that it reads changed: customer"
    assert changes_at(shop, "by_region") == changes_at(shop, "joined") == changes_at(shop, "customers") == {}
    assert len(changes_at(shop, "listed")) == 6


@pytest.mark.small
def test_a_column_that_only_a_condition_reads_matters(shop: tm.Database) -> None:
    shop.execute("UPDATE customer SET balance = balance + 3")
    assert steps(shop) == {
        "by_region/shared": "differential",
        "by_region/counts": "irrelevant",
        "customers/counts": "irrelevant",
        "joined": "differential",
        "listed": "autonomous",
    }
    assert changes_at(shop, "joined") == {("south", 8): 1}


def test_what_matters_goes_on_beside_what_does_not(shop: tm.Database) -> None:
    with shop.transaction() as tx:
        tx.execute("UPDATE customer SET note = 'changed' WHERE id < 3")
        tx.execute("UPDATE customer SET region = 'west' WHERE id = 3")
        tx.execute("UPDATE sale SET note = 'changed'")
        tx.execute("INSERT INTO sale VALUES (1, 100, NULL), (3, 9, NULL)")
    assert changes_at(shop, "by_region") == {
        ("north", 10): -1,
        ("north", 110): 1,
        (None, 1): -1,
        ("west", 10): 1,
    }
    assert rows(shop.query("SELECT n FROM customers")) == [(3,)]


def test_rows_that_trade_places_cancel_in_the_columns_that_are_read(shop: tm.Database) -> None:
    """One row goes and another one comes that is the same to the view: equal rows count, not which rows they are."""
    with shop.transaction() as tx:
        tx.execute("DELETE FROM sale WHERE note = 'x'")
        tx.execute("INSERT INTO sale VALUES (1, 5, 'new')")
    assert steps(shop) == {"by_region/shared": "irrelevant"}


def test_more_rows_matter_to_a_count(shop: tm.Database) -> None:
    with shop.transaction() as tx:
        tx.execute("DELETE FROM customer WHERE id = 2")
        tx.execute("INSERT INTO customer VALUES (4, 'north', 0, 'd'), (5, 'north', 0, 'e')")
    assert changes_at(shop, "customers") == {(3,): -1, (4,): 1}


@pytest.mark.parametrize("count", [2, 3, 40])
def test_sharing_a_join_undoes_no_relevance(db: tm.Database, count: int) -> None:
    db.execute("CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT)")
    with db.transaction() as tx:
        tx.insert("a", [(i, 100 + i) for i in range(50)])
        tx.insert("b", [(i % 50, i) for i in range(500)])
        for number in range(count):
            tx.execute(
                f"CREATE MATERIALIZED VIEW v{number} AS "
                f"SELECT a.x, b.y FROM a JOIN b ON a.k = b.k WHERE a.x > {100 + number}"
            )
    db.execute("INSERT INTO a VALUES (1, 5)")
    trace = db.trace(db.version).to_pylist()
    assert {step["strategy"] for step in trace} == {"irrelevant"}
    assert sum(step["rows_read"] for step in trace) == 0
    assert "can matter to anything that reads it" in trace[0]["reason"]
    db.execute("INSERT INTO a VALUES (1, 5), (1, 101), (NULL, 200)")
    assert changes_at(db, "v0") == {(101, y): 1 for y in range(1, 500, 50)}
    assert changes_at(db, "v1") == {}
    db.execute("UPDATE a SET x = 99 WHERE x = 101 OR x = 5")
    assert changes_at(db, f"v{count - 1}") == {}
    assert changes_at(db, "v0") == {(101, y): -2 for y in range(1, 500, 50)}
