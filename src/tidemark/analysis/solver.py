"""Whether a formula has a model: differences in process, z3 for the rest, within a budget of steps.

Conjunctions of ``x ≤ y + c``, ``x ≤ c`` and ``x ≥ c`` are the class of Rosenkrantz and Hunt, in polynomial time. The
variables and a zero are the nodes of a graph, and each bound is an edge:

    x ≤ y + c   y → x of weight c           x ≤ c   0 → x of weight c
    x ≥ y + c   x → y of weight −c          x ≥ c   x → 0 of weight −c

The length of the shortest path from y to x is the tightest c in x ≤ y + c. The conjunction is impossible if and only
if a cycle has negative weight. (The edges that the thesis prints run the other way for bounds between variables, and
contradict its Example 3.5.) Of whole numbers ``<`` is ``≤ −1``; of dense ones an edge is strict, and a cycle of weight
0 with a strict edge is impossible too. To leave variables out, leave out their nodes from the shortest paths: what
remains is implied by the whole, and any solution of it extends to one of the whole.

z3 is imported when it is first asked. Each question has a context of its own, so that the answer depends on nothing but
the question: z3 counts its own steps, and ends when they are used up.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidemark.analysis.budget import OutOfSteps, spend, steps_left
from tidemark.analysis.formulas import (
    All,
    Bound,
    Flag,
    Formula,
    Some,
    TooMany,
    Variable,
    alternatives,
)

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
        spend(len(nodes))
        for origin in nodes:
            first = outgoing[origin].get(middle)
            if first is None or origin == middle:
                continue
            reached = outgoing[origin]
            spend(1 + len(onward))
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


MOST_ALTERNATIVES: Final = 256
MOST_SOLVER_STEPS: Final = 50_000
"""Of ours: the solver's own count is some twenty times as fast."""
SOLVER_STEPS_FOR_ONE: Final = 20
STEPS_FOR_A_SOLVER: Final = 500
"""What it takes to begin."""
STEPS_FOR_A_TERM: Final = 10


class Model(enum.Enum):
    """Whether there is a model."""

    SOME = "some"
    NONE = "none"
    UNDECIDED = "undecided"


def model_of(formula: Formula) -> Model:
    """Whether the formula can be true.

    >>> model_of(Bound(((Variable("x"), 1),), 0))
    <Model.SOME: 'some'>
    """
    try:
        return model_by_differences(formula)
    except (OutOfClass, TooMany):
        return model_by_solver(formula)


def model_by_differences(formula: Formula) -> Model:
    """For formulas whose bounds are differences; others, and such with too many alternatives, are refused."""
    refused: Exception | None = None
    for conjunction in alternatives(formula, MOST_ALTERNATIVES):
        try:
            if closure(atom for atom in conjunction if isinstance(atom, Bound)) is not None:
                return Model.SOME
        except OutOfClass as error:
            refused = error
    if refused is not None:
        raise refused
    return Model.NONE


def model_by_solver(formula: Formula) -> Model:
    import z3

    spend(STEPS_FOR_A_SOLVER)
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.add(_Terms(context).of(formula))
    limit = steps_left(MOST_SOLVER_STEPS) * SOLVER_STEPS_FOR_ONE
    if not limit:
        raise OutOfSteps  # to the solver none would mean any number
    solver.set("rlimit", limit)
    found = solver.check()
    spend(min(_used(solver), limit) // SOLVER_STEPS_FOR_ONE)
    return Model.SOME if found == z3.sat else Model.NONE if found == z3.unsat else Model.UNDECIDED


def _used(solver: Any) -> int:
    counted = solver.statistics()
    return next((int(counted[place][1]) for place in range(len(counted)) if counted[place][0] == "rlimit count"), 0)


class _Terms:
    """Formulas as z3 has them; a part that stands in several places is made once."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._made: dict[int, Any] = {}

    def of(self, formula: Formula) -> Any:
        if isinstance(formula, All | Some):
            if id(formula) not in self._made:
                self._made[id(formula)] = self._joined(formula)
            return self._made[id(formula)]
        return self._atom(formula)

    def _joined(self, formula: All | Some) -> Any:
        import z3

        spend(STEPS_FOR_A_TERM * (1 + len(formula.parts)))
        parts = [self.of(part) for part in formula.parts]
        return z3.And(parts) if isinstance(formula, All) else z3.Or(parts)

    def _atom(self, formula: bool | Flag | Bound) -> Any:
        import z3

        match formula:
            case bool():
                return z3.BoolVal(formula, self._context)
            case Flag(name=name, holds=holds):
                flag = z3.Bool(name, self._context)
                return flag if holds else z3.Not(flag)
            case Bound(terms=terms, constant=constant, strict=strict):
                spend(STEPS_FOR_A_TERM * len(terms))
                total = z3.Sum([factor * self._number(variable) for variable, factor in terms])
                return total + constant < 0 if strict else total + constant <= 0

    def _number(self, variable: Variable) -> Any:
        import z3

        return z3.Real(variable.name, self._context) if variable.dense else z3.Int(variable.name, self._context)
