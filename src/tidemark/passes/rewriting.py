"""The two steps that passes are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidemark.algebra.plans import Plan, Project


def bottom_up(plan: Plan, rule: Callable[[Plan], Plan]) -> Plan:
    """The plan with the rule applied to every node, inputs first."""
    inputs = plan.inputs()
    changed = tuple(bottom_up(child, rule) for child in inputs)
    same = all(new is old for new, old in zip(changed, inputs, strict=True))
    return rule(plan if same else plan.with_inputs(changed))


def named(plan: Plan, names: tuple[str, ...]) -> Plan:
    """The same rows under the given names."""
    if plan.schema.names == names:
        return plan
    if isinstance(plan, Project):
        return replace(plan, names=names)
    return Project(plan, names, plan.columns())
