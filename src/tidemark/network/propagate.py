"""Propagation: breadth first, bottom up, level by level (AMOS 1.5.1).

Each node that reads something that changed derives its own net delta and passes it on. A node whose delta is empty
ends the wave there. The delta of a shared node is discarded as soon as nothing above needs it any more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tidemark.algebra.clock import CLOCK, STEP, STEP_SCHEMA
from tidemark.algebra.failing import can_fail
from tidemark.algebra.plans import Plan, State, Stored, expressions_of, relations_of, walk
from tidemark.algebra.printing import show_expression
from tidemark.algebra.reading import Columns, columns_read
from tidemark.calculus.as_of import Block, delta_name
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.network.build import COMPLETE, Network
from tidemark.network.nodes import REPLACED, Node, NodeKind, Refresh, Stage, refresh
from tidemark.network.relevance import relevant
from tidemark.network.settle import settle

BULK_ROWS = 50_000
"""From how many changed rows on a grouping's input is summed up inside the engine."""


@dataclass(frozen=True)
class Step:
    """What was done for one node: a line of the trace."""

    node: str
    strategy: str
    reason: str
    rows_in: int
    rows_out: int
    rows_read: int
    milliseconds: float


@dataclass
class Wave:
    """The deltas of a block, of tables and nodes, and the steps that derived them.

    ``narrowed`` has what of a delta matters to who reads some of its columns.
    """

    deltas: dict[str, pa.Table]
    steps: list[Step] = field(default_factory=list)
    narrowed: dict[tuple[str, Columns], pa.Table] = field(default_factory=dict)

    def relevant(self, read: Mapping[str, Columns]) -> dict[str, pa.Table]:
        """What of each delta matters to who reads these columns; deltas of which nothing matters are not there."""
        found = dict(self.deltas)
        for name in self.deltas.keys() & read.keys():
            key = (name, read[name])
            if key not in self.narrowed:
                self.narrowed[key] = relevant(self.deltas[name], read[name])
            found[name] = self.narrowed[key]
        return {name: delta for name, delta in found.items() if delta.num_rows}

    def given(self) -> dict[str, pa.Table]:
        """The deltas under the names by which resolved plans know them."""
        return given_deltas(self.deltas)


@dataclass
class RefreshCache:
    """Refresh plans by node and changed influents: a network's plans are derived once, not per transaction."""

    plans: dict[tuple[str, frozenset[str], bool], Refresh] = field(default_factory=dict)
    unstored: frozenset[str] = frozenset()
    columns: dict[str, dict[str, Columns]] = field(default_factory=dict)

    def columns_of(self, node: Node, network: Network) -> dict[str, Columns]:
        """The columns that matter to a node, of each relation and shared node that it reads.

        What matters to a shared node is what matters to those who use it.
        """
        if node.name not in self.columns:
            wanted = None
            if node.kind is NodeKind.SHARED:
                users = (user for user in network.nodes.values() if any(name == node.name for _, name in user.shared))
                wanted = frozenset[int]().union(*(self.columns_of(user, network)[node.name] for user in users))
            self.columns[node.name] = columns_read(node.plan, wanted, dict(node.shared))
        return self.columns[node.name]

    def get(self, node: Node, changed: frozenset[str], deltas: Mapping[str, pa.Table]) -> Refresh:
        # Which relations below changed decides how old and new states are read, so it is part of the key.
        below = frozenset(name for name in deltas if name in _reads(node)) | changed
        bulk = sum(deltas[name].num_rows for name in changed) > BULK_ROWS
        key = (node.name, below, bulk)
        if key not in self.plans:
            self.plans[key] = refresh(node, changed, Block(changed=below, unstored=self.unstored), bulk=bulk)
        return self.plans[key]


