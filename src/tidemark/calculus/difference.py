"""IncrDiff and IncrIntersect: EXCEPT ALL and INTERSECT ALL, when either side or both change.

    Δ(A ∸ B) = (A_new ⋉ K ∸ B_new ⋉ K)  −  (A_old ⋉ K ∸ B_old ⋉ K)
    Δ(A ∩ B) = (A_new ⋉ K ∩ B_new ⋉ K)  −  (A_old ⋉ K ∩ B_old ⋉ K)
    K        = the rows that occur in ΔA or in ΔB

Neither operator is linear, but each of its rows depends on the equal rows of the two sides alone. So touched rows are
looked at, old against new, and no others. In K the two deltas are kept apart by a mark: a row that comes on the left
and goes on the right is touched, although the sum of both is nothing.

ERA 4.7 says the same for sets, case by case: d = (r1 ∩ i2) ∪ (d1 − (d1 ∩ R2)), i = (i1 − (i1 ∩ r2) − (i1 ∩ i2)) ∪
(r1 ∩ d2), with r = R − d. With bags the cases would have to count, which this form leaves to the operators. Where the
network keeps the counts of both sides, the law of their grouping replaces this one (``algebra/counting.py``).
"""

from __future__ import annotations

from tidemark.algebra.counting import SetOperation
from tidemark.algebra.expressions import Literal
from tidemark.algebra.plans import Negate, Plan, Project, Touched, is_empty, union
from tidemark.algebra.types import BOOLEAN
from tidemark.calculus.states import new, old


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
