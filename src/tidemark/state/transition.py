"""From one catalog to the next: what is stored and goes on, what begins, what is derived anew.

A relation *goes on* if it has the identity that it had, perhaps with more columns or, for a view, another meaning; a
view that means something else is evaluated as a whole once, and what stands on it follows from its change. States go on
while all that they are counted from does. Everything else is dropped and created.

Reading tables as an open transaction has altered them, before anything of it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tidemark.algebra.plans import Fixpoint, Plan, Project, Stored, relations_of, transform, walk
from tidemark.algebra.structure import Layered
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
from tidemark.network.build import NOTHING, Definition, grown
from tidemark.sql.catalog.catalog import Catalog, Relation, Table, View
from tidemark.sql.catalog.rules import Activation
from tidemark.state.records import known_of_view
from tidemark.state.tidemarks import lagging_of
from tidemark.storage.commit import Alteration, Commit, Forgetting, Loaded, Logged
from tidemark.storage.delta import Rows
from tidemark.storage.publishing import Publication
from tidemark.strategy.cache import RefreshCache
from tidemark.strategy.nodes import REPLACED, StoredFilter, expand
from tidemark.strategy.parts import shared_name
from tidemark.strategy.recursion.rederive import Rules, rules_of


def network_of(catalog: Catalog, before: Network = NOTHING, unkept: Set[str] = frozenset()) -> Network:
    """The network of a catalog's views; what is known of the one before is taken over. Assertions and conditions that
    are ``unkept`` do without states of their groupings."""
    watched = {a.node: a for a in catalog.activations if a.is_condition}
    found = [*_of_views(catalog.views, catalog), *_outside(catalog.assertions, watched.values())]
    kept = [replace(one, keeps_groupings=False) if one.name in unkept else one for one in found]
    return build(kept, before)


def _of_views(views: Iterable[View], catalog: Catalog) -> Iterator[Definition]:
    """In the order of creation, so that each comes after those that it reads."""
    return (_definition(view, catalog) for view in views if view.external or (view.materialized and view.lag is None))


def _outside(assertions: Iterable[View], watched: Iterable[Activation]) -> Iterator[Definition]:
    external = NodeKind.EXTERNAL
    for view in assertions:
        name = f"_assertion {view.name}"
        yield Definition(name, view.plan, kind=external, is_forbidden=True, keeps_groupings=True)
    for one in watched:
        is_event = bool(one.transitions)
        yield Definition(one.node, one.watched, kind=external, is_asked=True, is_event=is_event, keeps_groupings=True)


def _definition(view: View, catalog: Catalog) -> Definition:
    strategy = view.options.get("strategy", "auto")
    if not view.external:
        return Definition(view.name, view, strategy)
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
    def added(self) -> tuple[Relation, ...] | None:
        """The relations that the new catalog has more, if nothing else of it is another than before."""
        if self.after.rules is not self.before.rules and self._activated is None:
            return None
        return self.after.relations.since(self.before.relations)

    @cached_property
    def _activated(self) -> tuple[Activation, ...] | None:
        """What is watched in the new catalog and was not before, if all else of the rules is what it was."""
        before, after = self.before.rules, self.after.rules
        found: list[Activation] = []
        for name, rule in after.items():
            known = before.get(name)
            if known is not rule:
                if known is not None and (
                    known.origin is not rule.origin or known.active != rule.active[: len(known.active)]
                ):
                    return None
                found += rule.active[len(known.active) if known is not None else 0 :]
        return tuple(found) if before.keys() <= after.keys() else None

    @cached_property
    def network(self) -> Network:
        if self.after is self.before:
            return self.network_before
        if self.added is None or self.network_before.is_lacking:
            return network_of(self.after, self.network_before)
        views = [relation for relation in self.added if isinstance(relation, View)]
        asserted = [view for view in views if view.is_assertion]
        known, watched = self.network_before.known.cuttings, self._activated or ()
        fresh = {one.node: one for one in watched if one.is_condition and one.node not in known}
        return grown(self.network_before, [*_of_views(views, self.after), *_outside(asserted, fresh.values())])

    @cached_property
    def going_on(self) -> Set[str]:
        """The relations of the new catalog that the engine holds."""
        if self.added is not None:
            return self.before.relations.keys()
        committed = self.before.relations
        return frozenset(
            name
            for name, relation in self.after.relations.items()
            if name in committed and committed[name].identity is relation.identity
        )

    def created(self, before: Mapping[str, int], version: int) -> Mapping[str, int]:
        """The versions in which the relations were created, of which the new ones are in this one."""
        if self.added is not None:
            new = {relation.name: version for relation in self.added}
            return (before if isinstance(before, Layered) else Layered(before)).with_entries(new)
        return Layered({n: before[n] if n in self.going_on else version for n in self.after.relations})

    @cached_property
    def altered(self) -> Mapping[str, Alteration]:
        """The tables that get more columns."""
        result: dict[str, Alteration] = {}
        for table in self.after.tables if self.added is None else ():
            known = self.before.get(table.name)
            if table.name in self.going_on and isinstance(known, Table) and len(known.schema) < len(table.schema):
                added = table.defaults[len(known.schema) :]
                result[table.name] = Alteration(table.name, known.schema, table.schema, added)
        return result

    @cached_property
    def _nodes(self) -> tuple[frozenset[str], frozenset[str]]:
        """The stored nodes that go on, and the views among them that are to be evaluated as a whole."""
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
        return self._nodes[1] if self.added is None else frozenset()

    def _means_something_else(self, name: str) -> bool:
        known, view = self.before.relations[name], self.after.relations[name]
        return isinstance(known, View) and isinstance(view, View) and known.meaning is not view.meaning

    @cached_property
    def passing(self) -> Network:
        """The part of the network that brings up to date what goes on; replaced views stand in it undivided."""
        if self.added is not None:
            return self.network_before
        needed = set(self.kept) | {view.name for view in self.after.external_views if view.name in self.going_on}
        for node in reversed(list(self.network.nodes.values())):
            if node.name in needed and node.name not in self.replaced:
                needed |= {name for name in node.influents if name in self.network.nodes}
        fresh = {v.name: v.plan for v in self.after.materialized_views if v.name not in self.going_on}
        nodes = (node for name, node in self.network.nodes.items() if name in needed)
        return Network.of(self._undivided(node, fresh) for node in nodes)

    def _undivided(self, node: Node, fresh: dict[str, Plan]) -> Node:
        view = self.after.get(node.name)
        if node.name not in self.replaced or not isinstance(view, View):
            return node
        plan, known = expand(view.plan, fresh), self.before.relations[node.name]
        # Of an external view nothing is stored: what it was is what its definition said.
        before = known.plan if view.external and isinstance(known, View) else None
        reads = relations_of(plan) | (frozenset() if before is None else relations_of(before))
        return Node(node.name, node.kind, plan, node.level, reads, REPLACED, (node.name,), before=before)

    @cached_property
    def _new(self) -> tuple[Relation, ...]:
        if self.added is not None:
            return self.added
        return tuple(relation for name, relation in self.after.relations.items() if name not in self.going_on)

    @cached_property
    def new_tables(self) -> tuple[Table, ...]:
        return tuple(relation for relation in self._new if isinstance(relation, Table))

    @cached_property
    def new_views(self) -> tuple[View, ...]:
        return tuple(relation for relation in self._new if isinstance(relation, View))

    @cached_property
    def new_nodes(self) -> tuple[Node, ...]:
        """The nodes that begin to be stored, from the lowest level up, and then those of lagging relations."""
        if self.added is None:
            nodes = [node for name, node in self.network.nodes.items() if node.is_stored and name not in self.kept]
        elif self.network is self.network_before:
            nodes = []
        else:
            nodes = [node for node in self.network.fresh if node.is_stored]
        return (*nodes, *(node for view in self.new_lagging for node in lagging_of(view).stored))

    @property
    def new_lagging(self) -> tuple[View, ...]:
        return tuple(view for view in self.new_views if view.lag is not None)

    @cached_property
    def dropped_lagging(self) -> tuple[View, ...]:
        gone = self.before.lagging_views if self.added is None else ()
        return tuple(view for view in gone if view.name not in self.going_on)

    def prove(self, cache: RefreshCache, limits: EngineLimits) -> None:
        """Work out for new nodes which rows can matter to them, of relations that many read: those who look for the
        nodes that a change can matter to, now and when the database is opened again, need not ask for their plans."""
        for node in self.network.fresh if self.network is not self.network_before else ():
            is_known = self.network_before.nodes.get(node.name) is node
            if is_known or node.drawn is None or node.kind is NodeKind.SHARED:
                continue
            for relation in sorted(relations_of(node.plan)):
                beside = (relation, *map(shared_name, node.drawn.shares))
                is_read_by_many = any(len(self.network.reading.get(n, ())) > limits.many_readers for n in beside)
                proved = StoredFilter.of(cache.influence(node, relation).filter) if is_read_by_many else None
                if proved is not None:
                    node.drawn.filters[relation] = proved

    def known_of_view(self, view: View) -> Mapping[str, Any] | None:
        """What is stored of a view beside its text."""
        cuttings = self.network.known.cuttings
        if not view.materialized or view.lag is not None or view.name not in cuttings:
            return known_of_view(view, None)
        outline = cuttings[view.name].alone.outline
        nodes = [self.network.nodes[name] for name in (view.name, *outline.states)]
        filters = {node.name: node.drawn.filters for node in nodes if node.drawn is not None}
        return known_of_view(view, replace(outline, filters=filters).to_text())

    @cached_property
    def dropped(self) -> tuple[str, ...]:
        """The relations that the engine holds and that go."""
        if self.added is not None:
            return ()
        tables = (table.name for table in self.before.tables if table.name not in self.going_on)
        nodes = (name for name, node in self.network_before.nodes.items() if node.is_stored and name not in self.kept)
        external = (view.name for view in self.before.external_views if view.name not in self.going_on)
        lagging = (node.name for view in self.dropped_lagging for node in lagging_of(view).stored)
        return (*tables, *nodes, *external, *lagging)

    @property
    def new_external(self) -> tuple[View, ...]:
        """The views that begin to be logged, and are not stored."""
        return tuple(view for view in self.new_views if view.external)


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

    def must_hold(self) -> None:
        self._engine.must_hold()

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

    def publish(self, relation: str | None = None) -> None:
        reads_only()

    def frame(self, relation: str, session: object) -> object | None:
        return self._engine.frame(relation, session)

    def staged(self, relation: str, frame: object) -> Rows | None:
        return None

    def compared(self, relation: str, plan: Plan, given: Mapping[str, pa.Table]) -> Rows:
        reads_only()

    def publications(self) -> list[Publication]:
        return self._engine.publications()

    def close(self) -> None:
        reads_only()
