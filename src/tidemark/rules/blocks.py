"""Blocks of an open transaction: from the point at which a rule was last considered to now.

A *moment* has the net deltas of tables and nodes from the last commit up to it. Changes are linear in that, so what a
block changes is what has changed now, less what had changed at its beginning:

    Δ(block) = Δ(commit → now) − Δ(commit → beginning),        S(beginning) = stored ⊎ Δ(commit → beginning)

The change of a condition is derived only when it is asked for: a moment keeps its wave, and what is stored holds still
while the transaction is open, so that it may be asked of an earlier moment later. It is not asked for where the block
can add no row to the condition:

    a row comes to C over the block     only if  some entry of Δ(block) of a relation below has a sign that can add to C

because C(S ⊎ Δ) − C(S) is a sum of terms, each linear in one entry and otherwise over rows with weights above zero, and
its sign is the entry's or the opposite (``strategy.irrelevant``). If no row comes, Σ weights of every instance is after
the block at most what it was before, and no derivation was added: neither kind of rule fires. It has to be the block's
change and not the transaction's: what one block took away and the next brought back is no change of the transaction,
and what a strict rule waits for.

Which instances a rule fires for.

    strict      Σ weights of the instance before the block = 0,  and > 0 after it
    nervous     a derivation of the instance was added in the block

An instance is identified by some columns of the condition; ``condition`` has its rows once each. Of a strict rule those
are all rows of the instance: before the block there was none. For a nervous one they are the rows that were added.

Database events of a block: which of the rows that were inserted, deleted and updated a rule waits for.

What a transaction did and undid is no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import Given, Plan, relations_of
from tidemark.algebra.types import Schema
from tidemark.calculus.as_of import Block, new, old, prior_name, resolve
from tidemark.calculus.terms import distribute
from tidemark.calculus.touched import restrict
from tidemark.engines.engine import Engine
from tidemark.passes import optimize, prepare
from tidemark.sql.parse.rules import DatabaseEvent
from tidemark.state.lives import Happening
from tidemark.state.lives import Row as LivesRow
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows, from_bag, to_bag
from tidemark.strategy.external import stages
from tidemark.strategy.irrelevant import can_add
from tidemark.strategy.settle import settle
from tidemark.strategy.wave import Wave, given_deltas


@dataclass(frozen=True)
class Moment:
    """A point of an open transaction: net deltas since the last commit, the place in its course, and the wave that can
    be asked for what it left underived."""

    deltas: Mapping[str, pa.Table] = field(default_factory=dict)
    place: int = 0
    wave: Wave | None = None

    def of_condition_since(self, earlier: Moment, node: str, plan: Plan) -> pa.Table | None:
        """What changed of a condition since an earlier moment; None if nothing did, or nothing came to it."""
        if not self._may_have_added(earlier, node, plan):
            return None
        return _between(earlier._of_condition(node), self._of_condition(node))

    def _may_have_added(self, earlier: Moment, node: str, plan: Plan) -> bool:
        if not earlier.deltas:
            return self.wave is not None and self.wave.may_add(node)
        changes = {name: self.since(earlier, name) for name in relations_of(plan)}
        return can_add(plan, {name: Rows.of(delta) for name, delta in changes.items() if delta is not None})

    def _of_condition(self, node: str) -> pa.Table | None:
        return None if self.wave is None else self.wave.change_of(node)

    def since(self, earlier: Moment, name: str) -> pa.Table | None:
        """What changed of a relation or node since an earlier moment; None if nothing did."""
        return _between(earlier.deltas.get(name), self.deltas.get(name))


def _between(before: pa.Table | None, after: pa.Table | None) -> pa.Table | None:
    """What is in one delta and not in an earlier one."""
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

    def may_add(self, plan: Plan) -> bool:
        """Whether the block can add rows to a plan."""
        changed = self._changed(relations_of(plan))
        return bool(changed) and can_add(prepare(plan), {name: Rows.of(delta) for name, delta in changed.items()})

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


INSTANCES = "instances"
Identity = tuple[int, ...]
Row = tuple[Value, ...]


def became_true(plan: Plan, identity: Identity, change: pa.Table, span: Span) -> pa.Table | None:
    """The rows of the instances that the block makes true; None if there are none."""
    if not delta_tables.inserted(change).num_rows:
        return None
    rows = to_bag(change)
    sums: dict[Row, int] = {}
    for row, weight in rows.items():
        instance = tuple(row[i] for i in identity)
        sums[instance] = sums.get(instance, 0) + weight
    candidates = {instance for instance, weight in sums.items() if weight > 0}
    if not candidates:
        return None
    was_true = _instances(span.before(*_restricted(plan, identity, candidates)), identity)
    fired = candidates - was_true
    found = {row: 1 for row, weight in rows.items() if weight > 0 and tuple(row[i] for i in identity) in fired}
    return from_bag(found, plan.schema) if found else None


def derived_anew(schema: Schema, change: pa.Table) -> pa.Table | None:
    """The rows of which a derivation was added; the change has further columns, which tell derivations apart."""
    added = delta_tables.inserted(change)
    if not added.num_rows:
        return None
    width = len(schema)
    return from_bag({row[:width]: 1 for row in to_bag(added)}, schema)


def still_true(plan: Plan, identity: Identity, rows: pa.Table, span: Span) -> pa.Table | None:
    """The rows that the instances of the given ones have now; None if none of them is true any more."""
    instances = {tuple(row[i] for i in identity) for row in to_bag(rows)}
    found = to_bag(span.after(*_restricted(plan, identity, instances)))
    kept = {row: 1 for row, weight in found.items() if weight > 0}
    return from_bag(kept, plan.schema) if kept else None


def _restricted(plan: Plan, identity: Identity, instances: set[Row]) -> tuple[Plan, dict[str, pa.Table]]:
    """The plan's rows of the given instances."""
    schema = Schema(tuple(plan.schema[i] for i in identity))
    keys = from_bag(dict.fromkeys(instances, 1), schema)
    return restrict(prepare(plan), Given(INSTANCES, schema), identity), {INSTANCES: keys}


