"""Commutative and associative laws of joins (ERA's transformations 1 and 2), used to join the delta first.

    R ⋈ S = S ⋈ R                    up to the order of columns, which a projection restores
    R ⋈ (S ⋈ T) = (R ⋈ S) ⋈ T        with each condition at the first join that has all its columns

In (R_old ⋈ S_old) ⋈ ΔT two stored relations are joined to meet a handful of rows. From ΔT outward, along the
conditions, every step stays about as small as the delta: this is the text's "pushing incremental operators down".
Joins of fewer than three relations, of several deltas or of none stay as they are, and so do joins with a condition
that can fail, since it would be evaluated on other pairs.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.algebra.plans import Join, Plan, Project
from tidemark.algebra.scalar import can_fail
from tidemark.passes.facts import Joins, reads_delta


def start_joins_at_deltas(plan: Plan) -> Plan:
    known: dict[int, Plan] = {}

    def started(part: Plan) -> Plan:
        if id(part) not in known:
            known[id(part)] = rewritten(part)
        return known[id(part)]

    def rewritten(part: Plan) -> Plan:
        if isinstance(part, Join):
            joins = Joins.of(part)
            return _ordered(part, Joins(tuple([started(leaf) for leaf in joins.leaves]), joins.conditions))
        inputs = part.inputs()
        changed = tuple([started(child) for child in inputs])
        same = all(new is old for new, old in zip(changed, inputs, strict=True))
        return part if same else part.with_inputs(changed)

    return started(plan)


def _ordered(plan: Join, joins: Joins) -> Plan:
    deltas = [position for position, leaf in enumerate(joins.leaves) if reads_delta(leaf)]
    order: list[int] = []
    if len(joins.leaves) > 2 and len(deltas) == 1 and not any(map(can_fail, joins.conditions)):
        order = joins.outward(deltas[0])
    if not order:
        return _with_leaves(plan, iter(joins.leaves))
    joined, columns = joins.joined(order)
    if order == sorted(order):
        return joined
    return Project(joined, plan.schema.names, columns)


def _with_leaves(plan: Plan, leaves: Iterator[Plan]) -> Plan:
    """The same tree of joins over other leaves."""
    if not isinstance(plan, Join):
        return next(leaves)
    left = _with_leaves(plan.left, leaves)
    right = _with_leaves(plan.right, leaves)
    return plan if left is plan.left and right is plan.right else plan.with_inputs((left, right))
