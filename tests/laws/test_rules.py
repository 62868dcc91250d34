"""Firings are the false→true transitions of the condition, computed by brute force over a random history."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.laws.random_queries import SCHEMA, statement
from tests.support import check_invariant, rows_in_order

CONDITIONS = {
    "filter": ("SELECT a, b FROM r WHERE b < 3", ("a",)),
    "bag": ("SELECT b FROM r", ()),
    "join": ("SELECT r.a, r.b, s.c FROM r JOIN s ON r.a = s.a WHERE r.b < s.c", ("a",)),
    "sum": ("SELECT a, SUM(c) AS t FROM s GROUP BY a HAVING SUM(c) > 2", ("a",)),
    "absence": ("SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)", ()),
    "outer": ("SELECT r.a, s.c FROM r LEFT JOIN s ON r.a = s.a", ("c",)),
    "distinct": ("SELECT DISTINCT r.b FROM r JOIN s ON r.a = s.a JOIN t ON t.d = s.c", ()),
    "reach": (
        """WITH RECURSIVE reach(a, b) AS (SELECT a, b FROM r UNION SELECT x.a, r.b FROM reach x JOIN r ON r.a = x.b)
        SELECT a, b FROM reach""",
        (),
    ),
    "rank": ("SELECT a, c, ROW_NUMBER() OVER (PARTITION BY a ORDER BY c) AS n FROM s", ("a",)),
    "either": ("SELECT a FROM r INTERSECT SELECT a FROM s", ()),
    "first": ("SELECT a, b FROM r ORDER BY b DESC NULLS LAST, a NULLS LAST LIMIT 2", ("a",)),
}


def instances(found: list[tuple[Any, ...]], names: list[str], each: tuple[str, ...]) -> dict[Any, set[Any]]:
    """The rows of each instance."""
    places = [names.index(name) for name in each] or list(range(len(names)))
    result: dict[Any, set[Any]] = {}
    for row in found:
        result.setdefault(tuple(row[i] for i in places), set()).add(row)
    return result


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@pytest.mark.parametrize("coupling", ["deferred", "immediate"])
@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10**9))
def test_firings_are_the_transitions_from_false_to_true(engine: str, coupling: str, seed: int) -> None:
    choice = random.Random(seed)
    names = choice.sample(sorted(CONDITIONS), 3)
    with tm.connect(engine) as db:
        db.execute(SCHEMA)
        heard: dict[str, list[Any]] = {name: [] for name in names}
        for name in names:
            query, each = CONDITIONS[name]
            db.listen(f"c_{name}", lambda channel, found: heard[channel[2:]].extend(rows_in_order(found)))
            for_each = f"FOR EACH ({', '.join(each)})" if each else ""
            text = f"CREATE RULE {name} {for_each} WHEN {query} DO NOTIFY c_{name} WITH (coupling = '{coupling}')"
            db.execute(f"{text}; ACTIVATE RULE {name}")
        for number in range(5):
            statements = [statement(choice) for _ in range(choice.randint(1, 3))]
            if choice.random() < 0.3:  # conditions are no nodes of the network in a transaction with definitions
                statements.insert(choice.randint(0, len(statements)), f"CREATE TABLE new_{number} (a INT)")
            expected: dict[str, Counter[Any]] = {name: Counter() for name in names}
            with db.transaction() as tx:
                states = [_states(tx, names)]
                for text in statements:
                    tx.execute(text)
                    states.append(_states(tx, names))
            steps = list(pairwise(states)) if coupling == "immediate" else [(states[0], states[-1])]
            for before, after in steps:
                for name in names:
                    for instance, found in after[name].items():
                        if instance not in before[name]:
                            expected[name].update(found)
            for name in names:
                assert Counter(heard[name]) == expected[name], (CONDITIONS[name], statements)
                heard[name].clear()
        check_invariant(db)


def _states(tx: tm.Transaction, names: list[str]) -> dict[str, dict[Any, set[Any]]]:
    result = {}
    for name in names:
        query, each = CONDITIONS[name]
        table = tx.query(query)
        result[name] = instances(rows_in_order(table), table.column_names, each)
    return result
