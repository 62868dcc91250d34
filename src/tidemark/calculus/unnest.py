"""IncrUnnest: each row once for each element of an array of its own.

    Δ unnest[a](R) = unnest[a](ΔR)

The array follows from the row, so a row that comes or goes takes its elements along and the operator is linear.
"""

from __future__ import annotations

from tidemark.algebra.plans import Plan, Unnest


def incremental_unnest(plan: Unnest, delta: Plan) -> Plan:
    return plan.with_inputs((delta,))
