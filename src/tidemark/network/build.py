"""Building the network from the definitions of the materialized views.

Each view's plan is cut (``strategy.cut``) into a linear plan and the states that serve it. Joins that stand in several
nodes become *shared* nodes. Then every node gets its level, from the lowest up.

All of it goes by the outlines of definitions (``strategy.outline``), so that nobody's plan is needed; and a network
that gets some definitions more shares what it has with the one before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from tidemark.algebra.plans import Plan
from tidemark.strategy.cut import ALONE, OVER_GROUPINGS, WHOLE
from tidemark.strategy.graph import Knowledge, Network
from tidemark.strategy.nodes import AUTO, COMPLETE, Drawn, Node, NodeKind, Origin
from tidemark.strategy.outline import UNCUT, Cutting, Sourced
from tidemark.strategy.parts import parts_of, shared_name
from tidemark.strategy.recursion.rederive import Rules


@dataclass(frozen=True)
class Definition:
    """What the network needs to know of a materialized view, or of a node whose change alone is wanted: whether the
    groupings in it are kept all the same, and whether it is about an event, so that it has a change in some blocks
    only, and is no node."""

    name: str
    plan: Plan | Sourced
    strategy: str = AUTO
    kind: NodeKind = NodeKind.VIEW
    rules: Rules | None = field(default=None, compare=False, repr=False)
    is_forbidden: bool = False
    is_asked: bool = False
    keeps_groupings: bool = False
    is_event: bool = False

    @property
    def way(self) -> str:
        """How it is cut."""
        if self.strategy == COMPLETE:
            return UNCUT
        if self.kind is not NodeKind.EXTERNAL:
            return ALONE
        return OVER_GROUPINGS if self.keeps_groupings else WHOLE


NOTHING: Final = Network()


def build(definitions: Iterable[Definition], before: Network = NOTHING) -> Network:
    """The network of the given views, which come in an order in which each reads only earlier ones.

    What is known of views that were in the network ``before`` is taken over, so that one more costs little.
    """
    return _Building(NOTHING, before).with_definitions(definitions)


def grown(network: Network, definitions: Iterable[Definition]) -> Network:
    """The network with some definitions more, which nothing in it reads. What that costs follows what they touch."""
    return _Building(network, network).with_definitions(definitions)


class _Building:
    """A network on which another one is built: what is there is looked up in it and never changed."""

    def __init__(self, base: Network, before: Network) -> None:
        self._base, self._before = base, before
        self._cuttings: dict[str, Cutting] = {}
        self._nodes: dict[str, Node] = {}
        self._users: dict[str, list[str]] = {}
        self._holders: dict[str, list[str]] = {}
        self._within: dict[str, dict[str, int]] = {}
        self._numbers: dict[str, int] = {}

    def with_definitions(self, definitions: Iterable[Definition]) -> Network:
        for definition in definitions:
            self._define(definition)
        fresh = list(self._nodes.values())
        for node in fresh:
            self._hold(node)
        for node in fresh:
            self._weigh(node)
        for name, users in self._users.items():
            self._nodes[name] = self._node(name).redrawn(views=(*self._views_before(name), *users))
        for digest in dict.fromkeys(
            digest for node in tuple(self._nodes.values()) for digest in node.known.tree.digests
        ):
            if digest in self._shared:
                self._share(digest)
        for name, node in tuple(self._nodes.items()):
            self._nodes[name] = self._routed(node)
        return self._finished()

    # Definitions and their nodes

    def _define(self, definition: Definition) -> None:
        name, cutting = definition.name, self._cutting(definition)
        self._cuttings[name] = cutting
        for state, (columns, tree) in cutting.outline.states.items():
            if self._find(state) is None:
                filters = cutting.outline.filters.get(state, {})
                self._add(Node.later(state, NodeKind.STATE, Drawn(cutting, tree, (), columns, filters)))
            self._users.setdefault(state, []).append(name)
        if definition.is_event:
            return
        drawn = Drawn(cutting, cutting.outline.own, filters=cutting.outline.filters.get(name, {}))
        node = Node.later(name, definition.kind, drawn, definition.strategy, definition.rules)
        said = {"is_forbidden": definition.is_forbidden, "is_asked": definition.is_asked}
        self._add(node.redrawn(**said) if any(said.values()) else node)
        self._users.setdefault(name, []).append(name)

    def _add(self, node: Node) -> None:
        self._nodes[node.name] = node
        self._numbers[node.name] = self._base.nodes.numbered + len(self._numbers)

    def _cutting(self, definition: Definition) -> Cutting:
        """What a definition is cut into, taken over if it was cut so before, over the states that others have."""
        known = self._before.known.cuttings.get(definition.name)
        if known is None or known.source is not definition.plan or known.way != definition.way:
            known = Cutting(definition.name, definition.plan, definition.way)
        alone = known.alone
        there = {name: node for name in alone.outline.states if (node := self._find(name)) is not None}
        if all(node.known.columns == alone.outline.states[name][0] for name, node in there.items()):
            return alone
        over = alone.over({name: node.plan for name, node in there.items()})
        return known if known.outline == over.outline else over

    def _find(self, name: str) -> Node | None:
        return self._nodes.get(name) or self._base.nodes.by_name.get(name)

    def _node(self, name: str) -> Node:
        found = self._find(name)
        assert found is not None, f"no node is called {name!r}"
        return found

    def _views_before(self, name: str) -> tuple[str, ...]:
        known = self._base.nodes.by_name.get(name)
        return () if known is None else known.views

    # Shared parts: the largest parts with a join that stand in more than one node, or also outside the larger ones

    def _hold(self, node: Node) -> None:
        for digest in node.known.tree.digests:
            before = self._base.known.holders.get(digest, ())
            self._holders.setdefault(digest, list(before)).append(node.name)

    def _weigh(self, node: Node) -> None:
        """Note of what is in a part how often that stands somewhere, if it is more than once."""
        tree = node.known.tree
        for digest in tree.digests:
            times = len(self._holders[digest])
            for below in tree.digests_below(digest) if times > 1 else ():
                before = self._base.known.within.get(below, {})
                self._within.setdefault(below, dict(before))[digest] = times

    @cached_property
    def _shared(self) -> Container[str]:
        return _Shared(self)

    def is_shared(self, digest: str) -> bool:
        times = len(self.holders(digest))
        within = self._within.get(digest) or self._base.known.within.get(digest, {})
        return times > 1 and times > max(within.values(), default=0)

    def holders(self, digest: str) -> Sequence[str]:
        return self._holders.get(digest) or self._base.known.holders.get(digest, ())

    def _share(self, digest: str) -> None:
        """A part is a node of its own for all that hold it; these are looked at again if it was none before."""
        name, holders = shared_name(digest), self.holders(digest)
        known = self._base.nodes.by_name.get(name)
        if known is None:
            first = self._node(holders[0])
            drawn = Drawn(
                _Part(first.known.origin, first.name, digest, first.is_stored), first.known.tree.of_part(digest)
            )
            known = Node.later(name, NodeKind.SHARED, drawn)
            for holder in holders:
                self._nodes.setdefault(holder, self._node(holder))
        views = tuple([view for holder in holders for view in self._node(holder).views])
        self._nodes[name] = known.redrawn(views=views)

    def _routed(self, node: Node) -> Node:
        """The node as it reads what is shared, and relations beside that."""
        if node.kind is NodeKind.SHARED:
            return node
        relations, used = node.known.tree.route(self._shared)
        if used == node.known.shares and (used or node.influents == relations):
            return node
        return node.redrawn(influents=relations.union(map(shared_name, used)), drawn=replace(node.known, shares=used))

    # Who reads whom, and the levels

    def _finished(self) -> Network:
        come, gone = dict[str, list[str]](), dict[str, set[str]]()
        for name, node in self._nodes.items():
            old = self._base.nodes.by_name.get(name)
            before = frozenset[str]() if old is None else old.influents
            for influent in node.influents - before:
                come.setdefault(influent, []).append(name)
            for influent in before - node.influents:
                gone.setdefault(influent, set()).add(name)
        reading = dict[str, tuple[str, ...]]()
        for relation in {*come, *gone}:
            left, stay = gone.get(relation, ()), self._base.reading.get(relation, ())
            if left:
                stay = tuple([name for name in stay if name not in left])
            reading[relation] = (*stay, *come.get(relation, ()))
        readers = self._base.reading.with_entries(reading)
        self._level(readers)
        changed = {name: self._as_before(node) for name, node in self._nodes.items()}
        known, there = self._base.known, self._base.nodes.by_name
        nodes = self._base.nodes.grown(changed, self._numbers)
        fresh = [node for name, node in changed.items() if name not in there]
        return Network(
            nodes,
            readers,
            Knowledge(
                known.cuttings.with_entries(self._cuttings),
                known.holders.with_entries({digest: tuple(names) for digest, names in self._holders.items()}),
                known.within.with_entries(self._within),
            ),
            fresh=tuple(sorted(fresh, key=nodes.place)),
            changed=frozenset(name for name, node in changed.items() if name in there and there[name] is not node),
        )

    def _level(self, readers: Mapping[str, Sequence[str]]) -> None:
        """Let each node have one level more than the highest of what it reads."""
        waiting = deque(sorted(self._nodes, key=lambda name: self._nodes[name].kind is not NodeKind.SHARED))
        while waiting:
            node = self._node(waiting.popleft())
            below = (self._find(influent) for influent in node.influents)
            level = 1 + max((other.level for other in below if other is not None), default=0)
            if level != node.level:
                self._nodes[node.name] = node.redrawn(level=level)
                waiting.extend(readers.get(node.name, ()))

    def _as_before(self, node: Node) -> Node:
        """The node that was in the network before, if it says the same, so that what is known of it can be told to hold
        still. Plans that are equal may have other names of columns, so it has to come from the same definition."""
        old = self._before.nodes.by_name.get(node.name)
        return old if old is not None and old.is_drawn_as(node) else node


class _Shared(Container[str]):
    """The digests of the parts that are shared."""

    def __init__(self, building: _Building) -> None:
        self._building = building
        self._known: dict[str, bool] = {}

    def __contains__(self, digest: object) -> bool:
        assert isinstance(digest, str)
        if digest not in self._known:
            self._known[digest] = self._building.is_shared(digest)
        return self._known[digest]


@dataclass(frozen=True)
class _Part:
    """Where the plan of a shared node comes from: a node that has it as a part."""

    origin: Origin
    holder: str
    digest: str
    is_stored: bool

    def plan_of(self, node: str) -> Plan:
        return parts_of(self.origin.plan_of(self.holder), is_stored=self.is_stored)[self.digest]
