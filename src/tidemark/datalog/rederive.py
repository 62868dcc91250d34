"""Exact changes of views that are stored nowhere, with no more of the old state than they need.

Algorithm 2, Rederivation on Demand, makes the maintenance rules for the case that only the relations are stored. The
rules D, R and I of Algorithm 1 are taken as chains with demands for the old state of every predicate that they read, in
the old state or in the new: what is demanded of p arrives in p^new by N1. Before E1 asks whether a row that was derived
for p^ins was there already, a demand asks for it (4.1.4). The query rules Q answer all demands.

Algorithm 3 runs them stratum by stratum: the rules D with Q, to their common fixpoint; then R, I and N with Q; and only
then E, since what a demand asks for may arrive late. A rule that negates what is derived on demand waits for its answer
(the late steps of ``fixpoint``). Afterwards p^ins := p^plus and p^del := p^minus for the strata above (4.2).

By Theorem 2 the changes are exact, and what is derived of the old state is what the demands ask for. ``rederived``
counts it, for each predicate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.algebra.clauses import Atom, DatalogRule, Grouping, Var, listing
from tidemark.datalog.demand import Demand, QueryRules, Rewritten, asking, magic, query_rules, rewritten
from tidemark.datalog.fixpoint import Evaluation, RecursionLimits
from tidemark.datalog.heads import grouped
from tidemark.datalog.maintain import FactChange, regrouped
from tidemark.datalog.maintenance import (
    DELETED,
    INSERTED,
    MINUS,
    NEW,
    PLUS,
    StratumRules,
    additions,
    maintenance_rules,
    survivor,
    variant,
)
from tidemark.datalog.program import Program
from tidemark.datalog.relations import IndexedRows, Lookup, NewState, Relation, Remembered, cells_at


@dataclass(frozen=True)
class StratumDemands:
    """The rules of one stratum: D with its demands; R and I with theirs; E1's demands; those of changed groups.

    ``closing`` are N' and N'' of its own predicates, for the strata above.
    """

    maintenance: StratumRules
    deletions: Rewritten
    additions: Rewritten
    idle: tuple[DatalogRule, ...]
    groups: tuple[Demand, ...]
    closing: tuple[DatalogRule, ...]


@dataclass(frozen=True)
class DemandProgram:
    """M and Q of section 4.3."""

    strata: tuple[StratumDemands, ...]
    queries: QueryRules

    def __str__(self) -> str:
        maintenance = [
            rule
            for stratum in self.strata
            for rule in (
                *stratum.deletions.rules,
                *stratum.deletions.late,
                *stratum.additions.rules,
                *stratum.additions.late,
                *stratum.idle,
                *stratum.maintenance.survivors,
                *stratum.maintenance.additions,
                *stratum.maintenance.effects,
            )
        ]
        late = [rule for _, rule in self.queries.late]
        groupings = [str(grouping) for _, grouping, _ in self.queries.groupings]
        parts = [listing(maintenance), listing([*self.queries.rules, *late]), *dict.fromkeys(groupings)]
        return "\n".join(filter(None, parts))


def demand_program(program: Program) -> DemandProgram:
    strata = tuple(_of_stratum(stratum, program) for stratum in maintenance_rules(program))
    demands = [
        demand
        for stratum in strata
        for demand in (*stratum.deletions.demands, *stratum.additions.demands, *stratum.groups)
    ]
    demands += [_whole(name, program) for s in strata for name in s.maintenance.stratum.predicates if s.idle]
    return DemandProgram(strata, query_rules(program, demands))


def _of_stratum(stratum: StratumRules, program: Program) -> StratumDemands:
    derived = frozenset(program.predicates)

    def on_demand(name: str) -> str | None:
        plain = name.removesuffix(f"^{NEW}")
        return plain if plain in derived else None

    groups = tuple(_by_keys(grouping.source, grouping.keys, program) for grouping in stratum.groupings)
    return StratumDemands(
        stratum,
        rewritten(stratum.deletions, on_demand),
        rewritten((*stratum.rederivations, *stratum.insertions), on_demand),
        tuple(_idle_check(name, program) for name in stratum.stratum.predicates) if stratum.effects else (),
        groups,
        tuple(
            rule
            for name in stratum.stratum.predicates
            for rule in (survivor(name, program), *additions(name, program, (INSERTED,)))
        ),
    )


def _by_keys(source: str, keys: int, program: Program) -> Demand:
    return source, "b" * keys + "f" * (len(program.schemas[source]) - keys)


def _whole(predicate: str, program: Program) -> Demand:
    return predicate, "b" * len(program.schemas[predicate])


def _idle_check(predicate: str, program: Program) -> DatalogRule:
    """M_E1: every row of p^ins is asked for in the old state."""
    schema = program.schemas[predicate]
    row = Atom(predicate, tuple(Var(position, name) for position, name in enumerate(schema.names)))
    inserted = row.renamed(variant(predicate, INSERTED))
    return DatalogRule(asking(row, _whole(predicate, program)), (inserted,), schema, "M E1")


@dataclass(frozen=True)
class Rederived:
    """The exact change of each predicate, and how many rows of its old state had to be derived for it."""

    changes: Mapping[str, FactChange]
    rederived: Mapping[str, int]


def rederive(
    program: Program,
    old: Lookup,
    changes: Mapping[str, FactChange],
    rules: DemandProgram | None = None,
    limits: RecursionLimits | None = None,
) -> Rederived:
    """Changes of all predicates from net changes of the relations. ``old`` has only the relations, as they were.

    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> from tidemark.datalog.program import bind_program
    >>> from tidemark.datalog.relations import Memory
    >>> edge = Schema((Field("a", INT, nullable=False), Field("b", INT, nullable=False)))
    >>> text = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."
    >>> change = FactChange(plus=frozenset({(3, 4)}), minus=frozenset({(1, 2)}))
    >>> old = Memory({"edge": {(1, 2), (2, 3), (8, 9)}})
    >>> found = rederive(bind_program(text, {"edge": edge}), old, {"edge": change})
    >>> sorted(found.changes["closure"].plus), sorted(found.changes["closure"].minus), found.rederived
    ([(2, 4), (3, 4)], [(1, 2), (1, 3)], {'closure': 1})
    """
    demands = demand_program(program) if rules is None else rules
    state = _State(program, old, changes, demands, limits)
    for number, stratum in enumerate(demands.strata):
        state.maintain(number, stratum)
    found = {name: state.changes.get(name, FactChange()) for name in program.predicates}
    return Rederived(found, {name: len(state.evaluation.rows(name)) for name in program.predicates})


class _State:
    def __init__(
        self,
        program: Program,
        old: Lookup,
        changes: Mapping[str, FactChange],
        demands: DemandProgram,
        limits: RecursionLimits | None,
    ) -> None:
        self.program, self.changes = program, dict(changes)
        self.relations: dict[str, Relation] = {name: IndexedRows() for name in program.predicates}
        for name in program.base:
            change = changes.get(name, FactChange())
            deleted, inserted = IndexedRows(change.minus), IndexedRows(change.plus)
            self.relations[name] = Remembered(old, name)
            self.relations[variant(name, DELETED)] = deleted
            self.relations[variant(name, INSERTED)] = inserted
            self.relations[variant(name, NEW)] = NewState(self.relations[name], deleted, inserted)
        self.evaluation = Evaluation(self.relations, limits)
        self._answer(demands)

    def _answer(self, demands: DemandProgram) -> None:
        """The query rules, which answer demands as they come."""
        for demand in demands.queries.demands:
            self.relations[magic(demand)] = IndexedRows()
        self.evaluation.add(demands.queries.rules)
        for level, rule in demands.queries.late:
            self.evaluation.add_late_rule(level, rule)
        for level, grouping, demand in demands.queries.groupings:
            self.evaluation.add_late(level, Groups(self.evaluation, self.program, grouping, demand).answer)

    def maintain(self, number: int, stratum: StratumDemands) -> None:
        rules = stratum.maintenance
        if any(self.changes.get(name) for name in rules.below):
            for grouping, demand in zip(rules.groupings, stratum.groups, strict=True):
                self._regroup(grouping, demand)
            if rules.effects:
                self._propagate(number, stratum)
        for name in rules.stratum.predicates:
            self._close(name)
        self.evaluation.add(stratum.closing)

    def _regroup(self, grouping: Grouping, demand: Demand) -> None:
        change = self.changes.get(grouping.source, FactChange())
        self.evaluation.rows(magic(demand)).add({row[: grouping.keys] for row in change.plus | change.minus})
        self.evaluation.run()
        schema, old = self.program.schemas[grouping.source], self.relations[grouping.source]
        self.changes[grouping.predicate] = regrouped(grouping, schema, old, change)

    def _propagate(self, number: int, stratum: StratumDemands) -> None:
        rules, evaluation = stratum.maintenance, self.evaluation
        own = rules.stratum.predicates
        for name in own:
            for kind in (DELETED, INSERTED, NEW):
                self.relations[variant(name, kind)] = IndexedRows()
        before = evaluation.mark()
        evaluation.add(stratum.deletions.rules)
        for rule in stratum.deletions.late:
            evaluation.add_late_rule(number, rule)
        evaluation.run()
        heads = {variant(name, NEW) for name in own}
        evaluation.add(stratum.additions.rules)
        evaluation.add(stratum.idle)
        evaluation.add(rule for rule in (*rules.survivors, *rules.additions) if rule.head.predicate in heads)
        for rule in stratum.additions.late:
            evaluation.add_late_rule(number, rule)
        evaluation.run()
        evaluation.release(before)
        effects = Evaluation(self.relations)
        effects.add(rules.effects)
        effects.run()
        for name in own:
            plus, minus = effects.rows(variant(name, PLUS)), effects.rows(variant(name, MINUS))
            self.changes[name] = FactChange(frozenset(plus), frozenset(minus))

    def _close(self, name: str) -> None:
        """What the strata above see: the exact change, and as much of the new state as of the old one."""
        change = self.changes.setdefault(name, FactChange())
        self.relations[variant(name, DELETED)] = IndexedRows(change.minus)
        self.relations[variant(name, INSERTED)] = IndexedRows(change.plus)
        self.relations[variant(name, NEW)] = IndexedRows()


class Groups:
    """The groups that a demand asks for, once all their rows are there."""

    def __init__(self, evaluation: Evaluation, program: Program, grouping: Grouping, demand: Demand) -> None:
        self.evaluation, self.grouping = evaluation, grouping
        self.schema = program.schemas[grouping.source]
        self.asked = evaluation.rows(magic(demand))
        bound = [position for position, letter in enumerate(demand[1]) if letter == "b"]
        self.positions = tuple(position for position in bound if position < grouping.keys)
        self.places = tuple(place for place, position in enumerate(bound) if position < grouping.keys)
        self.answered = 0

    def answer(self) -> bool:
        keys = set(map(cells_at(self.places), self.asked.order[self.answered :]))
        self.answered = len(self.asked)
        if not keys:
            return False
        rows = self.evaluation.relations[self.grouping.source].matching(self.positions, keys)
        groups = grouped(self.grouping, self.schema, rows)
        return bool(self.evaluation.rows(self.grouping.predicate).add(groups))
