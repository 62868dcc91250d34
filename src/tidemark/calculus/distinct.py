"""IncrDistinct: duplicate elimination, and with it the set projection and set union of the texts.

    Δ δ(E) = δ(E_new ⋉ K) − δ(E_old ⋉ K),   K = the rows that occur in ΔE

Only touched rows are looked at, old against new, so n equal rows added and m removed in one block come out right.
Where the network keeps the counts of δ's rows, the group law with counts replaces this one (``group.py``).
"""

from __future__ import annotations

from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Negate,
    Plan,
    Touched,
    union,
)
from tidemark.calculus.states import new, old


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
