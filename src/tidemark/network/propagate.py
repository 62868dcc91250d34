"""Propagation: breadth first, bottom up, level by level (AMOS 1.5.1).

Each node that reads something that changed derives its own net delta and passes it on. A node whose delta is empty
ends the wave there. The delta of a shared node is discarded as soon as nothing above needs it any more.

Which node is visited, and when, is said here; how it is brought up to date, by the ladder.

The wave front: which node is next, and which deltas nobody needs any more.

Nodes are taken from the lowest level up, and only those that read something that changed: what a transaction costs
follows the nodes that it reaches, not those that there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemark.analysis.autonomy.dml import AnalysedStatement
from tidemark.engines.engine import Engine
from tidemark.strategy.cache import RefreshCache
from tidemark.strategy.cost import Keys, written_ahead
from tidemark.strategy.graph import Network
from tidemark.strategy.ladder import asked_in_vain, beside, climb, within_reach
from tidemark.strategy.nodes import Node, NodeKind
from tidemark.strategy.visit import Visit
from tidemark.strategy.wave import Wave


class Front:
    """The nodes that a wave reaches, in order. ``reached`` tells it of each relation that turns out to have changed."""

    def __init__(self, network: Network, first: Iterable[Node] = ()) -> None:
        self._network = network
        self._waiting: list[tuple[int, int, str]] = []
        self._seen: set[str] = set()
        self._users: dict[str, int] = {}
        for node in first:
            self._add(node)

    def reached(self, relation: str, found: Iterable[str] | None = None) -> None:
        """The relation has changed: those who read it, or only those found among them, are to be visited."""
        readers = self._network.reading.get(relation, ())
        for reader in readers if found is None else found:
            self._add(self._network.nodes[reader])
        if self._network.is_shared(relation):
            self._users[relation] = len(readers)

    def __iter__(self) -> Iterator[Node]:
        while self._waiting:
            yield self._network.nodes[heapq.heappop(self._waiting)[-1]]

    def discard(self, node: Node, deltas: MutableMapping[str, Any]) -> None:
        """Forget the deltas of shared nodes that were only needed up to this node."""
        for influent in node.influents & self._users.keys():
            self._users[influent] -= 1
            if not self._users[influent]:
                deltas.pop(influent, None)

    def _add(self, node: Node) -> None:
        if node.name not in self._seen:
            self._seen.add(node.name)
            heapq.heappush(self._waiting, self._network.nodes.place(node))


def propagate(
    network: Network,
    changed: Mapping[str, pa.Table],
    engine: Engine,
    cache: RefreshCache,
    said: Callable[[], AnalysedStatement | None] = lambda: None,
    keys: Keys | None = None,
) -> Wave:
    """Derive the deltas of all affected nodes from the net deltas of tables, and of all replaced views.

    ``said`` gives the statement that made the deltas, if it is known and was the only one. With ``keys``, by which rows
    of relations are told apart, a large change may be written ahead: it is about to be committed.
    """
    wave = Wave(changed, said=said)
    ahead = None if keys is None else written_ahead(network, wave.rows, engine, keys)
    if ahead is not None:
        cache = cache.reading_ahead(ahead.relations)
    wave.follower = Later(network, engine, cache)
    front = Front(network, network.replaced)
    for name in tuple(wave.rows):
        front.reached(name, within_reach(name, network, wave, cache, engine.limits))
    for node in front:
        if node.is_asked:
            wave.waiting[node.name] = node
            continue
        climb(Visit(node, network, wave, engine, cache, is_beyond=wave.is_beside_shared(node.name)))
        if ahead is not None:
            ahead.write(node.name, wave.rows)
        if node.name in wave.rows:
            front.reached(node.name, within_reach(node.name, network, wave, cache, engine.limits))
        elif node.kind is NodeKind.SHARED:
            front.reached(node.name, beside(node, network, wave))
        front.discard(node, wave.rows)
    return wave


@dataclass(frozen=True)
class Later:
    """What a wave has left until somebody asks is derived as it would have been at once: what is stored has not changed
    meanwhile."""

    network: Network
    engine: Engine
    cache: RefreshCache

    def follow(self, wave: Wave, node: Node) -> None:
        for shared in node.influents & wave.waiting.keys():
            wave.change_of(shared)
        climb(Visit(node, self.network, wave, self.engine, self.cache, is_asked=True))

    def may_add(self, wave: Wave, node: Node) -> bool:
        return not asked_in_vain(Visit(node, self.network, wave, self.engine, self.cache))
