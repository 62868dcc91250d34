"""External nodes: the exact change of any query, with nothing of it stored and nothing cut.

The oracle is the query itself, evaluated before and after the transaction.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.laws.random_queries import SCHEMA, Queries, statement
from tests.support import bag_of, weights_of
from tidemark.algebra.plans import walk
from tidemark.network import Network, NodeKind, Wave, build, propagate
from tidemark.network.build import Definition
from tidemark.sql.bind.queries import QueryBinder
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.statements import Query
from tidemark.sql.parse.text import Source
from tidemark.state.facts import known_of
from tidemark.strategy.cache import RefreshCache

CONSTRUCTS = {
    "aggregates": "SELECT a, COUNT(*) AS n, SUM(b) AS t, MIN(b) AS lo, MAX(b) AS hi FROM r GROUP BY a",
    "total": "SELECT COUNT(*) AS n, SUM(c) AS t FROM s",
    "having": "SELECT r.a, SUM(s.c) AS t FROM r JOIN s ON r.a = s.a GROUP BY r.a HAVING SUM(s.c) > 3",
    "distinct values": "SELECT a, COUNT(DISTINCT b) AS n FROM r GROUP BY a",
    "distinct": "SELECT DISTINCT r.b, s.c FROM r JOIN s ON r.a = s.a",
    "left join": "SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.a = s.a",
    "full join": "SELECT r.a, r.b, s.c FROM r FULL JOIN s ON r.a = s.a AND r.b < s.c",
    "window": "SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS n FROM r",
    "running sum": "SELECT a, SUM(c) OVER (ORDER BY c, a) AS t FROM s",
    "except": "SELECT a FROM r EXCEPT SELECT d FROM t",
    "except all": "SELECT a FROM r EXCEPT ALL SELECT a FROM s",
    "intersect": "SELECT a FROM r INTERSECT SELECT a FROM s",
    "limit": "SELECT a, b FROM r ORDER BY b DESC, a LIMIT 2",
    "not exists": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
    "scalar": "SELECT a, (SELECT MAX(c) FROM s WHERE s.a = r.a) AS top FROM r",
    "joined grouping": """SELECT r.a, r.b FROM r JOIN (SELECT a, SUM(c) AS t FROM s GROUP BY a) q
        ON q.a = r.a AND r.b < q.t""",
    "three-way": "SELECT r.a, s.c, t.d FROM r JOIN s ON r.a = s.a JOIN t ON t.d = s.c",
}


def network_of(db: tm.Database, queries: list[str]) -> Network:
    definitions = []
    for number, text in enumerate(queries):
        [(parsed, source)] = parse_script(Source(text))
        assert isinstance(parsed, Query)
        plan = QueryBinder(source, db._store.catalog).bind_view(parsed.tree)
        definitions.append(Definition(f"q{number}", plan, kind=NodeKind.EXTERNAL))
    return build(definitions)


def follow(db: tm.Database, network: Network, queries: list[str], statements: list[str]) -> None:
    """One transaction, in which the derived change of each query must be the difference of its rows."""
    cache = RefreshCache(known=known_of(db._store.catalog))
    with db.transaction() as tx:
        before = [bag_of(tx.query(query)) for query in queries]
        for text in statements:
            tx.execute(text)
        wave = propagate(network, tx.pending, db._store.engine, cache)
        for number, query in enumerate(queries):
            after = bag_of(tx.query(query))
            after.subtract(before[number])
            assert change_of(wave, f"q{number}") == {row: n for row, n in after.items() if n}, query


def change_of(wave: Wave, name: str) -> Any:
    return weights_of(wave.deltas[name]) if name in wave.deltas else Counter()


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_the_change_of_every_construct_is_exact(engine: str, construct: str) -> None:
    choice = random.Random(construct)
    with tm.connect(engine) as db:
        db.execute(SCHEMA)
        network = network_of(db, [CONSTRUCTS[construct]])
        assert [node.is_stored for node in network.nodes.values()] == [False]
        for _ in range(12):
            follow(db, network, [CONSTRUCTS[construct]], [statement(choice) for _ in range(choice.randint(1, 4))])


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@settings(max_examples=examples(12))
@given(seed=st.integers(0, 10**9))
def test_random_queries_beside_each_other_have_exact_changes(engine: str, seed: int) -> None:
    choice = random.Random(seed)
    with tm.connect(engine) as db:
        db.execute(SCHEMA)
        queries = [Queries(choice).query(1)[0] for _ in range(2)]
        network = network_of(db, [*queries, queries[0]])
        assume(sum(1 for node in network.nodes.values() for _ in walk(node.plan)) < 120)
        for _ in range(3):
            follow(db, network, queries, [statement(choice) for _ in range(choice.randint(1, 4))])
