"""The base changes that are named for a change of a view are in the transaction, and without them it would not be.

That is checked by a second database, which gets the tables as they were before and all of the transaction's changes but
the named ones: there the row is as often in the view as it was before.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.laws.random_queries import SCHEMA, TABLES, Queries, statement
from tests.laws.test_provenance import EXAMPLES, filled
from tests.support import Bag, bag_of, changes_at
from tidemark.provenance import Cause


def contents(db: tm.Database) -> dict[str, Bag]:
    return {table: bag_of(db.query(f"SELECT * FROM {table}")) for table in TABLES}


def replayed(engine: str, before: dict[str, Bag], deltas: dict[str, Bag], undone: Cause, query: str) -> Bag:
    """The content of a view after the transaction without some of its changes."""
    with tm.connect(engine) as db:
        db.execute(SCHEMA)
        for table, content in before.items():
            after = Counter(content)
            after.update(deltas[table])
            after.subtract({change.row: change.weight for change in undone.changes if change.table == table})
            assert all(weight >= 0 for weight in after.values())
            db.insert(table, list(after.elements()))
        return bag_of(db.query(query))


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@settings(max_examples=examples(3) * EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_without_the_named_changes_the_row_would_not_have_changed(engine: str, seed: int) -> None:
    choice = random.Random(seed)
    with filled(engine, choice, 5) as db:
        queries = {f"v{number}": Queries(choice).query(2)[0] for number in range(3)}
        for name, query in queries.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        before = contents(db)
        content = {name: bag_of(db.query(f"SELECT * FROM {name}")) for name in queries}
        with db.transaction() as transaction:
            for _ in range(4):
                transaction.execute(statement(choice))
        version = db.version
        deltas = {table: Counter(changes_at(db, table)) for table in TABLES}
        changed = {name: list(changes_at(db, name))[:2] for name in queries}
        db.execute(statement(choice))  # what comes later does not matter
        for name, rows in changed.items():
            for row in rows:
                answer = db.why(name, row, version=version)
                assert isinstance(answer, Cause)
                assert answer.before == content[name][row]
                assert answer.before != answer.after
                assert answer.changes
                assert all(deltas[change.table][change.row] == change.weight for change in answer.changes)
                assert replayed(engine, before, deltas, answer, queries[name])[row] == answer.before
                assert str(answer)
