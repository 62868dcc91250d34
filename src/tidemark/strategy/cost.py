"""What the differentials of a node cost beside evaluating it anew: by row counts and measured prices.

    differentials  =  stages + changed rows + changed rows × the places where they meet what is stored below the node
    anew           =  a statement + rows below the node + rows on both sides of the comparison with what is stored

A change that is a large part of a relation meets most of what stands beside it, row by row, and reading all of it at
once is the better way then. The prices (``limits.Prices``) are of the engine, in microseconds; no answer depends on
them. What is approximate need not come out the same twice, so it stays with its differentials, and what recurs has
bounds of its own.

Reading ahead: of a block that changes a large part of its relations, these are written before nodes are derived.

Then what is stored is as of the end of the block, as it is for what lags (``calculus/as_of.py``): new states are read
as they are, and old ones are what is stored without the change. Each derived relation is written as soon as its change
is known, so that those above it are evaluated over what is stored, too.

What rules ask for, recursion, and what begins to mean something else read their relations as they were committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidemark.algebra.cache import PerPlan, leaves_read
from tidemark.algebra.plans import Aggregate, Fixpoint, Plan, Stored, Window, relations_of, walk
from tidemark.engines.engine import Engine, WritesAhead
from tidemark.storage.delta import Rows
from tidemark.strategy.graph import Network
from tidemark.strategy.nodes import AUTO, Node, NodeKind, Refresh

MARGIN: Final = 1.5
MARGIN_AHEAD: Final = 1.0
"""Where a change is written ahead, both ways are statements over the same rows, and known as well."""
LARGE_MARGIN: Final = 2.0


@dataclass(frozen=True)
class Costs:
    """What both ways cost, in microseconds, and the counts that this follows from."""

    differentials: float
    anew: float
    changed: int
    places: int
    below: int
    own: int

    margin: float = MARGIN

    @property
    def are_dearer(self) -> bool:
        """Whether the differentials cost clearly more."""
        return self.differentials > self.anew * self.margin

    @property
    def reason(self) -> str:
        """For the trace."""
        ways = f"some {self.differentials / 1000:.0f} ms beside {self.anew / 1000:.0f} ms"
        met = f"{self.changed} changed rows at {self.places} places"
        return f"its differentials would cost more, {ways}: {met}, {self.below} rows below it and {self.own} of its own"

    @property
    def are_much_dearer(self) -> bool:
        """Whether they cost so much more that it is not worth while to look which part of a change matters."""
        return self.differentials > self.anew * LARGE_MARGIN

    def beside(self, readers: Iterable[Costs], stage: float, changed: float) -> bool:
        """Whether a change that is derived for these readers, and what it costs each of them, is dearer than they are
        anew. As many rows of it are expected as changed below."""
        listed = list(readers)
        given = self.differentials + self.changed * HANDED
        shared = given + sum(FOLLOWING * stage + self.changed * changed for _ in listed)
        return shared > sum(costs.anew for costs in listed)


HANDED: Final = 1.0
"""A row of a shared change: it is made net, and handed to who reads it."""
FOLLOWING: Final = 3
"""About so many stages a node has."""


def may_be_evaluated_anew(node: Node, network: Network) -> bool:
    """Whether the node keeps its promises if it is evaluated as a whole."""
    if not node.is_stored or node.strategy != AUTO or node.rules is not None or _follows_its_own_way(node.plan):
        return False
    return all(network.nodes[view].strategy == AUTO for view in node.views if view in network.nodes)


def costs(node: Node, plan: Refresh, changed: int, engine: Engine, *, is_ahead: bool = False) -> Costs:
    """The costs of a node's refresh by differentials for so many changed rows, and of evaluating the node anew."""
    prices = engine.limits.prices_ahead if is_ahead else engine.limits.prices
    places = [leaf.relation for stage in plan.stages for leaf in _stored(stage.plan) if leaf.relation != node.name]
    if changed <= prices.most_looked_up:
        few = min(changed, prices.few)
        meeting = (few * prices.look_up + (changed - few) * prices.looked_up_together) * len(places)
    else:
        meeting = sum(changed * prices.met + engine.rows(relation) * prices.scanned_near for relation in places)
    below = sum(engine.rows(name) for name in relations_of(node.plan))
    own = engine.rows(node.name) if node.is_stored else 0
    anew = prices.statement + below * prices.scanned + 2 * own * prices.compared
    stage = prices.stage if places or changed > prices.few else prices.small_stage
    differentials = len(plan.stages) * stage + changed * prices.changed + meeting
    return Costs(differentials, anew, changed, len(places), below, own, margin=MARGIN_AHEAD if is_ahead else MARGIN)


def _leaves(plan: Plan) -> tuple[Stored, ...]:
    return tuple(leaf for leaf, times in leaves_read(plan) if isinstance(leaf, Stored) for _ in range(times))


_stored: Final = PerPlan(_leaves)


def _own_way(plan: Plan) -> bool:
    return any(isinstance(part, Fixpoint) or _is_approximate(part) for part in walk(plan))


def _is_approximate(part: Plan) -> bool:
    calls = part.aggregates if isinstance(part, Aggregate) else part.calls if isinstance(part, Window) else ()
    return any(call.is_approximate for call in calls)


_follows_its_own_way: Final = PerPlan(_own_way)


Keys = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Ahead:
    """Relations that are written as soon as their change is known, by an engine that does so."""

    relations: frozenset[str]
    engine: WritesAhead
    keys: Keys

    def write(self, name: str, changed: Mapping[str, Rows]) -> None:
        """Write the change of a relation, if it has one and is one of these."""
        if name in self.relations and name in changed:
            self.engine.write(name, changed[name].table, self.keys.get(name, ()))


def written_ahead(network: Network, changed: Mapping[str, Rows], engine: Engine, keys: Keys) -> Ahead | None:
    """What is written ahead of a block that changes these tables, which is begun; None if that does not pay."""
    if engine.ahead is None or not _is_large(network, changed, engine):
        return None
    relations = readable_ahead(network)
    if not relations.intersection(changed):
        return None
    engine.ahead.begin()
    found = Ahead(relations, engine.ahead, keys)
    for name in changed:
        found.write(name, changed)
    return found


def _is_large(network: Network, changed: Mapping[str, Rows], engine: Engine) -> bool:
    """Whether so much changes of the tables that nodes read that most of them are better evaluated anew."""
    read = [name for name in changed if name in network.read]
    rows = sum(changed[name].count for name in read)
    if rows < engine.limits.least_ahead:
        return False
    return rows * engine.limits.part_ahead >= sum(engine.rows(name) for name in read)


def readable_ahead(network: Network) -> frozenset[str]:
    """The relations and nodes that may be written before who reads them is derived."""
    as_committed = frozenset[str]().union(*(_reads(node) for node in network.nodes.values() if _is_bound(node)))
    stored = (node.name for node in network.nodes.values() if node.is_stored)
    return frozenset({*(name for name in network.read if name not in network.nodes), *stored} - as_committed)


def _is_bound(node: Node) -> bool:
    """Whether a node reads what was committed before the block."""
    is_other = node.is_asked or node.rules is not None or node.before is not None or node.kind is NodeKind.EXTERNAL
    return is_other or node.recurs


def _reads(node: Node) -> frozenset[str]:
    return node.relations | node.influents | {node.name}
