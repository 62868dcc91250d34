"""Refresh plans by node and changed influents: a network's plans are derived once, not per transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from tidemark.algebra.clock import CLOCK
from tidemark.algebra.plans import Filter, Fixpoint, Given, Plan, Scan, relations_of, transform, walk
from tidemark.algebra.reading import Columns, columns_read
from tidemark.algebra.types import Schema
from tidemark.analysis.autonomy_boundaries import Boundaries
from tidemark.analysis.autonomy_updates import Deletion, Statement
from tidemark.analysis.finding import Finder
from tidemark.analysis.relevance import Influence, influence
from tidemark.analysis.shapes import Shape, shape_of
from tidemark.calculus.as_of import Block
from tidemark.network.autonomous import (
    AUTONOMOUS,
    Attempt,
    Known,
    attempts,
    by_statement,
    deletion_boundaries,
    named,
    within_boundaries,
)
from tidemark.network.build import COMPLETE, Network
from tidemark.network.nodes import REPLACED, Node, NodeKind, Refresh, refresh
from tidemark.network.recursion import Recursion
from tidemark.network.relevance import ROWS
from tidemark.network.unchanged import Unchanged
from tidemark.network.unstored import unstored_refresh
from tidemark.network.wave import Interest

PROOFS_KEPT: Final = 512
MANY_READERS: Final = 16
"""Where more nodes than these read a relation, those to which its change can matter are looked up."""
WHOLE: Final = (COMPLETE, REPLACED)
BULK_ROWS: Final = 50_000
"""From how many changed rows on a grouping's input is summed up inside the engine."""


NOTHING_KNOWN: Final = Known()


