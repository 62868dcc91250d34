"""Refresh plans by node and changed influents: a network's plans are derived once, not per transaction."""

from __future__ import annotations

from collections.abc import Mapping, Set
from copy import copy
from dataclasses import dataclass, field
from typing import Final

from tidemark.algebra.columns import Columns, columns_read
from tidemark.algebra.expressions import Expression
from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Filter, Fixpoint, Given, Plan, Scan, relations_of, transform, walk
from tidemark.algebra.types import Schema
from tidemark.analysis.autonomy.boundaries import Boundaries
from tidemark.analysis.autonomy.dml import AnalysedStatement, Deletion
from tidemark.analysis.relevance.filters import Influence, influence
from tidemark.analysis.relevance.index import Finder
from tidemark.analysis.relevance.shapes import Shape, shape_of
from tidemark.analysis.rendering import disjunction, simple
from tidemark.calculus.as_of import Block
from tidemark.engines.limits import EngineLimits
from tidemark.storage.delta import Rows
from tidemark.strategy.autonomous import (
    Attempt,
    KnownFacts,
    attempts,
    by_statement,
    deletion_boundaries,
    named,
    within_boundaries,
)
from tidemark.strategy.external import unstored_refresh
from tidemark.strategy.graph import Network
from tidemark.strategy.irrelevant import ROWS
from tidemark.strategy.nodes import AUTONOMOUS, WHOLE, Node, NodeKind, Refresh, evaluated_anew, refresh
from tidemark.strategy.recursion.maintain import Recursion
from tidemark.strategy.shared import Unchanged
from tidemark.strategy.wave import Interest

PROOFS_KEPT: Final = 512
MOST_JOINED: Final = 16
"""The conditions of so many readers of a shared node are one filter; of more, those that a change meets are found."""


NOTHING_KNOWN: Final = KnownFacts()


