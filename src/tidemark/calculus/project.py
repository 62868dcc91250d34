"""IncrProject for bags.

    Δ π[A](R) = π[A](ΔR)                                                      (ERA 4.4, with bags throughout)

Bag projection keeps duplicates, hence it is linear and needs no look at R. The set projection of the text is
Distinct above this one: see ``distinct.py``.
"""

from __future__ import annotations

from tidemark.algebra.plans import Plan, Project


def incremental_project(plan: Project, delta: Plan) -> Plan:
    return plan.with_inputs((delta,))
