"""Operators that look at the weight of whole rows: DISTINCT, EXCEPT ALL and INTERSECT ALL, by IncrDistinct, IncrDiff
and IncrIntersect.

    Δ δ(E)   = δ(E_new ⋉ K) − δ(E_old ⋉ K)                                K = the rows that occur in ΔE
    Δ(A ∸ B) = (A_new ⋉ K ∸ B_new ⋉ K)  −  (A_old ⋉ K ∸ B_old ⋉ K)       K = the rows that occur in ΔA or in ΔB
    Δ(A ∩ B) = (A_new ⋉ K ∩ B_new ⋉ K)  −  (A_old ⋉ K ∩ B_old ⋉ K)

None is linear, but each of their rows depends on the equal rows of the input alone. So touched rows are looked at, old
against new, and no others: n equal rows added and m removed in one block come out right. For two inputs the deltas are
kept apart in K by a mark: a row that comes on the left and goes on the right is touched, although the sum of both is
nothing. Where the network keeps counts of rows, laws of groupings replace these (``group.py``, and
``algebra/set_operations.py``).

ERA 4.7 says the same of differences of sets, case by case: d = (r1 ∩ i2) ∪ (d1 − (d1 ∩ R2)), i = (i1 − (i1 ∩ r2) −
(i1 ∩ i2)) ∪ (r1 ∩ d2), with r = R − d. With bags the cases would have to count, which this form leaves to the
operators.
"""

from __future__ import annotations

from tidemark.algebra.expressions import Literal
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Negate,
    Plan,
    Project,
    Touched,
    is_empty,
    union,
)
from tidemark.algebra.set_operations import SetOperation
from tidemark.algebra.types import BOOLEAN
from tidemark.calculus.as_of import new, old


def incremental_distinct(plan: Distinct, delta: Plan) -> Plan:
    keys = tuple(range(len(plan.schema)))
    before = Distinct(Touched(old(plan.input), delta, keys))
    after = Distinct(Touched(new(plan.input), delta, keys))
    return union((after, Negate(before)), plan.schema)


def as_aggregate(plan: Distinct) -> Aggregate:
    """δ(E) is the keys of γ[all columns; count(*)](E): the form in which its counts can be kept."""
    return Aggregate(
        plan.input,
        (*plan.schema.names, "count"),
        plan.columns(),
        (AggregateCall(AggregateFunction.COUNT_ROWS),),
    )


def incremental_difference(plan: SetOperation, delta_left: Plan, delta_right: Plan) -> Plan:
    """The change of a Difference or an Intersection; one law serves both."""
    marked = tuple(
        _marked(delta, on_left) for delta, on_left in ((delta_left, True), (delta_right, False)) if not is_empty(delta)
    )
    touched = union(marked, marked[0].schema)
    before, after = (plan.with_inputs(_restricted(at(plan).inputs(), touched)) for at in (old, new))
    return union((after, Negate(before)), plan.schema)


def _marked(delta: Plan, on_left: bool) -> Project:
    return Project(delta, (*delta.schema.names, "left"), (*delta.columns(), Literal(on_left, BOOLEAN)))


def _restricted(sides: tuple[Plan, ...], touched: Plan) -> tuple[Plan, ...]:
    return tuple(Touched(side, touched, tuple(range(len(side.schema)))) for side in sides)
