"""The assignments under which the body of one rule holds for a given head, one at a time.

The parts stand in the order of the rule's chain with the head known first, so every look-up is by what is bound. A
search that finds nothing knows how far it came: the part that failed last in this order, and the values that led there.

What a program says about some rows, derived on demand, with the order in which it was derived.

The rows of a predicate that a pattern asks for are derived by the query rules (``demand``), which read no more of the
relations than they need. Each derived row has a *rank*: it rose when the row was added, after everything that the row
was derived from. So of the rows of its own stratum a row needs only such with a smaller rank, and a derivation that
keeps to them never leads back to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidemark.algebra.clauses import Anything, Assign, Atom, Condition, Const, DatalogRule, Not, Part, Var
from tidemark.algebra.expressions import Value
from tidemark.algebra.scalar import Row, value_of
from tidemark.datalog.chains import ordered_parts
from tidemark.datalog.demand import magic, query_rules
from tidemark.datalog.fixpoint import Evaluation, RecursionLimits
from tidemark.datalog.program import Program
from tidemark.datalog.rederive import Groups
from tidemark.datalog.relations import IndexedRows, Lookup, Relation, Remembered

Binding = Mapping[int, Value]
Allowed = Callable[[str, Row], bool]
GOAL = "goal"


@dataclass
class Search:
    """Solutions of a rule whose head has the wanted values, by position."""

    rule: DatalogRule
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
        guarded = DatalogRule(self.rule.head, (head, *self.rule.body), self.rule.variables)
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


class Facts:
    """Rows of the predicates of a program, as far as they were asked for. More can be asked for at any time."""

    def __init__(self, program: Program, base: Lookup, limits: RecursionLimits | None = None) -> None:
        self.program = program
        self.limits = limits
        self._base: dict[str, Relation] = {name: Remembered(base, name) for name in program.base}
        self._level = {name: number for number, s in enumerate(program.strata) for name in s.predicates}
        self.relations: dict[str, Relation] = dict(self._base)
        self._ranks: dict[tuple[str, Row], int] = {}

    def ask(self, predicate: str, wanted: Mapping[int, Value]) -> list[Row]:
        """The rows of a predicate that have the wanted values, and all that they can be derived from."""
        width = len(self.program.schemas[predicate])
        demand = (predicate, "".join("b" if i in wanted else "f" for i in range(width)))
        queries = query_rules(self.program, [demand])
        relations: dict[str, Relation] = {**self._base, **{name: IndexedRows() for name in self.program.predicates}}
        for asked in queries.demands:
            relations[magic(asked)] = IndexedRows()
        evaluation = _Ranked(relations, self.limits, self._ranks)
        evaluation.add(queries.rules)
        for level, rule in queries.late:
            evaluation.add_late_rule(level, rule)
        for level, grouping, asked in queries.groupings:
            evaluation.add_late(level, Groups(evaluation, self.program, grouping, asked).answer)
        evaluation.rows(magic(demand)).add([tuple(wanted[i] for i in sorted(wanted))])
        evaluation.run()
        self.relations = relations
        positions = tuple(sorted(wanted))
        return list(relations[predicate].matching(positions, [tuple(wanted[i] for i in positions)]))

    def may_rest_on(self, head: str, row: Row, part: str, other: Row) -> bool:
        """Whether a derivation of one row may use another: any of a lower stratum, of its own only earlier ones."""
        if part not in self._level or self._level[part] != self._level[head]:
            return True
        return self._ranks[part, other] < self._ranks[head, row]


class _Ranked(Evaluation):
    """An evaluation that remembers when each row came."""

    def __init__(
        self, relations: dict[str, Relation], limits: RecursionLimits | None, ranks: dict[tuple[str, Row], int]
    ) -> None:
        super().__init__(relations, limits)
        self._ranks, self._time = ranks, 0
        ranks.clear()

    def _add(self, predicate: str, found: Iterable[Row]) -> list[Row]:
        added = super()._add(predicate, found)
        self._time += 1
        for row in added:
            self._ranks[predicate, row] = self._time
        return added
