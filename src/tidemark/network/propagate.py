"""Propagation: breadth first, bottom up, level by level (AMOS 1.5.1).

Each node that reads something that changed derives its own net delta and passes it on. A node whose delta is empty
ends the wave there. The delta of a shared node is discarded as soon as nothing above needs it any more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import pyarrow as pa

from tidemark.algebra.failing import can_fail
from tidemark.algebra.plans import Plan, Stored, expressions_of, walk
from tidemark.algebra.printing import show_expression
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.network.build import COMPLETE, Network
from tidemark.network.front import Front
from tidemark.network.nodes import REPLACED, Node, Refresh, Stage
from tidemark.network.refreshes import RefreshCache
from tidemark.network.settle import settle
from tidemark.network.wave import Step, Wave, given_deltas


def propagate(network: Network, changed: Mapping[str, pa.Table], engine: Engine, cache: RefreshCache) -> Wave:
    """Derive the deltas of all affected nodes from the net deltas of tables, and of all replaced views."""
    wave = Wave({name: delta for name, delta in changed.items() if delta.num_rows})
    front = Front(network, network.replaced)
    for name in wave.deltas:
        front.reached(name)
    for node in front:
        _advance(node, network, wave, engine, cache)
        if node.name in wave.deltas:
            front.reached(node.name)
        front.discard(node, wave.deltas)
    return wave


def _advance(node: Node, network: Network, wave: Wave, engine: Engine, cache: RefreshCache) -> None:
    started = time.perf_counter()
    touched = node.influents & wave.deltas.keys()
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
