"""Following a change of a recursion by the engine's own iteration, for changes that lead far.

For one member p with linear rules, two sets are iterated (names as in ``datalog.maintenance``):

    p^del   first: D, of changes below          step: D, of p^del itself                            (old state)
    more    first: R and I, of changes below    step: every rule of p, its atom of p read from ``more``   (new state)

where R and I read p^new as what is kept, p − p^del. Then p^plus = more − p and p^minus = p^del − more.

That is right. *Sound*: a row of p − p^del is derived in the new state, for none of its old derivations used what is
gone, or D had found it; and all that ``more`` derives is derived in the new state from such rows. *Complete*: let t be
a row of the new fixpoint, outside of p − p^del, derived from a row u of p (or none) that the claim holds for. If u is
in ``more``, the step derives t. Otherwise u is kept. If all else in this derivation was there before, t was in p, so
it is in p^del, and R derives it; if not, one of the parts below came (or a negated one went), and I derives it.

``more`` may have rows that are in p and were not deleted: a test in each round would read all of p again. It never has
a row that is not in the new fixpoint, so that it costs no more than evaluating everything again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from tidemark.algebra.clauses import Assign, Atom, Condition, DatalogRule, Not, Part
from tidemark.algebra.plans import Difference, Fixpoint, Given, Negate, Plan, Stored, Touched, Union, union
from tidemark.algebra.scalar import Row, can_fail
from tidemark.algebra.types import Schema
from tidemark.calculus.terms import distribute
from tidemark.datalog.fixpoint import TooFar
from tidemark.datalog.maintain import FactChange
from tidemark.datalog.maintenance import DELETED, INSERTED, NEW, StratumRules, in_new_state, variant
from tidemark.datalog.plans import over, rule_plan
from tidemark.engines.engine import Engine, Iteration
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import from_bag
from tidemark.strategy.recursion.lookups import Evaluate

LAST, GONE, MORE = "last", "gone", "more"


@dataclass(frozen=True)
class Iterating:
    """The two iterations of a fixpoint of one member. ``before`` and ``after`` are its parts in the two states."""

    plan: Fixpoint
    stored: Stored
    rules: StratumRules
    before: Mapping[str, Plan]
    after: Mapping[str, Plan]

    def follow(
        self, changes: Mapping[str, FactChange], given: Mapping[str, pa.Table], engine: Engine, evaluate: Evaluate
    ) -> tuple[pa.Table, int]:
        """The delta of the member, and how many rows were derived for it."""
        known = dict(given)
        for name, change in changes.items():
            known[variant(name, DELETED)] = _as_given(change.minus, self._schemas[name])
            known[variant(name, INSERTED)] = _as_given(change.plus, self._schemas[name])
        deleting = any(known[rule.atoms[0].predicate].num_rows for rule in self._beginning)
        known[GONE] = engine.iterate(self.deletions, known) if deleting else delta_tables.no_change(self.plan.schema)
        known[MORE] = engine.iterate(self._additions, known)
        if known[MORE].num_rows > self.plan.max_rows:
            raise TooFar(self._predicate, rows=self.plan.max_rows)
        deltas = [evaluate(plan, known) for plan in (self._plus, self._minus)]
        read: int = known[GONE].num_rows + known[MORE].num_rows
        return pa.concat_tables(deltas), read

    @property
    def _predicate(self) -> str:
        return self.plan.predicate

    @cached_property
    def _schemas(self) -> Mapping[str, Schema]:
        known = {name: part.schema for name, part in zip(self.plan.sources, self.plan.parts, strict=True)}
        known[self._predicate] = self.plan.schema
        every = {variant(name, kind): schema for name, schema in known.items() for kind in (DELETED, INSERTED, NEW)}
        return known | every | {LAST: self.plan.schema, GONE: self.plan.schema}

    @cached_property
    def _beginning(self) -> tuple[DatalogRule, ...]:
        """The rules D of changes below."""
        own = variant(self._predicate, DELETED)
        return tuple(rule for rule in self.rules.deletions if rule.atoms[0].predicate != own)

    @cached_property
    def deletions(self) -> Iteration:
        """p^del, as an iteration."""
        own = variant(self._predicate, DELETED)
        later = [_renamed(rule, {own: LAST}) for rule in self.rules.deletions if rule not in self._beginning]
        return self._iteration(self._beginning, later)

    @cached_property
    def _additions(self) -> Iteration:
        own = {variant(self._predicate, kind) for kind in (INSERTED, DELETED)}
        inserting = [rule for rule in self.rules.insertions if rule.atoms[0].predicate not in own]
        first = [self._over_kept(rule) for rule in (*self.rules.rederivations, *inserting)]
        later = []
        for rule in self.plan.rules:
            if any(atom.predicate == self._predicate for atom in rule.atoms):
                body = tuple(map(in_new_state, rule.body))
                later.append(_first(_renamed(replace(rule, body=body), {variant(self._predicate, NEW): LAST}), LAST))
        return self._iteration(first, later)

    def _over_kept(self, rule: DatalogRule) -> DatalogRule:
        """The rule with p^new read as p without p^del."""
        body: list[Part] = []
        for part in rule.body:
            if isinstance(part, Atom) and part.predicate == variant(self._predicate, NEW):
                body += [part.renamed(self._predicate), Not(part.renamed(GONE))]
            elif isinstance(part, Atom) and part.predicate == variant(self._predicate, DELETED):
                body.append(part.renamed(GONE))
            else:
                body.append(part)
        return replace(rule, body=tuple(body))

    def _iteration(self, first: Iterable[DatalogRule], later: Iterable[DatalogRule]) -> Iteration:
        rules = (*first, *later)
        states = {**self.before, **{variant(name, NEW): part for name, part in self.after.items()}}
        states[self._predicate] = self.stored
        read = {name for rule in rules for name in rule.reads}
        parts = tuple((f"part {name}", part) for name, part in states.items() if name in read)
        reads: dict[str, Plan] = {name: Given(name, schema) for name, schema in self._schemas.items()}
        reads |= {name: Given(f"part {name}", part.schema) for name, part in states.items()}

        def derived(some: Iterable[DatalogRule]) -> Plan:
            heads = (replace(rule, head=rule.head.renamed(self._predicate)) for rule in some)
            plans = tuple(rule_plan(rule, self._schemas, by_identity=True) for rule in heads)
            return over(union(plans, self.plan.schema), reads)

        return Iteration(parts, derived(first), derived(later), LAST, self.plan.max_rows)

    @cached_property
    def _plus(self) -> Plan:
        more = Given(MORE, self.plan.schema)
        there = Touched(self.stored, more, tuple(range(len(self.plan.schema))))
        return distribute(Union((more, Negate(there))))

    @cached_property
    def _minus(self) -> Plan:
        return Negate(Difference(Given(GONE, self.plan.schema), Given(MORE, self.plan.schema)))


def may_iterate(plan: Fixpoint) -> bool:
    """Whether no expression of the rules can fail: here they would see rows that neither state has."""
    parts = (part for rule in plan.rules for part in rule.body)
    return not any(isinstance(part, Condition | Assign) and can_fail(part.expression) for part in parts)


def _as_given(rows: Iterable[Row], schema: Schema) -> pa.Table:
    listed = dict.fromkeys(rows, 1)
    return from_bag(listed, schema) if listed else delta_tables.no_change(schema)


def _renamed(rule: DatalogRule, names: Mapping[str, str]) -> DatalogRule:
    def of(part: Part) -> Part:
        return part.renamed(names[part.predicate]) if isinstance(part, Atom) and part.predicate in names else part

    return replace(rule, body=tuple(map(of, rule.body)))


def _first(rule: DatalogRule, name: str) -> DatalogRule:
    """The rule with its atom of the name before all else."""
    chosen = [part for part in rule.body if isinstance(part, Atom) and part.predicate == name]
    return replace(rule, body=(*chosen, *(part for part in rule.body if part not in chosen)))
