"""The law of UNNEST: it is linear, so its differential is UNNEST of the delta, above any plan and below any filter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import plans, transitions
from tests.laws.test_calculus import Tables, block_of, first_principle
from tidemark.algebra.expressions import Call, Column, Expression, Literal
from tidemark.algebra.plans import Distinct, Filter, Plan, Unnest
from tidemark.algebra.types import BIGINT, BOOLEAN, INT, array_of
from tidemark.calculus.as_of import resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.terms import distribute
from tidemark.engines.reference.evaluate import evaluate
from tidemark.passes.push_filters import push_filters
from tidemark.passes.raise_negations import raise_negations


def unnested(plan: Plan, *, places: bool) -> Unnest:
    """The plan beside an array of its own integers and of some that are not; without integers, of those alone."""
    own: tuple[Expression, ...] = tuple(column for column in plan.columns() if column.type == INT)[:2]
    array = Call("array", (*own, Literal(1, INT), Literal(None, INT)), array_of(INT), nullable=False)
    return Unnest(plan, array, ("element", "place")[: 1 + places], places)


@given(plans(), transitions(), st.booleans(), st.booleans())
def test_the_differential_of_unnest_is_its_change(
    plan: Plan, states: tuple[Tables, Tables], places: bool, distinct: bool
) -> None:
    block, stored, given_ = block_of(*states)
    whole: Plan = unnested(plan, places=places)
    whole = Distinct(whole) if distinct else whole
    delta = resolve(differentiate(whole, block.changed), block)
    expected = first_principle(whole, block, stored, given_)
    assert evaluate(delta, stored, given_) == expected
    assert evaluate(raise_negations(distribute(delta)), stored, given_) == expected


@given(plans(), transitions())
def test_filters_pass_unnest_where_they_read_its_input_alone(plan: Plan, states: tuple[Tables, Tables]) -> None:
    block, stored, given_ = block_of(*states)
    source = unnested(plan, places=True)
    width = len(source.schema)
    conditions: list[Expression] = [
        Call("ge", (Column(width - 1, "place", BIGINT), Literal(2, BIGINT)), BOOLEAN),
        Call("is_not_null", (source.column(0),), BOOLEAN, nullable=False),
    ]
    filtered = resolve(Filter(Filter(source, conditions[0]), conditions[1]), block)
    assert evaluate(push_filters(filtered), stored, given_) == evaluate(filtered, stored, given_)
