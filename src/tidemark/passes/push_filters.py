"""Predicate push-down (ERA's transformations 5 to 8), through plain and incremental operators alike.

    5   σ[p] π[A] R       = π[A] σ[p ∘ A] R           p reads columns that A only passes on
    6   σ[p ∧ q ∧ j](R ⋈ S) = σ[p] R ⋈[j] σ[q] S      p reads columns of R, q of S, j of both
    7   σ[p](R ⊎ S)       = σ[p] R ⊎ σ[p] S
    8   σ[p](R ∸ S)       = σ[p] R ∸ σ[p] S           and the same for ∩
        σ[p](R ⋉ K)       = σ[p] R ⋉ K
        σ[p] δ R          = δ σ[p] R
        σ[p] γ[k; …] R    = γ[k; …] σ[p ∘ k] R        p reads keys; a total has none

A differential is an ordinary plan, in which R stands as ΔR, R_old or R_new: the same rules push an IncrSelect below an
IncrJoin. A filter with a part that can fail stays as a whole, because its other parts decide which rows reach that
part; and no filter goes below an operator that can fail, because it would spare it rows.
"""

from __future__ import annotations

from tidemark.algebra.expressions import (
    TRUE,
    Column,
    Expression,
    Literal,
    columns_of,
    conjunction,
    conjuncts,
    shift,
    substitute,
)
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
    Touched,
    Union,
    Unnest,
)
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.semijoins import filtered_by
from tidemark.passes.facts import bottom_up, node_can_fail

Parts = tuple[Expression, ...]


def push_filters(plan: Plan) -> Plan:
    return bottom_up(plan, _rule)


def _rule(plan: Plan) -> Plan:
    match plan:
        case Filter(input=source, predicate=predicate) if not can_fail(predicate):
            return _filtered(source, conjuncts(predicate))
        case Join(left=left, right=right, predicate=predicate) if not can_fail(predicate):
            return _joined(left, right, conjuncts(predicate))
    return plan


def _filtered(plan: Plan, parts: Parts) -> Plan:
    """σ[parts] of the plan, each part as far down as it may go."""
    if not parts:
        return plan
    if node_can_fail(plan):
        return Filter(plan, conjunction(parts))
    match plan:
        case Filter(input=source, predicate=predicate):
            return _filtered(source, tuple(dict.fromkeys(conjuncts(predicate) + parts)))
        case Project(input=source, expressions=expressions):
            passed = tuple(i for i, e in enumerate(expressions) if isinstance(e, Column | Literal))
            return _below(plan, source, parts, frozenset(passed), expressions)
        case Join(left=left, right=right, predicate=predicate):
            constant = tuple(part for part in parts if not columns_of(part))
            moved = tuple(part for part in parts if columns_of(part))
            return filtered_by(_joined(left, right, conjuncts(predicate) + moved), constant)
        case Union(parts=given):
            return Union(tuple(_filtered(part, parts) for part in given))
        case Difference() | Intersection():
            return plan.with_inputs(tuple(_filtered(side, parts) for side in plan.inputs()))
        case Negate(input=source) | Distinct(input=source) | Repeat(input=source):
            return plan.with_inputs((_filtered(source, parts),))
        case Unnest(input=source):
            # Conditions on the elements stay above; those on the row's own columns are checked first.
            own = frozenset(range(len(source.schema)))
            return _below(plan, source, parts, own, plan.columns())
        case Touched(input=source, touched=touched):
            return plan.with_inputs((_filtered(source, parts), touched))
        case Aggregate(input=source, keys=keys) if keys:
            return _below(plan, source, parts, frozenset(range(len(keys))), keys)
    return Filter(plan, conjunction(parts))


def _below(plan: Plan, source: Plan, parts: Parts, passed: frozenset[int], origins: Parts) -> Plan:
    """The parts that read passed columns below the plan, in terms of its input; the others above it."""
    moved = tuple(part for part in parts if columns_of(part) <= passed)
    kept = tuple(part for part in parts if part not in moved)
    lowered = tuple(substitute(part, origins) for part in moved)
    return filtered_by(plan.with_inputs((_filtered(source, lowered),)) if moved else plan, kept)


def _joined(left: Plan, right: Plan, parts: Parts) -> Join:
    """R ⋈ S with each condition on the side that it reads, or between them."""
    width = len(left.schema)
    on_left = tuple(part for part in parts if columns_of(part) and max(columns_of(part)) < width)
    on_right = tuple(part for part in parts if columns_of(part) and min(columns_of(part)) >= width)
    between = dict.fromkeys(part for part in parts if part not in (*on_left, *on_right, TRUE))
    lowered = tuple(shift(part, -width) for part in on_right)
    return Join(_filtered(left, on_left), _filtered(right, lowered), conjunction(tuple(between)))