def given_deltas(deltas: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    given = {delta_name(relation, State.DELTA): delta for relation, delta in deltas.items()}
    if CLOCK in deltas:
        given[STEP] = _step(deltas[CLOCK])
    return given


def _step(delta: pa.Table) -> pa.Table:
    """A step of the clock as one row; none when it is set for the first time."""
    before, after = (part(delta).column(0).combine_chunks() for part in (delta_tables.deleted, delta_tables.inserted))
    rows = [before, after[: len(before)], pa.array([1] * len(before), pa.int64())]
    return pa.Table.from_arrays(rows, schema=STEP_SCHEMA.weighted)


def propagate(network: Network, changed: Mapping[str, pa.Table], engine: Engine, cache: RefreshCache) -> Wave:
    """Derive the deltas of all affected nodes from the net deltas of tables, and of all replaced views."""
    wave = Wave({name: delta for name, delta in changed.items() if delta.num_rows})
    replaced = {name for name, node in network.nodes.items() if node.strategy == REPLACED}
    if not network.read & wave.deltas.keys() and not replaced:
        return wave
    waiting = {
        node.name: sum(node.name in n.influents for n in network.nodes.values()) for node in network.nodes.values()
    }
    for node in network.nodes.values():
        touched = node.influents & wave.deltas.keys()
        if touched or node.name in replaced:
            _advance(node, frozenset(touched), network, wave, engine, cache)
        _discard(network, node, wave, waiting)
    return wave


def _advance(
    node: Node, touched: frozenset[str], network: Network, wave: Wave, engine: Engine, cache: RefreshCache
) -> None:
    started = time.perf_counter()
    is_whole = node.strategy in (COMPLETE, REPLACED)
    deltas = wave.deltas if is_whole else wave.relevant(cache.columns_of(node, network))
    changed = touched & deltas.keys()
    if not changed and not is_whole:
        wave.steps.append(_irrelevant(node, touched, network, wave, started))
        return
    plan = cache.get(node, changed, deltas)
    given = given_deltas(deltas)
    delta, read = None, 0
    try:
        for stage in plan.stages:
            if _is_idle(stage, given):
                delta = delta_tables.no_change(stage.plan.schema)
            else:
                delta = engine.evaluate(*settle(stage.plan, given, engine))
                read += _rows_read(stage.plan, engine)
            if stage.result is not None:
                given[stage.result] = delta
    except TidemarkError as error:
        raise _named(error, node) from error
    assert delta is not None
    if delta.num_rows:
        wave.deltas[node.name] = delta
    rows_in = sum(delta_tables.size(wave.deltas[name]) for name in touched)
    spent = (time.perf_counter() - started) * 1000
    wave.steps.append(
        Step(
            node.label,
            plan.strategy,
            _reason(plan, changed, network),
            rows_in,
            delta_tables.size(delta),
            read,
            round(spent, 3),
        )
    )


def _irrelevant(node: Node, touched: frozenset[str], network: Network, wave: Wave, started: float) -> Step:
    """The step of a node that a change below it does not reach."""
    reason = f"no column that it reads changed: {', '.join(_labels(touched, network))}"
    rows_in = sum(delta_tables.size(wave.deltas[name]) for name in touched)
    return Step(node.label, "irrelevant", reason, rows_in, 0, 0, round((time.perf_counter() - started) * 1000, 3))


def _is_idle(stage: Stage, given: Mapping[str, pa.Table]) -> bool:
    """Whether what the stage waits for did not come, or came and makes it needless."""
    if stage.when is not None and not given[stage.when].num_rows:
        return True
    return stage.unless is not None and given[stage.unless].num_rows > 0


def _reason(plan: Refresh, touched: frozenset[str], network: Network) -> str:
    if plan.strategy == "complete":
        return plan.reason
    return f"{plan.reason}: {', '.join(_labels(touched, network))}"


def _labels(names: frozenset[str], network: Network) -> list[str]:
    return sorted(network.nodes[name].label if name in network.nodes else name for name in names)


def _discard(network: Network, node: Node, wave: Wave, waiting: dict[str, int]) -> None:
    """Forget the delta of a shared node when the last node that reads it has been processed."""
    for influent in node.influents:
        below = network.nodes.get(influent)
        if below is None or below.kind is not NodeKind.SHARED:
            continue
        waiting[influent] -= 1
        if not waiting[influent]:
            wave.deltas.pop(influent, None)


def _reads(node: Node) -> frozenset[str]:
    return relations_of(node.plan) | node.influents


def _rows_read(plan: Plan, engine: Engine) -> int:
    """The stored rows under the plan's scans: what is read at most."""
    return sum(engine.rows(part.relation) for part in walk(plan) if isinstance(part, Stored))


def _named(error: TidemarkError, node: Node) -> TidemarkError:
    """The error with the view's name and the expressions that can raise it."""
    views = " and ".join(repr(view) for view in node.views)
    suspects = [show_expression(e) for part in walk(node.plan) for e in expressions_of(part) if can_fail(e, error.code)]
    where = f"; it may come from {' or '.join(dict.fromkeys(suspects))}" if suspects else ""
    return TidemarkError(
        error.code, f"the view {views} cannot be brought up to date: {error.message}{where}", hint=error.hint
    )
