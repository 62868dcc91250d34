"""A graph whose closure has some ten times as many rows as it has edges, changes of it, and the rival by hand.

The graph has no cycles: nodes stand in four layers, and an edge goes from one layer to the next. With 20,000 nodes and
60,000 edges the closure has about 630,000 rows.

There are two rivals. One keeps the same closure by SQL that is written by hand, on DuckDB itself, and evaluates it
anew. It knows that there is one recursive view over one table, and that the graph has no cycles: what follows from an
inserted edge is derived without asking in each round whether it was there already.

1. What the deleted edges led to is overestimated, edge by edge backwards, and deleted.
2. Of these rows those come back that an edge and a row of the closure still lead to; the inserted edges lead to others;
   and all that follows from both is derived, edge by edge backwards.
3. What is not in the closure yet is inserted, and one COMMIT makes all of it durable.

The other is plain Python over sets in memory: the sources that a changed edge can matter to are followed again, to all
that they lead to. The changed rows go to the end of a file, which is synced.
"""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidemark_bench.harness.by_hand import ByHand
from tidemark_bench.harness.clock import SYNC, Spent, spent_on
from tidemark_bench.harness.database import TableChange, Work

Edge = tuple[int, int]
LAYERS: Final = (0.275, 0.225, 0.225, 0.275)
"""Which part of the nodes each layer has."""
PROGRAM: Final = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."
CLOSURE: Final = """
    WITH RECURSIVE p(x, y) AS (SELECT a, b FROM edge UNION SELECT edge.a, p.y FROM edge JOIN p ON edge.b = p.x)
    SELECT x, y FROM p
"""
STEPS: Final = (
    """
    CREATE OR REPLACE TEMP TABLE gone AS
    WITH RECURSIVE g(x, y) AS (
        (SELECT a, b FROM going UNION ALL SELECT going.a, c.y FROM going JOIN closure AS c ON c.x = going.b)
        UNION SELECT edge.a, g.y FROM g JOIN edge ON edge.b = g.x
    )
    SELECT x, y FROM g
    """,
    "DELETE FROM edge USING going WHERE edge.a = going.a AND edge.b = going.b",
    "INSERT INTO edge SELECT a, b FROM coming",
    "DELETE FROM closure USING gone WHERE closure.x = gone.x AND closure.y = gone.y",
    """
    INSERT INTO closure
    WITH RECURSIVE more(x, y) AS (
        (SELECT gone.x, gone.y FROM gone JOIN edge ON edge.a = gone.x AND edge.b = gone.y
         UNION ALL
         SELECT gone.x, gone.y FROM gone JOIN edge ON edge.a = gone.x
         JOIN closure AS c ON c.x = edge.b AND c.y = gone.y
         UNION ALL SELECT a, b FROM coming
         UNION ALL SELECT coming.a, c.y FROM coming JOIN closure AS c ON c.x = coming.b)
        UNION SELECT edge.a, more.y FROM more JOIN edge ON edge.b = more.x
    )
    SELECT x, y FROM more WHERE NOT EXISTS (SELECT 1 FROM closure AS c WHERE c.x = more.x AND c.y = more.y)
    """,
)


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

    def change(self, size: int) -> TableChange:
        """So many edges go, and as many others come."""
        going = [self._take() for _ in range(size)]
        coming = self._insert(size, going)
        return TableChange(as_table(going), as_table(coming))

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


class ClosureByHand(ByHand):
    """The edges and their closure in a durable DuckDB file."""

    def __init__(self, path: Path, edges: pa.Table) -> None:
        super().__init__(path)
        ordered = edges.sort_by([("a", "ascending"), ("b", "ascending")])
        self.load("edge", ordered, "a INTEGER NOT NULL, b INTEGER NOT NULL")
        self.run(f"CREATE TABLE closure AS FROM ({CLOSURE}) ORDER BY x, y")

    def _apply(self, work: Work) -> int:
        self._connection.register("going", work["edge"].delete)
        self._connection.register("coming", work["edge"].insert)
        return sum(self.run(step) for step in STEPS)

    def recomputed(self) -> Spent:
        """The closure evaluated anew and fetched, but not stored."""
        return spent_on(lambda: self.query(CLOSURE))


class ClosureInPython:
    """The edges, and what each node leads to, as sets."""

    def __init__(self, log: Path, edges: pa.Table) -> None:
        self._log = log.open("ab", buffering=0)
        self._after, self._before = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
        for a, b in _edges(edges):
            self._after[a].add(b)
            self._before[b].add(a)
        self._reached: dict[int, set[int]] = {}
        for source in list(self._after):
            self._reached[source] = self._from(source)

    def apply(self, work: Work) -> Spent:
        return spent_on(lambda: self._apply(list(_edges(work["edge"].delete)), list(_edges(work["edge"].insert))))

    def _apply(self, going: list[Edge], coming: list[Edge]) -> None:
        changed = {a for a, _ in (*going, *coming)}
        affected = self._leading_to(changed)
        for a, b in going:
            self._after[a].remove(b)
            self._before[b].remove(a)
        for a, b in coming:
            self._after[a].add(b)
            self._before[b].add(a)
        affected |= self._leading_to(changed)
        old = {source: self._reached.pop(source, set()) for source in affected}
        rows: list[tuple[int, int, int]] = []
        for source, before in old.items():
            reached = self._reached[source] = self._from(source)
            rows += [(-1, source, node) for node in before - reached]
            rows += [(1, source, node) for node in reached - before]
        self._log.write(pickle.dumps(rows))
        SYNC(self._log.fileno())

    def _leading_to(self, nodes: Iterable[int]) -> set[int]:
        """These nodes and all that lead to one of them."""
        found, left = set(nodes), list(nodes)
        while left:
            fresh = self._before[left.pop()] - found
            found |= fresh
            left += fresh
        return found

    def _from(self, source: int) -> set[int]:
        """The nodes that one leads to; of some it is known already where they lead."""
        found, left = set[int](), [source]
        while left:
            for node in self._after[left.pop()] - found:
                found.add(node)
                if node in self._reached:
                    found |= self._reached[node]
                else:
                    left.append(node)
        return found

    def differing(self, other: pa.Table) -> int:
        """How many rows are not in the other table, or the other way round."""
        mine = {(source, node) for source, nodes in self._reached.items() for node in nodes}
        return len(mine ^ set(_edges(other)))

    def close(self) -> None:
        self._log.close()


def _edges(table: pa.Table) -> Iterable[Edge]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
