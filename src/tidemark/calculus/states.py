"""The same plan, read at another point of a block."""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.plans import Plan, Scan, State, transform


def at(plan: Plan, state: State) -> Plan:
    """The plan with every relation read at the given state."""
    return transform(plan, lambda p: replace(p, state=state) if isinstance(p, Scan) else None)


def old(plan: Plan) -> Plan:
    """The plan evaluated before the block."""
    return at(plan, State.OLD)


def new(plan: Plan) -> Plan:
    """The plan evaluated after the block."""
    return at(plan, State.NEW)
