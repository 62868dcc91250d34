"""Cascade of selects (ERA's transformation 4).

    σ[p] σ[q] R = σ[q AND p] R

The inner condition stays first. AND goes on after an unknown, so p must not be able to fail where q is unknown.
"""

from __future__ import annotations

from tidemark.algebra.expressions import conjunction, conjuncts
from tidemark.algebra.plans import Filter, Plan
from tidemark.algebra.scalar import can_fail
from tidemark.passes.facts import bottom_up


def merge_filters(plan: Plan) -> Plan:
    return bottom_up(plan, _merged)


def _merged(plan: Plan) -> Plan:
    match plan:
        case Filter(input=Filter(input=source, predicate=inner), predicate=outer) if not can_fail(outer):
            parts = dict.fromkeys(conjuncts(inner) + conjuncts(outer))
            return Filter(source, conjunction(tuple(parts)))
    return plan
