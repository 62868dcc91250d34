"""The network as a graph: all nodes from the lowest level up, who reads what, and what the next network can take over.

``build.py`` makes it; strategies only look at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidemark.algebra.plans import Plan
from tidemark.strategy.cut import Pieces
from tidemark.strategy.nodes import REPLACED, Node, NodeKind


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
    """What was worked out about single views and nodes, by their names, for the next network; ``reading`` has the
    definitions as they read its nodes."""

    pieces: Mapping[str, Pieces] = field(default_factory=dict)
    joins: Mapping[str, Joins] = field(default_factory=dict)
    reading: Mapping[str, Plan] = field(default_factory=dict)


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
    def asking(self) -> Mapping[str, tuple[Node, ...]]:
        """Of each shared node, those who read it when they are asked."""
        found = {name: tuple(r for r in self.readers.get(name, ()) if r.is_asked) for name in self.shared}
        return {name: nodes for name, nodes in found.items() if nodes}

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
