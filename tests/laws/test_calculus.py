"""The laws of the calculus, against the first principle, on the reference engine.

Families: each law against its definition; differentials against recomputation on random plans; several equivalent
forms of the same differential against each other.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.bags import changes, compose, delta_union, minus, plus, rollback
from tests.laws.strategies import TABLES, contents, plans, transitions
from tidemark.algebra.plans import Negate, Plan, Scan, State, Stored, Union
from tidemark.calculus.as_of import Block, delta_name, log_name, new, old, prior_name, resolve
from tidemark.calculus.chain import differentiate, partial_differentials
from tidemark.calculus.terms import distribute
from tidemark.engines.reference.evaluate import evaluate

Tables = dict[str, dict[tuple[Any, ...], int]]


def block_of(before: Tables, after: Tables) -> tuple[Block, Tables, dict[str, Any]]:
    """The block between two states: old content is stored, deltas are given by name and sign."""
    deltas = {name: changes(before[name], after[name]) for name in before}
    changed = frozenset(name for name, delta in deltas.items() if delta)
    given: dict[str, Any] = {}
    for name in changed:
        given[delta_name(name)] = deltas[name]
        given[delta_name(name, State.INSERTED)] = {row: w for row, w in deltas[name].items() if w > 0}
        given[delta_name(name, State.DELETED)] = {row: w for row, w in deltas[name].items() if w < 0}
    return Block(changed=changed), before, given


def first_principle(plan: Plan, block: Block, stored: Tables, given: dict[str, Any]) -> dict[Any, int]:
    return changes(
        evaluate(resolve(old(plan), block), stored, given), evaluate(resolve(new(plan), block), stored, given)
    )


@given(contents(TABLES["r"]), contents(TABLES["r"]), contents(TABLES["r"]))
def test_compose_and_changes_are_inverse_and_delta_union_follows_the_steps(a: Any, b: Any, c: Any) -> None:
    assert compose(a, changes(a, b)) == b
    assert rollback(b, changes(a, b)) == a
    assert delta_union(changes(a, b), changes(b, c)) == changes(a, c)
    assert plus(changes(a, b), minus(changes(a, b))) == {}


@given(plans(), transitions())
def test_the_differential_of_any_plan_is_its_change(plan: Plan, states: tuple[Tables, Tables]) -> None:
    block, stored, given_ = block_of(*states)
    delta = differentiate(plan, block.changed)
    assert evaluate(resolve(delta, block), stored, given_) == first_principle(plan, block, stored, given_)


@given(plans(), transitions())
def test_distribution_keeps_the_differential(plan: Plan, states: tuple[Tables, Tables]) -> None:
    block, stored, given_ = block_of(*states)
    delta = resolve(differentiate(plan, block.changed), block)
    assert evaluate(distribute(delta), stored, given_) == evaluate(delta, stored, given_)


@given(plans(linear=True), transitions())
def test_partial_differentials_by_occurrence_and_sign_add_up(plan: Plan, states: tuple[Tables, Tables]) -> None:
    block, stored, given_ = block_of(*states)
    terms = [evaluate(resolve(p.plan, block), stored, given_) for p in partial_differentials(plan)]
    assert plus(*terms) == first_principle(plan, block, stored, given_)


@given(plans(linear=True), transitions())
def test_a_partial_differential_of_an_unchanged_influent_is_empty(plan: Plan, states: tuple[Tables, Tables]) -> None:
    block, stored, given_ = block_of(*states)
    for partial in partial_differentials(plan):
        if partial.influent not in block.changed:
            assert evaluate(resolve(partial.plan, block), stored, given_) == {}


@given(plans(), transitions(), st.data())
def test_a_block_inside_an_open_transaction_starts_from_the_prior_changes(
    plan: Plan, states: tuple[Tables, Tables], data: st.DataObject
) -> None:
    """Immediate propagation: the block begins at a point after the stored version."""
    stored, middle = states
    _, after = data.draw(transitions())
    after = {name: after[name] if data.draw(st.booleans()) else middle[name] for name in middle}
    given_ = {delta_name(name): changes(middle[name], after[name]) for name in middle}
    given_ |= {prior_name(name): changes(stored[name], middle[name]) for name in middle}
    names = frozenset(middle)
    block = Block(changed=names, prior=names)
    delta = differentiate(plan, names)
    expected = changes(_at(plan, middle), _at(plan, after))
    assert evaluate(resolve(delta, block), stored, given_) == expected


@given(plans(), transitions())
def test_logical_rollback_reads_an_earlier_version(plan: Plan, states: tuple[Tables, Tables]) -> None:
    before, now = states
    given_ = {log_name(name): changes(before[name], now[name]) for name in now}
    block = Block(since=frozenset(now))
    assert evaluate(resolve(plan, block), now, given_) == _at(plan, before)


@given(plans(), transitions())
def test_forward_then_inverse_restores(plan: Plan, states: tuple[Tables, Tables]) -> None:
    before, after = states
    forward, backward = block_of(before, after), block_of(after, before)
    there = evaluate(resolve(differentiate(plan, forward[0].changed), forward[0]), *forward[1:])
    back = evaluate(resolve(differentiate(plan, backward[0].changed), backward[0]), *backward[1:])
    assert plus(there, back) == {}


def _at(plan: Plan, tables: Tables) -> dict[Any, int]:
    return evaluate(resolve(plan, Block()), tables, {})


def test_the_first_principle_as_a_plan_is_the_difference_of_two_states() -> None:
    scan = Scan("t", TABLES["t"])
    block = Block(changed=frozenset({"t"}))
    plan = Union((resolve(new(scan), block), Negate(resolve(old(scan), block))))
    assert evaluate(plan, {"t": {(1,): 1}}, {"Δt": {(2,): 1, (1,): -1}}) == {(2,): 1, (1,): -1}
    assert resolve(old(scan), block) == Stored("t", TABLES["t"])
