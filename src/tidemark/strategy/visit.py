"""A visit of a wave to one node: what of the wave reaches it, and what comes of it.

All rungs of the ladder (``ladder.py``) ask the same of a visit; what one of them worked out the next need not.

Running a refresh: its stages one after another, over what of the wave matters to the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidemark.algebra.cache import PerPlan, lazy, leaves_read
from tidemark.algebra.plans import Plan, Stored, expressions_of, relations_of, walk
from tidemark.algebra.printing import show_expression
from tidemark.algebra.scalar import can_fail
from tidemark.analysis.relevance.filters import UNDECIDED
from tidemark.engines.engine import Engine
from tidemark.errors import TidemarkError
from tidemark.storage.delta import Rows, Tables
from tidemark.strategy.cache import RefreshCache, reads
from tidemark.strategy.graph import Network
from tidemark.strategy.nodes import AUTONOMOUS, COMPLETE, DIFFERENTIAL, WHOLE, Node, NodeKind, Refresh, Stage
from tidemark.strategy.settle import settle
from tidemark.strategy.shared import Over
from tidemark.strategy.wave import NO_ROWS, Interest, Matter, Wave, given_rows

NOBODY: Final = frozenset[str]()


class Done(NamedTuple):
    """A node's delta, and how it was found."""

    delta: Rows
    read: int
    strategy: str
    reason: str
    rederived: int = 0
    is_looked_at: bool = True
    """Whether it was looked which part of the change matters to the node."""


@dataclass
class Visit:
    """One node, and the wave that comes to it: ``is_beyond`` what it shares with others, at the relations that this is
    made of, if that is looked through; when the node's change ``is_asked`` for, if it was left until then; ``is_anew``
    if the node is evaluated as a whole in this wave."""

    node: Node
    network: Network
    wave: Wave
    engine: Engine
    cache: RefreshCache
    is_beyond: bool = False
    is_asked: bool = False
    is_anew: bool = False

    @lazy
    def touched(self) -> frozenset[str]:
        """What the node reads that changed."""
        reads = relations_of(self.node.plan) if self.is_beyond else self.node.influents
        return reads.intersection(self.wave.rows)

    def interest(self, name: str) -> Interest:
        """What of a changed relation matters to the node."""
        if self.is_beyond:
            return self.cache.interest_beyond(self.node, name)
        return self.cache.interest(self.node, name, self.network)

    @lazy
    def matter(self) -> Matter:
        """What of the wave matters to the node."""
        node, cache, network = self.node, self.cache, self.network
        if self.is_whole:
            return Matter(self.wave.rows, NO_ROWS)
        if self.is_beyond:
            interests = {name: self.interest(name) for name in self.touched}
            return self.wave.matter(reads(node), interests, NOBODY, self.engine)
        return self.wave.matter(*cache.interests_in(node, self.touched, network), self.engine)

    @lazy
    def changed(self) -> frozenset[str]:
        """What the node reads that changed in a way that matters to it."""
        return self.touched.intersection(self.matter.rows)

    @lazy
    def given(self) -> Mapping[str, Rows]:
        """What matters, under the names by which resolved plans and engines know it."""
        return given_rows(self.matter)

    @lazy
    def refresh(self) -> Refresh:
        """The plans by which the node follows any change of this kind."""
        return self.cache.get(self.node, self.changed, self.matter.rows, self.engine.limits)

    @property
    def is_whole(self) -> bool:
        """Whether the node is evaluated as a whole, whatever changed."""
        return self.is_anew or self.node.strategy in WHOLE

    @property
    def is_ahead(self) -> bool:
        """Whether what the node reads is stored as it will be."""
        return bool(self.cache.ahead)

    @property
    def rows_in(self) -> int:
        return sum([self.wave.rows[name].size for name in self.touched])

    @property
    def rows_filtered(self) -> int:
        """How many of the changed rows do not matter to the node."""
        return self.rows_in - sum([self.matter.rows[name].size for name in self.changed])

    @property
    def labels(self) -> str:
        """What changed, for people."""
        nodes = self.network.nodes
        return ", ".join(sorted(nodes[name].label if name in nodes else name for name in self.changed))


def named(error: TidemarkError, node: Node) -> TidemarkError:
    """The error with the view's name and the expressions that can raise it."""
    views = " and ".join(repr(view) for view in node.views)
    suspects = [show_expression(e) for part in walk(node.plan) for e in expressions_of(part) if can_fail(e, error.code)]
    where = f"; it may come from {' or '.join(dict.fromkeys(suspects))}" if suspects else ""
    return error.restated(f"{error.message}{where}").within(f"the view {views} cannot be brought up to date")


