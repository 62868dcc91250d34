"""Specs of the ladder: its rungs in order, and which of them serves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import tidemark as tm
from tests.support import check_invariant
from tidemark.algebra.plans import Fixpoint
from tidemark.algebra.types import INT, Field, Schema
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.limits import DUCKDB
from tidemark.engines.reference import ReferenceEngine
from tidemark.storage.delta import from_bag
from tidemark.strategy.ladder import LADDER, WAYS, climb
from tidemark.strategy.nodes import COMPLETE
from tidemark.strategy.visit import Visit
from tidemark.strategy.wave import Wave


@pytest.fixture
def db() -> Iterator[tm.Database]:
    with tm.Database(ReferenceEngine()) as database:
        database.execute("CREATE TABLE q (x INT, y INT); CREATE TABLE r (y INT, z INT); CREATE TABLE other (a INT)")
        yield database
        check_invariant(database)


PAIR = Schema((Field("x", INT), Field("y", INT)))


def visit(db: tm.Database, node: str, changed: str, row: tuple[int, int]) -> Visit:
    """The visit of a wave that brings one new row of a relation."""
    store = db._store
    wave = Wave({changed: from_bag({row: 1}, PAIR)})
    return Visit(store.network.nodes[node], store.network, wave, store.engine, store.refreshes)


def serving(found: Visit) -> str:
    """The name of the rung that serves; all before it decline."""
    return next(rung.__name__ for rung in LADDER if rung(found) is not None)


def test_the_rungs_stand_from_the_cheapest_up() -> None:
    rungs = ["untouched", "irrelevant", "autonomous", "differential", "complete"]
    # What is evaluated anew in any case need not be looked at before.
    assert [rung.__name__ for rung in LADDER] == [rungs[0], "afresh", *rungs[1:]]
    assert [way.__name__ for way in WAYS] == ["rederivation", "recursion", "differentials"]


@pytest.mark.parametrize(
    "query, changed, row, rung",
    [
        ("SELECT x FROM q", "r", (1, 1), "untouched"),
        ("SELECT x FROM q WHERE y > 5", "q", (1, 1), "irrelevant"),
        ("SELECT x FROM q WHERE y > 5", "q", (1, 9), "autonomous"),
        ("SELECT q.x, r.z FROM q JOIN r ON q.y = r.y", "q", (1, 1), "differential"),
    ],
)
def test_the_first_rung_that_is_sound_serves(
    db: tm.Database, query: str, changed: str, row: tuple[int, int], rung: str
) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert serving(visit(db, "v", changed, row)) == rung


def test_a_view_that_is_declared_so_is_evaluated_as_a_whole_whatever_changed(db: tm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW v WITH (strategy = 'complete') AS SELECT x FROM q WHERE y > 5")
    assert db._store.network.nodes["v"].strategy == COMPLETE
    assert serving(visit(db, "v", "q", (1, 1))) == "complete"
    assert serving(visit(db, "v", "r", (1, 1))) == "untouched"


def test_a_recursion_that_is_stored_follows_by_its_own_way_of_the_differential_rung(db: tm.Database) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE path (x, y) AS "
        "(SELECT x, y FROM q UNION SELECT p.x, q.y FROM path p JOIN q ON p.y = q.x) SELECT x, y FROM path"
    )
    [recursive] = [n.name for n in db._store.network.nodes.values() if isinstance(n.plan, Fixpoint)]
    found = visit(db, recursive, "q", (1, 2))
    assert serving(found) == "differential"
    assert next(way.__name__ for way in WAYS if way(found) is not None) == "recursion"


def test_only_a_visit_that_does_something_is_a_step_of_the_trace(db: tm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT x FROM q WHERE y > 5")
    untouched, irrelevant, moved = (
        visit(db, "v", changed, row) for changed, row in (("r", (1, 1)), ("q", (1, 1)), ("q", (1, 9)))
    )
    for found in (untouched, irrelevant, moved):
        climb(found)
    assert untouched.wave.steps == []
    assert [(step.strategy, step.rows_in, step.rows_out, step.rows_filtered) for step in irrelevant.wave.steps] == [
        ("irrelevant", 1, 0, 1)
    ]
    assert "v" not in irrelevant.wave.deltas
    assert [(step.strategy, step.rows_out) for step in moved.wave.steps] == [("autonomous", 1)]
    assert moved.wave.deltas["v"].num_rows == 1


# The choice by cost


@pytest.fixture
def many(request: pytest.FixtureRequest) -> Iterator[tm.Database]:
    """Tables of some size, on an engine with dear look-ups: a change of most rows costs more to follow than to read."""
    dear = replace(DUCKDB.prices, look_up=50.0, looked_up_together=50.0)
    with tm.Database(DuckDBEngine(limits=replace(DUCKDB, prices=dear))) as database:
        database.execute("CREATE TABLE a (id INT PRIMARY KEY, k INT, x INT); CREATE TABLE b (k INT, y INT)")
        with database.transaction() as tx:
            tx.insert("a", [(i, i % 40, i) for i in range(1200)])
            tx.insert("b", [(i % 40, i) for i in range(80)])
        yield database
        check_invariant(database)


JOINED = "SELECT a.id, a.x, b.y FROM a JOIN b ON a.k = b.k"
CHANGED = "UPDATE a SET x = x + 1, k = (k + 1) % 40"


def steps(db: tm.Database) -> dict[str, tuple[str, str]]:
    return {step["node"]: (step["strategy"], step["reason"]) for step in db.trace(db.version).to_pylist()}


def test_a_node_is_evaluated_anew_when_its_differentials_would_cost_more(many: tm.Database) -> None:
    many.execute(f"CREATE MATERIALIZED VIEW v AS {JOINED}")
    many.execute(f"{CHANGED} WHERE id < 900")
    strategy, reason = steps(many)["v"]
    assert strategy == "complete"
    assert reason.startswith("its differentials would cost more")
    assert "1800 changed rows" in reason
    assert "2400 of its own" in reason
    many.execute(f"{CHANGED} WHERE id = 7")
    assert steps(many)["v"][0] == "differential"


def test_a_view_that_is_declared_incremental_is_never_evaluated_anew(many: tm.Database) -> None:
    many.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'incremental') AS {JOINED}")
    grouped = "SELECT k, MAX(x) AS top FROM a GROUP BY k"
    many.execute(f"CREATE MATERIALIZED VIEW w AS {grouped}")
    many.execute(
        "CREATE MATERIALIZED VIEW s WITH (strategy = 'incremental') AS SELECT k, MAX(x) AS top FROM a GROUP BY k"
    )
    many.execute(f"{CHANGED} WHERE id < 900")
    assert {strategy for strategy, _ in steps(many).values()} <= {"differential", "autonomous", "irrelevant"}


def test_what_is_approximate_keeps_its_differentials(many: tm.Database) -> None:
    many.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(CAST(x AS DOUBLE)) AS total, MAX(x) AS top FROM a GROUP BY k"
    )
    many.execute(f"{CHANGED} WHERE id < 900")
    assert "complete" not in {strategy for strategy, _ in steps(many).values()}
