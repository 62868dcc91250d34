"""WHY and WHY NOT of recursive views, on every engine: AS DATALOG and WITH RECURSIVE."""

from __future__ import annotations

import random

import pytest

import tidemark as tm
from tests.proofs import check_answer
from tests.support import bag_of

SPARK_VARIANTS = ("spark",)

TABLES = """
CREATE TABLE edge (a INT, b INT);
CREATE TABLE node (n INT);
INSERT INTO edge VALUES (1, 2), (2, 3), (3, 1), (3, 4), (NULL, 1);
INSERT INTO node VALUES (1), (2), (4);
CREATE MATERIALIZED VIEW closure (x, y) AS DATALOG $$
    closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y). $$;
CREATE MATERIALIZED VIEW apart (x, y), reach (x, n) AS DATALOG $$
    c(x, y) :- edge(x, y). c(x, y) :- edge(x, z), c(z, y).
    apart(x, y) :- node(x), node(y), not c(x, y). reach(x, count(y)) :- c(x, y). $$;
CREATE MATERIALIZED VIEW paths AS WITH RECURSIVE p (x, y) AS (
    SELECT a, b FROM edge UNION SELECT p.x, e.b FROM p JOIN edge e ON e.a = p.y) SELECT * FROM p WHERE x < y;
"""


@pytest.fixture
def graph(db: tm.Database) -> tm.Database:
    db.execute(TABLES)
    return db


def test_a_row_of_a_cycle_rests_on_stored_rows_and_not_on_itself(graph: tm.Database) -> None:
    assert str(graph.why("closure", (1, 1))).splitlines() == [
        "(x = 1, y = 1) is in closure",
        "└─ closure(x, y) :- edge(x, z), closure(z, y).   x = 1, z = 2, y = 1",
        "   ├─ edge (a = 1, b = 2)   a stored row",
        "   └─ (x = 2, y = 1) is in closure",
        "      └─ closure(x, y) :- edge(x, z), closure(z, y).   x = 2, z = 3, y = 1",
        "         ├─ edge (a = 2, b = 3)   a stored row",
        "         └─ (x = 3, y = 1) is in closure",
        "            └─ closure(x, y) :- edge(x, y).   x = 3, y = 1",
        "               └─ edge (a = 3, b = 1)   a stored row",
    ]


def test_each_rule_says_what_fails(graph: tm.Database) -> None:
    assert str(graph.why_not("closure", (4, 1))).splitlines() == [
        "(x = 4, y = 1) is not in closure",
        "├─ closure(x, y) :- edge(x, y).   fails for x = 4, y = 1",
        "│  └─ no row of edge has a = 4",
        "└─ closure(x, y) :- edge(x, z), closure(z, y).   fails for x = 4, y = 1",
        "   └─ no row of edge has a = 4",
    ]


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_every_row_has_a_proof(graph: tm.Database) -> None:
    choice = random.Random(5)
    for _ in range(3):
        for view in ("closure", "apart", "reach", "paths"):
            content = bag_of(graph.query(f"SELECT * FROM {view}"))
            for row in [*content, (1, 9), (4, 4)]:
                check_answer(graph, view, row, content)
        graph.insert("edge", [(choice.randint(1, 5), choice.randint(1, 5))])


def test_a_version_names_the_edge_that_brought_a_path(graph: tm.Database) -> None:
    graph.execute("DELETE FROM edge WHERE a = 2")
    answer = str(graph.why("closure", (1, 4), version=graph.version)).splitlines()
    assert answer[0] == f"(x = 1, y = 4) left closure in version {graph.version}, which it would not have without"
    assert answer[1] == "  − edge (a = 2, b = 3)   deleted"
