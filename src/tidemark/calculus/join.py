"""IncrJoin, telescoped.

    Δ(Q ⋈ R) = ΔQ ⋈ R_new  ⊎  Q_old ⋈ ΔR                                      (signed weights, bags)

Each pair of changes meets exactly once: a change of Q meets the new R, a change of R meets the old Q. With weights
that multiply, deletions and insertions need no terms of their own (−1 · −1 never arises twice). The three terms of
HiPAC, ΔQ ⋈ R ∪ Q ⋈ ΔR ∪ ΔQ ⋈ ΔR over unspecified states, count a deletion that meets an insertion wrongly, and
AMOS's table (positive in the new state, negative in the old) counts Δ+Q ⋈ Δ+R twice when rows are bags.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.plans import Join, Plan, is_empty, union
from tidemark.calculus.states import new, old


def incremental_join(plan: Join, delta_left: Plan, delta_right: Plan) -> Plan:
    terms: list[Plan] = []
    if not is_empty(delta_left):
        terms.append(replace(plan, left=delta_left, right=new(plan.right)))
    if not is_empty(delta_right):
        terms.append(replace(plan, left=old(plan.left), right=delta_right))
    return union(tuple(terms), plan.schema)
