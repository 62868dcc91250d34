"""Differentials over kept results of the parts that did not change give what differentials over everything give."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

import tidemark as tm
from tests.laws.random_queries import SCHEMA, statement
from tests.support import bag_of
from tidemark.session import Database
from tidemark.strategy.shared import Terms

QUERIES = {
    "chain": "SELECT r.a, t.d FROM r, s, t WHERE r.a = s.a AND s.c = t.d",
    "star": "SELECT r.b, s.c, t.d FROM r, s, t WHERE r.a = s.a AND r.b = t.d AND s.c > 0",
    "cycle": "SELECT r.a FROM r, s, w WHERE r.a = s.a AND s.c = w.c AND w.b = r.b",
    "wide": "SELECT r.b, s.c, w.c AS e, t.d FROM r, s, w, t WHERE r.a = s.a AND s.c = w.b AND w.c = t.d AND t.d < 3",
    "twice": "SELECT x.a, y.b, s.c FROM r x, s, r y WHERE x.a = s.a AND s.c = y.b",
    "filtered": "SELECT r.a, w.b FROM r JOIN w ON r.a = w.a AND r.b < w.b WHERE w.c > 1",
    "grouped": "SELECT r.a, COUNT(*) AS n, SUM(t.d) AS d FROM r, s, t WHERE r.a = s.a AND s.c = t.d GROUP BY r.a",
    "product": "SELECT r.a, t.d FROM r, s, t WHERE s.c = t.d",
    "padded": "SELECT r.a, q.c FROM r LEFT JOIN (SELECT s.a, s.c FROM s, t WHERE s.c = t.d) q ON r.a = q.a",
    "missing": "SELECT r.a FROM r WHERE NOT EXISTS (SELECT 1 FROM s, t WHERE s.a = r.a AND s.c = t.d)",
    "failing": "SELECT r.a, 12 / (t.d + 100) AS q FROM r, s, t WHERE r.a = s.a AND s.c = t.d AND 7 / (s.c + 50) < 3",
}


FILLED = """
INSERT INTO s VALUES (0, 0), (1, 1), (2, 1), (2, 2), (NULL, 3), (3, 3);
INSERT INTO t VALUES (0), (1), (1), (2), (NULL), (9);
INSERT INTO w VALUES (0, 0, 0), (1, 1, 1), (2, 1, 2), (3, 2, 3), (1, NULL, 2);
"""


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@pytest.mark.parametrize("name", QUERIES)
def test_refreshes_over_kept_parts_are_exact(engine: str, name: str) -> None:
    choice, taken = random.Random(name), set[str]()
    with tm.connect(engine) as db:
        keep_all(db)
        db.execute(SCHEMA + FILLED)
        db.execute(f"CREATE SNAPSHOT snap WITH (strategy = 'incremental') AS {QUERIES[name]} REFRESH ON DEMAND")
        for _ in range(40):
            version = db.version
            db.execute(some_change(choice, choice.choice((*["r"] * 7, "any"))))
            db.refresh("snap")
            assert bag_of(db.query("SELECT * FROM snap")) == bag_of(db.query(QUERIES[name]))
            if db.version > version + 1:
                taken |= {reason.partition("kept result over ")[2] for step in steps(db) if (reason := step["reason"])}
    assert taken - {""}, "no refresh was over a kept part"


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_a_part_is_kept_where_it_pays(engine: str) -> None:
    """No look-up leads to the bands of an amount, so that all of them would be read at each refresh, where there is no
    memory to hold them."""
    with tm.connect(engine, memory=0) as db:
        db._continual.kept_parts.terms = Terms(worth_rows=100)
        db.execute("""
            CREATE TABLE sale (id INT PRIMARY KEY, amount INT);
            CREATE TABLE band (id INT PRIMARY KEY, low INT, high INT, kind INT);
            CREATE TABLE kind (id INT PRIMARY KEY, name VARCHAR);
            INSERT INTO kind VALUES (1, 'small'), (2, 'large');
        """)
        db.insert("band", [(i, 10 * i, 10 * i + 10, i) for i in range(200)])
        query = """SELECT s.id, k.name FROM sale s JOIN band b ON s.amount >= b.low AND s.amount < b.high
            JOIN kind k ON k.id = b.kind"""
        db.execute(f"CREATE SNAPSHOT named WITH (strategy = 'incremental') AS {query} REFRESH ON DEMAND")
        found = []
        for number in range(4):
            db.insert("sale", [(number, 15)])
            db.refresh("named")
            found.append(steps(db)[0])
        kept = "differentials: sale; with the kept result over band, kind, which did not change"
        assert [step["reason"] for step in found] == ["differentials: sale", kept, kept, kept]
        assert [step["rows_read"] for step in found] == [202, 0, 0, 0]
        db.execute("UPDATE kind SET name = 'tiny' WHERE id = 1")
        db.refresh("named")
        assert "kept" not in steps(db)[0]["reason"]
        assert set(db.query("SELECT name FROM named")["name"].to_pylist()) == {"tiny"}


def some_change(choice: random.Random, relation: str) -> str:
    if relation == "any":
        return statement(choice)
    a, b = choice.randint(0, 3), choice.randint(0, 3)
    return choice.choice(
        (f"INSERT INTO r VALUES ({a}, {b})", f"DELETE FROM r WHERE a = {a}", f"UPDATE r SET b = {b} WHERE a = {a}")
    )


def keep_all(db: Database) -> None:
    """Keep parts whether it pays or not."""
    db._continual.kept_parts.terms = Terms(worth_rows=0, share=1, in_reach=True)


def steps(db: Database) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = db.trace(db.version).to_pylist()
    return found
