"""The ten equivalence transformations of incremental operators (ERA 5.3), with their side conditions.

Both sides of each law are written as queries and differentiated; the differentials give the same change on any data,
and the passes bring both to the same plan where the law has a direction. Where the text's condition is not enough for
bags, or at all, the counterexample stands below.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.laws.strategies import contents
from tests.laws.test_calculus import block_of, first_principle
from tests.passes.test_fixtures import bound
from tidemark.algebra.types import INT, Field, Schema
from tidemark.calculus.as_of import Block, resolve
from tidemark.calculus.chain import differentiate
from tidemark.engines.reference.evaluate import evaluate
from tidemark.passes import optimize

COLUMNS = {"r": ("a", "b"), "s": ("b", "c"), "t": ("c", "d")}
TABLES = {name: Schema(tuple(Field(column, INT) for column in columns)) for name, columns in COLUMNS.items()}
databases = st.fixed_dictionaries({name: contents(schema, most=4) for name, schema in TABLES.items()})

SAME_PLAN = [
    ("3", "SELECT x FROM (SELECT a AS x, b AS y FROM r) AS q", "SELECT a AS x FROM r"),
    ("4", "SELECT * FROM (SELECT * FROM r WHERE a > 1) AS q WHERE b > 0", "SELECT * FROM r WHERE a > 1 AND b > 0"),
    ("5", "SELECT a FROM (SELECT a FROM r) AS q WHERE a > 1", "SELECT a FROM r WHERE a > 1"),
    (
        "6",
        "SELECT * FROM r JOIN s ON r.b = s.b WHERE r.a > 1 AND s.c < 3",
        "SELECT * FROM (SELECT * FROM r WHERE a > 1) AS r JOIN (SELECT * FROM s WHERE c < 3) AS s ON r.b = s.b",
    ),
    (
        "7",
        "SELECT * FROM (SELECT * FROM r UNION ALL SELECT * FROM s) AS q WHERE a > 1",
        "SELECT * FROM r WHERE a > 1 UNION ALL SELECT * FROM s WHERE b > 1",
    ),
    (
        "10",
        "SELECT a FROM (SELECT * FROM r UNION ALL SELECT * FROM s) AS q",
        "SELECT a FROM r UNION ALL SELECT b AS a FROM s",
    ),
]
SAME_CHANGE = [
    ("1", "SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b", "SELECT r.a, r.b, s.c FROM s JOIN r ON r.b = s.b"),
    (
        "2",
        "SELECT r.a, s.b, t.c, t.d FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c",
        "SELECT r.a, q.b, q.c, q.d FROM r JOIN (SELECT s.b, t.c, t.d FROM s JOIN t ON s.c = t.c) AS q ON r.b = q.b",
    ),
    (
        "8",
        "SELECT * FROM (SELECT * FROM r EXCEPT ALL SELECT * FROM s) AS q WHERE a > 1",
        "SELECT * FROM r WHERE a > 1 EXCEPT ALL SELECT * FROM s WHERE b > 1",
    ),
    (
        "8 for intersections",
        "SELECT * FROM (SELECT * FROM r INTERSECT ALL SELECT * FROM s) AS q WHERE a > 1",
        "SELECT * FROM r WHERE a > 1 INTERSECT ALL SELECT * FROM s WHERE b > 1",
    ),
    (
        "9, join columns kept",
        "SELECT r.a, r.b, s.b AS b2 FROM r JOIN s ON r.b = s.b",
        "SELECT q.a, q.b, p.b AS b2 FROM (SELECT a, b FROM r) AS q JOIN (SELECT b FROM s) AS p ON q.b = p.b",
    ),
    (
        "3 for sets, under an outermost DISTINCT",
        "SELECT DISTINCT a FROM (SELECT DISTINCT a, b FROM r) AS q",
        "SELECT DISTINCT a FROM r",
    ),
    (
        "10 for sets, under an outermost DISTINCT",
        "SELECT DISTINCT a FROM (SELECT * FROM r UNION SELECT * FROM s) AS q",
        "SELECT DISTINCT a FROM (SELECT DISTINCT a FROM r UNION ALL SELECT DISTINCT b FROM s) AS q",
    ),
]
ALL = SAME_PLAN + SAME_CHANGE


@pytest.mark.parametrize(("number", "left", "right"), ALL, ids=[number for number, _, _ in ALL])
@settings(max_examples=examples(40))
@given(before=databases, after=databases)
def test_both_sides_of_a_transformation_give_the_same_change(
    number: str, left: str, right: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    block, stored, given_ = block_of(before, after)
    expected = first_principle(bound(left), block, stored, given_)
    for query in (left, right):
        delta = differentiate(bound(query), block.changed)
        for form in (delta, optimize(delta)):
            assert evaluate(resolve(form, block), stored, given_) == expected


@pytest.mark.parametrize(("number", "left", "right"), SAME_PLAN, ids=[number for number, _, _ in SAME_PLAN])
@pytest.mark.parametrize("changed", ["r", "s", "rs"])
def test_the_passes_bring_both_sides_to_the_same_plan(number: str, left: str, right: str, changed: str) -> None:
    plans = [optimize(differentiate(bound(query), set(changed))) for query in (left, right)]
    assert plans[0] == plans[1]


def value(query: str, **tables: dict[Any, int]) -> dict[Any, int]:
    return evaluate(resolve(bound(query), Block()), {"r": {}, "s": {}, "t": {}, **tables}, {})


def test_3_fails_for_an_inner_set_projection() -> None:
    r = {(1, 1): 2}
    assert value("SELECT a FROM (SELECT DISTINCT a, b FROM r) AS q", r=r) == {(1,): 1}
    assert value("SELECT a FROM r", r=r) == {(1,): 2}


def test_9_fails_when_a_join_column_is_not_kept() -> None:
    """B = {a} and C = {c} are disjoint and both parts of A = {a, c}, as the text asks."""
    r, s = {(1, 1): 1}, {(2, 9): 1}
    assert value("SELECT r.a, s.c FROM r JOIN s ON r.b = s.b", r=r, s=s) == {}
    assert value("SELECT q.a, p.c FROM (SELECT a FROM r) AS q, (SELECT c FROM s) AS p", r=r, s=s) == {(1, 9): 1}


def test_10_fails_when_only_the_inner_union_is_a_set() -> None:
    r, s = {(1, 1): 1}, {(1, 1): 1}
    assert value("SELECT a FROM (SELECT * FROM r UNION SELECT * FROM s) AS q", r=r, s=s) == {(1,): 1}
    assert value("SELECT a FROM r UNION ALL SELECT b FROM s", r=r, s=s) == {(1,): 2}
