"""External views, on every engine: nothing of them is stored, and their changes are exact."""

from __future__ import annotations

import random

import pytest

import tidemark as tm
from tests.support import bag_of, changes_at
from tidemark import TidemarkError

SPARK_VARIANTS = ("spark",)
TABLES = "CREATE TABLE r (k INT, g INT, x INT); CREATE TABLE s (k INT, y VARCHAR)"
QUERIES = {
    "join": "SELECT r.k, x, y FROM r JOIN s ON r.k = s.k WHERE x > 1",
    "group": "SELECT g, COUNT(*) AS n, SUM(x) AS total, MIN(x) AS low FROM r GROUP BY g",
    "outer": "SELECT r.k, y FROM r LEFT JOIN s ON r.k = s.k",
    "minus": "SELECT k FROM r EXCEPT ALL SELECT k FROM s",
    "anti": "SELECT k, x FROM r WHERE k NOT IN (SELECT k FROM s WHERE k IS NOT NULL)",
    "window": "SELECT k, g, x, RANK() OVER (PARTITION BY g ORDER BY x) AS place FROM r",
    "first": "SELECT k, x FROM r ORDER BY x DESC LIMIT 3",
    "having": "SELECT y, COUNT(DISTINCT g) AS n FROM r JOIN s ON r.k = s.k GROUP BY y HAVING COUNT(*) > 1",
    "grouped twice": "SELECT n, COUNT(*) AS m FROM (SELECT g, COUNT(*) AS n FROM r GROUP BY g) AS q GROUP BY n",
}


@pytest.mark.parametrize("name", list(QUERIES))
def test_the_changes_are_those_of_the_materialized_view(db: tm.Database, name: str, engine: str) -> None:
    db.execute(TABLES)
    db.execute("INSERT INTO r VALUES (1, 1, 5), (2, 1, 7), (3, 2, 7); INSERT INTO s VALUES (1, 'a'), (4, 'b')")
    db.execute(f"CREATE MATERIALIZED VIEW m AS {QUERIES[name]}; CREATE EXTERNAL VIEW e AS {QUERIES[name]}")
    assert changes_at(db, "e") == dict(bag_of(db.query("SELECT * FROM m")))
    chance = random.Random(name)
    for _ in range(2 if "spark" in engine else 12):
        with db.transaction() as tx:
            for _ in range(chance.randint(1, 3)):
                key, text = chance.choice([None, 1, 2, 3, 4]), chance.choice([None, "a", "b"])
                match chance.randrange(4):
                    case 0:
                        tx.insert("r", [(key, chance.randint(1, 3), chance.choice([None, 1, 2, 9]))])
                    case 1:
                        tx.insert("s", [(key, text)])
                    case 2:
                        tx.execute(f"DELETE FROM r WHERE k = {chance.randint(1, 4)}")
                    case 3:
                        tx.execute(f"UPDATE s SET y = 'c' WHERE k = {chance.randint(1, 4)}")
            assert bag_of(tx.query("SELECT * FROM e")) == bag_of(tx.query("SELECT * FROM m"))
        assert changes_at(db, "e") == changes_at(db, "m")
        assert bag_of(db.query("SELECT * FROM e")) == bag_of(db.query("SELECT * FROM m"))


def test_all_changes_sum_up_from_any_version(db: tm.Database) -> None:
    db.execute(f"{TABLES}; INSERT INTO r VALUES (1, 1, 1)")
    db.execute("CREATE EXTERNAL VIEW e AS SELECT g, SUM(x) AS total FROM r GROUP BY g")
    db.execute("INSERT INTO r VALUES (2, 1, 2); INSERT INTO r VALUES (3, 2, 3); DELETE FROM r WHERE k = 1")
    found = db.changes("e").to_pylist()
    assert [(row["g"], row["total"], row["_version"], row["_weight"]) for row in found if row["_version"] == 4] == [
        (1, 1, 4, 1)
    ]
    assert sum(row["_weight"] for row in found) == 2
    with db.subscribe("e") as changes:
        first = changes.poll()
        assert first is not None and bag_of(first.inserted) == {(1, 2): 1, (2, 3): 1}
        db.execute("DELETE FROM r WHERE g = 2")
        second = changes.poll()
        assert second is not None and bag_of(second.deleted) == {(2, 3): 1} and not second.inserted.num_rows


def test_views_on_an_external_view_and_its_end(db: tm.Database) -> None:
    db.execute(f"{TABLES}; CREATE EXTERNAL VIEW e AS SELECT g, SUM(x) AS total FROM r GROUP BY g")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT total, COUNT(*) AS n FROM e GROUP BY total")
    db.execute("INSERT INTO r VALUES (1, 1, 4), (2, 2, 4)")
    assert changes_at(db, "m") == {(4, 2): 1}
    assert db.audit("e").num_rows == 0
    with pytest.raises(TidemarkError, match="is needed by m"):
        db.execute("DROP VIEW e")
    db.execute("DROP VIEW m; DROP VIEW e")
    db.execute("INSERT INTO r VALUES (3, 3, 3)")
    with pytest.raises(TidemarkError, match="there is no relation 'e'"):
        db.changes("e")


