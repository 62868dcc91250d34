"""Boundaries of parameters, against asking for each value of the parameter whether the statement is irrelevant."""

from __future__ import annotations

import pytest

from tests.analysis.conditions import call, number
from tests.analysis.test_relevance import THESIS, A, B, influence_on
from tests.analysis.world import World
from tidemark.algebra.expressions import TRUE, Column, Expression, Literal, transform
from tidemark.algebra.printing import show_expression
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import DATE, INT, VARCHAR, Field
from tidemark.analysis.relevance.dml import delete_verdict, insert_verdict, update_verdict
from tidemark.analysis.relevance.shapes import delete_boundary, insert_boundary, update_boundary

PARAMETER = Field("p", INT, nullable=False)
P = Column(2, "p", INT, nullable=False)
VALUES = range(-2, 6)


def given(expression: Expression, value: int) -> Expression:
    """The expression for one value of the parameter."""
    return transform(expression, lambda e: number(value) if e == P else None)


@pytest.mark.parametrize("query", THESIS)
@pytest.mark.parametrize(
    "where", [call("lt", B, P), call("eq", A, P), call("ge", call("add", A, number(1), type=INT), P), call("ne", B, P)]
)
def test_a_deletion_is_irrelevant_within_its_boundary_and_nowhere_else(query: str, where: Expression) -> None:
    found = influence_on(query, "r")
    boundary = delete_boundary(found, where, (PARAMETER,))
    for value in VALUES:
        within = boundary is not None and value_of(boundary, (value,)) is True
        assert within == delete_verdict(found, given(where, value)).irrelevant, (value, boundary)


@pytest.mark.parametrize("query", THESIS)
def test_an_insertion_is_irrelevant_within_its_boundary_and_nowhere_else(query: str) -> None:
    found = influence_on(query, "r")
    boundary = insert_boundary(found, {0: P, 1: number(1)}, (PARAMETER,))
    for value in range(3):
        within = boundary is not None and value_of(boundary, (value,)) is True
        assert within == insert_verdict(found, [(value, 1)]).irrelevant, (value, boundary)


@pytest.mark.parametrize("query", THESIS)
@pytest.mark.parametrize(
    ("where", "cells"),
    [
        (call("eq", A, P), {1: number(2)}),
        (call("gt", B, number(0)), {0: P}),
        (call("lt", A, P), {0: call("add", A, number(1), type=INT)}),
    ],
)
def test_an_update_is_irrelevant_within_its_boundary(
    query: str, where: Expression, cells: dict[int, Expression]
) -> None:
    found = influence_on(query, "r")
    boundary = update_boundary(found, where, cells, (PARAMETER,))
    for value in VALUES:
        within = boundary is not None and value_of(boundary, (value,)) is True
        asked = {place: given(cell, value) for place, cell in cells.items()}
        assert within == update_verdict(found, given(where, value), asked).irrelevant, (value, boundary)


def test_boundaries_are_of_every_type() -> None:
    world = World(("CREATE TABLE r (d DATE, t VARCHAR)", "CREATE TABLE s (d DATE, t VARCHAR)"))
    found = world.influence(
        "SELECT r.t FROM r JOIN s ON r.t = s.t AND r.d > s.d WHERE s.d > '2024-02-28' AND s.t < 'm'", "r"
    )
    d, t = found.facts.all_columns()
    day, text = Field("p", DATE, nullable=False), Field("p", VARCHAR, nullable=False)
    before = delete_boundary(found, call("lt", d, Column(2, "p", DATE, nullable=False)), (day,))
    after = delete_boundary(found, call("ge", t, Column(2, "p", VARCHAR, nullable=False)), (text,))
    assert before is not None and after is not None
    assert show_expression(before) == "(p < DATE '2024-03-02')"
    assert show_expression(after) == "(p >= 'm')"


def test_what_is_always_or_never_irrelevant() -> None:
    found = influence_on("SELECT a FROM r WHERE b > 0", "r")
    never = call("and", call("is_null", B), call("eq", A, P))
    assert delete_boundary(found, never, (PARAMETER,)) == TRUE
    assert delete_boundary(found, call("is_distinct", A, Literal(None, INT)), (PARAMETER,)) is None
