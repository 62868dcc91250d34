"""IncrRepeat: each row as often again as one of its own columns says.

    Δ repeat[n](R) = repeat[n](ΔR)

A row's n is a part of the row, so weights are multiplied row by row and the operator is linear.
"""

from __future__ import annotations

from tidemark.algebra.plans import Plan, Repeat


def incremental_repeat(plan: Repeat, delta: Plan) -> Plan:
    return plan.with_inputs((delta,))
