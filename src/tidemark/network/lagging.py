"""Bringing lagging relations up to date: the same network and the same laws as for a transaction, over a block of many
versions.

A snapshot or continual query has a network of its own, whose nodes (its content, and the counts that serve it) are
stored as of its tidemark. Everything below is stored as of now, so that the old state is what is stored without the net
log since the tidemark (``calculus.as_of``): logical rollback, and never a copy of an old table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from tidemark.algebra.plans import Plan, Scan, relations_of, transform
from tidemark.engines.engine import Engine
from tidemark.network import Network, Node, Wave, build, propagate
from tidemark.network.build import Definition
from tidemark.strategy.cache import RefreshCache
from tidemark.strategy.nodes import REPLACED, NodeKind


@dataclass(frozen=True)
class Lagging:
    """The network of one lagging relation, and what it reads below."""

    name: str
    network: Network
    below: frozenset[str]

    @property
    def stored(self) -> tuple[Node, ...]:
        """The nodes that are kept, from the lowest level up."""
        return tuple(node for node in self.network.nodes.values() if node.is_stored)

    @property
    def shape(self) -> tuple[object, ...]:
        """What is stored of it: two definitions of one shape can go on from the same content."""
        return tuple((node.name, node.kind, node.schema.names, node.schema.types) for node in self.stored)

    def refreshed(self, deltas: Mapping[str, pa.Table], engine: Engine, cache: RefreshCache) -> Wave:
        """What the net changes since the tidemark do to its nodes. ``deltas`` has those of the relations below."""
        wave = propagate(self.network, deltas, engine, cache)
        return self._own(wave)

    def evaluated(self, engine: Engine, cache: RefreshCache, reason: str) -> Wave:
        """The change to what the definition gives now, from the whole of it: for one whose log is gone, or too long."""
        nodes = [replace(node, strategy=REPLACED, shared=()) for node in self.stored]
        whole = Network.of(nodes)
        wave = propagate(whole, {}, engine, cache.apart())
        return self._own(Wave(wave.deltas, [step._replace(reason=reason) for step in wave.steps]))

    def _own(self, wave: Wave) -> Wave:
        """The wave without the deltas that it began with, and those that are not stored."""
        own = {node.name for node in self.stored}
        return Wave({name: delta for name, delta in wave.deltas.items() if name in own}, wave.steps)


def lagging(name: str, plan: Plan, strategy: str = "auto") -> Lagging:
    """The network of a lagging relation. Its inner states are its own, since those of others are as of other
    versions; they are numbered, so that they have the names that they had when the columns below become more."""
    network = build((Definition(name, plan, strategy),))
    states = [node.name for node in network.nodes.values() if node.kind is NodeKind.STATE]
    names = {state: f"_state_of_{name}_{number}" for number, state in enumerate(sorted(states, key=_order(network)))}
    nodes = {names.get(n, n): _renamed(node, names) for n, node in network.nodes.items()}
    read = frozenset(relation for node in nodes.values() for relation in relations_of(node.plan))
    return Lagging(name, Network.of(nodes.values()), read - nodes.keys())


def _order(network: Network) -> Callable[[str], tuple[int, int]]:
    places = {name: place for place, name in enumerate(network.nodes)}
    return lambda name: (network.nodes[name].level, places[name])


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    def renamed(plan: Plan) -> Plan:
        def other(part: Plan) -> Plan | None:
            if isinstance(part, Scan) and part.relation in names:
                return replace(part, relation=names[part.relation])
            return None

        return transform(plan, other)

    return replace(
        node,
        name=names.get(node.name, node.name),
        plan=renamed(node.plan),
        influents=frozenset(names.get(influent, influent) for influent in node.influents),
        shared=tuple((renamed(plan), name) for plan, name in node.shared),
    )
