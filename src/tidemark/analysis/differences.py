"""Conjunctions of ``x ≤ y + c``, ``x ≤ c`` and ``x ≥ c``: the class of Rosenkrantz and Hunt, in polynomial time.

The variables and a zero are the nodes of a graph, and each bound is an edge:

    x ≤ y + c   y → x of weight c           x ≤ c   0 → x of weight c
    x ≥ y + c   x → y of weight −c          x ≥ c   x → 0 of weight −c

The length of the shortest path from y to x is the tightest c in x ≤ y + c. The conjunction is impossible if and only
if a cycle has negative weight. (The edges that the thesis prints run the other way for bounds between variables, and
contradict its Example 3.5.) Of whole numbers ``<`` is ``≤ −1``; of dense ones an edge is strict, and a cycle of weight
0 with a strict edge is impossible too. To leave variables out, leave out their nodes from the shortest paths: what
remains is implied by the whole, and any solution of it extends to one of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tidemark.analysis.formulas import Bound, Variable

ZERO: Final = Variable("0")
Weight: TypeAlias = tuple[int, int]
"""The number, and −1 for each strict edge on the path: a strict bound is tighter than the same that is not."""
Edges: TypeAlias = dict[tuple[Variable, Variable], Weight]


class OutOfClass(Exception):
    """A bound is not a difference of two variables."""


def edge_of(bound: Bound) -> tuple[Variable, Variable, Weight]:
    """The edge of a bound: from, to, weight.

    >>> x, y = Variable("x"), Variable("y")
    >>> origin, destination, weight = edge_of(Bound(((x, 1), (y, -1)), -24))  # x ≤ y + 24
    >>> origin.name, destination.name, weight
    ('y', 'x', (24, 0))
    """
    weight = (-bound.constant, -int(bound.strict))
    match bound.terms:
        case ((variable, 1),):
            return ZERO, variable, weight
        case ((variable, -1),):
            return variable, ZERO, weight
        case ((first, 1), (second, -1)):
            return second, first, weight
        case ((first, -1), (second, 1)):
            return first, second, weight
    raise OutOfClass


def is_difference(bound: Bound) -> bool:
    factors = [factor for _, factor in bound.terms]
    return factors in ([1], [-1], [1, -1], [-1, 1])


@dataclass(frozen=True)
class Closure:
    """The tightest bounds that follow from a conjunction, by the shortest paths of its graph."""

    edges: Edges

    def without(self, left_out: Iterable[Variable]) -> Closure:
        """What the conjunction says about the other variables: there are values for those left out."""
        gone = frozenset(left_out)
        return Closure({pair: weight for pair, weight in self.edges.items() if gone.isdisjoint(pair)})

    def bounds(self) -> tuple[Bound, ...]:
        return tuple(bound_of(*pair, weight) for pair, weight in self.edges.items())


def bound_of(origin: Variable, destination: Variable, weight: Weight) -> Bound:
    """The bound of an edge."""
    terms = [(variable, factor) for variable, factor in ((destination, 1), (origin, -1)) if variable != ZERO]
    return Bound(tuple(sorted(terms)), -weight[0], weight[1] < 0)


def closure(bounds: Iterable[Bound]) -> Closure | None:
    """The closure of a conjunction, or None if it is impossible.

    >>> h, k = Variable("h"), Variable("k")
    >>> closure([Bound(((h, 1), (k, -1)), 1), Bound(((h, -1), (k, 1)), 0)]) is None  # h ≤ k − 1 and k ≤ h
    True
    """
    edges: Edges = {}
    for bound in bounds:
        origin, destination, weight = edge_of(bound)
        _tighten(edges, origin, destination, weight)
    nodes = sorted({node for pair in edges for node in pair})
    outgoing: dict[Variable, dict[Variable, Weight]] = {node: {} for node in nodes}
    for (origin, destination), weight in edges.items():
        outgoing[origin][destination] = weight
    for middle in nodes:
        onward = outgoing[middle]
        for origin in nodes:
            first = outgoing[origin].get(middle)
            if first is None or origin == middle:
                continue
            reached = outgoing[origin]
            for destination, second in onward.items():
                length = (first[0] + second[0], max(-1, first[1] + second[1]))
                if destination == origin:
                    if length < (0, 0):
                        return None
                elif destination not in reached or length < reached[destination]:
                    reached[destination] = length
    return Closure({(origin, to): weight for origin, reached in outgoing.items() for to, weight in reached.items()})


def _tighten(edges: Edges, origin: Variable, destination: Variable, weight: Weight) -> None:
    known = edges.get((origin, destination))
    if known is None or weight < known:
        edges[origin, destination] = weight