@dataclass
class RefreshCache:
    """What was worked out about the nodes of one network. ``unchanged`` has kept results of parts of its differentials.

    ``without_filters`` and ``without_autonomy`` leave rungs of the ladder out, for tests and benchmarks, which compare.
    """

    plans: dict[tuple[str, frozenset[str], bool], Refresh] = field(default_factory=dict)
    unstored: frozenset[str] = frozenset()
    ahead: frozenset[str] = frozenset()
    known: Known = NOTHING_KNOWN
    columns: dict[str, dict[str, Columns]] = field(default_factory=dict)
    influences: dict[tuple[str, str], Influence] = field(default_factory=dict)
    interests: dict[tuple[str, str], Interest] = field(default_factory=dict)
    finders: dict[str, Finder[str]] = field(default_factory=dict)
    proofs: dict[tuple[str, Statement], Refresh | None] = field(default_factory=dict)
    boundaries: dict[tuple[str, Shape], Boundaries | None] = field(default_factory=dict)
    autonomous: dict[tuple[str, str], tuple[Attempt, ...]] = field(default_factory=dict)
    recursions: dict[tuple[str, frozenset[str]], Recursion] = field(default_factory=dict)
    unchanged: Unchanged | None = None
    without_filters: bool = False
    without_autonomy: bool = False

    def take_over(self, before: RefreshCache, old: Network, new: Network) -> None:
        """Keep what takes long to work out and holds still: how relations reach the nodes that are what they were."""
        facts = before.known.facts
        others = {name for name in facts.keys() & self.known.facts.keys() if facts[name] != self.known.facts[name]}
        for (name, relation), known in before.influences.items():
            node = old.nodes.get(name)
            if node is not None and new.nodes.get(name) is node and not (others and others & relations_of(node.plan)):
                self.influences[name, relation] = known

    def columns_of(self, node: Node, network: Network) -> dict[str, Columns]:
        """The columns that matter to a node, of each relation and shared node that it reads.

        What matters to a shared node is what matters to those who use it.
        """
        if node.name not in self.columns:
            wanted = None
            if node.kind is NodeKind.SHARED:
                users = network.readers.get(node.name, ())
                wanted = frozenset[int]().union(*(self.columns_of(user, network)[node.name] for user in users))
            self.columns[node.name] = columns_read(node.plan, wanted, dict(node.shared))
        return self.columns[node.name]

    def interest(self, node: Node, relation: str, network: Network) -> Interest:
        """What of a relation or shared node matters to a node that reads it."""
        if self.without_filters:
            return Interest(self.columns_of(node, network)[relation])
        key = (node.name, relation)
        if key not in self.interests:
            # The clock's one row matters to all who read it.
            condition = self.influence(node, relation).filter if relation != CLOCK else None
            columns = self.columns_of(node, network)[relation]
            filter = None
            if condition is not None:
                rows = Given(ROWS, _schema(node, relation))
                filter = Filter(rows, condition)
            self.interests[key] = Interest(columns, filter)
        return self.interests[key]

    def influence(self, node: Node, relation: str) -> Influence:
        """Which rows of a relation or shared node can reach a node that reads it."""
        key = (node.name, relation)
        if key not in self.influences:
            # A relation that also stands in what is shared is read there too, so all of its places count.
            plan = node.plan if relation in relations_of(node.plan) else _over_shared(node)
            at_sight = node.kind is NodeKind.EXTERNAL
            self.influences[key] = influence(plan, relation, self.known.facts, at_sight=at_sight)
        return self.influences[key]

    def finder(self, relation: str, network: Network) -> Finder[str] | None:
        """Finds the nodes to which a change of the relation can matter, where many read it."""
        readers = network.readers.get(relation, ())
        if len(readers) <= MANY_READERS or relation == CLOCK or self.without_filters:
            return None
        if relation not in self.finders:
            is_whole = {node.name for node in readers if node.strategy in WHOLE}
            self.finders[relation] = Finder(
                (node.name, None if node.name in is_whole else self.influence(node, relation).filter)
                for node in readers
            )
        return self.finders[relation]

    def get(self, node: Node, changed: frozenset[str], deltas: Mapping[str, pa.Table]) -> Refresh:
        # Which relations below changed decides how old and new states are read, so it is part of the key.
        below = frozenset(name for name in deltas if name in _reads(node)) | changed
        bulk = sum(deltas[name].num_rows for name in changed) > BULK_ROWS
        key = (node.name, below, bulk)
        if key not in self.plans:
            block = Block(changed=below, unstored=self.unstored, ahead=self.ahead)
            if not node.is_stored and node.strategy not in WHOLE:
                derived = unstored_refresh(node, changed, block)
            else:
                derived = refresh(node, changed, block, bulk=bulk)
            self.plans[key] = named(derived, node)
        return self.plans[key]

    def attempts(self, node: Node, changed: frozenset[str], deltas: Mapping[str, pa.Table]) -> tuple[Attempt, ...]:
        """The autonomous steps that may be tried: only one relation that the node reads has changed."""
        if self.without_autonomy or len(changed) != 1 or len(deltas.keys() & relations_of(node.plan)) != 1:
            return ()
        [relation] = changed
        return self._attempts(node, relation) if deltas[relation].num_rows <= BULK_ROWS else ()

    def recursion(self, node: Node, plan: Fixpoint, changed: frozenset[str], network: Network) -> Recursion:
        """How a fixpoint follows when these relations change."""
        key = (node.name, changed)
        if key not in self.recursions:
            block = Block(changed=changed, unstored=self.unstored, ahead=self.ahead)
            self.recursions[key] = Recursion(node, plan, block, self.known.keys, network.nodes)
        return self.recursions[key]

    def by_statement(self, node: Node, statement: Statement) -> Refresh | None:
        """The autonomous step that follows from the statement itself, if nothing else that the node reads changed."""
        key = (node.name, statement)
        if key not in self.proofs:
            if len(self.proofs) >= PROOFS_KEPT:
                self.proofs.clear()
            found = self._within_boundaries(node, statement)
            self.proofs[key] = found or by_statement(node, statement, self.known, self.unstored)
        return self.proofs[key]

    def _within_boundaries(self, node: Node, statement: Statement) -> Refresh | None:
        """The step of a deletion whose constants lie within the boundaries of its shape, which are worked out once."""
        width = len(self.known.facts[statement.relation].columns) if statement.relation in self.known.facts else None
        if not isinstance(statement, Deletion) or width is None:
            return None
        found = shape_of("delete", statement.relation, width, statement.where)
        if found is None:
            return None
        shape, constants = found
        key = (node.name, shape)
        if key not in self.boundaries:
            if len(self.boundaries) >= PROOFS_KEPT:
                self.boundaries.clear()
            self.boundaries[key] = deletion_boundaries(node, shape, self.known)
        bounds = self.boundaries[key]
        return None if bounds is None else within_boundaries(node, shape, constants, bounds, self.unstored)

    def autonomous_reasons(self, node: Node, relation: str) -> tuple[str, ...]:
        """Why a node can follow changes of one relation from its own content and the change."""
        alone = frozenset({relation})
        plan = named(refresh(node, alone, Block(changed=alone)), node)
        if plan.strategy == AUTONOMOUS:
            return (plan.reason,)
        return tuple(attempt.refresh.reason for attempt in self._attempts(node, relation))

    def _attempts(self, node: Node, relation: str) -> tuple[Attempt, ...]:
        key = (node.name, relation)
        if key not in self.autonomous:
            self.autonomous[key] = attempts(node, relation, self.known.keys, self.unstored, self.ahead)
        return self.autonomous[key]


def _over_shared(node: Node) -> Plan:
    """The node's plan as it reads what it shares with others: as relations."""
    names = dict(node.shared)
    return transform(node.plan, lambda part: Scan(names[part], part.schema) if part in names else None)


def _schema(node: Node, relation: str) -> Schema:
    scans = (part for part in walk(_over_shared(node)) if isinstance(part, Scan))
    return next(scan.schema for scan in scans if scan.relation == relation)


def _reads(node: Node) -> frozenset[str]:
    return relations_of(node.plan) | node.influents
