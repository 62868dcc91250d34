"""Conditions of WHERE at the joins that they belong to.

    σ[p ∧ j](R × S) = σ[p](R ⋈[j] S)          j reads columns of both sides, p of one alone

``FROM a, b WHERE a.x = b.x`` names a product and a filter above it. As long as the two are apart, any two views of a
and b seem to share the product. Conditions on one side stay above the join, so that views which differ in those alone
do share it. This pass runs over definitions; ``push_filters`` takes the rest down in differentials.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.expressions import TRUE, Expression, columns_of, conjunction, conjuncts, shift
from tidemark.algebra.failing import can_fail
from tidemark.algebra.plans import Filter, Join, Plan
from tidemark.passes.rewriting import bottom_up


def join_by_conditions(plan: Plan) -> Plan:
    return bottom_up(plan, _rule)


def _rule(plan: Plan) -> Plan:
    if not isinstance(plan, Filter) or not isinstance(plan.input, Join) or can_fail(plan.predicate):
        return plan
    join, kept = plan.input, list[Expression]()
    for part in conjuncts(plan.predicate):
        placed = _placed(join, part)
        if placed is None:
            kept.append(part)
        else:
            join = placed
    return Filter(join, conjunction(tuple(kept))) if kept else join


def _placed(join: Join, part: Expression) -> Join | None:
    """The join with the condition at the lowest join of which it reads both sides, or None if there is none."""
    width, read = len(join.left.schema), columns_of(part)
    if not read:
        return None
    if min(read) < width <= max(read):
        own = tuple(condition for condition in conjuncts(join.predicate) if condition != TRUE)
        return replace(join, predicate=conjunction((*own, part)))
    on_left = max(read) < width
    side = join.left if on_left else join.right
    placed = _placed(side, part if on_left else shift(part, -width)) if isinstance(side, Join) else None
    if placed is None:
        return None
    return replace(join, left=placed) if on_left else replace(join, right=placed)
