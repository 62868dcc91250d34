"""Views at the client: evaluated there from changes of tables, or held there; always the server's answer."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable

import pytest

import tidemark as tm
from tests.support import bag_of, rows
from tidemark.client import LocalView, ViewHolder, ViewSource
from tidemark.client import texts as heard
from tidemark.client.messages import Message

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


def test_statements_are_known_whoever_runs_them() -> None:
    """By the database, in transactions, by other threads; what was no statement, or set off a rule, is not."""
    with filled() as db:
        source = ViewSource(db, "joined")

        def known(action: Callable[[], object]) -> bool:
            since = db.version
            action()
            return "statements" in source.local_choices(since)

        def within() -> None:
            with db.transaction() as tx:
                tx.execute("DELETE FROM sale WHERE amount = 49; DELETE FROM customer WHERE id = 4")
                tx.execute("UPDATE sale SET id = id + 1000 WHERE amount = 28")

        def mixed() -> None:
            with db.transaction() as tx:
                tx.execute("DELETE FROM sale WHERE amount = 63")
                tx.insert("sale", [(7001, 1, 30, None)])

        def elsewhere() -> None:
            thread = threading.Thread(target=db.execute, args=("DELETE FROM sale WHERE amount = 56",))
            thread.start()
            thread.join()

        assert known(lambda: db.execute("DELETE FROM sale WHERE amount = 42"))
        assert known(lambda: db.execute("BEGIN; DELETE FROM sale WHERE amount = 35; COMMIT"))
        assert known(within) and known(elsewhere)
        assert not known(mixed)
        assert not known(lambda: db.insert("sale", [(7002, 1, 30, None)]))
        assert not known(lambda: db.delete("sale", [(7002, 1, 30, None)]))
        db.execute("CREATE TABLE other (a INT)")
        db.execute("CREATE RULE r ON INSERT ON other DO DELETE FROM sale WHERE amount = 70; ACTIVATE RULE r")
        assert known(lambda: db.execute("DELETE FROM sale WHERE amount = 77"))
        assert not known(lambda: db.execute("INSERT INTO other VALUES (1)"))


def test_what_is_heard_is_bounded_and_forgotten_with_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heard, "MOST_CHARACTERS", 200)
    with filled() as db:
        source = ViewSource(db, "joined")
        start = db.version
        for amount in range(21, 40):
            db.execute(f"DELETE FROM sale WHERE amount = {amount}")
        kept = source._origin.heard
        assert sum(one.size for one in kept._said) <= 200 and kept.since(start) is None
        assert "statements" in source.local_choices(db.version - 4)
        assert "statements" not in source.local_choices(start)
        assert len(db._store.events.hearers) == 1
        del source, kept
        gc.collect()
        assert len(db._store.events.hearers) == 0


def test_a_statement_does_nothing_to_columns_that_are_not_held() -> None:
    """An UPDATE of held and other columns sets the held ones; one of others alone is not shipped."""
    with filled() as db:
        source = ViewSource(db, "joined")
        local = LocalView(source.first())
        db.execute("UPDATE sale SET id = id + 1000, note = 'x' WHERE amount > 50; UPDATE customer SET note = 'y'")
        statements = source.local_choices(local.tidemark)["statements"]
        local.apply(statements)
        assert bag_of(local.content) == bag_of(db.query("SELECT * FROM joined"))
        held = local._db.query("SELECT note FROM sale UNION ALL SELECT note FROM customer")
        assert set(held["note"].to_pylist()) == {None}
        assert Message.of_bytes(statements).more["sql"] == [
            "UPDATE sale SET id = id + 1000, note = 'x' WHERE amount > 50"
        ]
        local.close()


def test_defaults_and_columns_that_a_local_view_does_not_know() -> None:
    """A statement that means something else there, or nothing, is not shipped as a statement."""
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT, b INT DEFAULT 7, c INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t")
        source = ViewSource(db, "v")
        local = LocalView(source.first())
        for sql, ships in (
            ("INSERT INTO t (a) VALUES (1)", False),
            ("INSERT INTO t (a, b) VALUES (2, 8)", True),
            ("ALTER TABLE t ADD COLUMN d INT DEFAULT 4", False),
            ("INSERT INTO t (a, b) VALUES (3, 9)", True),
            ("INSERT INTO t VALUES (4, 10, 1, 1)", False),
            ("UPDATE t SET a = d WHERE b = 8", False),
            ("UPDATE t SET d = 5", False),
            ("UPDATE t SET a = b WHERE a > 2", True),
        ):
            db.execute(sql)
            assert ("statements" in source.local_choices(local.tidemark)) == ships, sql
            local.apply(source.changes(local.tidemark))
            assert bag_of(local.content) == bag_of(db.query("SELECT * FROM v")), sql
        local.close()


def test_the_embedded_log_of_a_local_view_stays_short() -> None:
    with filled() as db:
        source = ViewSource(db, "regions")
        local = LocalView(source.first())
        for number in range(60):
            db.execute(f"INSERT INTO sale VALUES ({5000 + number}, 1, 50, NULL)")
            local.apply(source.changes(local.tidemark))
        log = local._db.execute("SHOW LOG")
        assert log is not None and max(log["versions"].to_pylist()) < 30
        local.close()


@pytest.mark.parametrize(
    "definition",
    [
        "CREATE EXTERNAL VIEW w AS SELECT region, COUNT(*) AS n FROM joined GROUP BY region",
        "CREATE MATERIALIZED VIEW w WITH (refresh = 'on read') AS SELECT id, amount FROM sale WHERE amount > 70",
        "CREATE MATERIALIZED VIEW w (x, y), z (x) AS DATALOG $$ z(x) :- sale(i, x, a, n), a > 80. "
        "w(x, y) :- z(x), customer(x, y, _). $$",
        "CREATE MATERIALIZED VIEW w AS SELECT 1 AS a, 'x' AS b",
        "CREATE SNAPSHOT w AS SELECT id, amount FROM sale WHERE amount > 70 REFRESH ON DEMAND",
    ],
)
def test_views_of_every_kind(definition: str) -> None:
    chance = random.Random(definition)
    with filled() as db:
        db.execute(definition)
        source, is_snapshot = ViewSource(db, "w"), "SNAPSHOT" in definition
        holder = ViewHolder(source.state())
        if is_snapshot:
            with pytest.raises(tm.TidemarkError, match="lags"):
                source.first()
        local = None if is_snapshot else LocalView(source.first())
        for number in range(8):
            change(db, chance)
            if is_snapshot and number % 3 == 0:
                db.refresh("w")
            holder.apply(source.refresh(since=holder.tidemark))
            expected = bag_of(db.query("SELECT * FROM w"))
            assert bag_of(holder.content) == expected
            if local is not None:
                local.apply(source.changes(since=local.tidemark))
                assert bag_of(local.content) == expected
        if local is not None:
            local.close()


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
