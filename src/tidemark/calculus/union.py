"""IncrUnion for bags, and its mirror, negation.

    Δ(R ⊎ S) = ΔR ⊎ ΔS,   Δ(−R) = −ΔR

The set union of ERA 4.6 is Distinct above this one.
"""

from __future__ import annotations

from tidemark.algebra.plans import Negate, Plan, Union, is_empty, union


def incremental_union(plan: Union, deltas: tuple[Plan, ...]) -> Plan:
    return union(deltas, plan.schema)


def incremental_negate(delta: Plan) -> Plan:
    return delta if is_empty(delta) else Negate(delta)
