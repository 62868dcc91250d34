"""Refresh plans by node and changed influents: a network's plans are derived once, not per transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from tidemark.algebra.plans import relations_of
from tidemark.algebra.reading import Columns, columns_read
from tidemark.calculus.as_of import Block
from tidemark.network.build import Network
from tidemark.network.nodes import Node, NodeKind, Refresh, refresh

BULK_ROWS: Final = 50_000
"""From how many changed rows on a grouping's input is summed up inside the engine."""


@dataclass
class RefreshCache:
    """What was worked out about the nodes of one network."""

    plans: dict[tuple[str, frozenset[str], bool], Refresh] = field(default_factory=dict)
    unstored: frozenset[str] = frozenset()
    columns: dict[str, dict[str, Columns]] = field(default_factory=dict)

    def columns_of(self, node: Node, network: Network) -> dict[str, Columns]:
        """The columns that matter to a node, of each relation and shared node that it reads.

        What matters to a shared node is what matters to those who use it.
        """
        if node.name not in self.columns:
            wanted = None
            if node.kind is NodeKind.SHARED:
                users = network.readers.get(node.name, ())
                wanted = frozenset[int]().union(*(self.columns_of(user, network)[node.name] for user in users))
            self.columns[node.name] = columns_read(node.plan, wanted, dict(node.shared))
        return self.columns[node.name]

    def get(self, node: Node, changed: frozenset[str], deltas: Mapping[str, pa.Table]) -> Refresh:
        # Which relations below changed decides how old and new states are read, so it is part of the key.
        below = frozenset(name for name in deltas if name in _reads(node)) | changed
        bulk = sum(deltas[name].num_rows for name in changed) > BULK_ROWS
        key = (node.name, below, bulk)
        if key not in self.plans:
            self.plans[key] = refresh(node, changed, Block(changed=below, unstored=self.unstored), bulk=bulk)
        return self.plans[key]


def _reads(node: Node) -> frozenset[str]:
    return relations_of(node.plan) | node.influents
