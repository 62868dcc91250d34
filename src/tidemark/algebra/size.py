"""How large a plan becomes when it is taken apart."""

from __future__ import annotations

from math import prod

from tidemark.algebra.plans import Aggregate, Difference, Distinct, Fixpoint, Intersection, Plan, Union


def term_count(plan: Plan) -> int:
    """How many joins of leaves the plan is a union of, once unions are moved above joins.

    A grouping is one leaf: it is kept as a state of its own.

    >>> from tidemark.algebra.expressions import TRUE
    >>> from tidemark.algebra.plans import Join, Values
    >>> from tidemark.algebra.types import Schema
    >>> one = Values(((),), Schema(()))
    >>> term_count(Join(Union((one, one)), Union((one, one, one)), TRUE))
    6
    """
    if isinstance(plan, Distinct | Aggregate | Difference | Intersection | Fixpoint):
        return 1
    if isinstance(plan, Union):
        return sum(term_count(part) for part in plan.parts)
    return prod(term_count(child) for child in plan.inputs())
