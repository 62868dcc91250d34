"""Outer joins and subqueries against DuckDB's own evaluation of the same text, for any content and any transaction.

The reference engine runs the plans that the binder made, so it cannot find the binder's mistakes; DuckDB can. Three
things are compared: the view with the oracle, its changes with the difference of contents, and one transaction over
all tables with one statement after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.laws.strategies import TABLES, transitions
from tests.query_cases import CASES
from tests.support import bag_of, changes_at, check_invariant
from tidemark.engines.duckdb.settings import configure

SCHEMA = "CREATE TABLE r (a INT, b INT); CREATE TABLE s (a INT, c INT NOT NULL); CREATE TABLE t (d INT)"
SIZE = 10
EXAMPLES = settings().max_examples // 16
"""Each example checks all views of a group, and more of them under the thorough profile."""
GROUPS = [list(CASES)[start : start + SIZE] for start in range(0, len(CASES), SIZE)]


class Rig:
    """A database with a few views beside DuckDB with the same tables. It lives through all examples of a test."""

    def __init__(self, engine: str, names: list[str]) -> None:
        self.names, self.database, self.oracle = names, tm.connect(engine), duckdb.connect()
        configure(self.oracle)
        self.oracle.execute(SCHEMA)
        self.database.execute(SCHEMA)
        for name in names:
            self.database.execute(f"CREATE MATERIALIZED VIEW {name} AS {CASES[name]}")
        self.content: dict[str, Counter[tuple[Any, ...]]] = {table: Counter() for table in TABLES}

    def move(self, target: dict[str, Any], *, together: bool) -> None:
        """Bring all tables to their new content in one transaction, or each deletion and insertion in its own."""
        steps = []
        for table, rows in target.items():
            before, after = self.content[table], Counter(rows)
            steps.append((self.database.delete, "delete", table, sorted((before - after).elements(), key=str)))
            steps.append((self.database.insert, "insert", table, sorted((after - before).elements(), key=str)))
            self.oracle.execute(f"DELETE FROM {table}")
            marks = ", ".join("?" * len(TABLES[table]))
            if after:
                self.oracle.executemany(f"INSERT INTO {table} VALUES ({marks})", list(after.elements()))
            self.content[table] = after
        if not together:
            for action, _, table, rows in steps:
                action(table, rows)
            return
        with self.database.transaction() as transaction:
            for _, kind, table, rows in steps:
                getattr(transaction, kind)(table, rows)

    def views(self) -> dict[str, Counter[tuple[Any, ...]]]:
        return {name: bag_of(self.database.query(f"SELECT * FROM {name}")) for name in self.names}

    def expected(self) -> dict[str, Counter[tuple[Any, ...]]]:
        return {name: Counter(self.oracle.execute(CASES[name]).fetchall()) for name in self.names}


@pytest.fixture(scope="module", params=range(len(GROUPS)))
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = Rig("reference", GROUPS[request.param])
    yield rig
    check_invariant(rig.database)
    rig.database.close()


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(transitions(), st.booleans())
def test_views_are_what_duckdb_says_and_change_by_the_difference(
    rig: Rig, states: tuple[Any, Any], together: bool
) -> None:
    before, after = states
    rig.move(before, together=together)
    old = rig.views()
    assert old == rig.expected()
    rig.move(after, together=True)
    new = rig.views()
    assert new == rig.expected()
    for name in rig.names:
        difference = {row: new[name][row] - old[name][row] for row in old[name].keys() | new[name].keys()}
        assert changes_at(rig.database, name) == {row: weight for row, weight in difference.items() if weight}, name


@pytest.mark.parametrize("names", GROUPS)
def test_duckdb_keeps_them_alike(names: list[str]) -> None:
    rig = Rig("duckdb", names)
    states: tuple[dict[str, dict[tuple[Any, ...], int]], ...] = (
        {"r": {(1, 2): 1, (None, 1): 2, (2, None): 1, (3, 3): 1}, "s": {(1, 2): 2, (None, 0): 1}, "t": {(2,): 1}},
        {"r": {(1, 2): 2, (2, None): 1, (0, 1): 1}, "s": {(1, 3): 1, (2, 0): 1, (0, 1): 1}, "t": {(None,): 1, (1,): 2}},
        {"r": {}, "s": {(0, 1): 1}, "t": {(1,): 2}},
        {"r": {(0, 1): 3, (None, None): 1}, "s": {}, "t": {}},
    )
    for target in states:
        rig.move(target, together=True)
        assert rig.views() == rig.expected()
    check_invariant(rig.database)
    rig.database.close()
