"""The change of a node of which nothing is stored, operator by operator.

The chain rule would write the change of an operator's input into each of its old and new sides, and so twice as often
for every operator above it. So the change of each input is evaluated once, and what stands above reads it:

    Δ₁ = Changes(E),    Δ₂ = IncrOp(E, Δ₁),    Changes(F(Op(E))) = Changes(F(X)) with ΔX = Δ₂

An operator whose input did not change is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from tidemark.algebra.cache import MOST_TIMES, tree_size
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    Difference,
    Distinct,
    Fixpoint,
    Intersection,
    Negate,
    Plan,
    Sort,
    Window,
    WindowCall,
    is_empty,
    union,
    walk,
)
from tidemark.calculus.as_of import Block, delta_name, new, old, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.clock import with_steps
from tidemark.calculus.terms import distribute, with_net
from tidemark.passes import optimize
from tidemark.strategy.nodes import COMPLETE, DIFFERENTIAL, Node, Refresh, Stage

NOT_LINEAR = Aggregate | Distinct | Difference | Intersection | Window | Sort | Fixpoint


def unstored_refresh(node: Node, changed: frozenset[str], block: Block) -> Refresh:
    """How the change of a node is derived of which nothing is stored."""
    if is_evaluated_twice(node.plan):
        stage = Stage(with_net(resolve(union((new(node.plan), Negate(old(node.plan))), node.schema), block)))
        return Refresh((stage,), COMPLETE, REPEATED)
    return Refresh(stages(node.plan, changed, dict(node.shared), block), DIFFERENTIAL, "differentials, nothing stored")


REPEATED: Final = "old against new: its parts stand in so many places that differentials would take longer"
MOST_PARTS: Final = 150


def is_evaluated_twice(plan: Plan) -> bool:
    """Whether the change is better found from all of the old and new rows, each of them evaluated once.

    Approximate values need not come out the same twice, and what recurs has its own way.
    """
    parts = list(walk(plan))
    if tree_size(plan) <= max(MOST_PARTS, MOST_TIMES * len(parts)) or any(isinstance(p, Fixpoint) for p in parts):
        return False
    return not any(call.is_approximate for part in parts for call in _calls(part))


def _calls(plan: Plan) -> tuple[AggregateCall, ...] | tuple[WindowCall, ...]:
    return plan.aggregates if isinstance(plan, Aggregate) else plan.calls if isinstance(plan, Window) else ()


def stages(plan: Plan, changed: frozenset[str], shared: Mapping[Plan, str], block: Block) -> tuple[Stage, ...]:
    """The plans to evaluate, in order, when the given influents changed; the last one gives the plan's change."""
    known, found = dict(shared), list[Stage]()
    for operator in dict.fromkeys(_operators(plan, shared)):
        for part in (*operator.inputs(), operator):
            if part in known or is_empty(delta := differentiate(part, changed, known)):
                continue
            name = f"step {len(found)}"
            found.append(replace(_stage(delta, name, block), when=_waits_for(part, operator, known)))
            known[part], changed = name, changed | {name}
            block = replace(block, changed=block.changed | {name})
    if found and isinstance(plan, NOT_LINEAR) and plan in known:
        return (*found[:-1], replace(found[-1], result=None))
    return (*found, replace(_stage(differentiate(plan, changed, known), "", block), result=None))


def _waits_for(part: Plan, operator: Plan, known: Mapping[Plan, str]) -> str | None:
    """The change without which there is none of an operator of one input."""
    return delta_name(known[part.inputs()[0]]) if part is operator and len(part.inputs()) == 1 else None


def _stage(delta: Plan, name: str, block: Block) -> Stage:
    return Stage(distribute(resolve(optimize(with_steps(delta)), block)), delta_name(name))


def _operators(plan: Plan, shared: Mapping[Plan, str]) -> Iterator[Plan]:
    """The operators that are not linear, each after those below it; what is shared is known already."""
    if plan in shared:
        return
    for child in plan.inputs():
        yield from _operators(child, shared)
    if isinstance(plan, NOT_LINEAR):
        yield plan
