"""Guards: a condition that can fail is evaluated on joined rows only, after the conditions before it.

    σ[f] (R ⋈[p] S)   as   FROM R, S WHERE p AND (CASE WHEN p IS NOT TRUE THEN FALSE ELSE f END)

Optimizers take a condition that reads R alone below the join, where it would see rows of R that have no partner: a
division by zero in such a row would raise, although the plan never divides by it. Within CASE the condition reads what
its guards read, so it stays above their joins. It has two branches or more, since an optimizer may turn one into AND.

A condition that is itself what links its relations is left as it is: without it they would be joined pair by pair.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Condition:
    """A conjunct of the WHERE clause, the aliases that it reads, and whether it can raise an error."""

    text: str
    aliases: frozenset[str]
    can_fail: bool = False


def guarded(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions of a block of several sources, with those that can fail behind the ones before them."""
    plain = tuple(c for c in conditions if not c.can_fail)
    held = {c for c in conditions if c.can_fail and _are_linked(c.aliases, plain)}
    places = [place for place, c in enumerate(conditions) if c in held]
    if not places or places[-1] == 0:
        return conditions
    before = conditions[: places[-1] + 1]
    branches = " ".join(f"WHEN ({c.text}) IS NOT TRUE THEN FALSE" for c in before)
    together = Condition(f"CASE {branches} ELSE TRUE END", frozenset(a for c in before for a in c.aliases))
    return (*(c for c in conditions if c not in held), together)


def _are_linked(aliases: frozenset[str], conditions: tuple[Condition, ...]) -> bool:
    """Whether the conditions lead from each of the aliases to each other."""
    if len(aliases) < 2:
        return True
    reached = {min(aliases)}
    for _ in conditions:
        reached |= {alias for c in conditions if c.aliases & reached for alias in c.aliases}
    return aliases <= reached
