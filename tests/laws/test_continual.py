"""The sum of what was delivered is the state, whatever triggers, limits of the log and restarts there were.

A history of changes, passing time, refreshes, limits and restarts is run against continual queries of several triggers
and snapshots of several policies. After each step, for each of them:

- the content is the definition's value as of its tidemark, and once refreshed, its value now;
- the first answer and all delivered changes add up to the content;
- from any version that the log reaches back to, the state then and the changes since add up to the content.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.conformance.test_continual_queries import Clock
from tests.effort import examples
from tests.support import rows_in_order

SETUP = """
CREATE TABLE r (a INT PRIMARY KEY, b INT, c INT);
CREATE TABLE s (b INT, d INT);
CREATE MATERIALIZED VIEW total AS SELECT b, SUM(c) AS c FROM r GROUP BY b;
"""
QUERIES = {
    "joined": "SELECT r.a, s.d FROM r JOIN s ON r.b = s.b",
    "padded": "SELECT s.d, r.a FROM s LEFT JOIN r ON r.b = s.b",
    "grouped": "SELECT b, COUNT(*) AS n, MIN(c) AS least FROM r GROUP BY b",
    "above": "SELECT b FROM total WHERE c > 3",
    "distinct_d": "SELECT DISTINCT d FROM s",
}
TRIGGERS = (
    "ON CHANGE",
    "ON CHANGE OF 3 ROWS",
    "EVERY '1 hour'",
    "WHEN COUNT(*) > 1 IN r",
    "EVERY '2 hours' AND ON CHANGE",
    "WHEN (SELECT COUNT(*) FROM r) > 3 OR AT '0 12 * * *'",
)
VALUES = st.integers(0, 4)
STEPS = st.one_of(
    st.tuples(st.just("insert r"), st.integers(0, 6), VALUES, VALUES),
    st.tuples(st.just("delete r"), st.integers(0, 6), VALUES, VALUES),
    st.tuples(st.just("update r"), VALUES, VALUES, VALUES),
    st.tuples(st.just("insert s"), VALUES, VALUES, VALUES),
    st.tuples(st.just("delete s"), VALUES, VALUES, VALUES),
    st.tuples(st.just("both"), st.integers(0, 6), VALUES, VALUES),
    st.tuples(st.just("time"), st.integers(1, 30), VALUES, VALUES),
    st.tuples(st.just("refresh"), VALUES, VALUES, VALUES),
    st.tuples(st.just("limit"), st.integers(0, 6), VALUES, VALUES),
    st.tuples(st.just("restart"), VALUES, VALUES, VALUES),
)
Bag = Counter[tuple[Any, ...]]


def change(db: tm.Database, kind: str, x: int, y: int, z: int) -> None:
    match kind:
        case "insert r":
            db.execute(f"INSERT INTO r SELECT {x}, {y}, {z} WHERE NOT EXISTS (SELECT 1 FROM r WHERE a = {x})")
        case "delete r":
            db.execute(f"DELETE FROM r WHERE a = {x}")
        case "update r":
            db.execute(f"UPDATE r SET b = {y}, c = c + {z} WHERE b = {x}")
        case "insert s":
            db.execute(f"INSERT INTO s VALUES ({x}, {y}), ({x}, {z})")
        case "delete s":
            db.execute(f"DELETE FROM s WHERE b = {x}")
        case "both":
            with db.transaction() as tx:
                tx.execute(f"DELETE FROM r WHERE a = {x}")
                tx.execute(f"INSERT INTO r VALUES ({x}, {y}, {z})")
                tx.execute(f"INSERT INTO s VALUES ({y}, {z})")


class History:
    """A database with continual queries and snapshots, and what was delivered so far."""

    def __init__(self, target: str, triggers: list[str], policies: list[str]) -> None:
        self.target, self.clock = target, Clock()
        self.db = tm.connect(target, clock=self.clock)
        self.db.execute(SETUP)
        self.delivered: dict[str, Bag] = {}
        self.numbers: dict[str, int] = {}
        self.kinds: dict[str, str] = {}
        for (name, query), trigger in zip(QUERIES.items(), triggers, strict=True):
            self.db.execute(f"CREATE CONTINUAL QUERY q_{name} AS {query} TRIGGER {trigger}")
            self.delivered[f"q_{name}"], self.numbers[f"q_{name}"] = Counter(), 0
            self.db.results(f"q_{name}", name=f"reader of q_{name}").close()
            self.kinds[f"q_{name}"] = query
        for (name, query), policy in zip(QUERIES.items(), policies, strict=True):
            self.db.execute(f"CREATE SNAPSHOT s_{name} WITH (lag = '{policy}') AS {query} REFRESH ON DEMAND")
            self.kinds[f"s_{name}"] = query

    def step(self, kind: str, x: int, y: int, z: int) -> None:
        match kind:
            case "time":
                self.clock.pass_by(minutes=20 * x)
                self.db.run_due()
            case "refresh":
                name = f"s_{list(QUERIES)[x]}"
                self.db.refresh(name)
                assert self.content(name) == bag(self.db.query(self.kinds[name])), name
            case "limit":
                self.db.execute(f"ALTER LOG SET (versions = {x})")
            case "restart":
                self.db.close()
                self.db = tm.connect(self.target, clock=self.clock)
            case _:
                change(self.db, kind, x, y, z)
        self.check()

    def content(self, name: str) -> Bag:
        return bag(self.db.query(f"SELECT * FROM {name}"))

    def check(self) -> None:
        for name in self.numbers:
            stream = self.db.results(name, name=f"reader of {name}")
            assert stream.number == self.numbers[name]
            while (result := stream.poll()) is not None:
                self.delivered[name] = plus(self.delivered[name], result)
                self.numbers[name] = result.number
            stream.close()
            assert self.delivered[name] == self.content(name), f"what {name} delivered does not add up"
        invalid = {
            row["name"]
            for what in ("SNAPSHOTS", "CONTINUAL QUERIES")
            for row in self.db.execute(f"SHOW {what}").to_pylist()  # type: ignore[union-attr]
            if row["status"] == "invalid"
        }
        log = {row["relation"]: row for row in self.db.execute("SHOW LOG").to_pylist()}  # type: ignore[union-attr]
        for name in self.kinds:
            if name not in invalid:
                assert self.db.audit(name).num_rows == 0, name
            for since in {log[name]["oldest"], (log[name]["oldest"] + self.db.version) // 2}:
                before = bag(self.db.query(f"SELECT * FROM {name} AS OF VERSION {since}"))
                assert summed(before, self.db.changes(name, since=since)) == self.content(name), (name, since)


def bag(table: Any) -> Bag:
    return Counter(rows_in_order(table))


def plus(before: Bag, result: tm.Result) -> Bag:
    after = Counter(before)
    assert result.inserted is not None and result.deleted is not None
    after.update(rows_in_order(result.inserted))
    after.subtract(rows_in_order(result.deleted))
    for pair in [] if result.updated is None else result.updated.to_pylist():
        after[tuple(pair["old"].values())] -= 1
        after[tuple(pair["new"].values())] += 1
    return Counter({row: weight for row, weight in after.items() if weight})


def summed(before: Bag, changes: Any) -> Bag:
    after = Counter(before)
    names = [name for name in changes.column_names if name not in ("_version", "_weight", "_time")]
    for row, weight in zip(rows_in_order(changes.select(names)), changes["_weight"].to_pylist(), strict=True):
        after[row] += weight
    return Counter({row: weight for row, weight in after.items() if weight})


@settings(max_examples=examples(8), deadline=None)
@given(
    st.lists(st.sampled_from(TRIGGERS), min_size=len(QUERIES), max_size=len(QUERIES)),
    st.lists(st.sampled_from(("keep", "refresh", "invalidate")), min_size=len(QUERIES), max_size=len(QUERIES)),
    st.lists(STEPS, min_size=4, max_size=10),
)
def test_what_was_delivered_adds_up_to_the_state(
    triggers: list[str], policies: list[str], steps: list[tuple[str, int, int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(f"duckdb:{Path(folder) / 'data.duckdb'}", triggers, policies)
        try:
            for step in steps:
                history.step(*step)
        finally:
            history.db.close()


@pytest.mark.parametrize("target", ["reference", "duckdb"])
def test_a_long_history_under_a_short_log(target: str) -> None:
    """One history that is known to pass through everything, on engines without restarts."""
    triggers = [TRIGGERS[i % len(TRIGGERS)] for i in range(len(QUERIES))]
    history = History(target, triggers, ["keep", "refresh", "invalidate", "keep", "invalidate"])
    history.db.execute("ALTER LOG SET (versions = 3)")
    kinds = ("insert r", "insert s", "both", "update r", "time", "delete s", "refresh", "delete r")
    for number in range(32):
        history.step(kinds[number % len(kinds)], number % 5, (number * 3) % 5, (number * 7) % 5)
    assert all(number > 0 for number in history.numbers.values()), "a query that never answered proves nothing"
    history.db.close()
