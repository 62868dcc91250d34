"""Building the network from the definitions of the materialized views.

Each view's plan is cut (``cutting.py``) into a linear plan and the states that serve it. Joins that stand in several
nodes become *shared* nodes. Then every node gets its level, from the lowest up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from tidemark.algebra.clock import CLOCK
from tidemark.algebra.fingerprint import fingerprint
from tidemark.algebra.plans import (
    Aggregate,
    Filter,
    Join,
    Plan,
    Scan,
    Sort,
    Window,
    relations_of,
    walk,
)
from tidemark.network.cutting import States
from tidemark.network.nodes import REPLACED, Node, NodeKind
from tidemark.passes import prepare

COMPLETE = "complete"


@dataclass(frozen=True)
class Definition:
    """What the network needs to know of a materialized view."""

    name: str
    plan: Plan
    strategy: str = "auto"


@dataclass(frozen=True)
class Network:
    """All nodes by name, from the lowest level up."""

    nodes: Mapping[str, Node] = field(default_factory=dict)

    @cached_property
    def read(self) -> frozenset[str]:
        """Everything that some node reads; changes of anything else need no work."""
        return frozenset(influent for node in self.nodes.values() for influent in node.influents)

    @cached_property
    def in_order(self) -> tuple[Node, ...]:
        return tuple(self.nodes.values())

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where each node stands in the order."""
        return {name: place for place, name in enumerate(self.nodes)}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each relation or shared node, in order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            for influent in node.influents:
                found.setdefault(influent, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def unstored(self) -> frozenset[str]:
        """The nodes of which nothing is stored."""
        return frozenset(name for name, node in self.nodes.items() if not node.is_stored)

    @cached_property
    def replaced(self) -> tuple[Node, ...]:
        """The views whose definition is another one than what is stored was derived by."""
        return tuple(node for node in self.nodes.values() if node.strategy == REPLACED)

    def serving(self, view: str) -> tuple[Node, ...]:
        """The nodes that serve a view, itself last."""
        return tuple(node for node in self.nodes.values() if view in node.views)


def build(definitions: Iterable[Definition]) -> Network:
    """The network of the given views, which come in an order in which each reads only earlier ones."""
    states = States()
    plans, kinds, users = states.plans, states.kinds, states.users
    strategies: dict[str, str] = {}
    for definition in definitions:
        strategies[definition.name] = definition.strategy
        if definition.strategy == COMPLETE:
            plan = definition.plan
        else:
            plan = states.cut(prepare(definition.plan), definition.name)
        plans[definition.name] = plan
        kinds[definition.name] = NodeKind.VIEW
        users.setdefault(definition.name, []).append(definition.name)
    incremental = {name: plan for name, plan in plans.items() if strategies.get(name) != COMPLETE}
    shared = _shared_subplans(incremental)
    nodes: dict[str, Node] = {}
    for plan, name in shared.items():
        views = tuple(v for n, p in incremental.items() if plan in set(walk(p)) for v in users[n])
        nodes[name] = Node(name, NodeKind.SHARED, plan, 0, relations_of(plan), views=views)
    for name, plan in plans.items():
        used = _used(plan, shared) if name in incremental else {}
        influents = _influents(plan, used)
        nodes[name] = Node(
            name,
            kinds[name],
            plan,
            0,
            influents,
            strategies.get(name, "auto"),
            tuple(users[name]),
            tuple(used.items()),
        )
    return Network(_levelled(nodes))


def _shared_subplans(plans: Mapping[str, Plan]) -> dict[Plan, str]:
    """The largest subplans with a join that stand in more than one node."""
    counts: Counter[Plan] = Counter()
    for plan in plans.values():
        counts.update({part for part in walk(_linear(plan)) if _has_join(part) and not _is_timed(part)})
    repeated = {plan for plan, count in counts.items() if count > 1}
    inner = {part for plan in repeated for child in plan.inputs() for part in walk(child)}
    largest = [plan for plan in repeated if plan not in inner or _stands_alone(plan, repeated, counts)]
    return {plan: f"_shared_{fingerprint(plan)}" for plan in sorted(largest, key=fingerprint)}


def _stands_alone(plan: Plan, repeated: set[Plan], counts: Counter[Plan]) -> bool:
    """Whether the subplan is also used outside the larger repeated subplans that contain it."""
    largest = max((counts[other] for other in repeated if other != plan and plan in set(walk(other))), default=0)
    return counts[plan] > largest


def _linear(plan: Plan) -> Plan:
    return plan.input if isinstance(plan, Aggregate | Window | Sort) else plan


def _has_join(plan: Plan) -> bool:
    return any(isinstance(part, Join) for part in walk(plan))


def _is_timed(plan: Plan) -> bool:
    """Whether a plan is a relation beside the clock, perhaps filtered. All its rows change when the clock steps, though
    few of them do once the time is left out, as it is in the projection above, which can be shared."""
    if isinstance(plan, Filter):
        return _is_timed(plan.input)
    return isinstance(plan, Join) and isinstance(plan.right, Scan) and plan.right.relation == CLOCK


def _used(plan: Plan, shared: Mapping[Plan, str]) -> dict[Plan, str]:
    """The shared subplans that stand outermost in the plan."""
    found: dict[Plan, str] = {}

    def visit(part: Plan) -> None:
        if part in shared:
            found[part] = shared[part]
            return
        for child in part.inputs():
            visit(child)

    visit(_linear(plan))
    return found


def _influents(plan: Plan, used: Mapping[Plan, str]) -> frozenset[str]:
    if plan in used:
        return frozenset({used[plan]})
    if isinstance(plan, Scan):
        return frozenset({plan.relation})
    return frozenset(name for child in plan.inputs() for name in _influents(child, used))


def _levelled(nodes: dict[str, Node]) -> dict[str, Node]:
    """The nodes with their levels, sorted from the lowest up: one more than the highest influent's."""
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in nodes:
            return 0
        if name not in levels:
            levels[name] = 1 + max((level(influent) for influent in nodes[name].influents), default=0)
        return levels[name]

    order = sorted(nodes, key=level)
    return {name: replace(nodes[name], level=levels[name]) for name in order}
