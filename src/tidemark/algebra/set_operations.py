"""EXCEPT and INTERSECT from counts.

Difference and Intersection are not linear, but they are linear in something that is kept like any grouping: how often
each row stands on the left and on the right.

    C(A, B)      = γ[row; count of A's, count of B's] (π[row, TRUE, NULL] A  ⊎  π[row, NULL, TRUE] B)
    A ∸ B        = repeat[left − right]         σ[left > right]               C(A, B)
    A ∩ B        = repeat[least(left, right)]   σ[left > 0 AND right > 0]     C(A, B)
    δA ∸ δB      =                              σ[left > 0 AND right = 0]     C(A, B)
    δA ∩ δB      =                              σ[left > 0 AND right > 0]     C(A, B)

So one grouping serves all four of them over the same sides, its law (``calculus/group.py``) keeps it exact when both
sides change at once, and what stands above it is linear. Marks are counted and not summed, because a count adds up
weights and a sum would repeat the rows. The engines that speak SQL evaluate these operators in the same form.
"""

from __future__ import annotations

from typing import TypeAlias

from tidemark.algebra.expressions import TRUE, Call, Expression, Literal, conjunction
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Difference,
    Distinct,
    Filter,
    Intersection,
    Plan,
    Project,
    Repeat,
    Union,
)
from tidemark.algebra.types import BIGINT, BOOLEAN

SetOperation: TypeAlias = Difference | Intersection

_NOTHING = Literal(None, BOOLEAN)
_ZERO = Literal(0, BIGINT)


def by_counts(plan: SetOperation) -> Plan:
    """The set operation as a linear plan over the grouping that counts its rows."""
    return from_counts(plan, counts_of(plan))


def counts_of(plan: SetOperation) -> Aggregate:
    """C(A, B): each row of either side, how often it is on the left, and how often on the right."""
    left, right = plan.left, plan.right
    if _is_of_sets(plan):
        left, right = left.inputs()[0], right.inputs()[0]
    both = Union((_marked(left, (TRUE, _NOTHING)), _marked(right, (_NOTHING, TRUE))))
    width = len(plan.schema)
    marks = (both.column(width), both.column(width + 1))
    calls = tuple(AggregateCall(AggregateFunction.COUNT, mark) for mark in marks)
    return Aggregate(both, (*plan.schema.names, "left", "right"), both.columns()[:width], calls)


def from_counts(plan: SetOperation, counts: Plan) -> Plan:
    """The set operation from C(A, B), wherever that is kept."""
    width = len(plan.schema)
    left, right = counts.column(width), counts.column(width + 1)
    times: Expression | None = None
    wanted: tuple[Expression, ...]
    match plan:
        case Difference() if _is_of_sets(plan):
            wanted = (_compared("gt", left, _ZERO), _compared("eq", right, _ZERO))
        case Difference():
            wanted = (_compared("gt", left, right),)
            times = Call("subtract", (left, right), BIGINT, nullable=False)
        case Intersection():
            wanted = (_compared("gt", left, _ZERO), _compared("gt", right, _ZERO))
            if not _is_of_sets(plan):
                times = Call("least", (left, right), BIGINT, nullable=False)
    present: Plan = Filter(counts, conjunction(wanted))
    if times is not None:
        present = Repeat(present, times)
    return Project(present, plan.schema.names, present.columns()[:width])


def _is_of_sets(plan: SetOperation) -> bool:
    """Whether each side has a row at most once, so that presence is all that counts."""
    return isinstance(plan.left, Distinct) and isinstance(plan.right, Distinct)


def _marked(side: Plan, marks: tuple[Expression, Expression]) -> Project:
    return Project(side, (*side.schema.names, "left", "right"), (*side.columns(), *marks))


def _compared(comparison: str, left: Expression, right: Expression) -> Expression:
    return Call(comparison, (left, right), BOOLEAN, nullable=False)
