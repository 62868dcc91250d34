"""Distribution: a linear plan as a union of terms, each a join of leaves.

    (R ⊎ S) ⋈ T = (R ⋈ T) ⊎ (S ⋈ T),    σ(R ⊎ S) = σR ⊎ σS,    π(R ⊎ S) = πR ⊎ πS,    −(R ⊎ S) = −R ⊎ −S
    (R ⊎ S) ⋉ K = (R ⋉ K) ⊎ (S ⋉ K)

Engines join a small delta with one large stored relation well, and with a union of that relation and its own small
delta badly. So unions are moved above joins, as long as the number of terms stays small.
"""

from __future__ import annotations

from itertools import product

from tidemark.algebra.failing import node_can_fail
from tidemark.algebra.plans import (
    Aggregate,
    Filter,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Touched,
    Union,
    Unnest,
    empty,
    is_empty,
    union,
    walk,
)

MOST_TERMS = 24


def distribute(plan: Plan) -> Plan:
    """The same relation with unions above selections, projections and joins; empty terms are gone."""
    match plan:
        case Filter() | Project() | Repeat() | Unnest() | Aggregate() if node_can_fail(plan):
            source = distribute(plan.inputs()[0])
            if is_empty(source) and not isinstance(plan, Aggregate):
                return empty(plan.schema)
            # Entries that cancel must not reach an expression that can fail on them.
            cancels = any(isinstance(part, Union) for part in walk(source))
            return plan.with_inputs((Net(source) if cancels else source,))
        case Filter() | Project() | Repeat() | Unnest() | Negate():
            source = distribute(plan.inputs()[0])
            parts = source.parts if isinstance(source, Union) else (source,)
            return union(
                tuple(empty(plan.schema) if is_empty(part) else plan.with_inputs((part,)) for part in parts),
                plan.schema,
            )
        case Touched(input=restricted, touched=touched):
            source, keys = distribute(restricted), distribute(touched)
            parts = source.parts if isinstance(source, Union) else (source,)
            return union(
                tuple(empty(plan.schema) if is_empty(part) else plan.with_inputs((part, keys)) for part in parts),
                plan.schema,
            )
        case Union(parts=given):
            return union(tuple(distribute(part) for part in given), plan.schema)
        case Join():
            return _distribute_join(plan)
    return plan.with_inputs(tuple(distribute(child) for child in plan.inputs())) if plan.inputs() else plan


def _distribute_join(plan: Join) -> Plan:
    left, right = distribute(plan.left), distribute(plan.right)
    if is_empty(left) or is_empty(right):
        return empty(plan.schema)
    lefts = left.parts if isinstance(left, Union) else (left,)
    rights = right.parts if isinstance(right, Union) else (right,)
    if len(lefts) * len(rights) > MOST_TERMS:
        return plan.with_inputs((left, right))
    return union(tuple(plan.with_inputs(pair) for pair in product(lefts, rights)), plan.schema)
