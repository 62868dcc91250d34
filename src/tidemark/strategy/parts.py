"""The parts of a plan that it could share with others: those with a join.

A network knows of each plan only the tree of such parts, by digests, and the relations that they read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tidemark.algebra.cache import Once, PerPlan
from tidemark.algebra.fingerprint import SHORT, digests
from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Aggregate, Filter, Fixpoint, Join, Plan, Scan, Sort, Window, relations_of, walk

Row = tuple[str, tuple[int | str, ...]]


@dataclass(frozen=True)
class Tree:
    """The parts with a join of one plan, each after those in it: the digest of a part, and what is right below it:
    other parts by their places, and relations by their names. The last row is the plan itself, without a digest; of
    one that ``recurs`` there is no other."""

    rows: tuple[Row, ...]
    recurs: bool = False

    @property
    def digests(self) -> frozenset[str]:
        return frozenset(digest for digest, _ in self.rows if digest)

    @cached_property
    def relations(self) -> frozenset[str]:
        return frozenset(below for _, row in self.rows for below in row if isinstance(below, str))

    def of_part(self, digest: str) -> Tree:
        """A part by itself, of which nothing is shared."""
        return Tree((("", tuple(sorted(self._route(self._place(digest), ())[0]))),))

    def digests_below(self, digest: str) -> frozenset[str]:
        """The parts in a part."""
        found, waiting = set[str](), list(self.rows[self._place(digest)][1])
        while waiting:
            below = waiting.pop()
            if isinstance(below, int):
                found.add(self.rows[below][0])
                waiting += self.rows[below][1]
        return frozenset(found)

    def route(self, shared: Container[str]) -> tuple[frozenset[str], tuple[str, ...]]:
        """What the plan reads beside the parts that are shared, and which of these stand outermost in it."""
        return self._route(len(self.rows) - 1, shared)

    def _route(self, start: int, shared: Container[str]) -> tuple[frozenset[str], tuple[str, ...]]:
        relations, used = set[str](), dict[str, None]()
        seen, waiting = {start}, list(self.rows[start][1])
        while waiting:
            below = waiting.pop()
            if isinstance(below, str):
                relations.add(below)
            elif self.rows[below][0] in shared:
                used[self.rows[below][0]] = None
            elif below not in seen:
                seen.add(below)
                waiting += self.rows[below][1]
        return frozenset(relations), tuple(sorted(used))

    def _place(self, digest: str) -> int:
        return next(place for place, (known, _) in enumerate(self.rows) if known == digest)


def shared_name(digest: str) -> str:
    """The name of the node for a part that several others have."""
    return f"_shared_{digest[:SHORT]}"


def tree_of(plan: Plan, *, is_stored: bool = True) -> Tree:
    """The tree of a node's plan, or of the input of one that is stored and an operator."""
    # What a recursion reads has to be looked up, and of shared parts there is nothing but their change.
    return flat(plan) if recurs(plan) else _joins(linear(plan, is_stored=is_stored))[0]


def parts_of(plan: Plan, *, is_stored: bool = True) -> Mapping[str, Plan]:
    """The parts of a node's plan by their digests."""
    return {} if recurs(plan) else _joins(linear(plan, is_stored=is_stored))[1]


def linear(plan: Plan, *, is_stored: bool) -> Plan:
    """The input of an operator that is stored, else the plan itself."""
    return plan.inputs()[0] if is_stored and isinstance(plan, Aggregate | Window | Sort) else plan


def flat(plan: Plan) -> Tree:
    return Tree((("", tuple(sorted(relations_of(plan)))),), recurs(plan))


def _tree_and_parts(plan: Plan) -> tuple[Tree, Mapping[str, Plan]]:
    parts, belows = list[Plan](), list[tuple[int | str, ...]]()

    def visit(part: Plan, of: Callable[[Plan], tuple[int | str, ...]]) -> tuple[int | str, ...]:
        if isinstance(part, Scan):
            return (part.relation,)
        below = tuple(dict.fromkeys(one for child in part.inputs() for one in of(child)))
        if not _has_join(part) or _is_timed(part):
            return below
        parts.append(part)
        belows.append(below)
        return (len(parts) - 1,)

    top = Once(visit)(plan)
    names = digests(parts)
    return Tree((*zip(names, belows, strict=True), ("", top))), dict(zip(names, parts, strict=True))


_joins: Final = PerPlan(_tree_and_parts)


def recurs(plan: Plan) -> bool:
    """Whether there is a recursion in a plan."""
    return any(isinstance(part, Fixpoint) for part in walk(plan))


_has_join: Final[PerPlan[bool]] = PerPlan(
    lambda plan: isinstance(plan, Join) or any(_has_join(child) for child in plan.inputs())
)


def _is_timed(plan: Plan) -> bool:
    """Whether a plan is a relation beside the clock, perhaps filtered. All its rows change when the clock steps, though
    few of them do once the time is left out, as it is in the projection above, which can be shared."""
    if isinstance(plan, Filter):
        return _is_timed(plan.input)
    return isinstance(plan, Join) and isinstance(plan.right, Scan) and plan.right.relation == CLOCK
