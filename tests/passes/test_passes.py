"""Every pass keeps weights, errors, names and types, on random plans, differentials and data.

Families: each pass alone and all of them together against the plan as it was (reference engine); plans with
expressions that fail; the two approaches of ERA 5.1 against each other; the ten transformations of ERA 5.3, each with
its side condition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.laws.strategies import TABLES, call, literal, plans, predicates, transitions, with_arity
from tests.laws.test_calculus import block_of
from tidemark.algebra.expressions import TRUE, Cast, Expression, Literal
from tidemark.algebra.fingerprint import fingerprint
from tidemark.algebra.plans import (
    Difference,
    Filter,
    Join,
    Negate,
    Plan,
    Project,
    Repeat,
    Scan,
    Touched,
    Union,
    is_empty,
)
from tidemark.algebra.types import BIGINT, INT
from tidemark.calculus.as_of import Block, new, old, resolve
from tidemark.calculus.chain import differentiate
from tidemark.engines.reference.evaluate import evaluate
from tidemark.errors import TidemarkError
from tidemark.passes import DEFINITION_PASSES, PASSES, Pass, checked, optimize
from tidemark.passes.raise_negations import raise_negations

States = tuple[dict[str, Any], dict[str, Any]]


def outcome(plan: Plan, block: Block, stored: Any, given_: Any) -> dict[Any, int] | str:
    """The net rows of a plan, or the code of the error that it raises."""
    try:
        return evaluate(resolve(plan, block), stored, given_)
    except TidemarkError as error:
        return error.code


def shapes(plan: Plan, block: Block) -> tuple[Plan, ...]:
    """What a network may ask for: the plan before and after the block, and its differential."""
    return new(plan), old(plan), differentiate(plan, block.changed)


@st.composite
def joined(draw: st.DrawFn) -> Plan:
    """A tree of joins of three or four relations under a filter, as FROM and WHERE make them."""
    leaves: list[Plan] = [
        Scan(name, TABLES[name]) for name in draw(st.lists(st.sampled_from(sorted(TABLES)), min_size=3, max_size=4))
    ]
    if draw(st.booleans()):
        leaves[0] = draw(plans(1))
    while len(leaves) > 1:
        at = draw(st.integers(0, len(leaves) - 2))
        product = Join(leaves[at], leaves[at + 1], TRUE)
        left = draw(st.integers(0, len(leaves[at].schema) - 1))
        right = draw(st.integers(len(leaves[at].schema), len(product.schema) - 1))
        linked = call("eq", product.column(left), product.column(right))
        condition = draw(st.sampled_from([linked, linked, linked, TRUE, draw(predicates(product.schema))]))
        leaves[at : at + 2] = [replace(product, predicate=condition)]
    tree = Filter(leaves[0], draw(predicates(leaves[0].schema)))
    return with_arity(tree, draw(st.integers(1, 3))) if draw(st.booleans()) else tree


@st.composite
def signed(draw: st.DrawFn) -> Plan:
    """A linear plan with negations, repetitions and restrictions in it, and with terms that cancel."""
    plan = draw(plans(2, linear=True))
    for _ in range(draw(st.integers(1, 4))):
        match draw(st.sampled_from(["negate", "cancel", "filter", "project", "join", "touched", "repeat"])):
            case "negate":
                plan = Negate(plan)
            case "cancel":
                other = with_arity(draw(plans(1, linear=True)), len(plan.schema))
                plan = Union((Negate(plan), other, plan, draw(st.sampled_from([plan, Negate(other), other]))))
            case "filter":
                plan = Filter(plan, draw(predicates(plan.schema)))
            case "project":
                plan = with_arity(plan, draw(st.integers(1, 3)))
            case "join":
                sides = (draw(st.sampled_from([plan, Negate(plan)])), Negate(draw(plans(1, linear=True))))
                plan = with_arity(Join(*sides, TRUE), 2)
            case "touched":
                touched = with_arity(draw(plans(1, linear=True)), 1)
                plan = Touched(plan, draw(st.sampled_from([touched, Negate(touched)])), (0,))
            case "repeat":
                times = call("coalesce", Cast(plan.column(0), BIGINT), Literal(2, BIGINT), type=BIGINT)
                plan = Repeat(plan, times)
    return plan


ANY = st.one_of(plans(), joined(), signed())


ALL = (*DEFINITION_PASSES, *PASSES)


@pytest.mark.parametrize("apply", ALL, ids=[apply.__name__ for apply in ALL])
@settings(max_examples=examples(60))
@given(ANY, transitions())
def test_a_pass_keeps_the_weighted_rows(apply: Pass, plan: Plan, states: States) -> None:
    block, stored, given_ = block_of(*states)
    for shape in (plan, *shapes(plan, block)) if _can_differentiate(plan) else (plan,):
        changed = checked(apply, shape)
        assert outcome(changed, block, stored, given_) == outcome(shape, block, stored, given_)


@given(ANY, transitions())
def test_all_passes_together_keep_the_weighted_rows_and_come_to_rest(plan: Plan, states: States) -> None:
    block, stored, given_ = block_of(*states)
    for shape in shapes(plan, block) if _can_differentiate(plan) else (plan,):
        changed = optimize(shape)
        assert outcome(changed, block, stored, given_) == outcome(shape, block, stored, given_)
        assert optimize(changed) == changed
        assert fingerprint(optimize(shape)) == fingerprint(changed)


def _can_differentiate(plan: Plan) -> bool:
    return not any(isinstance(part, Touched) for part in _walk(plan))


def _walk(plan: Plan) -> list[Plan]:
    return [plan, *(part for child in plan.inputs() for part in _walk(child))]


@st.composite
def failing(draw: st.DrawFn) -> Plan:
    """A plan with divisions in conditions and select lists, at any height."""
    plan = draw(plans(2))
    quotient: Expression
    for _ in range(draw(st.integers(1, 3))):
        quotient = call("divide", literal(6), plan.column(draw(st.integers(0, len(plan.schema) - 1))), type=INT)
        plain = draw(predicates(plan.schema, 0))
        divided = call("ge", quotient, literal(2))
        match draw(st.sampled_from(["filter", "beside", "plain", "project", "join", "difference"])):
            case "filter":
                plan = Filter(plan, divided)
            case "beside":
                plan = Filter(plan, call("and", *draw(st.permutations([plain, divided]))))
            case "plain":
                plan = Filter(plan, plain)
            case "project":
                plan = Project(plan, ("x", "q"), (plan.column(0), quotient))
            case "join":
                plan = with_arity(Join(plan, draw(plans(1)), divided), 3)
            case "difference":
                plan = Difference(plan, with_arity(draw(plans(1)), len(plan.schema)))
        plan = Filter(plan, draw(predicates(plan.schema, 0)))
    return plan


@settings(max_examples=examples(200))
@given(failing(), transitions())
def test_passes_neither_raise_an_error_nor_hide_one(plan: Plan, states: States) -> None:
    """A differential is derived only when the definition did not fail before the block. Otherwise a change may touch
    rows that fail both before and after it, and where these cancel is up to the plan."""
    block, stored, given_ = block_of(*states)
    for shape in shapes(plan, block)[: 2 if isinstance(outcome(old(plan), block, stored, given_), str) else 3]:
        changed = optimize(shape)
        assert outcome(changed, block, stored, given_) == outcome(shape, block, stored, given_)


@given(st.one_of(plans(), joined()), transitions())
def test_both_approaches_give_the_same_change(plan: Plan, states: States) -> None:
    """ERA 5.1: transform then differentiate, and differentiate then transform."""
    block, stored, given_ = block_of(*states)
    first = optimize(differentiate(optimize(plan), block.changed))
    second = optimize(differentiate(plan, block.changed))
    assert outcome(first, block, stored, given_) == outcome(second, block, stored, given_)


@given(transitions())
def test_negations_leave_joins_restrictions_and_repetitions(states: States) -> None:
    block, stored, given_ = block_of(*states)
    r, s = Scan("r", TABLES["r"]), Scan("s", TABLES["s"])
    twice = Literal(2, BIGINT)
    for plan, raised in (
        (Join(Negate(r), Negate(s), TRUE), Join(r, s, TRUE)),
        (Join(Negate(r), s, TRUE), Negate(Join(r, s, TRUE))),
        (Join(r, Negate(s), TRUE), Negate(Join(r, s, TRUE))),
        (Touched(Negate(r), Negate(s), (0,)), Negate(Touched(r, s, (0,)))),
        (Repeat(Negate(r), twice), Negate(Repeat(r, twice))),
        (Negate(Negate(r)), r),
    ):
        assert raise_negations(plan) == raised
        assert outcome(plan, block, stored, given_) == outcome(raised, block, stored, given_)


def test_a_pass_that_changes_the_columns_is_caught() -> None:
    scan = Scan("r", TABLES["r"])

    def drop_a_column(plan: Plan) -> Plan:
        return Project(plan, ("a",), (plan.column(0),))

    with pytest.raises(AssertionError, match="drop_a_column"):
        checked(drop_a_column, scan)


def test_an_optimized_differential_of_nothing_is_nothing() -> None:
    scan = Scan("r", TABLES["r"])
    nothing = Filter(scan, Literal(False, TRUE.type))
    assert is_empty(optimize(differentiate(Join(nothing, scan, TRUE), {"r"})))
