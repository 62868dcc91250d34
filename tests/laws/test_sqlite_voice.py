"""Views over a handful of rows against SQLite, which shares nothing with what keeps them true.

On small data the DuckDB engine leaves most to compiled steps, which share the table of functions with the reference
engine, so that a mistake there is made by both. SQLite reads the same text, of queries composed at random, and knows
neither our binder nor our functions nor DuckDB. It is not asked where its words mean something else.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

import tidemark as tm
from tests.effort import examples
from tests.hunt.sqlite_voice import SQLite
from tests.laws.random_queries import SCHEMA, TABLES, Queries, statement
from tests.oracle import same_bag
from tests.support import bag_of, changes_at, rows_in_order
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.reference import ReferenceEngine

HISTORIES = examples(10)
VIEWS, TRANSACTIONS, DEPTH = 4, 3, 1
FIXED = {
    "grouped": "SELECT a AS c0, COUNT(*) AS c1, SUM(b) AS c2, MIN(b) AS c3, MAX(b) AS c4 FROM r GROUP BY a",
    "whole": "SELECT COUNT(*) AS c0, SUM(b) AS c1 FROM r WHERE a > 0",
    "once": "SELECT DISTINCT a AS c0 FROM r",
    "joined": "SELECT r.b AS c0, s.c AS c1 FROM r JOIN s ON r.a = s.a WHERE r.b IS NOT NULL",
    "outer_joined": "SELECT r.b AS c0, s.c AS c1 FROM r LEFT JOIN s ON r.a = s.a",
    "less": "SELECT a AS c0 FROM r EXCEPT SELECT a AS c0 FROM s",
    "both": "SELECT a AS c0 FROM r INTERSECT SELECT a AS c0 FROM s",
    "all_of_both": "SELECT a AS c0 FROM r UNION ALL SELECT d AS c0 FROM t",
    "first": "SELECT a AS c0, b AS c1 FROM w ORDER BY a, b, c LIMIT 2",
    "numbered": "SELECT a AS c0, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, c) AS c1 FROM w",
    "unmatched": "SELECT a AS c0 FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
}
"""One view for each kind of node, so that each is met in every run."""


class Rig:
    """A database beside SQLite, which has copies of its tables and answers the texts of its views."""

    def __init__(self, db: tm.Database, choice: random.Random) -> None:
        self.db, self.choice, self.sqlite = db, choice, SQLite()
        self.views = dict(FIXED)
        db.execute(SCHEMA)
        self.sqlite.create(SCHEMA)
        for _ in range(VIEWS):
            self.views[f"v{len(self.views)}"] = Queries(choice).query(DEPTH)[0]
        for name, query in self.views.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.known = {name: bag_of(db.query(f"SELECT * FROM {name}")) for name in self.views}

    def change(self) -> None:
        with self.db.transaction() as transaction:
            for _ in range(self.choice.randint(1, 4)):
                transaction.execute(statement(self.choice))
        for table, columns in TABLES.items():
            self.sqlite.copy(table, rows_in_order(self.db.query(f"SELECT * FROM {table}")), len(columns))

    def check(self) -> None:
        for name, query in self.views.items():
            content = bag_of(self.db.query(f"SELECT * FROM {name}"))
            expected = self.sqlite.answer(query)
            assert expected is not None or name not in FIXED, f"SQLite does not understand {query}"
            if expected is not None:
                assert same_bag(content, expected), f"{name} AS {query}\nholds {content}\nshould be {expected}"
            change = Counter(content)
            change.subtract(self.known[name])
            self.known[name] = content
            assert changes_at(self.db, name) == {row: weight for row, weight in change.items() if weight}, name


@pytest.mark.parametrize("engine", [DuckDBEngine, ReferenceEngine])
def test_views_of_few_rows_hold_what_sqlite_says(engine: type[DuckDBEngine | ReferenceEngine]) -> None:
    answered = 0
    for seed in range(HISTORIES):
        with tm.Database(engine()) as db:
            rig = Rig(db, random.Random(seed))
            for _ in range(TRANSACTIONS):
                rig.change()
                rig.check()
            answered += rig.sqlite.answered
            rig.sqlite.close()
    # The fixed views always, and of the random ones at least half.
    assert answered >= HISTORIES * TRANSACTIONS * (len(FIXED) + VIEWS // 2)
