"""Algorithm 3: exact changes of views that are stored nowhere, with no more of the old state than they need.

Stratum by stratum: the rules D with the query rules Q, to their common fixpoint; then R, I and N with Q; and only then
E, since what a demand asks for may arrive late. A rule that negates what is derived on demand waits for its answer (the
late steps of ``fixpoint``). Afterwards p^ins := p^plus and p^del := p^minus for the strata above (4.2).

By Theorem 2 the changes are exact, and what is derived of the old state is what the demands ask for. ``rederived``
counts it, for each predicate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.algebra.rules import Grouping
from tidemark.datalog.changes import Change, regrouped
from tidemark.datalog.demand import Demand, magic
from tidemark.datalog.fixpoint import Evaluation, Limits
from tidemark.datalog.grouping import grouped
from tidemark.datalog.maintenance_rules import DELETED, INSERTED, MINUS, NEW, PLUS, variant
from tidemark.datalog.program import Program
from tidemark.datalog.rederivation_rules import DemandProgram, StratumDemands, demand_program
from tidemark.datalog.relations import Lookup, NewState, Relation, Remembered, Rows, cells_at


@dataclass(frozen=True)
class Rederived:
    """The exact change of each predicate, and how many rows of its old state had to be derived for it."""

    changes: Mapping[str, Change]
    rederived: Mapping[str, int]


def rederive(
    program: Program,
    old: Lookup,
    changes: Mapping[str, Change],
    rules: DemandProgram | None = None,
    limits: Limits | None = None,
) -> Rederived:
    """Changes of all predicates from net changes of the relations. ``old`` has only the relations, as they were.

    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> from tidemark.datalog.program import bind_program
    >>> from tidemark.datalog.relations import Memory
    >>> edge = Schema((Field("a", INT, nullable=False), Field("b", INT, nullable=False)))
    >>> text = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."
    >>> change = Change(plus=frozenset({(3, 4)}), minus=frozenset({(1, 2)}))
    >>> old = Memory({"edge": {(1, 2), (2, 3), (8, 9)}})
    >>> found = rederive(bind_program(text, {"edge": edge}), old, {"edge": change})
    >>> sorted(found.changes["closure"].plus), sorted(found.changes["closure"].minus), found.rederived
    ([(2, 4), (3, 4)], [(1, 2), (1, 3)], {'closure': 1})
    """
    demands = demand_program(program) if rules is None else rules
    state = _State(program, old, changes, demands, limits)
    for number, stratum in enumerate(demands.strata):
        state.maintain(number, stratum)
    found = {name: state.changes.get(name, Change()) for name in program.predicates}
    return Rederived(found, {name: len(state.evaluation.rows(name)) for name in program.predicates})


class _State:
    def __init__(
        self,
        program: Program,
        old: Lookup,
        changes: Mapping[str, Change],
        demands: DemandProgram,
        limits: Limits | None,
    ) -> None:
        self.program, self.changes = program, dict(changes)
        self.relations: dict[str, Relation] = {name: Rows() for name in program.predicates}
        for name in program.base:
            change = changes.get(name, Change())
            deleted, inserted = Rows(change.minus), Rows(change.plus)
            self.relations[name] = Remembered(old, name)
            self.relations[variant(name, DELETED)] = deleted
            self.relations[variant(name, INSERTED)] = inserted
            self.relations[variant(name, NEW)] = NewState(self.relations[name], deleted, inserted)
        self.evaluation = Evaluation(self.relations, limits)
        self._answer(demands)

    def _answer(self, demands: DemandProgram) -> None:
        """The query rules, which answer demands as they come."""
        for demand in demands.queries.demands:
            self.relations[magic(demand)] = Rows()
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
        change = self.changes.get(grouping.source, Change())
        self.evaluation.rows(magic(demand)).add({row[: grouping.keys] for row in change.plus | change.minus})
        self.evaluation.run()
        schema, old = self.program.schemas[grouping.source], self.relations[grouping.source]
        self.changes[grouping.predicate] = regrouped(grouping, schema, old, change)

    def _propagate(self, number: int, stratum: StratumDemands) -> None:
        rules, evaluation = stratum.maintenance, self.evaluation
        own = rules.stratum.predicates
        for name in own:
            for kind in (DELETED, INSERTED, NEW):
                self.relations[variant(name, kind)] = Rows()
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
            self.changes[name] = Change(frozenset(plus), frozenset(minus))

    def _close(self, name: str) -> None:
        """What the strata above see: the exact change, and as much of the new state as of the old one."""
        change = self.changes.setdefault(name, Change())
        self.relations[variant(name, DELETED)] = Rows(change.minus)
        self.relations[variant(name, INSERTED)] = Rows(change.plus)
        self.relations[variant(name, NEW)] = Rows()


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
