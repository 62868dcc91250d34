"""How a node that is a fixpoint follows the changes below it: Algorithm 1 of ROD, over look-ups.

The maintenance rules run in this process, from the changes of the parts. What they ask of the old state is looked up in
what is stored, so that the engine is asked for the neighbourhood of the change and nothing else. All members of one
fixpoint change together.

If that turns out to derive too much, it is left to the engine: where it iterates by itself, it derives some hundred
rows in the time in which one is derived here, and so follows the change by two statements (``iterate.py``). Where it
cannot, everything is evaluated again, except for a view that was declared ``incremental``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Fixpoint, Negate, Plan, Stored, relations_of, union
from tidemark.calculus.as_of import Block, new, resolve
from tidemark.calculus.terms import distribute
from tidemark.datalog.fixpoint import RecursionLimits, TooFar
from tidemark.datalog.maintain import FactChange, maintain
from tidemark.datalog.maintenance import StratumRules, maintenance_rules
from tidemark.datalog.plans import program_of
from tidemark.datalog.program import Program
from tidemark.engines.engine import Engine
from tidemark.storage.delta import Rows, as_rows
from tidemark.strategy.nodes import COMPLETE, DIFFERENTIAL, Node
from tidemark.strategy.recursion.complete import iteration_of
from tidemark.strategy.recursion.iterate import Iterating, may_iterate
from tidemark.strategy.recursion.lookups import EngineLookup, Evaluate, Parts, Readable, weights_of
from tidemark.strategy.settle import evaluation

PATIENCE: Final = 4
"""So many times the rounds of an evaluation may be taken to follow a change, where nothing else is allowed."""


@dataclass(frozen=True)
class Followed:
    """The deltas of all members of a fixpoint, and how they were found."""

    deltas: Mapping[str, Rows]
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
    nodes: Mapping[str, Node]

    @cached_property
    def program(self) -> Program:
        return program_of(self.plan)

    @cached_property
    def rules(self) -> tuple[StratumRules, ...]:
        return rules_of(self.plan)

    @cached_property
    def stored(self) -> Mapping[str, str]:
        """Which relation keeps the rows of each member."""
        return stored_members(self.node, self.nodes)

    @cached_property
    def parts(self) -> Parts:
        return Parts(dict(zip(self.plan.sources, self.plan.parts, strict=True)), self.block, self.keys)

    @cached_property
    def before(self) -> Mapping[str, Readable]:
        """Everything that the rules read, as it was."""
        members = dict(self.plan.members)
        return {**self.parts.before, **{n: Readable(Stored(at, members[n])) for n, at in self.stored.items()}}

    @cached_property
    def after(self) -> Mapping[str, Plan]:
        """The members, evaluated again."""
        return {name: distribute(resolve(new(self.plan.of(name)), self.block)) for name in self.stored}

    def follow(self, given: Mapping[str, pa.Table], engine: Engine, *, at_any_cost: bool) -> Followed:
        """The deltas of all members."""
        evaluate = evaluation(engine)
        lookup = EngineLookup(self.before, as_rows(given), engine, evaluate)
        changes = self.parts.changes(lookup)
        is_iterated = self._is_iterated(given, engine)
        iterating = self.iterating if is_iterated else None
        # Deletions go round by round through all that was derived, which may take longer than deriving it anew does.
        limits = RecursionLimits(self.plan.max_rounds * PATIENCE, self.plan.max_rows)
        if iterating is not None or not at_any_cost:
            limits = self._limits(engine, is_iterated=is_iterated)
        try:
            found = maintain(self.program, lookup, changes, self.rules, limits, is_near=lookup.is_near)
        except TooFar as error:
            if iterating is not None:
                return self._bounded(self._iterated(iterating, changes, given, engine, evaluate), engine)
            if at_any_cost:
                raise
            what = f"{error.rows:,} rows" if error.rounds is None else f"{error.rounds:,} rounds"
            return self._evaluated_again(given, engine, evaluate, what)
        schemas = dict(self.plan.members)
        deltas = {name: Rows(schema, bag=weights_of(found[name])) for name, schema in schemas.items()}
        return self._bounded(Followed(deltas, DIFFERENTIAL, "maintenance rules", lookup.read), engine)

    def _bounded(self, found: Followed, engine: Engine) -> Followed:
        """What was found, unless a member would have more rows than it may."""
        for name, delta in found.deltas.items():
            if engine.rows(self.stored[name]) + delta.growth > self.plan.max_rows:
                raise TooFar(name, rows=self.plan.max_rows)
        return found

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
        changes: Mapping[str, FactChange],
        given: Mapping[str, pa.Table],
        engine: Engine,
        evaluate: Evaluate,
    ) -> Followed:
        delta, read = iterating.follow(
            {**dict.fromkeys(self.plan.sources, FactChange()), **changes}, given, engine, evaluate
        )
        return Followed(
            {self.plan.predicate: Rows.of(delta)}, DIFFERENTIAL, "maintenance rules, iterated by the engine", read
        )

    def _is_iterated(self, given: Mapping[str, pa.Table], engine: Engine) -> bool:
        """Whether the engine iterates by itself here."""
        after = self.after[self.plan.predicate]
        iteration = iteration_of(after) if isinstance(after, Fixpoint) else None
        if iteration is None or not engine.iterates(iteration, given):
            return False
        return self.iterating is None or engine.iterates(self.iterating.deletions, given)

    def _limits(self, engine: Engine, *, is_iterated: bool) -> RecursionLimits:
        """How far the rules are followed here."""
        limits = engine.limits
        budget = limits.beside_an_iteration if is_iterated else limits.beside_rounds
        rows = budget.rows(max(engine.rows(at) for at in self.stored.values()))
        rounds = self.plan.max_rounds if budget.rounds is None else min(budget.rounds, self.plan.max_rounds)
        return RecursionLimits(rounds, min(rows, self.plan.max_rows))

    def _evaluated_again(
        self, given: Mapping[str, pa.Table], engine: Engine, evaluate: Evaluate, what: str
    ) -> Followed:
        deltas = {}
        for name, at in self.stored.items():
            stored = Stored(at, dict(self.plan.members)[name])
            deltas[name] = Rows.of(evaluate(union((self.after[name], Negate(stored)), stored.schema), given))
        read = sum(engine.rows(relation) for relation in relations_of(self.plan) if relation not in self.block.unstored)
        return Followed(deltas, COMPLETE, f"evaluated again: the rules would take more than {what}", read)


def rules_of(plan: Fixpoint) -> tuple[StratumRules, ...]:
    """The rules that maintain a fixpoint."""
    return maintenance_rules(program_of(plan))


def stored_members(node: Node, nodes: Mapping[str, Node]) -> Mapping[str, str]:
    """Which relation keeps the rows of each member of a node's fixpoint: the node itself, and its fellows."""
    plan = node.plan
    assert isinstance(plan, Fixpoint)
    if len(plan.members) == 1:
        return {plan.predicate: node.name}
    return {name: next(n.name for n in nodes.values() if n.plan == plan.of(name)) for name, _ in plan.members}
