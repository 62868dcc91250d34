"""Windows are evaluated for the partitions of the wanted rows alone.

    σ[p ∧ q] ω[k] R = σ[p ∧ q] ω[k] (R ⋉ π[k] σ[p] R)          p reads columns of R, q the window's as well

A row of the window has the columns of a row of R, and its values depend on the rows of its partition only.
"""

from __future__ import annotations

from tidemark.algebra.expressions import columns_of, conjunction, conjuncts
from tidemark.algebra.failing import can_fail
from tidemark.algebra.plans import Distinct, Filter, Plan, Project, Touched, Window, transform
from tidemark.passes import optimize


def narrowed(plan: Plan) -> Plan:
    """The plan after all passes, with filtered windows restricted to the partitions that matter."""
    return transform(optimize(plan), _narrowed)


def _narrowed(plan: Plan) -> Plan | None:
    match plan:
        case Filter(input=Window(input=source, partition=partition) as window, predicate=predicate) if partition:
            width = len(source.schema)
            own = tuple(p for p in conjuncts(predicate) if all(i < width for i in columns_of(p)) and not can_fail(p))
            if not own or can_fail(predicate):
                return None
            below = narrowed(source)
            names = tuple(column.name for column in partition)
            wanted = Distinct(Project(narrowed(Filter(source, conjunction(own))), names, partition))
            touched = Touched(below, wanted, tuple(column.index for column in partition))
            return plan.with_inputs((window.with_inputs((touched,)),))
    return None
