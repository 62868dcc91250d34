"""Blakeley's thesis, chapter 3: irrelevant updates, with the values of its examples."""

from __future__ import annotations

import pytest

from tests.analysis.world import World
from tidemark.algebra.plans import Filter, Scan
from tidemark.algebra.printing import show_expression
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import INT, Field
from tidemark.analysis.relevance.dml import (
    Verdict,
    cells_of,
    condition_of,
    delete_verdict,
    insert_verdict,
    update_verdict,
)
from tidemark.analysis.relevance.filters import Influence
from tidemark.analysis.relevance.shapes import delete_boundary
from tidemark.sql.bind.changes import DeleteRows, InsertRows, UpdateRows

WIDE = World(("CREATE TABLE r1 (h INT, i INT, j INT)", "CREATE TABLE r2 (k INT, l INT)"))
BOUNDED = World(
    (
        "CREATE TABLE r1 (h INT CHECK (h BETWEEN 0 AND 30), i INT CHECK (i BETWEEN 0 AND 30))",
        "CREATE TABLE r2 (j INT CHECK (j BETWEEN 0 AND 30), k INT CHECK (k BETWEEN 0 AND 30))",
    )
)
DOMAINS = World(
    (
        "CREATE TABLE r1 (h INT CHECK (h BETWEEN 0 AND 100), i INT CHECK (i BETWEEN 0 AND 100))",
        "CREATE TABLE r2 (j INT, k INT CHECK (k BETWEEN 0 AND 100), l INT CHECK (l BETWEEN 0 AND 100))",
    )
)


def verdict(world: World, view: str, sql: str) -> Verdict:
    statement = world.statement(sql)
    found = world.influence(view, statement.table.name)
    match statement:
        case InsertRows(rows=rows):
            return insert_verdict(found, rows)
        case DeleteRows(plan=plan):
            where = condition_of(plan)
            assert where is not None
            return delete_verdict(found, where)
        case UpdateRows(plan=plan, coming=coming):
            where, cells = condition_of(plan), cells_of(coming)
            assert where is not None and cells is not None
            return update_verdict(found, where, cells)


def test_example_3_1_the_first_tuple_is_irrelevant_and_the_second_is_not() -> None:
    view = "SELECT h, k, l FROM r1, r2 WHERE h > 23 AND j = k AND l < 10"
    assert verdict(WIDE, view, "INSERT INTO r1 VALUES (15, 20, 35)").irrelevant
    assert not verdict(WIDE, view, "INSERT INTO r1 VALUES (26, 20, 45)").irrelevant
    assert not verdict(WIDE, view, "INSERT INTO r1 VALUES (15, 20, 35), (26, 20, 45)").irrelevant


def test_example_3_2_the_deletion_is_irrelevant() -> None:
    view = "SELECT h, l FROM r1, r2 WHERE i > j AND j = k AND k > 10"
    found = verdict(WIDE, view, "DELETE FROM r1 WHERE i < 5")
    assert found == Verdict(True, "the view needs i > j and j = k and k > 10, the statement deletes only i < 5")
    assert not verdict(WIDE, view, "DELETE FROM r1 WHERE i < 13").irrelevant


def test_corollary_3_3_a_tuple_is_deleted_by_its_values() -> None:
    view = "SELECT h, k, l FROM r1, r2 WHERE h > 23 AND j = k AND l < 10"
    assert verdict(WIDE, view, "DELETE FROM r1 WHERE h = 15 AND i = 20 AND j = 35").irrelevant
    assert not verdict(WIDE, view, "DELETE FROM r1 WHERE h = 26 AND i = 20 AND j = 45").irrelevant


def test_example_3_4_the_modification_is_irrelevant() -> None:
    view = "SELECT i, j FROM r1, r2 WHERE h > 10 AND i = k"
    found = verdict(BOUNDED, view, "UPDATE r1 SET h = h + 5 WHERE h > 20")
    assert found.irrelevant
    assert not verdict(BOUNDED, view, "UPDATE r1 SET h = h + 5 WHERE h > 5").irrelevant, "7 becomes 12"
    assert not verdict(BOUNDED, view, "UPDATE r1 SET h = h - 5 WHERE h > 12").irrelevant, "13 becomes 8"
    assert verdict(BOUNDED, view, "UPDATE r1 SET h = h - 5 WHERE h > 15").irrelevant
    assert verdict(BOUNDED, view, "UPDATE r1 SET h = h + 5 WHERE h < 6").irrelevant, "neither before nor after"
    assert not verdict(
        BOUNDED, "SELECT h, i, j FROM r1, r2 WHERE h > 10 AND i = k", "UPDATE r1 SET h = h + 5"
    ).irrelevant


def test_an_update_out_of_its_domain_fails_and_so_has_no_effect() -> None:
    """The text leaves such a tuple as it is; SQL refuses the statement. Either way the view stays."""
    view = "SELECT i, j FROM r1, r2 WHERE h > 10 AND i = k"
    assert verdict(BOUNDED, view, "UPDATE r1 SET h = h + 20 WHERE h > 10").irrelevant
    assert verdict(
        WIDE, "SELECT i, j FROM r1, r2 WHERE h > 10 AND i = k", "UPDATE r1 SET h = h + 20 WHERE h > 10"
    ).irrelevant
    assert verdict(BOUNDED, "SELECT * FROM r1", "UPDATE r1 SET h = h + 20 WHERE h > 10").irrelevant


EXAMPLE_3_5 = "SELECT i, j FROM r1, r2 WHERE h > 10 AND l < 50 AND i = k AND l > k + 24"


def test_example_3_5_only_one_of_three_tuples_is_relevant() -> None:
    found = DOMAINS.influence(EXAMPLE_3_5, "r1")
    assert found.filter is not None
    assert show_expression(found.filter) == "((h > 10) AND (i <= 24))"
    assert found.reason == "only rows of r1 with h > 10 and i <= 24 can matter"
    passing = [row for row in ((10, 20), (12, 24), (14, 32)) if value_of(found.filter, row) is True]
    assert passing == [(12, 24)]


def test_example_3_5_from_the_other_side() -> None:
    found = DOMAINS.influence(EXAMPLE_3_5, "r2")
    assert found.filter is not None
    assert show_expression(found.filter) == "((l < 50) AND (CAST(l AS BIGINT) >= (CAST(k AS BIGINT) + 25)))"


@pytest.mark.parametrize(("sql", "boundary"), [("i < :p", "(p < 13)"), ("i <= :p", "(p < 12)"), ("i = :p", "(p < 12)")])
def test_up_to_where_a_parameter_is_irrelevant(sql: str, boundary: str) -> None:
    """8.2: for the view of Example 3.2, i is at least 12."""
    found = WIDE.influence("SELECT h, l FROM r1, r2 WHERE i > j AND j = k AND k > 10", "r1")
    assert boundary_of(found, sql) == boundary


def boundary_of(found: Influence, condition: str) -> str | None:
    """The boundary of DELETE FROM r1 WHERE condition, in which :p is the parameter."""
    with_parameter = World(("CREATE TABLE r1 (h INT, i INT, j INT, p INT)",))
    deletion = with_parameter.statement(f"DELETE FROM r1 WHERE {condition.replace(':p', 'p')}")
    assert isinstance(deletion, DeleteRows) and isinstance(deletion.plan, Filter)
    assert isinstance(deletion.plan.input, Scan)
    boundary = delete_boundary(found, deletion.plan.predicate, (Field("p", INT, nullable=False),))
    return None if boundary is None else show_expression(boundary)