def run(visit: Visit, plan: Refresh, proved: Mapping[str, Rows] = NO_ROWS) -> Done:
    """The node's delta by these plans, which may read what was ``proved`` beside what changed."""
    delta, read, kept = _evaluated(visit, plan, {**visit.given, **proved})
    return Done(delta, read, _strategy(visit, plan), _reason(visit, plan, kept))


def _reason(visit: Visit, plan: Refresh, kept: frozenset[str]) -> str:
    """Why the node was brought up to date in this way, in words that hold as long as what is known of the nodes."""
    key, reasons = (visit.changed, plan.strategy, plan.reason), visit.cache.ways[visit.node.name].reasons
    reason = reasons.get(key)
    if reason is None:
        reason = plan.reason if plan.strategy == COMPLETE else f"{plan.reason}: {visit.labels}"
        if not visit.is_whole and visit.cache.is_cut(visit.node, visit.changed):
            reason += f"; nothing was filtered out{UNDECIDED}"
        reasons[key] = reason
    if kept:
        reason += f"; with the kept result over {', '.join(sorted(kept))}, which did not change"
    return reason


def rows_below(plan: Refresh, node: Node, engine: Engine) -> int:
    """How many stored rows of relations below the node its plans read at most."""
    return sum(_rows_read(stage.plan, node, engine) for stage in plan.stages)


def evaluated(plan: Plan, given: Mapping[str, Rows], engine: Engine) -> Rows:
    """The net rows of a plan that need not be settled."""
    found = engine.follow(plan, given)
    return found.rows if found is not None else Rows.of(engine.evaluate(*settle(plan, Tables(given), engine)))


def _evaluated(visit: Visit, plan: Refresh, given: dict[str, Rows]) -> tuple[Rows, int, frozenset[str]]:
    """The node's delta, how many rows were read for it, and the relations that kept results stood for."""
    node, engine, unchanged = visit.node, visit.engine, visit.cache.unchanged
    delta, read, kept = Rows(node.schema, bag={}), 0, frozenset[str]()
    keeps_all = unchanged is not None and unchanged.kept.terms.in_reach
    try:
        for stage in plan.stages:
            if _is_idle(stage, given):
                delta = Rows(stage.plan.schema, bag={})
            elif not keeps_all and (few := engine.follow(stage.plan, given)) is not None:
                delta = few.rows
                read += sum([rows for relation, rows in few.read.items() if relation != node.name])
            else:
                over = Over(*settle(stage.plan, Tables(given), engine))
                if unchanged is not None and plan.strategy == DIFFERENTIAL:
                    over = unchanged.over_parts(over.plan, over.given, engine)
                delta = Rows.of(engine.evaluate(over.plan, over.given))
                read += _rows_read(over.plan if over.kept else stage.plan, node, engine)
                kept |= over.kept
            if stage.result is not None:
                given[stage.result] = delta
    except TidemarkError as error:
        raise named(error, node) from error
    return delta, read, kept


def _is_idle(stage: Stage, given: Mapping[str, Rows]) -> bool:
    """Whether what the stage waits for did not come, or came and makes it needless."""
    if stage.when is not None and not given[stage.when].count:
        return True
    return stage.unless is not None and given[stage.unless].count > 0


def _rows_read(plan: Plan, node: Node, engine: Engine) -> int:
    """The stored rows of relations below the node that the plan scans: what is read of them at most."""
    return sum([engine.rows(relation) * times for relation, times in _scanned(plan) if relation != node.name])


_scanned: Final = PerPlan(
    lambda plan: tuple((leaf.relation, times) for leaf, times in leaves_read(plan) if isinstance(leaf, Stored))
)


def _strategy(visit: Visit, plan: Refresh) -> str:
    """The step's name. What follows from an inner node alone is no more autonomous than that node's own step was."""
    if plan.strategy != AUTONOMOUS:
        return plan.strategy
    nodes, wave = visit.network.nodes, visit.wave
    inner = (nodes[name] for name in visit.changed & nodes.keys())
    behind = {wave.strategies[node.name] for node in inner if node.kind is not NodeKind.VIEW}
    return DIFFERENTIAL if behind - {AUTONOMOUS} else AUTONOMOUS
