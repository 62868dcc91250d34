"""Semi-naive evaluation against nested loops, against answers by hand, and against SQL that DuckDB runs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings

from tests.datalog import naive
from tests.datalog.programs import CLOSURE, PROGRAMS, RELATIONS, contents
from tests.effort import examples
from tidemark.algebra.types import INT, Field, Schema
from tidemark.datalog.fixpoint import RecursionLimits
from tidemark.datalog.program import bind_program
from tidemark.datalog.relations import Memory
from tidemark.errors import TidemarkError
from tidemark.strategy.recursion.complete import evaluate_program as evaluate


def content(text: str, **relations: set[tuple[Any, ...]]) -> dict[str, set[tuple[Any, ...]]]:
    base = {name: relations.get(name, set()) for name in RELATIONS}
    return {name: set(rows) for name, rows in evaluate(bind_program(text, RELATIONS), Memory(base)).items()}


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=examples(25), deadline=None)
@given(base=contents)
def test_semi_naive_evaluation_gives_what_nested_loops_give(name: str, base: dict[str, naive.Rows]) -> None:
    program = PROGRAMS[name]
    expected = naive.evaluate(program, base)
    assert {p: set(rows) for p, rows in evaluate(program, Memory(base)).items()} == {
        p: expected[p] for p in program.predicates
    }


def test_a_closure_over_a_cycle() -> None:
    assert content(CLOSURE, edge={(1, 2), (2, 1), (2, 3)})["closure"] == {
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
        (2, 2),
        (2, 3),
    }


def test_null_is_kept_but_never_joins() -> None:
    found = content(
        CLOSURE + "alone(x) :- edge(x, _), not node(x). p(x) :- edge(x, y), y = y.",
        edge={(1, None), (None, 2), (2, 3)},
        node={(1,), (2,)},
    )
    assert found["closure"] == {(1, None), (None, 2), (2, 3), (None, 3)}
    assert found["alone"] == {(None,)}
    assert found["p"] == {(None,), (2,)}


def test_an_aggregate_counts_each_way_in_which_its_body_holds() -> None:
    found = content(
        "total(x, sum(y)) :- edge(x, y), node(_). n(count(*)) :- edge(_, _).",
        edge={(1, 5), (1, 7), (2, None)},
        node={(1,), (2,)},
    )
    assert found["total"] == {(1, 24), (2, None)}
    assert found["n"] == {(3,)}


def test_without_a_row_there_is_no_group() -> None:
    assert content("n(count(*)) :- edge(_, _).")["n"] == set()


def test_numbers_of_different_types_meet_by_value() -> None:
    found = content(
        "p(x, x + 1) :- price(x, _), node(x). q(x) :- node(x), not price(x, _).",
        price={(Decimal("1.00"), 1), (Decimal("1.50"), 1)},
        node={(1,), (2,)},
    )
    assert found["p"] == {(Decimal("1.00"), Decimal("2.00"))}
    assert found["q"] == {(2,)}


def test_a_condition_that_can_fail_is_asked_of_what_the_others_leave() -> None:
    found = content("p(x) :- edge(x, y), y <> 0, x / y > 1, node(x).", edge={(4, 0), (4, 2), (5, 0)}, node={(4,)})
    assert found["p"] == {(4,)}
    with pytest.raises(TidemarkError) as raised:
        content("p(x) :- edge(x, y), x / y > 1.", edge={(4, 0)})
    assert raised.value.code == "division_by_zero"


def test_a_recursion_without_end_is_stopped_by_its_limits() -> None:
    program = bind_program("n(x) :- node(x). n(x + 1) :- n(x).", RELATIONS)
    base = Memory({"node": {(0,)}})
    for limits in (RecursionLimits(rounds=100), RecursionLimits(rows=100)):
        with pytest.raises(TidemarkError) as raised:
            evaluate(program, base, limits)
        assert raised.value.code == "runaway"
        assert "'n'" in raised.value.message
    with pytest.raises(TidemarkError) as raised:
        evaluate(bind_program("n(x) :- node(x). n(x * 2) :- n(x).", RELATIONS), Memory({"node": {(1,)}}))
    assert raised.value.code == "overflow"


SQL = {
    CLOSURE: (
        "closure",
        "WITH RECURSIVE c(x, y) AS (SELECT a, b FROM edge UNION SELECT e.a, c.y FROM edge e JOIN c ON e.b = c.x) "
        "SELECT * FROM c",
    ),
    "p(x) :- node(x), not edge(x, _), x > 0.": (
        "p",
        "SELECT DISTINCT n FROM node WHERE NOT EXISTS (SELECT 1 FROM edge WHERE a = n) AND n > 0",
    ),
    "p(x, y, x * y - 1) :- edge(x, z), edge(z, y), x <> y.": (
        "p",
        "SELECT DISTINCT e.a, f.b, e.a * f.b - 1 FROM edge e JOIN edge f ON e.b = f.a WHERE e.a <> f.b",
    ),
    "p(x, k + 1) :- price(x, k), node(k), not edge(k, x).": (
        "p",
        "SELECT DISTINCT x, k + 1 FROM price p(x, k) JOIN node ON n = k "
        "WHERE NOT EXISTS (SELECT 1 FROM edge WHERE a = k AND b = x)",
    ),
    "t(x, count(y), sum(y), min(z), max(z)) :- edge(x, y), edge(y, z).": (
        "t",
        "SELECT x, count(y), sum(y), min(z), max(z) FROM "
        "(SELECT DISTINCT e.a AS x, e.b AS y, f.b AS z FROM edge e JOIN edge f ON e.b = f.a) GROUP BY x",
    ),
    "same(x, x) :- node(x). same(x, y) :- edge(x, u), same(u, v), edge(y, v).": (
        "same",
        "WITH RECURSIVE s(x, y) AS (SELECT n, n FROM node UNION "
        "SELECT e.a, f.a FROM edge e, s, edge f WHERE e.b = s.x AND f.b = s.y) SELECT * FROM s",
    ),
}


@pytest.fixture(scope="module")
def sql() -> Any:
    connection = duckdb.connect()
    for name, schema in RELATIONS.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{f.name} {f.type}' for f in schema)})")
    yield connection
    connection.close()


@pytest.mark.parametrize("text", SQL)
def test_sql_that_says_the_same_gives_the_same(text: str, sql: Any) -> None:
    predicate, query = SQL[text]

    @settings(max_examples=examples(15), deadline=None)
    @given(base=contents)
    def check(base: dict[str, naive.Rows]) -> None:
        for name, rows in base.items():
            sql.execute(f"DELETE FROM {name}")
            for row in sorted(rows, key=repr):
                sql.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        found = evaluate(bind_program(text, RELATIONS), Memory(base))[predicate]
        assert set(found) == set(sql.execute(query).fetchall())

    check()


def test_a_relation_is_asked_only_for_the_keys_that_are_bound() -> None:
    asked: list[tuple[Any, ...]] = []

    class Watched(Memory):
        def matching(self, relation: str, positions: Any, keys: Any) -> Any:
            asked.append((relation, positions, sorted(keys)))
            return super().matching(relation, positions, keys)

    pair = Schema((Field("a", INT, nullable=False), Field("b", INT, nullable=False)))
    program = bind_program("p(y) :- start(x), edge(x, y). p(y) :- p(x), edge(x, y). start(1).", {"edge": pair})
    edges = Watched({"edge": {(1, 2), (2, 3), (3, 2), (8, 9)}})
    assert set(evaluate(program, edges)["p"]) == {(2,), (3,)}
    assert asked == [("edge", (0,), [(1,)]), ("edge", (0,), [(2,)]), ("edge", (0,), [(3,)])]
