"""Cascade of projects (ERA's transformation 3), for bags.

    π[A] π[B] R = π[A ∘ B] R              A is made of columns of B

With the set projections of the text it needs A ⊆ B and holds under one outermost Distinct; here both are bag
projections and Distinct is an operator of its own, so it holds as it stands. What B computes is put in place of its
columns, unless it would be computed twice, or can fail: then it stays where it is.
"""

from __future__ import annotations

from collections import Counter

from tidemark.algebra.expressions import Column, Literal, substitute, walk
from tidemark.algebra.plans import Plan, Project
from tidemark.algebra.scalar import can_fail
from tidemark.passes.facts import bottom_up


def merge_projections(plan: Plan) -> Plan:
    return bottom_up(plan, _merged)


def _merged(plan: Plan) -> Plan:
    match plan:
        case Project(input=Project() as inner) if _can_merge(plan, inner):
            return Project(inner.input, plan.names, tuple(substitute(e, inner.expressions) for e in plan.expressions))
        case Project(input=source) if plan.expressions == source.columns() and plan.names == source.schema.names:
            return source
    return plan


def _can_merge(outer: Project, inner: Project) -> bool:
    uses = Counter(part.index for e in outer.expressions for part in walk(e) if isinstance(part, Column))
    return all(
        isinstance(expression, Column | Literal) or (uses[index] <= 1 and not can_fail(expression))
        for index, expression in enumerate(inner.expressions)
    )
