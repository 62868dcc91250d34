"""Removal of what gives no rows: empty differentials, and whatever stands on nothing but them.

    σ[FALSE] R = ∅,  op(∅) = ∅,  R ⋈ ∅ = ∅,  R ⊎ ∅ = R,  R ∸ ∅ = R,  R ∩ ∅ = ∅,  ∅ ⋉ K = R ⋉ ∅ = ∅,  σ[TRUE] R = R

A total without keys is not empty over an empty input: it is one row.
"""

from __future__ import annotations

from tidemark.algebra.expressions import Literal
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Intersection,
    Join,
    Negate,
    Plan,
    Project,
    Repeat,
    Sort,
    Touched,
    Union,
    Unnest,
    Window,
    empty,
    is_empty,
    union,
)
from tidemark.passes.facts import bottom_up, named, plan_can_fail


def remove_empty(plan: Plan) -> Plan:
    return bottom_up(plan, _without)


def _without(plan: Plan) -> Plan:
    match plan:
        case Filter(input=source, predicate=Literal(value=value)):
            if value is True:
                return source
            return plan if plan_can_fail(source) else empty(plan.schema)
        case Union(parts=parts):
            return named(union(parts, plan.schema), plan.schema.names)
        case Filter() | Project() | Repeat() | Unnest() | Negate() | Distinct() | Window() | Sort():
            return empty(plan.schema) if is_empty(plan.inputs()[0]) else plan
        case Aggregate(input=source, keys=keys):
            return empty(plan.schema) if keys and is_empty(source) else plan
        case Difference(left=left, right=right) if is_empty(right):
            return left
        case Join() | Touched() | Intersection():
            return _without_side(plan, plan.inputs())
        case Difference(left=left):
            return _without_side(plan, (left,))
    return plan


def _without_side(plan: Plan, deciding: tuple[Plan, ...]) -> Plan:
    """Nothing, if one of the deciding inputs is empty and the other one would not have raised."""
    if any(is_empty(side) for side in deciding) and not any(plan_can_fail(side) for side in plan.inputs()):
        return empty(plan.schema)
    return plan
