"""Maintenance with materialized views (section 3.2): exact changes of all predicates from net changes of relations.

Stratum by stratum: D to its fixpoint; then R, I and N together; then E. Below a stratum the exact changes of the strata
before it are what the changes of the relations are: p^ins := p^plus and p^del := p^minus (4.2), which also keeps
phantom insertions away. The new state is never copied (``NewState``). A row that is in p^new already is not taken into
p^ins: all that follows from it follows already, and E1 would drop it.

By Theorem 1, p^minus ⊆ p, p^plus ∩ p = ∅, and p − p^minus ∪ p^plus is p after the change, provided that the input is
net: r^del ⊆ r and r^ins ∩ r = ∅. ``net`` makes it so.

Asking ahead: what the rules of a stratum will look up, looked up with as few questions as there are rounds.

Each question to an engine costs as much as many keys in it. The rules D follow what is deleted through the old state,
round by round, and the rules I what is inserted through the new one, mostly through the same relations by the same
columns. So before they run, the rules D are evaluated with all changed rows in the place of the deleted ones:

    p^touched :- ri^touched, the others          where r^touched = r^ins ∪ r^del

p^del ⊆ p^touched, because these rules are monotone in the changes; so all that D will ask is known afterwards. Of what
I will ask, all is known but what two insertions lead to together, and I asks for that itself. Nothing is concluded
from p^touched, so it may stop at any point: it does at ``MOST_AHEAD`` rows, for an insertion may touch much that is
there already, and I would not follow it.

Net changes of sets: how they are made from what a transaction did, and how groups follow them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidemark.algebra.clauses import Assign, Atom, Condition, DatalogRule, Grouping
from tidemark.algebra.scalar import Row, can_fail
from tidemark.algebra.types import Schema
from tidemark.datalog.fixpoint import Accept, Evaluation, RecursionLimits, TooFar
from tidemark.datalog.heads import grouped
from tidemark.datalog.maintenance import DELETED, INSERTED, MINUS, NEW, PLUS, StratumRules, maintenance_rules, variant
from tidemark.datalog.program import Program
from tidemark.datalog.relations import IndexedRows, Lookup, NewState, Relation, Remembered


@dataclass(frozen=True)
class FactChange:
    """What comes and what goes, disjoint."""

    plus: frozenset[Row] = frozenset()
    minus: frozenset[Row] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.plus or self.minus)


def regrouped(grouping: Grouping, source: Schema, old: Relation, change: FactChange) -> FactChange:
    """The change of a grouping: the groups of changed rows, computed in the old state and in the new."""
    positions = tuple(range(grouping.keys))
    touched = {row[: grouping.keys] for row in change.plus | change.minus}
    if not touched:
        return FactChange()
    before = set(old.matching(positions, touched))
    after = (before - change.minus) | change.plus
    was, becomes = grouped(grouping, source, before), grouped(grouping, source, after)
    return FactChange(frozenset(becomes - was), frozenset(was - becomes))


MOST_AHEAD: Final = 1_000


def look_ahead(
    stratum: StratumRules, relations: Mapping[str, Relation], changes: Mapping[str, FactChange]
) -> dict[str, tuple[Row, ...]]:
    """Ask ahead for a stratum; the rows of its predicates that were touched."""
    touched = {
        name: IndexedRows(changes[name].plus | changes[name].minus) for name in stratum.below if changes.get(name)
    }
    if sum(map(len, touched.values())) > MOST_AHEAD or any(map(_may_fail, stratum.deletions)):
        # An expression must not fail for a row that neither state has.
        return {}
    own = {name: IndexedRows() for name in stratum.stratum.predicates}
    known = dict(relations)
    for name, rows in (touched | own).items():
        known[variant(name, DELETED)] = known[variant(name, INSERTED)] = rows
    evaluation = Evaluation(known, RecursionLimits(rounds=MOST_AHEAD, rows=MOST_AHEAD))
    evaluation.add(stratum.deletions)
    try:
        evaluation.run()
    except TooFar:
        return {}
    return {name: tuple(rows) for name, rows in own.items()}


def columns_asked_first(rule: DatalogRule) -> int:
    """By how many columns the rule looks for the first atom after its first."""
    bound, *others = rule.atoms
    following = (atom for atom in others if atom.variables & bound.variables)
    atom = next(following, None)
    return sum(a in bound.arguments for a in atom.arguments) if isinstance(atom, Atom) else 0


def _may_fail(rule: DatalogRule) -> bool:
    return any(isinstance(part, Condition | Assign) and can_fail(part.expression) for part in rule.body)


def maintain(
    program: Program,
    old: Lookup,
    changes: Mapping[str, FactChange],
    rules: tuple[StratumRules, ...] | None = None,
    limits: RecursionLimits | None = None,
    *,
    is_near: bool = False,
) -> Mapping[str, FactChange]:
    """The exact change of every predicate. ``old`` has the relations and all predicates as they were, helpers too; it
    ``is_near`` if asking costs next to nothing beside the rows that are found, so that nothing is asked ahead.

    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> from tidemark.datalog.program import bind_program
    >>> from tidemark.datalog.relations import Memory
    >>> edge = Schema((Field("a", INT, nullable=False), Field("b", INT, nullable=False)))
    >>> text = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."
    >>> old = Memory({"edge": {(1, 2), (2, 3)}, "closure": {(1, 2), (2, 3), (1, 3)}})
    >>> change = FactChange(plus=frozenset({(3, 4)}), minus=frozenset({(1, 2)}))
    >>> found = maintain(bind_program(text, {"edge": edge}), old, {"edge": change})["closure"]
    >>> sorted(found.plus), sorted(found.minus)
    ([(2, 4), (3, 4)], [(1, 2), (1, 3)])
    """
    state = _State(program, old, dict(changes), limits, is_near=is_near)
    for stratum in maintenance_rules(program) if rules is None else rules:
        if any(state.changes.get(name) for name in stratum.below):
            state.maintain(stratum)
        else:
            state.leave(stratum)
    return {name: state.changes.get(name, FactChange()) for name in program.predicates}


class _State:
    def __init__(
        self,
        program: Program,
        old: Lookup,
        changes: dict[str, FactChange],
        limits: RecursionLimits | None,
        *,
        is_near: bool,
    ) -> None:
        self.program, self.changes, self.limits, self._is_near = program, changes, limits, is_near
        self.relations: dict[str, Relation] = {}
        for name in (*program.base, *program.predicates):
            self.relations[name] = Remembered(old, name)
        for name in program.base:
            self._open(name, changes.get(name, FactChange()))

    def _open(self, name: str, change: FactChange) -> None:
        """What the strata above see of a relation: its change, and its new state."""
        deleted, inserted = IndexedRows(change.minus), IndexedRows(change.plus)
        self.relations[variant(name, DELETED)] = deleted
        self.relations[variant(name, INSERTED)] = inserted
        self.relations[variant(name, NEW)] = NewState(self.relations[name], deleted, inserted)

    def maintain(self, stratum: StratumRules) -> None:
        for grouping in stratum.groupings:
            source = grouping.source
            changed = self.changes.get(source, FactChange())
            self._close(
                grouping.predicate,
                regrouped(grouping, self.program.schemas[source], self.relations[source], changed),
            )
        if not stratum.effects:
            return
        own = stratum.stratum.predicates
        touched = {} if self._is_near else look_ahead(stratum, self.relations, self.changes)
        evaluation = Evaluation(self.relations, self.limits)
        for name in own:
            deleted = self.relations[variant(name, DELETED)] = IndexedRows()
            self.relations[variant(name, NEW)] = NewState(self.relations[name], deleted, IndexedRows())
        evaluation.add(stratum.deletions)
        evaluation.run()
        for name, rows in touched.items():
            self._foresee(name, rows)
        evaluation = Evaluation(self.relations, self.limits)
        # A look-up by few columns may spare another rule one by more.
        evaluation.add(sorted(stratum.rederivations, key=columns_asked_first))
        for rule in stratum.insertions:
            evaluation.add([rule], self._not_kept(rule.head.predicate))
        heads = {variant(name, NEW) for name in own}
        evaluation.add(rule for rule in stratum.additions if rule.head.predicate in heads)
        evaluation.run()
        evaluation = Evaluation(self.relations, self.limits)
        evaluation.add(stratum.effects)
        evaluation.run()
        for name in own:
            plus, minus = evaluation.rows(variant(name, PLUS)), evaluation.rows(variant(name, MINUS))
            self._close(name, FactChange(frozenset(plus), frozenset(minus)))

    def _foresee(self, name: str, touched: Iterable[Row]) -> None:
        """What may be derived for p^ins will be looked for in p."""
        old, deleted = self.relations[name], self.relations[variant(name, DELETED)]
        if isinstance(old, Remembered) and isinstance(deleted, IndexedRows):
            positions = tuple(range(len(self.program.schemas[name])))
            old.foresee(positions, (row for row in touched if row not in deleted))

    def leave(self, stratum: StratumRules) -> None:
        """Nothing that the stratum reads has changed."""
        for name in stratum.stratum.predicates:
            self._close(name, FactChange())

    def _close(self, name: str, change: FactChange) -> None:
        self.changes[name] = change
        self._open(name, change)

    def _not_kept(self, inserted: str) -> Accept:
        """Of rows derived for p^ins those that p − p^del does not have."""
        name = inserted.removesuffix(f"^{INSERTED}")
        old, deleted = self.relations[name], self.relations[variant(name, DELETED)]
        positions = tuple(range(len(self.program.schemas[name])))
        assert isinstance(deleted, IndexedRows)

        def accept(rows: set[Row]) -> Iterable[Row]:
            kept = old.holding(positions, rows)
            return [row for row in rows if row not in kept or row in deleted]

        return accept
