"""Partial differentials (AMOS 1.5.3): how one influent's change of one sign reaches the affected relation.

A linear plan (select, project, join, union) changes by the sum of one term for each *occurrence* of a changed
relation: the occurrence is replaced by its delta, occurrences to its left are read in the old state, those to its
right in the new. Summed over the signs and over the occurrences this is the telescoped form of ``join.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Intersection,
    Plan,
    Scan,
    Sort,
    State,
    Union,
    Window,
    walk,
)

_NOT_LINEAR = (Distinct, Aggregate, Difference, Intersection, Window, Sort)


@dataclass(frozen=True)
class Partial:
    """ΔP/Δ+Q or ΔP/Δ−Q, for one occurrence of the influent Q."""

    influent: str
    occurrence: int
    state: State
    plan: Plan


def is_linear(plan: Plan) -> bool:
    """Whether the plan distributes over sums of weights."""
    return not any(isinstance(part, _NOT_LINEAR) for part in walk(plan))


def partial_differentials(plan: Plan) -> tuple[Partial, ...]:
    """All partial differentials of a linear plan, by occurrence from left to right, then by sign."""
    if not is_linear(plan):
        raise ValueError("partial differentials belong to linear plans: cut the plan at its groupings first")
    occurrences = [part for part in walk(plan) if isinstance(part, Scan)]
    return tuple(
        Partial(scan.relation, number, sign, _term(plan, number, sign, [0]))
        for number, scan in enumerate(occurrences)
        for sign in (State.INSERTED, State.DELETED)
    )


def _term(plan: Plan, number: int, sign: State, seen: list[int]) -> Plan:
    """The plan with occurrence ``number`` read as a delta; ``seen`` counts the occurrences passed so far."""
    if isinstance(plan, Scan):
        position = seen[0]
        seen[0] += 1
        if position == number:
            return replace(plan, state=sign)
        return replace(plan, state=State.OLD if position < number else State.NEW)
    if isinstance(plan, Union) and seen[0] <= number < seen[0] + _occurrences(plan):
        # Only the part with the occurrence changes; the others contribute nothing to this term.
        end = seen[0] + _occurrences(plan)
        for part in plan.parts:
            size = _occurrences(part)
            if number < seen[0] + size:
                chosen = _term(part, number, sign, seen)
                seen[0] = end
                return chosen
            seen[0] += size
    children = tuple(_term(child, number, sign, seen) for child in plan.inputs())
    return plan.with_inputs(children) if children else plan


def _occurrences(plan: Plan) -> int:
    return sum(isinstance(part, Scan) for part in walk(plan))
