"""Blocks of an open transaction: from the point at which a rule was last considered to now.

A *moment* has the net deltas of tables and nodes from the last commit up to it. Changes are linear in that, so what a
block changes is what has changed now, less what had changed at its beginning:

    Δ(block) = Δ(commit → now) − Δ(commit → beginning),        S(beginning) = stored ⊎ Δ(commit → beginning)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tidemark.algebra.plans import Plan, relations_of
from tidemark.calculus.as_of import Block, prior_name, resolve
from tidemark.calculus.states import new, old
from tidemark.calculus.terms import distribute
from tidemark.engines.base import Engine
from tidemark.log import deltas as delta_tables
from tidemark.network.settle import settle
from tidemark.network.unstored import stages
from tidemark.network.wave import given_deltas
from tidemark.passes import optimize, prepare


@dataclass(frozen=True)
class Moment:
    """A point of an open transaction: net deltas since the last commit."""

    deltas: Mapping[str, pa.Table] = field(default_factory=dict)

    def since(self, earlier: Moment, name: str) -> pa.Table | None:
        """What changed of a relation or node since an earlier moment; None if nothing did."""
        after, before = self.deltas.get(name), earlier.deltas.get(name)
        if before is None or after is None:
            found = after if before is None else delta_tables.negated(before)
        else:
            found = None if after is before else delta_tables.combine(after, delta_tables.negated(before))
        return found if found is not None and found.num_rows else None


START = Moment()
"""The last commit."""


@dataclass(frozen=True)
class Span:
    """A block with what is needed to read it: the engine, the relations that it does not hold, and the transition
    relations, which were empty when the block began."""

    since: Moment
    now: Moment
    engine: Engine
    unstored: frozenset[str] = frozenset()
    transitions: Mapping[str, pa.Table] = field(default_factory=dict)

    def change(self, plan: Plan) -> pa.Table:
        """The net change of a plan over the block."""
        changed = self._changed(relations_of(plan))
        if not changed:
            return delta_tables.no_change(plan.schema)
        given = given_deltas(changed) | self._prior(plan)
        result = delta_tables.no_change(plan.schema)
        for stage in stages(prepare(plan), frozenset(changed), {}, self._block(plan, changed)):
            if stage.when is not None and not given[stage.when].num_rows:
                result = delta_tables.no_change(stage.plan.schema)
            else:
                result = self.engine.evaluate(*settle(stage.plan, given, self.engine))
            if stage.result is not None:
                given[stage.result] = result
        return result

    def before(self, plan: Plan, named: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of a plan when the block began, over what is given by name."""
        return self._evaluate(old(plan), {}, named)

    def after(self, plan: Plan, named: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of a plan now."""
        return self._evaluate(new(plan), self._changed(relations_of(plan)), named)

    def _evaluate(self, plan: Plan, changed: Mapping[str, pa.Table], named: Mapping[str, pa.Table]) -> pa.Table:
        given = given_deltas(changed) | self._prior(plan) | dict(named)
        resolved = distribute(resolve(optimize(plan), self._block(plan, changed)))
        return self.engine.evaluate(*settle(resolved, given, self.engine))

    def _changed(self, names: Iterable[str]) -> dict[str, pa.Table]:
        found = {}
        for name in names:
            delta = self.transitions.get(name) if name in self.transitions else self.now.since(self.since, name)
            if delta is not None and delta.num_rows:
                found[name] = delta
        return found

    def _prior(self, plan: Plan) -> dict[str, pa.Table]:
        return {prior_name(name): self.since.deltas[name] for name in relations_of(plan) if name in self.since.deltas}

    def _block(self, plan: Plan, changed: Mapping[str, pa.Table]) -> Block:
        prior = frozenset(name for name in relations_of(plan) if name in self.since.deltas)
        return Block(frozenset(changed), prior, self.unstored | self.transitions.keys())
