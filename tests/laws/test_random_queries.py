"""Constructs composed at random, views upon views, through random transactions, against DuckDB's own evaluation.

``test_breadth.py`` and ``test_queries.py`` run over fixed lists of queries; here joins of all kinds, subqueries,
groupings, windows, set operations and LIMIT stand within each other as chance has it.
"""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.laws.random_queries import SCHEMA, TABLES, Queries, statement
from tests.support import DUCKDB_ENGINES, Bag, bag_of, changes_at, check_invariant
from tidemark.engines.duckdb.settings import configure

VIEWS, TRANSACTIONS, DEPTH = 2, 4, 2


class Rig:
    """A database beside DuckDB with the same tables and views; DuckDB's are plain views, evaluated when asked."""

    def __init__(self, db: tm.Database, choice: random.Random) -> None:
        self.db, self.choice, self.oracle = db, choice, duckdb.connect()
        self.oracle.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
        configure(self.oracle)
        self.oracle.execute(SCHEMA)
        db.execute(SCHEMA)
        self.relations, self.views = dict(TABLES), dict[str, str]()

    def change(self) -> None:
        statements = [statement(self.choice) for _ in range(self.choice.randint(1, 4))]
        with self.db.transaction() as transaction:
            for text in statements:
                transaction.execute(text)
        for text in statements:
            self.oracle.execute(text)

    def define(self) -> None:
        """Another view, of a query that DuckDB understands: it does not know all correlated subqueries."""
        name = f"v{len(self.views)}"
        while name not in self.views:
            query, width = Queries(self.choice, self.relations).query(DEPTH)
            try:
                self.oracle.execute(f"CREATE VIEW {name} AS {query}")
                self.oracle.execute(f"SELECT * FROM {name}").fetchall()
            except duckdb.Error:
                self.oracle.execute(f"DROP VIEW IF EXISTS {name}")
                continue
            self.db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            self.views[name] = query
            self.relations[name] = tuple(f"c{i}" for i in range(width))

    def checked(self) -> dict[str, Bag]:
        """The content of all views, which is what DuckDB says."""
        content = {view: bag_of(self.db.query(f"SELECT * FROM {view}")) for view in self.views}
        for view, query in self.views.items():
            expected = Counter(self.oracle.execute(f"SELECT * FROM {view}").fetchall())
            assert content[view] == expected, f"{view} AS {query}"
        return content


@pytest.mark.parametrize("engine", DUCKDB_ENGINES)
@settings(max_examples=examples(6))
@given(seed=st.integers(0, 10**9))
def test_any_query_follows_any_history(engine: str, seed: int) -> None:
    choice = random.Random(seed)
    with tm.Database(DUCKDB_ENGINES[engine]()) as db:
        rig = Rig(db, choice)
        if choice.random() < 0.5:
            rig.change()
        for _ in range(VIEWS):
            rig.define()
        before = rig.checked()
        for _ in range(TRANSACTIONS):
            rig.change()
            after = rig.checked()
            for view in rig.views:
                keys = before[view].keys() | after[view].keys()
                difference = {row: after[view][row] - before[view][row] for row in keys}
                assert changes_at(db, view) == {row: weight for row, weight in difference.items() if weight}, view
            before = after
        check_invariant(db)
        rig.oracle.close()
