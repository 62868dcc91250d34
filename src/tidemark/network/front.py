"""The wave front: which node is next, and which deltas nobody needs any more.

Nodes are taken from the lowest level up, and only those that read something that changed: what a transaction costs
follows the nodes that it reaches, not those that there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

from tidemark.network.build import Network
from tidemark.network.nodes import Node, NodeKind


class Front:
    """The nodes that a wave reaches, in order. ``reached`` tells it of each relation that turns out to have changed."""

    def __init__(self, network: Network, first: Iterable[Node] = ()) -> None:
        self._network = network
        self._waiting: list[int] = []
        self._seen: set[int] = set()
        self._users: dict[str, int] = {}
        for node in first:
            self._add(node)

    def reached(self, relation: str, found: Iterable[str] | None = None) -> None:
        """The relation has changed: those who read it, or only those found among them, are to be visited."""
        readers = self._network.readers.get(relation, ())
        for reader in readers if found is None else map(self._network.nodes.__getitem__, found):
            self._add(reader)
        node = self._network.nodes.get(relation)
        if node is not None and node.kind is NodeKind.SHARED:
            self._users[relation] = len(readers)

    def __iter__(self) -> Iterator[Node]:
        while self._waiting:
            yield self._network.in_order[heapq.heappop(self._waiting)]

    def discard(self, node: Node, deltas: MutableMapping[str, Any]) -> None:
        """Forget the deltas of shared nodes that were only needed up to this node."""
        for influent in node.influents & self._users.keys():
            self._users[influent] -= 1
            if not self._users[influent]:
                deltas.pop(influent, None)

    def _add(self, node: Node) -> None:
        place = self._network.places[node.name]
        if place not in self._seen:
            self._seen.add(place)
            heapq.heappush(self._waiting, place)
