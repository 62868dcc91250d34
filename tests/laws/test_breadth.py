"""Random histories over every construct: the answer of an independent engine, and one by one equals batch."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.conformance.test_breadth import QUERIES
from tests.effort import examples
from tests.histories import TABLES, statement, transaction
from tests.oracle import check_against_oracle
from tests.support import DUCKDB_ENGINES, bag_of, check_invariant


@pytest.mark.parametrize("engine", DUCKDB_ENGINES)
@settings(max_examples=examples(12), deadline=None)
@given(seed=st.integers(0, 10**9), names=st.sets(st.sampled_from(sorted(QUERIES)), min_size=3, max_size=5))
def test_views_follow_random_histories(engine: str, seed: int, names: set[str]) -> None:
    chosen = {name: QUERIES[name] for name in sorted(names)}
    choice = random.Random(seed)
    with tm.Database(DUCKDB_ENGINES[engine]()) as db:
        db.execute(TABLES)
        for view, query in chosen.items():
            db.execute(f"CREATE MATERIALIZED VIEW {view} AS {query}")
        for _ in range(5):
            transaction(db, choice)
            check_against_oracle(db, chosen)
        check_invariant(db)


@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 10**9), names=st.sets(st.sampled_from(sorted(QUERIES)), min_size=3, max_size=5))
def test_one_by_one_equals_batch(seed: int, names: set[str]) -> None:
    choice = random.Random(seed)
    statements = [statement(choice) for _ in range(8)]
    views = "".join(f"CREATE MATERIALIZED VIEW {name} AS {QUERIES[name]};" for name in sorted(names))
    with tm.connect("duckdb") as each, tm.connect("duckdb") as batch:
        for db in (each, batch):
            db.execute(TABLES + views)
        for text in statements:
            each.execute(text)
        with batch.transaction() as tx:
            for text in statements:
                tx.execute(text)
        check_against_oracle(batch, {name: QUERIES[name] for name in sorted(names)})
        for name in sorted(names - {"averages", "deviations"}):  # approximate sums need not agree to the last digit
            query = f"SELECT * FROM {name}"
            assert bag_of(each.query(query)) == bag_of(batch.query(query)), name