def _instances(rows: pa.Table, identity: Identity) -> set[Row]:
    sums: dict[Row, int] = {}
    for row, weight in to_bag(rows).items():
        instance = tuple(row[i] for i in identity)
        sums[instance] = sums.get(instance, 0) + weight
    return {instance for instance, weight in sums.items() if weight > 0}


Found = tuple[str, Happening]
"""A relation and what happened to a row of it."""


def places(events: Iterable[DatabaseEvent], happening: Happening, schema: Schema) -> list[int]:
    """Since when, in the course of a transaction, each of a relation's events is true of what happened."""
    chosen = ((event, _columns(event, schema)) for event in events)
    return [happening.place(columns) for event, columns in chosen if _is(event, columns, happening)]


def is_any(events: Iterable[DatabaseEvent], happening: Happening, schema: Schema) -> bool:
    """Whether what happened is one of a relation's events."""
    return any(_is(event, _columns(event, schema), happening) for event in events)


def _is(event: DatabaseEvent, columns: list[int], happening: Happening) -> bool:
    return event.kind == happening.kind and (event.kind != "update" or happening.differs(columns))


def _columns(event: DatabaseEvent, schema: Schema) -> list[int]:
    return [schema.position(name) for name in event.columns]


def transitions(found: Iterable[Found], is_several: bool, given: Mapping[str, Schema]) -> dict[str, pa.Table]:
    """The transition relations of what happened; none if nothing did.

    Rows that were updated are in all three: the old ones in ``deleted``, the new ones in ``inserted``.
    """
    bags: dict[str, dict[LivesRow, int]] = {name: {} for name in given}
    is_nothing = True
    for relation, happening in found:
        is_nothing = False
        ending = f"_{relation}" if is_several else ""
        width = len(given[f"inserted{ending}"])  # a rule sees the columns that there were when it was created
        old, new = (None if row is None else row[:width] for row in (happening.old, happening.new))
        if new is not None:
            _add(bags[f"inserted{ending}"], new, happening.count)
        if old is not None:
            _add(bags[f"deleted{ending}"], old, happening.count)
        if old is not None and new is not None:
            _add(bags[f"updated{ending}"], old + new, happening.count)
    return {} if is_nothing else {name: from_bag(bag, given[name]) for name, bag in bags.items()}


def _add(bag: dict[LivesRow, int], row: LivesRow, count: int) -> None:
    bag[row] = bag.get(row, 0) + count