def test_a_change_that_cannot_matter_is_not_derived(db: tm.Database) -> None:
    db.execute(f"{TABLES}; CREATE EXTERNAL VIEW e AS SELECT k FROM r WHERE x > 100")
    db.execute("INSERT INTO r VALUES (1, 1, 1)")
    [step] = db.trace(db.version).to_pylist()
    assert (step["node"], step["strategy"], step["rows_filtered"]) == ("e", "irrelevant", 1)


def test_replaced_and_declared_anew(db: tm.Database) -> None:
    db.execute(f"{TABLES}; CREATE EXTERNAL VIEW e AS SELECT k FROM r; INSERT INTO r VALUES (1, 1, 1), (2, 2, 2)")
    db.execute("CREATE OR REPLACE EXTERNAL VIEW e AS SELECT k FROM r WHERE g = 2")
    assert changes_at(db, "e") == {(1,): -1}
    db.execute("CREATE OR REPLACE EXTERNAL VIEW e AS SELECT k, g FROM r WHERE g = 2")
    assert changes_at(db, "e") == {(2, 2): 1}
    with pytest.raises(TidemarkError, match="has no strategy"):
        db.execute("CREATE EXTERNAL VIEW f WITH (strategy = 'complete') AS SELECT k FROM r")


def test_changes_beside_definitions_in_one_transaction(db: tm.Database) -> None:
    db.execute(f"{TABLES}; CREATE EXTERNAL VIEW e AS SELECT g, COUNT(*) AS n FROM r GROUP BY g")
    db.execute("BEGIN; CREATE TABLE other (a INT); INSERT INTO r VALUES (1, 1, 1); COMMIT")
    assert changes_at(db, "e") == {(1, 1): 1}
    db.execute("BEGIN; CREATE EXTERNAL VIEW f AS SELECT k FROM r; INSERT INTO r VALUES (2, 1, 1); COMMIT")
    assert changes_at(db, "e") == {(1, 2): 1, (1, 1): -1}
    assert changes_at(db, "f") == {(1,): 1, (2,): 1}
    db.execute("BEGIN; ALTER TABLE r ADD COLUMN z INT; INSERT INTO r VALUES (3, 1, 1, 1); COMMIT")
    assert changes_at(db, "e") == {(1, 3): 1, (1, 2): -1}
    assert changes_at(db, "f") == {(3,): 1}


def test_another_meaning_below_is_a_change(db: tm.Database) -> None:
    db.execute(f"{TABLES}; CREATE VIEW p AS SELECT k FROM r WHERE g > 1; CREATE EXTERNAL VIEW e AS SELECT k FROM p")
    db.execute("CREATE EXTERNAL VIEW n AS SELECT COUNT(*) AS n FROM e")
    db.execute("INSERT INTO r VALUES (1, 1, 1), (2, 2, 2)")
    with db.subscribe("e", since=db.version) as changes:
        db.execute(
            "BEGIN; CREATE OR REPLACE VIEW p AS SELECT k FROM r WHERE g > 0; INSERT INTO r VALUES (3, 3, 3); COMMIT"
        )
        assert changes_at(db, "e") == {(1,): 1, (3,): 1}
        assert changes_at(db, "n") == {(1,): -1, (3,): 1}
        told = changes.poll()
        assert told is not None and bag_of(told.inserted) == {(1,): 1, (3,): 1}
    db.execute("DELETE FROM r WHERE k = 1")
    assert changes_at(db, "e") == {(1,): -1}
    db.execute("CREATE OR REPLACE EXTERNAL VIEW e AS SELECT k FROM r WHERE k = 2")
    assert changes_at(db, "e") == {(3,): -1}
    assert changes_at(db, "n") == {(2,): -1, (1,): 1}


def test_its_changes_are_events(db: tm.Database) -> None:
    db.execute(f"{TABLES}; CREATE TABLE seen (g INT)")
    db.execute("CREATE EXTERNAL VIEW e AS SELECT g, COUNT(*) AS n FROM r GROUP BY g")
    db.execute(
        "CREATE RULE born ON INSERT ON e WHEN SELECT g FROM inserted DO INSERT INTO seen SELECT g FROM condition"
    )
    db.execute("ACTIVATE RULE born; INSERT INTO r VALUES (1, 1, 1), (2, 2, 2); INSERT INTO r VALUES (3, 2, 2)")
    assert bag_of(db.query("SELECT * FROM seen")) == {(1,): 1, (2,): 1}
    reason = db.classify("e", "INSERT INTO r VALUES (4, 4, 4)").reason
    assert reason == "e is not stored: its change is derived from its tables"
