"""A graph without cycles, whose closure has some ten times as many rows as it has edges, and changes of it.

Nodes stand in four layers, and an edge goes from one layer to the next. With 20,000 nodes and 60,000 edges the closure
has about 630,000 rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

Edge = tuple[int, int]
LAYERS: Final = (0.275, 0.225, 0.225, 0.275)
"""Which part of the nodes each layer has."""
PROGRAM: Final = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."


@dataclass(frozen=True)
class EdgeChange:
    """What one transaction deletes and inserts."""

    delete: pa.Table
    insert: pa.Table

    @property
    def rows(self) -> int:
        return int(self.delete.num_rows + self.insert.num_rows)


class Graph:
    """Makes the same graph and the same transactions for the same seed."""

    def __init__(self, nodes: int, edges: int, seed: int = 7) -> None:
        self._random = random.Random(seed)
        starts = [round(nodes * sum(LAYERS[:layer])) for layer in range(len(LAYERS) + 1)]
        self._layers = [range(starts[layer], starts[layer + 1]) for layer in range(len(LAYERS))]
        self._there: set[Edge] = set()
        self._order: list[Edge] = []
        self._insert(edges)

    @property
    def table(self) -> pa.Table:
        return as_table(self._order)

    def change(self, size: int) -> EdgeChange:
        """So many edges go, and as many others come."""
        going = [self._take() for _ in range(size)]
        coming = self._insert(size, going)
        return EdgeChange(as_table(going), as_table(coming))

    def _take(self) -> Edge:
        """Some edge; the last one takes its place."""
        place = self._random.randrange(len(self._order))
        self._order[place], self._order[-1] = self._order[-1], self._order[place]
        edge = self._order.pop()
        self._there.discard(edge)
        return edge

    def _insert(self, size: int, unwanted: Iterable[Edge] = ()) -> list[Edge]:
        refused, added = set(unwanted), list[Edge]()
        while len(added) < size:
            layer = self._random.randrange(len(self._layers) - 1)
            edge = (self._random.choice(self._layers[layer]), self._random.choice(self._layers[layer + 1]))
            if edge not in self._there and edge not in refused:
                self._there.add(edge)
                added.append(edge)
        self._order += added
        return added


def as_table(edges: Iterable[Edge]) -> pa.Table:
    listed = list(edges)
    columns = {name: pa.array([edge[place] for edge in listed], pa.int32()) for place, name in enumerate("ab")}
    return pa.table(columns)
