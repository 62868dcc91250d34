"""Views at the client: evaluated there from changes of tables, or held there; always the server's answer."""

from __future__ import annotations

import random

import pytest

import tidemark as tm
from tests.support import bag_of, rows
from tidemark.client import LocalView, ViewHolder, ViewSource

SETUP = """
CREATE TABLE customer (id INT PRIMARY KEY, region VARCHAR NOT NULL, note VARCHAR);
CREATE TABLE sale (id INT PRIMARY KEY, customer INT, amount INT, note VARCHAR);
CREATE MATERIALIZED VIEW joined AS SELECT s.id, c.region, s.amount FROM sale s JOIN customer c ON c.id = s.customer
    WHERE s.amount > 20 AND c.region <> 'east';
CREATE MATERIALIZED VIEW regions AS SELECT region, COUNT(*) AS n, SUM(amount) AS total, MAX(amount) AS most
    FROM joined GROUP BY region;
CREATE VIEW large AS SELECT id, customer FROM sale WHERE amount > 50;
CREATE MATERIALIZED VIEW padded AS SELECT c.id, l.id AS sale FROM customer c LEFT JOIN large l ON l.customer = c.id;
CREATE MATERIALIZED VIEW few AS SELECT DISTINCT region FROM customer WHERE id IN (SELECT customer FROM sale);
"""
VIEWS = ("joined", "regions", "padded", "few")


def filled() -> tm.Database:
    db = tm.connect("duckdb")
    db.execute(SETUP)
    db.insert("customer", [(i, ("north", "south", "east")[i % 3], "n" * 20) for i in range(30)])
    db.insert("sale", [(i, i % 40, (i * 7) % 90, "s" * 50) for i in range(300)])
    return db


def change(db: tm.Database, chance: random.Random) -> None:
    some = chance.randrange(400)
    match chance.randrange(6):
        case 0:
            db.execute(f"DELETE FROM sale WHERE id = {some}")
        case 1:
            db.execute(f"UPDATE sale SET amount = amount + {some % 30} WHERE id % 17 = {some % 17}")
        case 2:
            db.execute(f"UPDATE customer SET region = 'west' WHERE id = {some % 30}")
        case 3:
            db.execute(f"UPDATE sale SET note = 'other' WHERE id < {some}")
        case 4:
            with db.transaction() as tx:
                tx.execute(f"DELETE FROM customer WHERE id = {some % 30}")
                tx.insert("sale", [(1000 + db.version, some % 30, some % 90, None)])
        case _:
            db.execute(f"INSERT INTO sale VALUES ({2000 + db.version}, {some % 30}, {some % 90}, 'new')")


@pytest.mark.parametrize("view", VIEWS)
def test_a_local_view_and_a_holder_have_the_answer_of_the_server(view: str) -> None:
    chance = random.Random(view)
    with filled() as db:
        source = ViewSource(db, view)
        local, holder = LocalView(source.first()), ViewHolder(source.state())
        for _ in range(12):
            for _ in range(chance.randrange(1, 4)):
                change(db, chance)
            before = bag_of(local.content)
            applied = local.apply(source.changes(since=local.tidemark))
            holder.apply(source.refresh(since=holder.tidemark))
            expected = bag_of(db.query(f"SELECT * FROM {view}"))
            assert bag_of(local.content) == expected and bag_of(holder.content) == expected
            assert before + bag_of(applied.inserted) - bag_of(applied.deleted) == expected
            assert local.tidemark == holder.tidemark == db.version
        assert local.received + holder.received == sum(source.shipped.values())
        local.close()


def test_what_does_not_matter_is_not_shipped() -> None:
    with filled() as db:
        source = ViewSource(db, "joined")
        local = LocalView(source.first())
        db.execute("UPDATE sale SET note = 'x'; INSERT INTO sale VALUES (9999, 1, 3, 'too little')")
        quiet = source.changes(since=local.tidemark)
        assert len(quiet) < 40 and local.apply(quiet).inserted.num_rows == 0
        assert local.tidemark == db.version


def test_the_fewest_bytes_are_shipped() -> None:
    """Table 7.1: nothing, a statement, net changes, or the new state."""
    db = tm.connect("duckdb")
    db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL, c INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t WHERE b > 10")
    db.insert("t", [(i, i % 100, i) for i in range(3000)])
    source = ViewSource(db, "v")
    holder = ViewHolder(source.state())
    kinds = []
    for sql in (
        "UPDATE t SET c = 5",
        "DELETE FROM t WHERE b > 60",
        "INSERT INTO t VALUES (9000, 50, 1)",
        "DELETE FROM t WHERE c = 5 AND a < 3000 AND a > 2950",
        "DELETE FROM t WHERE a > 20",
    ):
        db.execute(sql)
        kinds.append(holder.apply(source.refresh(since=holder.tidemark)))
        assert bag_of(holder.content) == bag_of(db.query("SELECT * FROM v"))
    assert kinds == ["nothing", "statements", "statements", "changes", "statements"]
    db.execute("DELETE FROM t WHERE a > 12; INSERT INTO t VALUES (9001, 77, 1)")
    db.sync("t", [(1, 99, None)])
    assert set(source.choices(since=holder.tidemark)) == {"changes", "state"}, "sync is no statement"
    kinds.append(holder.apply(source.refresh(since=holder.tidemark)))
    assert (kinds[-1], rows(holder.content)) == ("state", [(1, 99)])


def test_what_cannot_be_local_is_refused() -> None:
    with filled() as db:
        db.execute("CREATE TABLE e (at TIMESTAMP)")
        db.execute("CREATE MATERIALIZED VIEW recent AS SELECT at FROM e WHERE at > NOW() - INTERVAL '1 day'")
        for name, code in (("sale", "not_a_view"), ("large", "not_materialized"), ("recent", "unsupported")):
            with pytest.raises(tm.TidemarkError) as error:
                ViewSource(db, name)
            assert error.value.code == code
        source = ViewSource(db, "joined")
        with pytest.raises(tm.TidemarkError):
            LocalView(source.state())
        with pytest.raises(tm.TidemarkError):
            ViewHolder(source.first())
