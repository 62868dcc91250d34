"""From one catalog to the next: what is stored and goes on, what begins, what is derived anew.

A relation *goes on* if it has the identity that it had, perhaps with more columns or, for a view, another meaning; a
view that means something else is evaluated as a whole once, and what stands on it follows from its change. States go on
while all that they are counted from does. Everything else is dropped and created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tidemark.algebra.plans import Fixpoint, Plan, Project, relations_of, walk
from tidemark.database.standing import lagging_of
from tidemark.datalog.program import Program
from tidemark.log.commit import Alteration
from tidemark.network import Network, Node, NodeKind, build
from tidemark.network.build import Definition
from tidemark.network.nodes import REPLACED, expand
from tidemark.network.rederivation import Rules, rules_of
from tidemark.sql.catalog import Catalog, Table, View


def network_of(catalog: Catalog, before: Network | None = None) -> Network:
    """The network of a catalog's views; what is known of the one before is taken over."""
    # In the order of creation, so that each comes after those that it reads.
    views = (view for view in catalog.views if view.external or (view.materialized and view.lag is None))
    watched = {f"_assertion {v.name}": v.plan for v in catalog.assertions}
    watched |= {a.node: a.watched for a in catalog.activations if not a.transitions and a.is_condition}
    outside = (Definition(name, plan, kind=NodeKind.EXTERNAL) for name, plan in watched.items())
    return build([*(_definition(view, catalog) for view in views), *outside], before)


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
            if node.name in needed - self.replaced:
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
        """The nodes that begin to be stored, from the lowest level up, and then those of what lags."""
        nodes = (node for name, node in self.network.nodes.items() if node.is_stored and name not in self.kept)
        return (*nodes, *(node for view in self.new_lagging for node in lagging_of(view).stored))

    @cached_property
    def new_lagging(self) -> tuple[View, ...]:
        return tuple(view for view in self.after.lagging_views if view.name not in self.going_on)

    @cached_property
    def dropped_lagging(self) -> tuple[View, ...]:
        return tuple(view for view in self.before.lagging_views if view.name not in self.going_on)

    @property
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
