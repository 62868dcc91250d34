"""Sharing undoes neither relevance nor autonomy: what nobody needs of a shared join is not derived, on any engine."""

from __future__ import annotations

from typing import Any

import pytest

import tidemark as tm
from tests.support import changes_at, rows

SPARK_VARIANTS = ("spark",)
Steps = dict[str, tuple[str, int]]
JOINED = "SELECT a.i, a.x, b.k, b.y FROM a JOIN b ON a.k = b.k WHERE a.x > {}"
OTHERS = {
    "view": "CREATE MATERIALIZED VIEW other AS {}",
    "external": "CREATE EXTERNAL VIEW other AS {}",
    "rule": "CREATE RULE other WHEN {} DO INSERT INTO log SELECT i FROM condition; ACTIVATE RULE other",
    "event": "CREATE RULE other ON INSERT ON a WHEN {} DO INSERT INTO log SELECT i FROM condition; ACTIVATE RULE other",
    "assertion": "CREATE ASSERTION other CHECK (NOT EXISTS ({} AND b.y < 0))",
    "grouping": "CREATE MATERIALIZED VIEW other AS SELECT k, SUM(x) AS n FROM ({}) q GROUP BY k",
}


def with_rows(db: tm.Database) -> tm.Database:
    db.execute("""CREATE TABLE a (i INT PRIMARY KEY, k INT, x INT); CREATE TABLE b (k INT PRIMARY KEY, y INT);
        CREATE TABLE log (i INT)""")
    with db.transaction() as tx:
        tx.insert("a", [(i, i % 50, 90 + i) for i in range(60)])
        tx.insert("b", [(k, 10 * k) for k in range(50)])
    return db


def steps(db: tm.Database) -> Steps:
    """What was done for each node in the last transaction, and how many rows were read for it."""
    trace: list[dict[str, Any]] = db.trace(db.version).to_pylist()
    return {step["node"].partition("-")[0]: (step["strategy"], step["rows_read"]) for step in trace}


def rows_read(db: tm.Database) -> int:
    return sum(count for _, count in steps(db).values())


@pytest.mark.parametrize("first", ["view", "rule", "external"])
@pytest.mark.parametrize("second", sorted(OTHERS))
def test_what_is_irrelevant_to_all_that_share_a_join_reads_nothing(db: tm.Database, first: str, second: str) -> None:
    with_rows(db).execute(OTHERS[first].replace("other", "first").format(JOINED.format(100)))
    db.execute(OTHERS[second].format(JOINED.format(101)))
    db.execute("INSERT INTO a VALUES (100, 1, 5)")
    assert rows_read(db) == 0 and {strategy for strategy, _ in steps(db).values()} <= {"irrelevant"}
    db.execute("DELETE FROM a WHERE x < 95")
    assert rows_read(db) == 0


@pytest.mark.parametrize("statement", ["DELETE FROM a WHERE i = 20", "UPDATE a SET x = x + 1 WHERE i = 30"])
@pytest.mark.parametrize("count", [2, 3, 16])
@pytest.mark.small
def test_views_that_follow_alone_do_so_when_others_have_their_join(db: tm.Database, statement: str, count: int) -> None:
    with_rows(db)
    for number in range(count):
        db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {JOINED.format(100 + number)}")
    db.execute(statement)
    found = steps(db)
    assert rows_read(db) == 0
    assert found["v0/shared"] == ("autonomous", 0)
    assert {found[f"v{number}"][0] for number in range(5) if number < count} == {"autonomous"}
    assert sum(changes_at(db, "v1").values()) == (-1 if "DELETE" in statement else 0)
    assert len(changes_at(db, "v1")) == (1 if "DELETE" in statement else 2)


@pytest.mark.small
def test_a_shared_join_is_derived_when_one_that_reads_it_cannot_do_without(db: tm.Database) -> None:
    with_rows(db).execute(f"CREATE MATERIALIZED VIEW v AS {JOINED.format(100)}")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT a.x, b.y FROM a JOIN b ON a.k = b.k WHERE a.x > 110")
    db.execute("DELETE FROM a WHERE i = 15")  # in v, and not in w, which shows no key
    assert rows_read(db) == 0 and steps(db)["v"][0] == "autonomous"
    db.execute("DELETE FROM a WHERE i = 25")
    assert steps(db)["v/shared"][0] == "differential"
    assert changes_at(db, "v") == {(25, 115, 25, 250): -1} and changes_at(db, "w") == {(115, 250): -1}
    with db.transaction() as tx:
        tx.execute("DELETE FROM a WHERE i = 35; UPDATE b SET y = 1 WHERE k = 36; INSERT INTO a VALUES (200, 2, 200)")
    assert steps(db)["v/shared"][0] == "differential"
    assert changes_at(db, "w") == {(125, 350): -1, (126, 360): -1, (126, 1): 1, (200, 20): 1}


def test_an_assertion_over_a_shared_join_is_looked_at_when_it_may_be_violated(db: tm.Database) -> None:
    with_rows(db).execute(f"CREATE MATERIALIZED VIEW v AS {JOINED.format(100)}")
    db.execute(OTHERS["assertion"].format(JOINED.format(100)))
    db.execute("DELETE FROM a WHERE i = 20")
    assert rows_read(db) == 0
    with pytest.raises(tm.TidemarkError, match="other"):
        db.execute("UPDATE b SET y = -1 WHERE k = 30")
    with pytest.raises(tm.TidemarkError, match="other"):
        db.execute("BEGIN; DELETE FROM a WHERE i = 21; UPDATE b SET y = -1 WHERE k = 30; COMMIT")


def test_a_rule_reads_nothing_of_a_shared_join_before_it_is_asked(db: tm.Database) -> None:
    with_rows(db).execute(f"CREATE MATERIALIZED VIEW v AS {JOINED.format(100)}")
    db.execute(OTHERS["rule"].format(JOINED.format(100)))
    db.execute("DELETE FROM a WHERE i = 20")
    assert rows_read(db) == 0 and steps(db)["v"][0] == "autonomous"
    assert rows(db.query("SELECT * FROM log")) == []
    db.execute("UPDATE a SET k = 3 WHERE i = 40")
    assert steps(db)["v/shared"][0] == "differential"
    assert rows(db.query("SELECT * FROM log")) == [(40,)]
