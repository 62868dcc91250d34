"""IncrSelect.

    Δ σ[p](R) = σ[p](ΔR)                                                      (ERA 4.3)

The filter keeps weights, so one delta carries insertions and deletions at once.
"""

from __future__ import annotations

from tidemark.algebra.plans import Filter, Plan


def incremental_select(plan: Filter, delta: Plan) -> Plan:
    return plan.with_inputs((delta,))
