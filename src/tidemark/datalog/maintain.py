"""Maintenance with materialized views (section 3.2): exact changes of all predicates from net changes of relations.

Stratum by stratum: D to its fixpoint; then R, I and N together; then E. Below a stratum the exact changes of the strata
before it are what the changes of the relations are: p^ins := p^plus and p^del := p^minus (4.2), which also keeps
phantom insertions away. The new state is never copied (``NewState``). A row that is in p^new already is not taken into
p^ins: all that follows from it follows already, and E1 would drop it.

By Theorem 1, p^minus ⊆ p, p^plus ∩ p = ∅, and p − p^minus ∪ p^plus is p after the change, provided that the input is
net: r^del ⊆ r and r^ins ∩ r = ∅. ``net`` makes it so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemark.algebra.scalar import Row
from tidemark.datalog.changes import Change, regrouped
from tidemark.datalog.fixpoint import Accept, Evaluation, Limits
from tidemark.datalog.foresight import columns_asked_first, look_ahead
from tidemark.datalog.maintenance_rules import (
    DELETED,
    INSERTED,
    MINUS,
    NEW,
    PLUS,
    StratumRules,
    maintenance_rules,
    variant,
)
from tidemark.datalog.program import Program
from tidemark.datalog.relations import Lookup, NewState, Relation, Remembered, Rows


def maintain(
    program: Program,
    old: Lookup,
    changes: Mapping[str, Change],
    rules: tuple[StratumRules, ...] | None = None,
    limits: Limits | None = None,
) -> Mapping[str, Change]:
    """The exact change of every predicate. ``old`` has the relations and all predicates as they were, helpers too.

    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> from tidemark.datalog.program import bind_program
    >>> from tidemark.datalog.relations import Memory
    >>> edge = Schema((Field("a", INT, nullable=False), Field("b", INT, nullable=False)))
    >>> text = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."
    >>> old = Memory({"edge": {(1, 2), (2, 3)}, "closure": {(1, 2), (2, 3), (1, 3)}})
    >>> change = Change(plus=frozenset({(3, 4)}), minus=frozenset({(1, 2)}))
    >>> found = maintain(bind_program(text, {"edge": edge}), old, {"edge": change})["closure"]
    >>> sorted(found.plus), sorted(found.minus)
    ([(2, 4), (3, 4)], [(1, 2), (1, 3)])
    """
    state = _State(program, old, dict(changes), limits)
    for stratum in maintenance_rules(program) if rules is None else rules:
        if any(state.changes.get(name) for name in stratum.below):
            state.maintain(stratum)
        else:
            state.leave(stratum)
    return {name: state.changes.get(name, Change()) for name in program.predicates}


class _State:
    def __init__(self, program: Program, old: Lookup, changes: dict[str, Change], limits: Limits | None) -> None:
        self.program, self.changes, self.limits = program, changes, limits
        self.relations: dict[str, Relation] = {}
        for name in (*program.base, *program.predicates):
            self.relations[name] = Remembered(old, name)
        for name in program.base:
            self._open(name, changes.get(name, Change()))

    def _open(self, name: str, change: Change) -> None:
        """What the strata above see of a relation: its change, and its new state."""
        deleted, inserted = Rows(change.minus), Rows(change.plus)
        self.relations[variant(name, DELETED)] = deleted
        self.relations[variant(name, INSERTED)] = inserted
        self.relations[variant(name, NEW)] = NewState(self.relations[name], deleted, inserted)

    def maintain(self, stratum: StratumRules) -> None:
        for grouping in stratum.groupings:
            source = grouping.source
            changed = self.changes.get(source, Change())
            self._close(
                grouping.predicate,
                regrouped(grouping, self.program.schemas[source], self.relations[source], changed),
            )
        if not stratum.effects:
            return
        own = stratum.stratum.predicates
        touched = look_ahead(stratum, self.relations, self.changes)
        evaluation = Evaluation(self.relations, self.limits)
        for name in own:
            deleted = self.relations[variant(name, DELETED)] = Rows()
            self.relations[variant(name, NEW)] = NewState(self.relations[name], deleted, Rows())
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
            self._close(name, Change(frozenset(plus), frozenset(minus)))

    def _foresee(self, name: str, touched: Iterable[Row]) -> None:
        """What may be derived for p^ins will be looked for in p."""
        old, deleted = self.relations[name], self.relations[variant(name, DELETED)]
        if isinstance(old, Remembered) and isinstance(deleted, Rows):
            positions = tuple(range(len(self.program.schemas[name])))
            old.foresee(positions, (row for row in touched if row not in deleted))

    def leave(self, stratum: StratumRules) -> None:
        """Nothing that the stratum reads has changed."""
        for name in stratum.stratum.predicates:
            self._close(name, Change())

    def _close(self, name: str, change: Change) -> None:
        self.changes[name] = change
        self._open(name, change)

    def _not_kept(self, inserted: str) -> Accept:
        """Of rows derived for p^ins those that p − p^del does not have."""
        name = inserted.removesuffix(f"^{INSERTED}")
        old, deleted = self.relations[name], self.relations[variant(name, DELETED)]
        positions = tuple(range(len(self.program.schemas[name])))
        assert isinstance(deleted, Rows)

        def accept(rows: set[Row]) -> Iterable[Row]:
            kept = {row for row in old.matching(positions, rows) if row not in deleted}
            return [row for row in rows if row not in kept]

        return accept
