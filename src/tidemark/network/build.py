"""Building the network from the definitions of the materialized views.

Each view's plan is cut (``cutting.py``) into a linear plan and the states that serve it. Joins that stand in several
nodes become *shared* nodes. Then every node gets its level, from the lowest up.
"""

from __future__ import annotations

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
from tidemark.network.cutting import Pieces, States, cut_alone, whole
from tidemark.network.nodes import REPLACED, Node, NodeKind

COMPLETE = "complete"


@dataclass(frozen=True)
class Definition:
    """What the network needs to know of a materialized view, or of a node whose change alone is wanted."""

    name: str
    plan: Plan
    strategy: str = "auto"
    kind: NodeKind = NodeKind.VIEW


class Part:
    """A part of a plan, compared as the plan is; its hash is worked out once."""

    __slots__ = ("_hash", "plan")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._hash = hash(plan)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self._hash == other._hash and self.plan == other.plan


@dataclass(frozen=True)
class Joins:
    """The parts with a join of one plan."""

    plan: Plan
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Knowledge:
    """What was worked out about single views and nodes, by their names, for the next network."""

    pieces: Mapping[str, Pieces] = field(default_factory=dict)
    joins: Mapping[str, Joins] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """All nodes by name, from the lowest level up."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    known: Knowledge = field(default_factory=Knowledge, compare=False, repr=False)

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
    def shared(self) -> frozenset[str]:
        """The nodes that stand for a part that several others have."""
        return frozenset(name for name, node in self.nodes.items() if node.kind is NodeKind.SHARED)

    @cached_property
    def replaced(self) -> tuple[Node, ...]:
        """The views whose definition is another one than what is stored was derived by."""
        return tuple(node for node in self.nodes.values() if node.strategy == REPLACED)

    def serving(self, view: str) -> tuple[Node, ...]:
        """The nodes that serve a view, itself last."""
        return tuple(node for node in self.nodes.values() if view in node.views)


def build(definitions: Iterable[Definition], before: Network | None = None) -> Network:
    """The network of the given views, which come in an order in which each reads only earlier ones.

    What is known of views that were in the network ``before`` is taken over, so that one more costs little.
    """
    before = before or Network()
    states, pieces = States(), dict[str, Pieces]()
    plans, kinds, users = states.plans, states.kinds, states.users
    strategies: dict[str, str] = {}
    for definition in definitions:
        name = definition.name
        strategies[name] = definition.strategy
        if definition.strategy == COMPLETE:
            plan = definition.plan
        else:
            known = before.known.pieces.get(name)
            is_known = known is not None and known.definition is definition.plan
            cut = whole if definition.kind is NodeKind.EXTERNAL else cut_alone
            pieces[name] = known if known is not None and is_known else cut(definition.plan, name)
            plan = states.add(pieces[name], name)
        plans[name] = plan
        kinds[name] = definition.kind
        users.setdefault(name, []).append(name)
    incremental = {name: plan for name, plan in plans.items() if strategies.get(name) != COMPLETE}
    joins = {name: _joins_of(name, plan, kinds[name], before.known.joins) for name, plan in incremental.items()}
    holders = _holders(joins)
    shared = _shared_subplans(holders)
    nodes: dict[str, Node] = {}
    for plan, name in shared.items():
        views = tuple(view for holder in holders[Part(plan)] for view in users[holder])
        nodes[name] = Node(name, NodeKind.SHARED, plan, 0, relations_of(plan), views=views)
    is_shared_alike = before.shared == frozenset(nodes)
    for name, plan in plans.items():
        old, strategy = before.nodes.get(name), strategies.get(name, "auto")
        if is_shared_alike and old is not None and old.plan is plan and old.strategy == strategy:
            influents, used = old.influents, old.shared
        else:
            used = tuple(_used(plan, kinds[name], shared).items()) if name in incremental else ()
            influents = _influents(plan, dict(used))
        nodes[name] = Node(name, kinds[name], plan, 0, influents, strategy, tuple(users[name]), used)
    return Network(_levelled(nodes, before.nodes), Knowledge(pieces, joins))


def _joins_of(name: str, plan: Plan, kind: NodeKind, known: Mapping[str, Joins]) -> Joins:
    """The parts of a node's plan that could be shared with others: those with a join."""
    old = known.get(name)
    if old is not None and old.plan is plan:
        return old
    parts = {part for part in walk(_linear(plan, kind)) if _has_join(part) and not _is_timed(part)}
    return Joins(plan, tuple(map(Part, parts)))


def _holders(joins: Mapping[str, Joins]) -> dict[Part, list[str]]:
    """In which nodes each part stands."""
    found: dict[Part, list[str]] = {}
    for name, of_node in joins.items():
        for part in of_node.parts:
            found.setdefault(part, []).append(name)
    return found


def _shared_subplans(holders: Mapping[Part, list[str]]) -> dict[Plan, str]:
    """The largest subplans with a join that stand in more than one node, or also outside the larger ones."""
    counts = {part.plan: len(names) for part, names in holders.items() if len(names) > 1}
    within: dict[Plan, int] = {}
    for plan, count in counts.items():
        for child in plan.inputs():
            for part in walk(child):
                if part in counts:
                    within[part] = max(within.get(part, 0), count)
    largest = [plan for plan, count in counts.items() if count > within.get(plan, 0)]
    return {plan: f"_shared_{fingerprint(plan)}" for plan in sorted(largest, key=fingerprint)}


def _linear(plan: Plan, kind: NodeKind) -> Plan:
    is_operator = kind is not NodeKind.EXTERNAL and isinstance(plan, Aggregate | Window | Sort)
    return plan.inputs()[0] if is_operator else plan


def _has_join(plan: Plan) -> bool:
    return any(isinstance(part, Join) for part in walk(plan))


def _is_timed(plan: Plan) -> bool:
    """Whether a plan is a relation beside the clock, perhaps filtered. All its rows change when the clock steps, though
    few of them do once the time is left out, as it is in the projection above, which can be shared."""
    if isinstance(plan, Filter):
        return _is_timed(plan.input)
    return isinstance(plan, Join) and isinstance(plan.right, Scan) and plan.right.relation == CLOCK


def _used(plan: Plan, kind: NodeKind, shared: Mapping[Plan, str]) -> dict[Plan, str]:
    """The shared subplans that stand outermost in the plan."""
    found: dict[Plan, str] = {}

    def visit(part: Plan) -> None:
        if part in shared:
            found[part] = shared[part]
            return
        for child in part.inputs():
            visit(child)

    visit(_linear(plan, kind))
    return found


def _influents(plan: Plan, used: Mapping[Plan, str]) -> frozenset[str]:
    if plan in used:
        return frozenset({used[plan]})
    if isinstance(plan, Scan):
        return frozenset({plan.relation})
    return frozenset(name for child in plan.inputs() for name in _influents(child, used))


def _levelled(nodes: dict[str, Node], before: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes with their levels, sorted from the lowest up: one more than the highest influent's.

    A node that is what it was before is the same object, so that what is known of it can be told to hold still.
    """
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in nodes:
            return 0
        if name not in levels:
            levels[name] = 1 + max((level(influent) for influent in nodes[name].influents), default=0)
        return levels[name]

    order = sorted(nodes, key=level)
    return {name: _as_before(replace(nodes[name], level=levels[name]), before.get(name)) for name in order}


def _as_before(node: Node, old: Node | None) -> Node:
    # Plans that are equal may have other names of columns, so the plan has to be the same one.
    return old if old is not None and old.plan is node.plan and old == node else node
