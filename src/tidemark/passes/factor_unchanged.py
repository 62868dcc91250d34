"""DRA's decomposition: in a differential, the part over relations that did not change, to be evaluated once and kept.

    Δ ⋈ U₁ ⋈ U₂ ⋈ R  =  Δ ⋈ U ⋈ R      with U = U₁ ⋈ U₂, and every condition over U₁ and U₂ alone inside it

Relations that no condition links among themselves are parts by themselves. A part in which anything can fail is none:
evaluated by itself it would meet rows that the delta does not lead to.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from tidemark.algebra.fingerprint import fingerprint
from tidemark.algebra.plans import Given, Join, Plan, Project, Stored, transform, walk
from tidemark.algebra.scalar import can_fail
from tidemark.passes.facts import Joins, plan_can_fail, reads_delta, renumbered


@dataclass(frozen=True)
class Decomposed:
    """A plan that is given the rows of its parts, each under a name."""

    plan: Plan
    parts: tuple[tuple[str, Plan], ...]
    _keeping: dict[frozenset[str], Plan] = field(default_factory=dict, compare=False)

    def keeping(self, names: frozenset[str]) -> Plan:
        """The plan that is given only some of them; the same one each time."""
        if names not in self._keeping:
            others = {name: part for name, part in self.parts if name not in names}
            self._keeping[names] = transform(
                self.plan, lambda part: others.get(part.name) if isinstance(part, Given) else None
            )
        return self._keeping[names]


def decomposed(plan: Plan, unchanged: Set[str]) -> Decomposed:
    """The parts of a plan's joins that read only these relations, and the plan over them."""
    parts: dict[str, Plan] = {}

    def over_parts(part: Plan) -> Plan:
        if not isinstance(part, Join):
            inputs = part.inputs()
            return part.with_inputs(tuple(map(over_parts, inputs))) if inputs else part
        joins = Joins.of(part)
        joins = Joins(tuple(map(over_parts, joins.leaves)), joins.conditions)
        if any(map(can_fail, joins.conditions)):
            return part
        return _over_parts(part, joins, unchanged, parts) or part

    return Decomposed(over_parts(plan), tuple(parts.items()))


def _over_parts(plan: Join, joins: Joins, unchanged: Set[str], parts: dict[str, Plan]) -> Plan | None:
    still = [leaf for leaf, below in enumerate(joins.leaves) if _is_unchanged(below, unchanged)]
    moving = [leaf for leaf in range(len(joins.leaves)) if leaf not in still]
    if not still or not moving:
        return None
    leaves, found, groups = [joins.leaves[leaf] for leaf in moving], dict[str, Plan](), _linked(still, joins)
    for group in groups:
        part, _ = joins.among(group).joined(range(len(group)))
        name = f"unchanged {fingerprint(part)}"
        found[name] = part
        leaves.append(Given(name, part.schema))
    order = [*moving, *(leaf for group in groups for leaf in group)]
    columns = joins.moved(order, Joins(tuple(leaves), ()))
    between = [
        condition
        for condition, link in zip(joins.conditions, joins.links, strict=True)
        if not any(link and link <= set(group) for group in groups)
    ]
    over = Joins(tuple(leaves), tuple(renumbered(condition, columns) for condition in between))
    start = next((i for i, leaf in enumerate(leaves[: len(moving)]) if reads_delta(leaf)), 0)
    parts |= found
    joined, places = over.joined(over.outward(start, through_products=True))
    return Project(joined, plan.schema.names, tuple(places[columns[c].index] for c in range(len(plan.schema))))


def _is_unchanged(plan: Plan, unchanged: Set[str]) -> bool:
    below = [part for part in walk(plan) if not part.inputs()]
    stored = all(isinstance(part, Stored) and part.relation in unchanged for part in below)
    return stored and not plan_can_fail(plan)


def _linked(leaves: Sequence[int], joins: Joins) -> list[list[int]]:
    """The leaves in groups that conditions among them link, each in an order in which they lead on."""
    groups, waiting = list[list[int]](), list(leaves)
    while waiting:
        group = [waiting.pop(0)]
        while more := [
            w for w in waiting if any(w in link and link & set(group) for link in joins.links if link <= {*leaves})
        ]:
            group.append(more[0])
            waiting.remove(more[0])
        groups.append(group)
    return groups
