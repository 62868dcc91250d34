"""Refresh plans by node and changed influents: a network's plans are derived once, not per transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Final

from tidemark.algebra.cache import Recent, make_room
from tidemark.algebra.columns import Columns, columns_read
from tidemark.algebra.expressions import Expression
from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Filter, Fixpoint, Given, Plan, Scan, relations_of, transform, walk
from tidemark.algebra.types import Schema
from tidemark.analysis.autonomy.criteria import Boundaries
from tidemark.analysis.autonomy.dml import AnalysedStatement, Deletion
from tidemark.analysis.relevance.filters import Influence, influence
from tidemark.analysis.relevance.index import Finders
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

MOST_NODES: Final = 2_048
PROOFS_KEPT: Final = 64
"""So many statements, or shapes of them, of each node."""
MOST_ASKED: Final = 64
"""Of so many readers of a shared node it is asked which of its columns they read."""
MOST_JOINED: Final = 16
"""The conditions of so many readers of a shared node are one filter; of more, those that a change meets are found."""


NOTHING_KNOWN: Final = KnownFacts()


@dataclass
class Worked:
    """What was worked out about one node, by what changed below it or by the relation that it is about."""

    columns: dict[str, Columns] | None = None
    columns_beyond: dict[str, Columns] | None = None
    influences: dict[str, Influence] = field(default_factory=dict)
    interests: dict[str, Interest] = field(default_factory=dict)
    interests_beyond: dict[str, Interest] = field(default_factory=dict)
    interested: dict[frozenset[str], tuple[Set[str], Mapping[str, Interest], Set[str]]] = field(default_factory=dict)
    proofs: dict[AnalysedStatement, Refresh | None] = field(default_factory=dict)
    boundaries: dict[Shape, Boundaries | None] = field(default_factory=dict)


@dataclass
class Ways:
    """How one node follows, by what changed below it."""

    plans: dict[tuple[frozenset[str], bool | None], Refresh] = field(default_factory=dict)
    autonomous: dict[str, tuple[Attempt, ...]] = field(default_factory=dict)
    recursions: dict[frozenset[str], Recursion] = field(default_factory=dict)
    reasons: dict[tuple[frozenset[str], str, str], str] = field(default_factory=dict)
    read: dict[frozenset[str], float] = field(default_factory=dict)
    """How many rows its differentials read for each changed one the last time."""


@dataclass
class RefreshCache:
    """What was worked out about the nodes of one network: of the ``MOST_NODES`` that were asked about last.
    ``unchanged`` has kept results of parts of its differentials.

    ``without_filters`` and ``without_autonomy`` leave rungs of the ladder out, for tests and benchmarks, which compare.
    ``goes_by_stored`` says that filters are true which were proved when nodes were defined.
    """

    unstored: frozenset[str] = frozenset()
    ahead: frozenset[str] = frozenset()
    known: KnownFacts = NOTHING_KNOWN
    nodes: Recent[str, Worked] = field(default_factory=lambda: Recent(Worked, MOST_NODES))
    ways: Recent[str, Ways] = field(default_factory=lambda: Recent(Ways, MOST_NODES))
    finders: dict[str, Finders[str]] = field(default_factory=dict)
    unchanged: Unchanged | None = None
    without_filters: bool = False
    without_autonomy: bool = False
    goes_by_stored: bool = False
    reading: RefreshCache | None = None
    """The same for blocks that are written ahead."""

    def reading_ahead(self, relations: frozenset[str]) -> RefreshCache:
        """What is worked out for blocks of which these relations are stored as of the end. Filters hold for them as
        for others, and no result is kept: what changes is not told from what does not."""
        if self.reading is None or self.reading.ahead != relations:
            self.reading = found = copy(self)
            found.ways = Recent(Ways, MOST_NODES)
            found.unchanged, found.reading, found.ahead = None, None, relations
        return self.reading

    def apart(self) -> RefreshCache:
        """One of the same facts that knows nothing yet."""
        return replace(self, nodes=Recent(Worked, MOST_NODES), ways=Recent(Ways, MOST_NODES), finders={}, reading=None)

    def take_over(self, before: RefreshCache, old: Network, new: Network) -> None:
        """Keep what takes long to work out and holds still: how relations reach the nodes that are what they were."""
        facts = before.known.facts
        others = {name for name in facts.keys() & self.known.facts.keys() if facts[name] != self.known.facts[name]}
        for name, known in before.nodes.items():
            node = old.nodes.get(name)
            if node is not None and new.nodes.get(name) is node and not (others and others & relations_of(node.plan)):
                self.nodes[name].influences = known.influences

    def grow_from(self, before: RefreshCache, new: Network) -> None:
        """Take all over from one of a network to which this one adds some nodes. Nobody uses the other one after it."""
        self.nodes, self.ways, self.finders = before.nodes, before.ways, before.finders
        for name in new.changed:
            self.nodes.forget(name)
            self.ways.forget(name)
        moved = [*new.fresh, *(new.nodes[name] for name in new.changed)]
        for relation in {influent for node in moved for influent in node.influents}:
            for reader in new.reading[relation][:MOST_JOINED]:  # who read it alone may do so no more
                if reader in self.nodes:
                    self.nodes[reader].interested.clear()
        for key, finder in self.finders.items():
            relation, _, shared = key.partition(" ")
            if shared and shared not in new.nodes:
                continue
            read_by = set(new.reading.get(shared or relation, ()))
            come = [node for node in moved if node.name in read_by]
            finder.change(self._filters(relation, come), new.changed)

    def columns_of(self, node: Node, network: Network) -> dict[str, Columns]:
        """The columns that matter to a node, of each relation and shared node that it reads.

        What matters to a shared node is what matters to those who use it.
        """
        worked = self.nodes[node.name]
        if worked.columns is None:
            wanted = None
            if node.kind is NodeKind.SHARED:
                wanted = self._columns_wanted(node, network)
            worked.columns = columns_read(node.plan, wanted, dict(node.shared))
        return worked.columns

    def _columns_wanted(self, shared: Node, network: Network) -> frozenset[int]:
        """The columns of a shared node that matter to those who read it; all of them, if these are many."""
        readers = network.reading.get(shared.name, ())
        if len(readers) > MOST_ASKED:
            return frozenset(range(len(shared.schema)))
        users = network.readers(shared.name)
        return frozenset[int]().union(*(self.columns_of(user, network)[shared.name] for user in users))

    def interest(self, node: Node, relation: str, network: Network) -> Interest:
        """What of a relation or shared node matters to a node that reads it."""
        if self.without_filters:
            return Interest(self.columns_of(node, network)[relation])
        interests = self.nodes[node.name].interests
        if relation not in interests:
            # The clock's one row matters to all who read it.
            condition = self._condition(node, relation, network) if relation != CLOCK else None
            columns = self.columns_of(node, network)[relation]
            filter = None
            if condition is not None:
                rows = Given(ROWS, _schema(node, relation))
                filter = Filter(rows, condition)
            interests[relation] = Interest(columns, filter)
        return interests[relation]

    def interests_in(
        self, node: Node, touched: frozenset[str], network: Network
    ) -> tuple[Set[str], Mapping[str, Interest], Set[str]]:
        """What a node reads, what of each relation below it matters to it when these that it reads are touched, and
        which of these others read, too."""
        interested = self.nodes[node.name].interested
        if touched not in interested:
            below = {name: Interest(columns) for name, columns in self.columns_of(node, network).items()}
            interests = {name: self.interest(node, name, network) for name in touched}
            read_by_others = frozenset(name for name in touched if len(network.reading[name]) > 1)
            interested[touched] = (reads(node), {**below, **interests}, read_by_others)
        return interested[touched]

    def interest_beyond(self, node: Node, relation: str) -> Interest:
        """What of a relation matters to a node, also where it reads it through what it shares with others."""
        worked = self.nodes[node.name]
        if worked.columns_beyond is None:
            worked.columns_beyond = columns_read(node.plan)
        columns, interests = worked.columns_beyond[relation], worked.interests_beyond
        if self.without_filters:
            return Interest(columns)
        if relation not in interests:
            condition = self.influence(node, relation).filter if relation != CLOCK else None
            rows = Given(ROWS, _scanned(node.plan, relation))
            interests[relation] = Interest(columns, None if condition is None else Filter(rows, condition))
        return interests[relation]

    def _condition(self, node: Node, relation: str, network: Network) -> Expression | None:
        """Which rows can matter: of those that reach a shared node, the ones that can reach some reader of it."""
        own = self.influence(node, relation).filter
        if node.kind is not NodeKind.SHARED:
            return own
        readers = [reader for reader in network.readers(node.name) if reader.strategy not in WHOLE]
        if len(readers) > MOST_JOINED:
            return own
        wanted = [self.influence(reader, relation).filter for reader in readers]
        known = dict.fromkeys(condition for condition in wanted if condition is not None)
        return own if len(known) == 0 or None in wanted else simple(disjunction(tuple(known)))

    def readers_without(self, node: Node, changes: Mapping[str, Rows], network: Network) -> bool:
        """Whether no change can matter to anyone who reads a shared node; they are looked up where there are many."""
        found = self.readers_reached(node, changes, network)
        return found is not None and not found

    def readers_reached(self, node: Node, changes: Mapping[str, Rows], network: Network) -> set[str] | None:
        """Those of many readers of a shared node to whom a change of what it is made of can matter; None if few read
        it."""
        if self.without_filters or len(network.reading.get(node.name, ())) <= MOST_JOINED or CLOCK in changes:
            return None
        below = [name for name in node.influents if name in changes]
        return set().union(*(self._finder_of_readers(node, n, network).among(changes[n].table) for n in below))

    def _finder_of_readers(self, node: Node, relation: str, network: Network) -> Finders[str]:
        key = f"{relation} {node.name}"
        if key not in self.finders:
            self.finders[key] = Finders(self._filters(relation, network.readers(node.name)))
        return self.finders[key]

    def influence(self, node: Node, relation: str) -> Influence:
        """Which rows of a relation or shared node can reach a node that reads it."""
        influences = self.nodes[node.name].influences
        if relation not in influences:
            # A relation that also stands in what is shared is read there too, so all of its places count.
            plan = node.plan if relation in relations_of(node.plan) else _over_shared(node)
            at_sight = node.kind is NodeKind.EXTERNAL
            influences[relation] = influence(plan, relation, self.known.facts, at_sight=at_sight)
        return influences[relation]

    def is_cut(self, node: Node, changed: frozenset[str]) -> bool:
        """Whether no filter was found because the steps for looking were used up."""
        influences = self.nodes[node.name].influences
        found = (influences.get(relation) for relation in changed)
        return any(known is not None and known.is_cut and known.filter is None for known in found)

    def finder(self, relation: str, network: Network, limits: EngineLimits) -> Finders[str] | None:
        """Finds the nodes to which a change of the relation can matter, where many read it."""
        readers = network.reading.get(relation, ())
        if len(readers) <= limits.many_readers or relation == CLOCK or self.without_filters:
            return None
        if relation not in self.finders:
            self.finders[relation] = Finders(self._filters(relation, network.readers(relation)))
        return self.finders[relation]

    def _filters(self, relation: str, readers: Iterable[Node]) -> dict[str, Expression | None]:
        """Which rows of a relation can matter to each of those who read it."""
        return {reader.name: self._filter_of(reader, relation) for reader in readers}

    def _filter_of(self, reader: Node, relation: str) -> Expression | None:
        if reader.strategy in WHOLE:
            return None
        known = reader.drawn.filters.get(relation) if self.goes_by_stored and reader.drawn is not None else None
        return self.influence(reader, relation).filter if known is None else known.condition

    def get(self, node: Node, changed: frozenset[str], rows: Mapping[str, Rows], limits: EngineLimits) -> Refresh:
        # Which relations below changed decides how old and new states are read, so it is part of the key.
        below = reads(node).intersection(rows) | changed
        bulk = sum([rows[name].count for name in changed]) > (
            limits.bulk_rows_ahead if self.ahead else limits.bulk_rows
        )
        plans, key = self.ways[node.name].plans, (below, bulk)
        if key not in plans:
            block = Block(changed=below, unstored=self.unstored, ahead=self.ahead)
            plans[key] = _derived(node, changed, block, bulk=bulk)
        return plans[key]

    def anew(self, node: Node, rows: Mapping[str, Rows]) -> Refresh:
        """How a node that follows by differentials is evaluated as a whole instead."""
        below = reads(node).intersection(rows)
        plans, key = self.ways[node.name].plans, (below, None)
        if key not in plans:
            block = Block(changed=below, unstored=self.unstored, ahead=self.ahead)
            plans[key] = evaluated_anew(node, block)
        return plans[key]

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
        recursions = self.ways[node.name].recursions
        if changed not in recursions:
            block = Block(changed=changed, unstored=self.unstored, ahead=self.ahead)
            recursions[changed] = Recursion(node, plan, block, self.known.keys, network.nodes)
        return recursions[changed]

    def by_statement(self, node: Node, statement: AnalysedStatement) -> Refresh | None:
        """The autonomous step that follows from the statement itself, if nothing else that the node reads changed."""
        proofs = self.nodes[node.name].proofs
        if statement not in proofs:
            make_room(proofs, PROOFS_KEPT)
            found = self._within_boundaries(node, statement)
            proofs[statement] = found or by_statement(node, statement, self.known, self.unstored)
        return proofs[statement]

    def _within_boundaries(self, node: Node, statement: AnalysedStatement) -> Refresh | None:
        """The step of a deletion whose constants lie within the boundaries of its shape, which are worked out once."""
        width = len(self.known.facts[statement.relation].columns) if statement.relation in self.known.facts else None
        if not isinstance(statement, Deletion) or width is None:
            return None
        found = shape_of("delete", statement.relation, width, statement.where)
        if found is None:
            return None
        shape, constants = found
        boundaries = self.nodes[node.name].boundaries
        if shape not in boundaries:
            make_room(boundaries, PROOFS_KEPT)
            boundaries[shape] = deletion_boundaries(node, shape, self.known)
        bounds = boundaries[shape]
        return None if bounds is None else within_boundaries(node, shape, constants, bounds, self.unstored)

    def autonomous_reasons(self, node: Node, relation: str) -> tuple[str, ...]:
        """Why a node can follow changes of one relation from its own content and the change."""
        alone = frozenset({relation})
        plan = _derived(node, alone, Block(changed=alone))
        if plan.strategy == AUTONOMOUS:
            return (plan.reason,)
        return tuple(attempt.refresh.reason for attempt in self._attempts(node, relation))

    def _attempts(self, node: Node, relation: str) -> tuple[Attempt, ...]:
        autonomous = self.ways[node.name].autonomous
        if relation not in autonomous:
            autonomous[relation] = attempts(node, relation, self.known.keys, self.unstored, self.ahead)
        return autonomous[relation]


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


def reads(node: Node) -> frozenset[str]:
    """Everything whose change may be given to the plans of a node."""
    return relations_of(node.plan) | node.influents
