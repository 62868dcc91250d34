"""From one catalog to the next: what is stored and goes on, what begins, what is derived anew.

A relation *goes on* if it has the identity that it had, perhaps with more columns or, for a view, another meaning; a
view that means something else is evaluated as a whole once, and what stands on it follows from its change. States go on
while all that they are counted from does. Everything else is dropped and created.

Reading tables as an open transaction has altered them, before anything of it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from tidemark.algebra.plans import Fixpoint, Plan, Project, Stored, relations_of, transform, walk
from tidemark.datalog.program import Program
from tidemark.engines.engine import (
    Columns,
    Engine,
    Evaluator,
    Found,
    Index,
    Iteration,
    Keys,
    Memory,
    Snapshot,
    reads_only,
)
from tidemark.engines.limits import EngineLimits
from tidemark.network import Network, Node, NodeKind, build
from tidemark.network.build import Definition
from tidemark.sql.catalog.catalog import Catalog, Table, View
from tidemark.state.tidemarks import lagging_of
from tidemark.storage.commit import Alteration, Commit, Forgetting, Loaded, Logged
from tidemark.storage.delta import Rows
from tidemark.strategy.nodes import REPLACED, expand
from tidemark.strategy.recursion.rederive import Rules, rules_of


def network_of(catalog: Catalog, before: Network | None = None, unkept: Set[str] = frozenset()) -> Network:
    """The network of a catalog's views; what is known of the one before is taken over. Assertions and conditions that
    are ``unkept`` do without states of their groupings."""
    # In the order of creation, so that each comes after those that it reads.
    views = (view for view in catalog.views if view.external or (view.materialized and view.lag is None))
    external = NodeKind.EXTERNAL
    asserted = (
        Definition(f"_assertion {v.name}", v.plan, kind=external, is_forbidden=True) for v in catalog.assertions
    )
    watched = {a.node: a for a in catalog.activations if a.is_condition}
    outside = (
        Definition(name, a.watched, kind=external, is_asked=True, is_event=bool(a.transitions))
        for name, a in watched.items()
    )
    kept = (replace(one, keeps_groupings=one.name not in unkept) for one in (*asserted, *outside))
    return build([*(_definition(view, catalog) for view in views), *kept], before)


def _definition(view: View, catalog: Catalog) -> Definition:
    strategy = view.options.get("strategy", "auto")
    if not view.external:
        return Definition(view.name, view.plan, strategy)
    rules = None
    if any(isinstance(part, Fixpoint) for part in walk(view.plan)):
        rules = rules_of(view.plan) if view.program is None else _rules(view.program, view.name, catalog)
    return Definition(view.name, view.plan, strategy, NodeKind.EXTERNAL, rules)


def _rules(program: Program, predicate: str, catalog: Catalog) -> Rules:
    """The rules of an external view, over the relations as they are now: some may have more columns than the rules
    know."""
    plans: dict[str, Plan] = {}
    for name in program.base:
        plan, known = catalog.scan(name), program.schemas[name]
        seen = plan.columns()[: len(known)]
        plans[name] = plan if len(seen) == len(plan.schema) else Project(plan, known.names, seen)
    return Rules(program, plans, predicate)


@dataclass(frozen=True)
class Transition:
    """The way from what is committed to the catalog of a transaction."""

    before: Catalog
    network_before: Network
    after: Catalog

    @cached_property
    def network(self) -> Network:
        return self.network_before if self.after is self.before else network_of(self.after, self.network_before)

    @cached_property
    def going_on(self) -> frozenset[str]:
        """The relations of the new catalog that the engine holds."""
        committed = self.before.relations
        return frozenset(
            name
            for name, relation in self.after.relations.items()
            if name in committed and committed[name].identity is relation.identity
        )

    @cached_property
    def altered(self) -> Mapping[str, Alteration]:
        """The tables that get more columns."""
        result: dict[str, Alteration] = {}
        for table in self.after.tables:
            known = self.before.get(table.name)
            if table.name in self.going_on and isinstance(known, Table) and len(known.schema) < len(table.schema):
                added = table.defaults[len(known.schema) :]
                result[table.name] = Alteration(table.name, known.schema, table.schema, added)
        return result

    @cached_property
    def _nodes(self) -> tuple[frozenset[str], frozenset[str]]:
        """The stored nodes that go on, and the views among them that are to be evaluated as a whole."""
        if self.after is self.before:
            return frozenset(name for name, node in self.network.nodes.items() if node.is_stored), frozenset()
        changed = {name for name in (*self.before.relations, *self.after.relations) if name not in self.going_on}
        kept: set[str] = set()
        replaced: set[str] = set()
        for node in self.network.nodes.values():
            below = node.influents & changed
            if node.kind is NodeKind.VIEW and node.name in self.going_on:
                kept.add(node.name)
                if below or self._means_something_else(node.name):
                    replaced.add(node.name)
            elif node.kind is NodeKind.STATE and node.name in self.network_before.nodes and not below:
                kept.add(node.name)
            elif node.is_stored or below:
                changed.add(node.name)
            if node.kind is NodeKind.EXTERNAL and node.name in self.going_on:
                changed.discard(node.name)
                if below or self._means_something_else(node.name):
                    replaced.add(node.name)
        return frozenset(kept), frozenset(replaced)

    @property
    def kept(self) -> frozenset[str]:
        return self._nodes[0]

    @property
    def replaced(self) -> frozenset[str]:
        return self._nodes[1]

    def _means_something_else(self, name: str) -> bool:
        known, view = self.before.relations[name], self.after.relations[name]
        return isinstance(known, View) and isinstance(view, View) and known.meaning is not view.meaning

    @cached_property
    def passing(self) -> Network:
        """The part of the network that brings up to date what goes on; replaced views stand in it undivided."""
        if self.after is self.before:
            return self.network
        needed = set(self.kept) | {view.name for view in self.after.external_views if view.name in self.going_on}
        for node in reversed(list(self.network.nodes.values())):
            if node.name in needed and node.name not in self.replaced:
                needed |= {name for name in node.influents if name in self.network.nodes}
        fresh = {v.name: v.plan for v in self.after.materialized_views if v.name not in self.going_on}
        nodes = (node for name, node in self.network.nodes.items() if name in needed)
        return Network({node.name: self._undivided(node, fresh) for node in nodes})

    def _undivided(self, node: Node, fresh: dict[str, Plan]) -> Node:
        view = self.after.get(node.name)
        if node.name not in self.replaced or not isinstance(view, View):
            return node
        plan, known = expand(view.plan, fresh), self.before.relations[node.name]
        # Of an external view nothing is stored: what it was is what its definition said.
        before = known.plan if view.external and isinstance(known, View) else None
        reads = relations_of(plan) | (frozenset() if before is None else relations_of(before))
        return Node(node.name, node.kind, plan, node.level, reads, REPLACED, (node.name,), before=before)

    @property
    def new_tables(self) -> tuple[Table, ...]:
        return tuple(table for table in self.after.tables if table.name not in self.going_on)

    @cached_property
    def new_nodes(self) -> tuple[Node, ...]:
        """The nodes that begin to be stored, from the lowest level up, and then those of lagging relations."""
        nodes = (node for name, node in self.network.nodes.items() if node.is_stored and name not in self.kept)
        return (*nodes, *(node for view in self.new_lagging for node in lagging_of(view).stored))

    @cached_property
    def new_lagging(self) -> tuple[View, ...]:
        return tuple(view for view in self.after.lagging_views if view.name not in self.going_on)

    @cached_property
    def dropped_lagging(self) -> tuple[View, ...]:
        return tuple(view for view in self.before.lagging_views if view.name not in self.going_on)

    @cached_property
    def dropped(self) -> tuple[str, ...]:
        """The relations that the engine holds and that go."""
        tables = (table.name for table in self.before.tables if table.name not in self.going_on)
        nodes = (name for name, node in self.network_before.nodes.items() if node.is_stored and name not in self.kept)
        external = (view.name for view in self.before.external_views if view.name not in self.going_on)
        lagging = (node.name for view in self.dropped_lagging for node in lagging_of(view).stored)
        return (*tables, *nodes, *external, *lagging)

    @property
    def new_external(self) -> tuple[View, ...]:
        """The views that begin to be logged, and are not stored."""
        return tuple(view for view in self.after.external_views if view.name not in self.going_on)


def as_altered(engine: Engine, altered: Mapping[str, Alteration]) -> Engine:
    """The engine as if the tables had their new columns already. It reads, and nothing else is asked of it."""
    return _Altered(engine, altered) if altered else engine


class _Altered:
    """What reads rows reads them as they are altered; what is said of the database is what the engine says."""

    ahead = None
    arrangements = None  # they have rows as they are stored
    idle_after = None

    def __init__(self, engine: Engine, altered: Mapping[str, Alteration]) -> None:
        self._engine, self._altered = engine, altered
        self.name = engine.name

    @property
    def limits(self) -> EngineLimits:
        return self._engine.limits

    # Rows

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._engine.evaluate(self._reading(plan), given)

    def follow(self, plan: Plan, given: Mapping[str, Rows]) -> Found | None:
        return self._engine.follow(self._reading(plan), given)

    def look_up(self, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> Index | None:
        return None if leaf.relation in self._altered else self._engine.look_up(leaf, columns, keys, needed)

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._engine.fetch(self._reading(plan), given)

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        return self._engine.iterates(iteration.over(self._reading), given)

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._engine.iterate(iteration.over(self._reading), given)

    def _reading(self, plan: Plan) -> Plan:
        return transform(plan, lambda part: self._extended(part) if isinstance(part, Stored) else None)

    def _extended(self, stored: Stored) -> Plan | None:
        alteration = self._altered.get(stored.relation)
        return None if alteration is None else alteration.rows

    # What is said of the database

    def rows(self, relation: str) -> int:
        return self._engine.rows(relation)

    def changes(self, relation: str, since: int) -> pa.Table:
        return self._engine.changes(relation, since)

    def times(self) -> pa.Table:
        return self._engine.times()

    def logged(self) -> list[Logged]:
        return self._engine.logged()

    def trace(self, version: int) -> str | None:
        return self._engine.trace(version)

    def arranged(self) -> pa.Table:
        return self._engine.arranged()

    def memory(self) -> list[Memory]:
        return self._engine.memory()

    def internal(self) -> frozenset[str]:
        return self._engine.internal()

    def interrupt(self) -> None:
        self._engine.interrupt()

    # What nobody asks of one that reads a transaction's tables

    def load(self) -> Loaded:
        reads_only()

    def plainly(self) -> AbstractContextManager[Evaluator]:
        reads_only()

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        reads_only()

    def commit(self, commit: Commit) -> None:
        reads_only()

    def note(self, notes: Mapping[str, str | None]) -> None:
        reads_only()

    def forget(
        self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None], oldest: int = 0
    ) -> None:
        reads_only()

    def backup(self, target: str) -> Callable[[], None]:
        reads_only()

    def catch_up(self) -> None:
        reads_only()

    def checkpoint(self) -> bool:
        reads_only()

    def close(self) -> None:
        reads_only()
