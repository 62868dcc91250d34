"""The assignments under which the body of one rule holds for a given head, one at a time.

The parts stand in the order of the rule's chain with the head known first, so every look-up is by what is bound. A
search that finds nothing knows how far it came: the part that failed last in this order, and the values that led there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tidemark.algebra.expressions import Value
from tidemark.algebra.rules import Anything, Assign, Atom, Condition, Const, Not, Part, Rule, Var
from tidemark.algebra.scalar import Row, value_of
from tidemark.datalog.chains import ordered_parts
from tidemark.datalog.relations import Relation

Binding = Mapping[int, Value]
Allowed = Callable[[str, Row], bool]
GOAL = "goal"


@dataclass
class Search:
    """Solutions of a rule whose head has the wanted values, by position."""

    rule: Rule
    wanted: Mapping[int, Value]
    relations: Mapping[str, Relation]
    allowed: Allowed = lambda predicate, row: True
    failed: Part | None = None
    """The part that failed deepest in the chain; None if already the head does not fit."""
    reached: Binding = field(default_factory=dict)
    _depth: int = -1

    def solutions(self) -> Iterator[Binding]:
        start = self._head()
        if start is None:
            return
        head = Atom(GOAL, tuple(self.rule.head.arguments[i] for i in sorted(self.wanted)))
        guarded = Rule(self.rule.head, (head, *self.rule.body), self.rule.variables)
        yield from self._solve(ordered_parts(guarded, 0)[1:], 0, start)

    def _head(self) -> Binding | None:
        """What the wanted values say of the variables."""
        binding: dict[int, Value] = {}
        for position, value in self.wanted.items():
            argument = self.rule.head.arguments[position]
            if isinstance(argument, Const) and argument.literal.value != value:
                return None
            if isinstance(argument, Var) and binding.setdefault(argument.index, value) != value:
                return None
        return binding

    def _solve(self, parts: tuple[Part, ...], place: int, binding: Binding) -> Iterator[Binding]:
        if place == len(parts):
            yield binding
            return
        part = parts[place]
        if place > self._depth:
            self._depth, self.failed, self.reached = place, part, binding
        for more in self._after(part, binding):
            yield from self._solve(parts, place + 1, more)

    def _after(self, part: Part, binding: Binding) -> Iterator[Binding]:
        match part:
            case Atom():
                yield from self._rows(part, binding)
            case Not(atom=atom, strict=strict):
                positions, key = bound_part(atom, binding)
                if (strict and None in key) or not any(self.relations[atom.predicate].matching(positions, [key])):
                    yield binding
            case Condition(expression=expression):
                if value_of(expression, self.values(binding)) is True:
                    yield binding
            case Assign(variable=variable, expression=expression):
                value = value_of(expression, self.values(binding))
                if variable.index not in binding:
                    yield {**binding, variable.index: value}
                elif binding[variable.index] == value:
                    yield binding

    def values(self, binding: Binding) -> Row:
        """The values of all variables; NULL for those that have none yet."""
        return tuple(binding.get(index) for index in range(len(self.rule.variables)))

    def _rows(self, atom: Atom, binding: Binding) -> Iterator[Binding]:
        positions, key = bound_part(atom, binding)
        for row in self.relations[atom.predicate].matching(positions, [key]):
            more: dict[int, Value] = dict(binding)
            pairs = zip(atom.arguments, row, strict=True)
            fits = all(not isinstance(a, Var) or more.setdefault(a.index, value) == value for a, value in pairs)
            if fits and self.allowed(atom.predicate, row):
                yield more


def bound_part(atom: Atom, binding: Binding) -> tuple[tuple[int, ...], Row]:
    """The positions of an atom whose values are known, and these values."""
    known: dict[int, Value] = {}
    for position, argument in enumerate(atom.arguments):
        match argument:
            case Const(literal=literal):
                known[position] = literal.value
            case Var(index=index) if index in binding:
                known[position] = binding[index]
            case Var() | Anything():
                pass
    return tuple(known), tuple(known.values())


def row_of(atom: Atom, binding: Binding) -> Row:
    """The row that an atom stands for under a solution."""
    _, row = bound_part(atom, binding)
    return row
