"""Supplementary magic sets: rules rewritten so that they derive only what somebody asks for (sections 4.1.1 to 4.1.3).

An *adornment* says of each argument of a predicate whether it is bound (b) or free (f). ``m_p^bf(x)`` asks for the
rows of p whose first column is x. A rule is taken as one chain from its first atom. Before a predicate that is derived
on demand stands a demand for it, made from what the chain has bound so far:

    h :- a, b, p(z, y), c      becomes      sup(…) :- a, b.    m_p^bf(z) :- sup(…).    h :- sup(…), p(z, y), c.

where sup keeps the variables that are needed later; of a single atom no sup is made. Figure 3 is what comes out for the
closure. The paper goes from the change to both ends and joins the two streams; with three atoms or more these streams
lose the variables that hold them together, and rows come out that never were. One chain cannot (footnote 8).

Negation of a predicate that is derived on demand comes at the end of the chain, and such a rule is *late*: it may only
be asked when the demand is answered in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field

from tidemark.algebra.clauses import Argument, Assign, Atom, Const, DatalogRule, Grouping, Not, Part, Var
from tidemark.datalog.chains import ordered_parts
from tidemark.datalog.program import Program

Demand = tuple[str, str]
"""A predicate and an adornment of it."""
OnDemand = Callable[[str], str | None]
"""From a predicate as a rule names it to the one to be derived on demand for it, or None."""


def magic(demand: Demand) -> str:
    """``m_closure^bf``.

    >>> magic(("closure", "bf"))
    'm_closure^bf'
    """
    return f"m_{demand[0]}^{demand[1]}"


def adornment(atom: Atom, bound: Set[int]) -> str:
    def letter(argument: Argument) -> str:
        known = isinstance(argument, Const) or (isinstance(argument, Var) and argument.index in bound)
        return "b" if known else "f"

    return "".join(map(letter, atom.arguments))


def asking(atom: Atom, demand: Demand) -> Atom:
    """The magic atom that asks for what the atom needs."""
    pairs = zip(atom.arguments, demand[1], strict=True)
    return Atom(magic(demand), tuple(argument for argument, letter in pairs if letter == "b"))


@dataclass
class Rewritten:
    """What one or more rules become. Late rules look at negated predicates that are derived on demand."""

    rules: list[DatalogRule] = field(default_factory=list)
    late: list[DatalogRule] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)

    def take(self, other: Rewritten) -> None:
        self.rules += other.rules
        self.late += other.late
        self.demands += [demand for demand in other.demands if demand not in self.demands]


def rewritten(rules: Iterable[DatalogRule], on_demand: OnDemand) -> Rewritten:
    """Each rule as its chain."""
    result = Rewritten()
    for rule in rules:
        result.take(_Rewriting(rule, on_demand).run())
    return result


class _Rewriting:
    def __init__(self, rule: DatalogRule, on_demand: OnDemand) -> None:
        self.rule, self.on_demand = rule, on_demand
        self.result = Rewritten()
        self.remaining = list(ordered_parts(rule, 0))
        self.prefix: list[Part] = []
        self.bound: set[int] = set()
        self.sups = 0

    def run(self) -> Rewritten:
        while self.remaining:
            part = self.remaining[0]
            if self.prefix and isinstance(part, Not) and self.on_demand(part.atom.predicate) is not None:
                return self._end_late()
            self._step()
        self.result.rules.append(DatalogRule(self.rule.head, tuple(self.prefix), self.rule.variables, self.rule.label))
        return self.result

    def _step(self) -> None:
        part = self.remaining[0]
        if self.prefix and isinstance(part, Atom):
            self._ask(part)
        self.remaining.pop(0)
        self.prefix.append(part)
        self.bound |= part.variables

    def _end_late(self) -> Rewritten:
        """Negations, with what they need assigned before them, then whatever is left."""
        negations = [part for part in self.remaining if isinstance(part, Not)]
        needed = {index for part in negations for index in part.variables} - self.bound
        while needed:
            chosen = next(
                p for p in self.remaining if isinstance(p, Assign) and p.variables - {p.variable.index} <= self.bound
            )
            self.remaining.remove(chosen)
            self.remaining.insert(0, chosen)
            self._step()
            needed -= self.bound
        for part in negations:
            self._ask(part.atom)
        body = (*self.prefix, *self.remaining)
        self.result.late.append(DatalogRule(self.rule.head, body, self.rule.variables, self.rule.label))
        return self.result

    def _ask(self, atom: Atom) -> None:
        """A demand for what the atom needs, from what is bound so far."""
        wanted = self.on_demand(atom.predicate)
        if wanted is None:
            return
        if len(self.prefix) > 1 or not isinstance(self.prefix[0], Atom):
            self._supplement()
        demand = (wanted, adornment(atom, self.bound))
        head = asking(atom, demand)
        if self.prefix != [head]:
            rule = DatalogRule(head, tuple(self.prefix), self.rule.variables, f"M {self.rule.label}")
            self.result.rules.append(rule)
        if demand not in self.result.demands:
            self.result.demands.append(demand)

    def _supplement(self) -> None:
        """The prefix as one atom, with the variables that are needed later."""
        later = self.rule.head.variables.union(*(part.variables for part in self.remaining))
        self.sups += 1
        arguments = tuple(self.rule.variable(index) for index in sorted(self.bound & later))
        sup = Atom(f"sup^{self.rule.label}.{self.sups}", arguments)
        self.result.rules.append(DatalogRule(sup, tuple(self.prefix), self.rule.variables, f"S {self.rule.label}"))
        self.prefix = [sup]


@dataclass
class QueryRules:
    """The rules Q: all that is needed to answer some demands, and those that they make, in the old state.

    ``late`` and ``groupings`` have with them the number of the stratum before which they must be answered.
    """

    demands: list[Demand] = field(default_factory=list)
    rules: list[DatalogRule] = field(default_factory=list)
    late: list[tuple[int, DatalogRule]] = field(default_factory=list)
    groupings: list[tuple[int, Grouping, Demand]] = field(default_factory=list)


def query_rules(program: Program, demands: Iterable[Demand]) -> QueryRules:
    """Q for the demands, and for all that they demand in turn."""
    derived = frozenset(program.predicates)
    level = {name: number for number, stratum in enumerate(program.strata) for name in stratum.predicates}
    result = QueryRules()
    waiting = list(dict.fromkeys(demands))
    known = set(waiting)
    for demand in waiting:
        predicate, letters = demand
        more: list[Demand] = []
        for grouping in program.groupings_of([predicate]):
            rule, source = _through(grouping, demand, program)
            result.rules.append(rule)
            result.groupings.append((level[predicate], grouping, demand))
            more.append(source)
        for rule in program.rules_of([predicate]):
            guarded = DatalogRule(
                rule.head, (asking(rule.head, demand), *rule.body), rule.variables, f"{rule.label}.{letters}"
            )
            found = rewritten([guarded], lambda name: name if name in derived else None)
            result.rules += found.rules
            result.late += [(level[predicate], late) for late in found.late]
            more += found.demands
        waiting += [one for one in dict.fromkeys(more) if one not in known]
        known.update(more)
    result.demands = waiting
    return result


def _through(grouping: Grouping, demand: Demand, program: Program) -> tuple[DatalogRule, Demand]:
    """Who asks for groups asks for the rows of these groups: by the keys that are bound, not by values."""
    schema = program.schemas[grouping.predicate]
    letters = demand[1]
    width = len(program.schemas[grouping.source])
    source = (grouping.source, letters[: grouping.keys] + "f" * (width - grouping.keys))
    row = tuple(Var(position, name) for position, name in enumerate(schema.names))
    asked = asking(Atom(grouping.predicate, row), demand)
    keys = tuple(v for v, letter in zip(row[: grouping.keys], letters, strict=False) if letter == "b")
    return DatalogRule(Atom(magic(source), keys), (asked,), schema, f"M {grouping.predicate}"), source
