"""Union cancellation: a term and its negation leave nothing.

    R ⊎ S ⊎ −R = S

Terms are equal as plans, names of columns apart. Nested unions are one union. A term that can raise stays: with it the
error would go.
"""

from __future__ import annotations

from tidemark.algebra.plans import Negate, Plan, Union, union
from tidemark.passes.facts import bottom_up, named, plan_can_fail


def cancel_unions(plan: Plan) -> Plan:
    return bottom_up(plan, _cancelled)


def _cancelled(plan: Plan) -> Plan:
    if not isinstance(plan, Union):
        return plan
    kept: list[Plan] = []
    for part in _flat(plan):
        opposite = part.input if isinstance(part, Negate) else Negate(part)
        if opposite in kept and not plan_can_fail(part):
            kept.remove(opposite)
        else:
            kept.append(part)
    return named(union(tuple(kept), plan.schema), plan.schema.names)


def _flat(plan: Union) -> list[Plan]:
    return [term for part in plan.parts for term in (_flat(part) if isinstance(part, Union) else [part])]
