"""Negations move up, so that a term and its negation can be recognised.

σ(−R) = −σ(R),  π(−R) = −π(R),  (−R ⋈ S) = (R ⋈ −S) = −(R ⋈ S),  (−R ⋉ K) = −(R ⋉ K),  (R ⋉ −K) = (R ⋉ K)
−−R = R,  −(R ⊎ S) = −R ⊎ −S
"""

from __future__ import annotations

from tidemark.algebra.plans import Filter, Join, Negate, Plan, Project, Repeat, Touched, Union, Unnest
from tidemark.passes.facts import bottom_up


def raise_negations(plan: Plan) -> Plan:
    return bottom_up(plan, _raised)


def _raised(plan: Plan) -> Plan:
    match plan:
        case Negate(input=Negate(input=source)):
            return source
        case Negate(input=Union(parts=parts)):
            return Union(tuple(_raised(Negate(part)) for part in parts))
        case Filter(input=Negate(input=source)) | Project(input=Negate(input=source)):
            return Negate(plan.with_inputs((source,)))
        case Repeat(input=Negate(input=source)) | Unnest(input=Negate(input=source)):
            return Negate(plan.with_inputs((source,)))
        case Join(left=Negate(input=left), right=Negate(input=right)):
            return plan.with_inputs((left, right))
        case Join(left=Negate(input=left), right=right) | Join(left=left, right=Negate(input=right)):
            return Negate(plan.with_inputs((left, right)))
        case Touched(input=source, touched=Negate(input=touched)):
            return _raised(plan.with_inputs((source, touched)))
        case Touched(input=Negate(input=source), touched=touched):
            return Negate(plan.with_inputs((source, touched)))
    return plan
