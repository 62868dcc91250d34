"""The change of a node of which nothing is stored, operator by operator.

The chain rule would write the change of an operator's input into each of its old and new sides, and so twice as often
for every operator above it. So the change of each input is evaluated once, and what stands above reads it:

    Δ₁ = Changes(E),    Δ₂ = IncrOp(E, Δ₁),    Changes(F(Op(E))) = Changes(F(X)) with ΔX = Δ₂

An operator whose input did not change is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Intersection,
    Plan,
    Sort,
    Window,
    is_empty,
)
from tidemark.calculus.as_of import Block, delta_name, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.step import with_steps
from tidemark.calculus.terms import distribute
from tidemark.network.nodes import Node, Refresh, Stage
from tidemark.passes import optimize

NOT_LINEAR = Aggregate | Distinct | Difference | Intersection | Window | Sort


def unstored_refresh(node: Node, changed: frozenset[str], block: Block) -> Refresh:
    """How the change of a node is derived of which nothing is stored."""
    return Refresh(
        stages(node.plan, changed, dict(node.shared), block), "differential", "differentials, nothing stored"
    )


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
