"""Reading ahead: of a block that changes a large part of its relations, these are written before nodes are derived.

Then what is stored is as of the end of the block, as it is for what lags (``calculus/as_of.py``): new states are read
as they are, and old ones are what is stored without the change. Each derived relation is written as soon as its change
is known, so that those above it are evaluated over what is stored, too.

What rules ask for, recursion, and what begins to mean something else read their relations as they were committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.engines.engine import Engine, WritesAhead
from tidemark.storage.delta import Rows
from tidemark.strategy.graph import Network
from tidemark.strategy.nodes import Node, NodeKind

Keys = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Ahead:
    """Relations that are written as soon as their change is known, by an engine that does so."""

    relations: frozenset[str]
    engine: WritesAhead
    keys: Keys

    def write(self, name: str, changed: Mapping[str, Rows]) -> None:
        """Write the change of a relation, if it has one and is one of these."""
        if name in self.relations and name in changed:
            self.engine.write(name, changed[name].table, self.keys.get(name, ()))


def written_ahead(network: Network, changed: Mapping[str, Rows], engine: Engine, keys: Keys) -> Ahead | None:
    """What is written ahead of a block that changes these tables, which is begun; None if that does not pay."""
    if engine.ahead is None or not _is_large(network, changed, engine):
        return None
    relations = readable_ahead(network)
    if not relations.intersection(changed):
        return None
    engine.ahead.begin()
    found = Ahead(relations, engine.ahead, keys)
    for name in changed:
        found.write(name, changed)
    return found


def _is_large(network: Network, changed: Mapping[str, Rows], engine: Engine) -> bool:
    """Whether so much changes of the tables that nodes read that most of them are better evaluated anew."""
    read = [name for name in changed if name in network.read]
    rows = sum(changed[name].count for name in read)
    if rows < engine.limits.least_ahead:
        return False
    return rows * engine.limits.part_ahead >= sum(engine.rows(name) for name in read)


def readable_ahead(network: Network) -> frozenset[str]:
    """The relations and nodes that may be written before who reads them is derived."""
    as_committed = frozenset[str]().union(*(_reads(node) for node in network.nodes.values() if _is_bound(node)))
    stored = (node.name for node in network.nodes.values() if node.is_stored)
    return frozenset({*(name for name in network.read if name not in network.nodes), *stored} - as_committed)


def _is_bound(node: Node) -> bool:
    """Whether a node reads what was committed before the block."""
    is_other = node.is_asked or node.rules is not None or node.before is not None or node.kind is NodeKind.EXTERNAL
    return is_other or node.recurs


def _reads(node: Node) -> frozenset[str]:
    return node.relations | node.influents | {node.name}