@dataclass
class RefreshCache:
    """What was worked out about the nodes of one network. ``unchanged`` has kept results of parts of its differentials.

    ``without_filters`` and ``without_autonomy`` leave rungs of the ladder out, for tests and benchmarks, which compare.
    """

    plans: dict[tuple[str, frozenset[str], bool | None], Refresh] = field(default_factory=dict)
    unstored: frozenset[str] = frozenset()
    ahead: frozenset[str] = frozenset()
    known: KnownFacts = NOTHING_KNOWN
    columns: dict[str, dict[str, Columns]] = field(default_factory=dict)
    influences: dict[tuple[str, str], Influence] = field(default_factory=dict)
    interests: dict[tuple[str, str], Interest] = field(default_factory=dict)
    interested: dict[tuple[str, frozenset[str]], tuple[Mapping[str, Interest], Set[str]]] = field(default_factory=dict)
    finders: dict[str, Finder[str]] = field(default_factory=dict)
    proofs: dict[tuple[str, AnalysedStatement], Refresh | None] = field(default_factory=dict)
    boundaries: dict[tuple[str, Shape], Boundaries | None] = field(default_factory=dict)
    autonomous: dict[tuple[str, str], tuple[Attempt, ...]] = field(default_factory=dict)
    recursions: dict[tuple[str, frozenset[str]], Recursion] = field(default_factory=dict)
    reasons: dict[tuple[str, frozenset[str], str, str], str] = field(default_factory=dict)
    unchanged: Unchanged | None = None
    without_filters: bool = False
    without_autonomy: bool = False
    reading: RefreshCache | None = None
    """The same for blocks that are written ahead."""

    def reading_ahead(self, relations: frozenset[str]) -> RefreshCache:
        """What is worked out for blocks of which these relations are stored as of the end. Filters hold for them as
        for others, and no result is kept: what changes is not told from what does not."""
        if self.reading is None or self.reading.ahead != relations:
            self.reading = found = copy(self)
            found.plans, found.autonomous, found.recursions, found.reasons = {}, {}, {}, {}
            found.unchanged, found.reading, found.ahead = None, None, relations
        return self.reading

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
            condition = self._condition(node, relation, network) if relation != CLOCK else None
            columns = self.columns_of(node, network)[relation]
            filter = None
            if condition is not None:
                rows = Given(ROWS, _schema(node, relation))
                filter = Filter(rows, condition)
            self.interests[key] = Interest(columns, filter)
        return self.interests[key]

    def interests_in(
        self, node: Node, touched: frozenset[str], network: Network
    ) -> tuple[Mapping[str, Interest], Set[str]]:
        """What of each relation below it matters to a node when these that it reads are touched, and which of these
        others read, too."""
        key = (node.name, touched)
        if key not in self.interested:
            below = {name: Interest(columns) for name, columns in self.columns_of(node, network).items()}
            interests = {name: self.interest(node, name, network) for name in touched}
            read_by_others = frozenset(name for name in touched if len(network.readers[name]) > 1)
            self.interested[key] = ({**below, **interests}, read_by_others)
        return self.interested[key]

    def interest_beyond(self, node: Node, relation: str) -> Interest:
        """What of a relation matters to a node, also where it reads it through what it shares with others."""
        whole, key = f"{node.name} beyond", (f"{node.name} beyond", relation)
        if whole not in self.columns:
            self.columns[whole] = columns_read(node.plan)
        columns = self.columns[whole][relation]
        if self.without_filters:
            return Interest(columns)
        if key not in self.interests:
            condition = self.influence(node, relation).filter if relation != CLOCK else None
            rows = Given(ROWS, _scanned(node.plan, relation))
            self.interests[key] = Interest(columns, None if condition is None else Filter(rows, condition))
        return self.interests[key]

    def _condition(self, node: Node, relation: str, network: Network) -> Expression | None:
        """Which rows can matter: of those that reach a shared node, the ones that can reach some reader of it."""
        own = self.influence(node, relation).filter
        if node.kind is not NodeKind.SHARED:
            return own
        readers = [reader for reader in network.readers.get(node.name, ()) if reader.strategy not in WHOLE]
        if len(readers) > MOST_JOINED:
            return own
        wanted = [self.influence(reader, relation).filter for reader in readers]
        known = dict.fromkeys(condition for condition in wanted if condition is not None)
        return own if len(known) == 0 or None in wanted else simple(disjunction(tuple(known)))

    def readers_without(self, node: Node, changes: Mapping[str, Rows], network: Network) -> bool:
        """Whether no change can matter to anyone who reads a shared node; they are looked up where there are many."""
        readers = network.readers.get(node.name, ())
        if self.without_filters or len(readers) <= MOST_JOINED or CLOCK in changes:
            return False
        found = ((self._finder_of_readers(node, name, readers), rows) for name, rows in changes.items())
        return not any(finder.among(rows.table) for finder, rows in found)

    def _finder_of_readers(self, node: Node, relation: str, readers: tuple[Node, ...]) -> Finder[str]:
        key = f"{relation} {node.name}"
        if key not in self.finders:
            conditions = (
                (r.name, None if r.strategy in WHOLE else self.influence(r, relation).filter) for r in readers
            )
            self.finders[key] = Finder(conditions)
        return self.finders[key]

    def influence(self, node: Node, relation: str) -> Influence:
        """Which rows of a relation or shared node can reach a node that reads it."""
        key = (node.name, relation)
        if key not in self.influences:
            # A relation that also stands in what is shared is read there too, so all of its places count.
            plan = node.plan if relation in relations_of(node.plan) else _over_shared(node)
            at_sight = node.kind is NodeKind.EXTERNAL
            self.influences[key] = influence(plan, relation, self.known.facts, at_sight=at_sight)
        return self.influences[key]

    def is_cut(self, node: Node, changed: frozenset[str]) -> bool:
        """Whether no filter was found because the steps for looking were used up."""
        found = (self.influences.get((node.name, relation)) for relation in changed)
        return any(known is not None and known.is_cut and known.filter is None for known in found)

    def finder(self, relation: str, network: Network, limits: EngineLimits) -> Finder[str] | None:
        """Finds the nodes to which a change of the relation can matter, where many read it."""
        readers = network.readers.get(relation, ())
        if len(readers) <= limits.many_readers or relation == CLOCK or self.without_filters:
            return None
        if relation not in self.finders:
            self.finders[relation] = self._finding(relation, readers)
        return self.finders[relation]

    def _finding(self, relation: str, readers: tuple[Node, ...]) -> Finder[str]:
        return Finder((n.name, None if n.strategy in WHOLE else self.influence(n, relation).filter) for n in readers)

    def get(self, node: Node, changed: frozenset[str], rows: Mapping[str, Rows], limits: EngineLimits) -> Refresh:
        # Which relations below changed decides how old and new states are read, so it is part of the key.
        below = _reads(node).intersection(rows) | changed
        bulk = sum([rows[name].count for name in changed]) > (
            limits.bulk_rows_ahead if self.ahead else limits.bulk_rows
        )
        key = (node.name, below, bulk)
        if key not in self.plans:
            block = Block(changed=below, unstored=self.unstored, ahead=self.ahead)
            self.plans[key] = _derived(node, changed, block, bulk=bulk)
        return self.plans[key]

    def anew(self, node: Node, rows: Mapping[str, Rows]) -> Refresh:
        """How a node that follows by differentials is evaluated as a whole instead."""
        below = _reads(node).intersection(rows)
        key = (node.name, below, None)
        if key not in self.plans:
            block = Block(changed=below, unstored=self.unstored, ahead=self.ahead)
            self.plans[key] = evaluated_anew(node, block)
        return self.plans[key]

    def attempts(
        self, node: Node, changed: frozenset[str], rows: Mapping[str, Rows], limits: EngineLimits
    ) -> tuple[Attempt, ...]:
        """The autonomous steps that may be tried: only one relation that the node reads has changed."""
        if self.without_autonomy or len(changed) != 1 or len(rows.keys() & relations_of(node.plan)) != 1:
            return ()
        [relation] = changed
        return self._attempts(node, relation) if rows[relation].count <= limits.bulk_rows else ()

    def recursion(self, node: Node, plan: Fixpoint, changed: frozenset[str], network: Network) -> Recursion:
        """How a fixpoint follows when these relations change."""
        key = (node.name, changed)
        if key not in self.recursions:
            block = Block(changed=changed, unstored=self.unstored, ahead=self.ahead)
            self.recursions[key] = Recursion(node, plan, block, self.known.keys, network.nodes)
        return self.recursions[key]

    def by_statement(self, node: Node, statement: AnalysedStatement) -> Refresh | None:
        """The autonomous step that follows from the statement itself, if nothing else that the node reads changed."""
        key = (node.name, statement)
        if key not in self.proofs:
            if len(self.proofs) >= PROOFS_KEPT:
                self.proofs.clear()
            found = self._within_boundaries(node, statement)
            self.proofs[key] = found or by_statement(node, statement, self.known, self.unstored)
        return self.proofs[key]

    def _within_boundaries(self, node: Node, statement: AnalysedStatement) -> Refresh | None:
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
        plan = _derived(node, alone, Block(changed=alone))
        if plan.strategy == AUTONOMOUS:
            return (plan.reason,)
        return tuple(attempt.refresh.reason for attempt in self._attempts(node, relation))

    def _attempts(self, node: Node, relation: str) -> tuple[Attempt, ...]:
        key = (node.name, relation)
        if key not in self.autonomous:
            self.autonomous[key] = attempts(node, relation, self.known.keys, self.unstored, self.ahead)
        return self.autonomous[key]


def _derived(node: Node, changed: frozenset[str], block: Block, *, bulk: bool = False) -> Refresh:
    """How a node follows when these relations change, by its own laws or, if it is not stored, by its change alone."""
    if not node.is_stored and node.strategy not in WHOLE:
        return named(unstored_refresh(node, changed, block), node)
    return named(refresh(node, changed, block, bulk=bulk), node)


def _over_shared(node: Node) -> Plan:
    """The node's plan as it reads what it shares with others: as relations."""
    names = dict(node.shared)
    return transform(node.plan, lambda part: Scan(names[part], part.schema) if part in names else None)


def _schema(node: Node, relation: str) -> Schema:
    return _scanned(_over_shared(node), relation)


def _scanned(plan: Plan, relation: str) -> Schema:
    scans = (part for part in walk(plan) if isinstance(part, Scan))
    return next(scan.schema for scan in scans if scan.relation == relation)


def _reads(node: Node) -> frozenset[str]:
    return relations_of(node.plan) | node.influents
