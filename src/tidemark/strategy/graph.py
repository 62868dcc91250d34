"""The network as a graph: all nodes from the lowest level up, who reads what, and what the next network can take over.

``build.py`` makes it; strategies only look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from tidemark.algebra.plans import Plan
from tidemark.algebra.structure import Layered
from tidemark.strategy.nodes import REPLACED, Node, NodeKind
from tidemark.strategy.outline import Cutting


class Nodes(Mapping[str, Node]):
    """The nodes of a network by name. Only who goes through all of them pays for their order."""

    def __init__(self, by_name: Layered[str, Node], numbers: Layered[str, int]) -> None:
        self.by_name, self._numbers = by_name, numbers

    @property
    def numbered(self) -> int:
        return len(self._numbers)

    def grown(self, nodes: Mapping[str, Node], numbers: Mapping[str, int]) -> Nodes:
        """These nodes and some more, or others."""
        return Nodes(self.by_name.with_entries(nodes), self._numbers.with_entries(numbers))

    def place(self, node: Node) -> tuple[int, int, str]:
        """Where a node stands in the order, in which each comes after those that it reads."""
        return (node.level, self._numbers.get(node.name, -1), node.name)

    @cached_property
    def _order(self) -> tuple[str, ...]:
        return tuple([node.name for node in sorted(self.by_name.values(), key=self.place)])

    def __getitem__(self, name: str) -> Node:
        return self.by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self.by_name)


@dataclass(frozen=True)
class Knowledge:
    """What building the next network can go by: what each definition is cut into, in which nodes each part stands, and
    of parts that stand in others how often these larger ones do, if that is more than once."""

    cuttings: Layered[str, Cutting] = field(default_factory=Layered)
    holders: Layered[str, tuple[str, ...]] = field(default_factory=Layered)
    within: Layered[str, Mapping[str, int]] = field(default_factory=Layered)


@dataclass(frozen=True)
class Network:
    """All nodes by name, from the lowest level up, and by what each relation is read.

    ``replaced`` are the views whose definition is another one than what is stored was derived by. Of one that has
    grown, ``fresh`` are the nodes that it has more, in order, and ``changed`` the names of others that are not what
    they were. One that ``is_lacking`` has not all states that the definitions ask for."""

    nodes: Nodes = field(default_factory=lambda: Nodes(Layered(), Layered()))
    reading: Layered[str, tuple[str, ...]] = field(default_factory=Layered)
    known: Knowledge = field(default_factory=Knowledge, compare=False, repr=False)
    replaced: tuple[Node, ...] = ()
    fresh: tuple[Node, ...] = field(default=(), compare=False, repr=False)
    changed: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    is_lacking: bool = False

    @staticmethod
    def of(nodes: Iterable[Node]) -> Network:
        """A network of nodes that say by themselves what they read."""
        found: dict[str, list[str]] = {}
        by_name = {node.name: node for node in nodes}
        for node in by_name.values():
            for influent in node.influents:
                found.setdefault(influent, []).append(node.name)
        reading = Layered({name: tuple(readers) for name, readers in found.items()})
        replaced = tuple(node for node in by_name.values() if node.strategy == REPLACED)
        numbers = Layered({name: number for number, name in enumerate(by_name)})
        return Network(Nodes(Layered(by_name), numbers), reading, replaced=replaced)

    @property
    def read(self) -> Set[str]:
        """Everything that some node reads; changes of anything else need no work."""
        return self.reading.keys()

    def readers(self, relation: str) -> list[Node]:
        """The nodes that read a relation or shared node."""
        return [self.nodes[name] for name in self.reading.get(relation, ())]

    def asking(self, shared: str) -> list[Node]:
        """Those who read a shared node when they are asked."""
        return [reader for reader in self.readers(shared) if reader.is_asked]

    def is_stored(self, name: str) -> bool:
        """Whether the name is not that of a node of which nothing is stored."""
        return name not in self.nodes or self.nodes[name].is_stored

    def cut(self, definition: str) -> Plan:
        """A definition as it reads its nodes."""
        return self.known.cuttings[definition].pieces.plan

    def serving(self, view: str) -> tuple[Node, ...]:
        """The nodes that serve a view, itself last."""
        return tuple(node for node in self.nodes.values() if view in node.views)

    def is_shared(self, name: str) -> bool:
        """Whether a node stands for a part that several others have."""
        return name in self.nodes and self.nodes[name].kind is NodeKind.SHARED
