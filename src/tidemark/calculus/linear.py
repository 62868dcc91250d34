"""Operators that are linear in what they are made of: what changes passes through them as it is, so that the chain rule
puts the deltas in place of the inputs and reads nothing that is stored; a join has terms of its own.

IncrProject for bags.

    Δ π[A](R) = π[A](ΔR)                                                      (ERA 4.4, with bags throughout)

Bag projection keeps duplicates, hence it is linear and needs no look at R. The set projection of the text is
Distinct above this one: see ``distinct.py``.

IncrUnion for bags, and its mirror, negation.

    Δ(R ⊎ S) = ΔR ⊎ ΔS,   Δ(−R) = −ΔR

The set union of ERA 4.6 is Distinct above this one.

IncrUnnest, each row once for each element of an array of its own, and IncrRepeat, each as often again as one of its
own columns says.

    Δ unnest[a](R) = unnest[a](ΔR),   Δ repeat[n](R) = repeat[n](ΔR)

The array and the number follow from the row, so a row that comes or goes takes its elements or its times along.

IncrSelect.

    Δ σ[p](R) = σ[p](ΔR)                                                      (ERA 4.3)

The filter keeps weights, so one delta carries insertions and deletions at once.

IncrJoin, linear in either side and therefore telescoped.

    Δ(Q ⋈ R) = ΔQ ⋈ R_new  ⊎  Q_old ⋈ ΔR                                      (signed weights, bags)

Each pair of changes meets exactly once: a change of Q meets the new R, a change of R meets the old Q. With weights
that multiply, deletions and insertions need no terms of their own (−1 · −1 never arises twice). The three terms of
HiPAC, ΔQ ⋈ R ∪ Q ⋈ ΔR ∪ ΔQ ⋈ ΔR over unspecified states, count a deletion that meets an insertion wrongly, and
AMOS's table (positive in the new state, negative in the old) counts Δ+Q ⋈ Δ+R twice when rows are bags.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.plans import Join, Plan, is_empty, union
from tidemark.calculus.as_of import new, old


def incremental_join(plan: Join, delta_left: Plan, delta_right: Plan) -> Plan:
    terms: list[Plan] = []
    if not is_empty(delta_left):
        terms.append(replace(plan, left=delta_left, right=new(plan.right)))
    if not is_empty(delta_right):
        terms.append(replace(plan, left=old(plan.left), right=delta_right))
    return union(tuple(terms), plan.schema)
