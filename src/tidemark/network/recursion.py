"""How a node that is a fixpoint follows the changes below it: Algorithm 1 of ROD, over look-ups.

Rules see sets. The change of a part is what its differential says, reduced to the rows that come or go altogether. Then
the maintenance rules run in this process, and what they ask of the old state is looked up in what is stored, so that
the engine is asked for the neighbourhood of the change and nothing else. All members of one fixpoint change together.

If that turns out to derive too much, it is left to the engine: where it iterates by itself, it derives some hundred
rows in the time in which one is derived here, and so follows the change by two statements (``iterating.py``). Where it
cannot, everything is evaluated again, except for a view that was declared ``incremental``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from tidemark.algebra.keys import RelationKeys, keys_of
from tidemark.algebra.plans import Fixpoint, Negate, Plan, Stored, relations_of, union
from tidemark.algebra.scalar import Row
from tidemark.calculus.as_of import Block, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.states import new, old
from tidemark.calculus.step import with_steps
from tidemark.calculus.terms import distribute
from tidemark.datalog.changes import Change
from tidemark.datalog.fixpoint import Limits, TooFar
from tidemark.datalog.lowering import program_of
from tidemark.datalog.maintain import maintain
from tidemark.datalog.maintenance_rules import StratumRules, maintenance_rules
from tidemark.datalog.program import Program
from tidemark.engines.base import Engine
from tidemark.engines.reference.arrow import from_bag, to_bag
from tidemark.network.cutting import state_name
from tidemark.network.fixpoints import iteration_of
from tidemark.network.iterating import Iterating, may_iterate
from tidemark.network.lookups import EngineLookup, Evaluate, Readable
from tidemark.network.nodes import Node, NodeKind
from tidemark.network.settle import evaluation
from tidemark.passes import optimize


@dataclass(frozen=True)
class Budget:
    """How far rules are followed over look-ups: rounds, rows of one member at any rate, and else which part of the rows
    that are stored of it."""

    rounds: int | None
    least: int
    share: int

    def rows(self, stored: int) -> int:
        return max(self.least, stored // self.share)


BESIDE_ROUNDS: Final = Budget(rounds=None, least=20_000, share=4)
"""If all would be evaluated again by rounds too."""
BESIDE_AN_ITERATION: Final = Budget(rounds=100, least=700, share=1_000)
"""If the engine iterates by itself."""


@dataclass(frozen=True)
class Followed:
    """The deltas of all members of a fixpoint, and how they were found."""

    deltas: Mapping[str, pa.Table]
    strategy: str
    reason: str
    read: int


@dataclass(frozen=True)
class Recursion:
    """What is worked out once about a node and a set of changed relations."""

    node: Node
    plan: Fixpoint
    block: Block
    keys: RelationKeys

    @cached_property
    def program(self) -> Program:
        return program_of(self.plan)

    @cached_property
    def rules(self) -> tuple[StratumRules, ...]:
        return maintenance_rules(self.program)

    @cached_property
    def stored(self) -> Mapping[str, str]:
        """Which relation keeps the rows of each member."""
        return stored_members(self.node)

    @cached_property
    def before(self) -> Mapping[str, Readable]:
        """Everything that the rules read, as it was."""
        parts = {
            name: Readable(distribute(resolve(old(part), self.block)))
            for name, part in zip(self.plan.sources, self.plan.parts, strict=True)
        }
        members = dict(self.plan.members)
        return parts | {name: Readable(Stored(at, members[name])) for name, at in self.stored.items()}

    @cached_property
    def differentials(self) -> Mapping[str, Plan]:
        """The differentials of the parts that can have changed."""
        return {
            name: distribute(resolve(optimize(with_steps(differentiate(part, self.block.changed))), self.block))
            for name, part in zip(self.plan.sources, self.plan.parts, strict=True)
            if relations_of(part) & self.block.changed
        }

    @cached_property
    def after(self) -> Mapping[str, Plan]:
        """The members, evaluated again."""
        return {name: distribute(resolve(new(self.plan.of(name)), self.block)) for name in self.stored}

    @cached_property
    def sets(self) -> frozenset[str]:
        """The parts that are known to have no row twice."""
        pairs = zip(self.plan.sources, self.plan.parts, strict=True)
        return frozenset(name for name, part in pairs if keys_of(part, self.keys))

    def follow(self, given: Mapping[str, pa.Table], engine: Engine, *, at_any_cost: bool) -> Followed:
        """The deltas of all members."""
        evaluate = evaluation(engine)
        lookup = EngineLookup(self.before, given, evaluate)
        changes = {name: self._change(name, plan, lookup, evaluate) for name, plan in self.differentials.items()}
        iterating = self.iterating if self._is_iterated(given, engine) else None
        limits = Limits(self.plan.max_rounds, self.plan.max_rows)
        if iterating is not None or not at_any_cost:
            limits = self._limits(given, engine)
        try:
            found = maintain(self.program, lookup, changes, self.rules, limits)
        except TooFar as error:
            if error.rounds == self.plan.max_rounds or error.rows == self.plan.max_rows:
                raise
            if iterating is not None:
                return self._iterated(iterating, changes, given, engine, evaluate)
            what = f"{error.rows:,} rows" if error.rounds is None else f"{error.rounds:,} rounds"
            return self._evaluated_again(given, engine, evaluate, what)
        schemas = dict(self.plan.members)
        deltas = {name: from_bag(_weights(found[name]), schema) for name, schema in schemas.items()}
        return Followed(deltas, "differential", "maintenance rules", lookup.read)

    @cached_property
    def iterating(self) -> Iterating | None:
        """How the engine may follow a change by its own iteration, if the rules allow it."""
        after = self.after[self.plan.predicate]
        if not isinstance(after, Fixpoint) or iteration_of(after) is None or not may_iterate(self.plan):
            return None
        stored = Stored(self.stored[self.plan.predicate], self.plan.schema)
        before = {name: self.before[name].plan for name in self.plan.sources}
        parts = dict(zip(after.sources, after.parts, strict=True))
        return Iterating(self.plan, stored, self.rules[0], before, parts)

    def _iterated(
        self,
        iterating: Iterating,
        changes: Mapping[str, Change],
        given: Mapping[str, pa.Table],
        engine: Engine,
        evaluate: Evaluate,
    ) -> Followed:
        delta, read = iterating.follow(
            {**dict.fromkeys(self.plan.sources, Change()), **changes}, given, engine, evaluate
        )
        return Followed({self.plan.predicate: delta}, "differential", "maintenance rules, iterated by the engine", read)

    def _is_iterated(self, given: Mapping[str, pa.Table], engine: Engine) -> bool:
        """Whether the engine iterates by itself here."""
        after = self.after[self.plan.predicate]
        iteration = iteration_of(after) if isinstance(after, Fixpoint) else None
        if iteration is None or not engine.iterates(iteration, given):
            return False
        return self.iterating is None or engine.iterates(self.iterating.deletions, given)

    def _limits(self, given: Mapping[str, pa.Table], engine: Engine) -> Limits:
        """How far the rules are followed here."""
        budget = BESIDE_AN_ITERATION if self._is_iterated(given, engine) else BESIDE_ROUNDS
        rows = budget.rows(max(engine.rows(at) for at in self.stored.values()))
        rounds = self.plan.max_rounds if budget.rounds is None else min(budget.rounds, self.plan.max_rounds)
        return Limits(rounds, min(rows, self.plan.max_rows))

    def _change(self, name: str, differential: Plan, lookup: EngineLookup, evaluate: Evaluate) -> Change:
        """What comes to a part and what goes from it altogether."""
        delta = to_bag(evaluate(differential, lookup.given))
        before: Mapping[Row, int] = {}
        if delta and name not in self.sets:
            before = lookup.weights(name, tuple(range(len(self.before[name].plan.schema))), delta)
        return set_change(delta, before, is_set=name in self.sets)

    def _evaluated_again(
        self, given: Mapping[str, pa.Table], engine: Engine, evaluate: Evaluate, what: str
    ) -> Followed:
        deltas = {}
        for name, at in self.stored.items():
            stored = Stored(at, dict(self.plan.members)[name])
            deltas[name] = evaluate(union((self.after[name], Negate(stored)), stored.schema), given)
        read = sum(engine.rows(relation) for relation in relations_of(self.plan) if relation not in self.block.unstored)
        return Followed(deltas, "complete", f"evaluated again: the rules would take more than {what}", read)


def stored_members(node: Node) -> Mapping[str, str]:
    """Which relation keeps the rows of each member of a node's fixpoint: the view itself, or states."""
    plan = node.plan
    assert isinstance(plan, Fixpoint)
    if node.kind is NodeKind.VIEW:
        return {plan.predicate: node.name}
    return {name: state_name(plan.of(name)) for name, _ in plan.members}


def set_change(delta: Mapping[Row, int], before: Mapping[Row, int], *, is_set: bool) -> Change:
    """The rows that come or go altogether, of a change of a bag. A set needs no look at what was there before.

    >>> change = set_change({("a",): 1, ("b",): -1, ("c",): 2}, {("a",): 1, ("b",): 2}, is_set=False)
    >>> change.plus, change.minus
    (frozenset({('c',)}), frozenset())
    """
    if is_set:
        coming = (row for row, weight in delta.items() if weight > 0)
        return Change(frozenset(coming), frozenset(row for row, weight in delta.items() if weight < 0))
    coming = (row for row, weight in delta.items() if weight > 0 and not before.get(row, 0))
    going = (row for row, weight in delta.items() if weight < 0 and before.get(row, 0) + weight == 0)
    return Change(frozenset(coming), frozenset(going))


def _weights(change: Change) -> dict[Row, int]:
    return {**dict.fromkeys(change.plus, 1), **dict.fromkeys(change.minus, -1)}
