"""Propagation: breadth first, bottom up, level by level (AMOS 1.5.1).

Each node that reads something that changed derives its own net delta and passes it on. A node whose delta is empty
ends the wave there. The delta of a shared node is discarded as soon as nothing above needs it any more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tidemark.algebra.failing import can_fail
from tidemark.algebra.plans import Fixpoint, Given, Plan, Stored, expressions_of, relations_of, walk
from tidemark.algebra.printing import show_expression
from tidemark.analysis.autonomy_updates import Statement
from tidemark.calculus.as_of import Block
from tidemark.datalog.fixpoint import TooFar
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.network.autonomous import AUTONOMOUS, Attempt
from tidemark.network.build import COMPLETE, INCREMENTAL, Network
from tidemark.network.contents import REASON, by_content
from tidemark.network.front import Front
from tidemark.network.nodes import Node, NodeKind, Refresh, Stage
from tidemark.network.rederivation import Rules, rederived
from tidemark.network.refreshes import WHOLE, RefreshCache
from tidemark.network.settle import settle
from tidemark.network.unchanged import Over, Unchanged
from tidemark.network.wave import Interest, Matter, Step, Wave, given_deltas

WORTH_A_PROOF: Final = 1_000_000
"""If so many rows stand below a step, it may take a proof about the statement to do without them."""


def propagate(
    network: Network,
    changed: Mapping[str, pa.Table],
    engine: Engine,
    cache: RefreshCache,
    statement: Statement | None = None,
) -> Wave:
    """Derive the deltas of all affected nodes from the net deltas of tables, and of all replaced views.

    ``statement`` is what made the deltas, if it is known and was the only one.
    """
    wave = Wave({name: delta for name, delta in changed.items() if delta.num_rows}, statement=statement)
    front = Front(network, network.replaced)
    for name in tuple(wave.deltas):
        _reach(name, front, network, wave, cache)
    for node in front:
        _advance(node, network, wave, engine, cache)
        if node.name in wave.deltas:
            _reach(node.name, front, network, wave, cache)
        front.discard(node, wave.deltas)
    return wave


def _reach(name: str, front: Front, network: Network, wave: Wave, cache: RefreshCache) -> None:
    """Let those who read a changed relation be visited. Where they are many, only those to which it can matter are;
    one step stands for all others."""
    started = time.perf_counter()
    finder = cache.finder(name, network)
    if finder is None:
        front.reached(name)
        return
    found = finder.among(wave.deltas[name])
    front.reached(name, found)
    others = len(network.readers[name]) - len(found)
    if others:
        rows = delta_tables.size(wave.deltas[name])
        reason = f"found by their filters: no changed row of {name} can matter to them"
        wave.steps.append(Step(f"{others} other nodes", "irrelevant", reason, rows, 0, 0, _since(started), rows))


def _advance(node: Node, network: Network, wave: Wave, engine: Engine, cache: RefreshCache) -> None:
    """Bring one node up to date by the cheapest step that is sound, and note which that was."""
    clock = time.perf_counter()
    touched = frozenset(node.influents & wave.deltas.keys())
    matter = _matter(node, touched, network, wave, engine, cache)
    changed = frozenset(touched & matter.deltas.keys())
    rows_in = sum(delta_tables.size(wave.deltas[name]) for name in touched)
    filtered = rows_in - sum(delta_tables.size(matter.deltas[name]) for name in changed)
    if not changed and node.strategy not in WHOLE:
        reason = _why_irrelevant(node, touched, network, wave, cache)
        wave.steps.append(Step(node.label, "irrelevant", reason, rows_in, 0, 0, _since(clock), filtered))
        return
    given = given_deltas(matter.deltas, matter.wholes)
    done: _Done | None = None
    if node.rules is not None:
        done = _rederive(node, node.rules, changed, given, network, wave, engine, cache)
    elif isinstance(node.plan, Fixpoint) and node.is_stored and node.strategy not in WHOLE:
        done = _recur(node, node.plan, changed, given, network, wave, engine, cache)
    if done is None:
        done = _refreshed(node, changed, matter, given, network, wave, engine, cache)
    if done.delta.num_rows:
        wave.deltas[node.name] = done.delta
    wave.strategies[node.name] = done.strategy
    rows_out = delta_tables.size(done.delta)
    wave.steps.append(
        Step(
            node.label,
            done.strategy,
            done.reason,
            rows_in,
            rows_out,
            done.read,
            _since(clock),
            filtered,
            done.rederived,
        )
    )


@dataclass(frozen=True)
class _Done:
    """A node's delta, and how it was found."""

    delta: pa.Table
    read: int
    strategy: str
    reason: str
    rederived: int = 0


def _refreshed(
    node: Node,
    changed: frozenset[str],
    matter: Matter,
    given: dict[str, pa.Table],
    network: Network,
    wave: Wave,
    engine: Engine,
    cache: RefreshCache,
) -> _Done:
    plan = cache.get(node, changed, matter.deltas)
    if plan.strategy == "differential":
        found = _autonomous(cache.attempts(node, changed, matter.deltas), given, engine)
        if found is None and _rows_below(plan, node, engine) >= WORTH_A_PROOF:
            found = _proved(node, wave.statement, matter.deltas, given, engine, cache)
        plan = found or plan
    delta, read, kept = _run(plan, node, given, engine, cache.unchanged)
    reason = _reason(plan, changed, network)
    if kept:
        reason += f"; with the kept result over {', '.join(sorted(kept))}, which did not change"
    return _Done(delta, read, _strategy(plan, changed, network, wave), reason)


def _recur(
    node: Node,
    plan: Fixpoint,
    changed: frozenset[str],
    given: Mapping[str, pa.Table],
    network: Network,
    wave: Wave,
    engine: Engine,
    cache: RefreshCache,
) -> _Done:
    """The change of a recursion, which is found for all members of its fixpoint at once."""
    key = plan.of(plan.members[0][0]) if node.kind is not NodeKind.VIEW else plan
    if key not in wave.recursions:
        # Of views that begin in this transaction nothing has to be brought up to date.
        served = [network.nodes[view] for view in node.views if view in network.nodes]
        at_any_cost = bool(served) and all(view.strategy == INCREMENTAL for view in served)
        try:
            wave.recursions[key] = cache.recursion(node, plan, changed, network).follow(
                given, engine, at_any_cost=at_any_cost
            )
        except TidemarkError as error:
            raise _named(error, node) from error
        read = wave.recursions[key].read
    else:
        read = 0  # counted with the member that was first
    found = wave.recursions[key]
    reason = found.reason if found.strategy == COMPLETE else f"{found.reason}: {', '.join(_labels(changed, network))}"
    return _Done(found.deltas[plan.predicate], read, found.strategy, reason)


def _rederive(
    node: Node,
    rules: Rules,
    changed: frozenset[str],
    given: Mapping[str, pa.Table],
    network: Network,
    wave: Wave,
    engine: Engine,
    cache: RefreshCache,
) -> _Done | None:
    """The change of a recursive view that is not stored, by rederivation on demand; None if that goes too far."""
    key = (id(rules.program), changed)
    read = made = 0
    try:
        if key not in wave.rederivations:
            block = Block(changed=changed, unstored=cache.unstored, ahead=cache.ahead)
            wave.rederivations[key] = found = rederived(rules, block, cache.known.keys, given, engine)
            read, made = found.read, found.rederived  # counted with the view that was first
    except TooFar:
        return None
    except TidemarkError as error:
        raise _named(error, node) from error
    reason = f"rederivation on demand: {', '.join(_labels(changed, network))}"
    return _Done(wave.rederivations[key].deltas[rules.predicate], read, "differential", reason, made)


def _strategy(plan: Refresh, changed: frozenset[str], network: Network, wave: Wave) -> str:
    """The step's name. What follows from an inner node alone is no more autonomous than that node's own step was."""
    inner = (network.nodes[name] for name in changed & network.nodes.keys())
    behind = {wave.strategies[node.name] for node in inner if node.kind is not NodeKind.VIEW}
    return "differential" if plan.strategy == AUTONOMOUS and behind - {AUTONOMOUS} else plan.strategy


def _matter(
    node: Node, touched: frozenset[str], network: Network, wave: Wave, engine: Engine, cache: RefreshCache
) -> Matter:
    if node.strategy in WHOLE:
        return Matter(wave.deltas, {})
    interests = {name: cache.interest(node, name, network) for name in touched}
    below = {name: Interest(columns) for name, columns in cache.columns_of(node, network).items()}
    read_by_others = {name for name in interests if len(network.readers[name]) > 1}
    return wave.matter({**below, **interests}, engine, read_by_others)


def _autonomous(attempts: Iterable[Attempt], given: Mapping[str, pa.Table], engine: Engine) -> Refresh | None:
    """The first autonomous step that is right for this change."""

    def is_empty(plan: Plan) -> bool:
        return not engine.evaluate(*settle(plan, given, engine)).num_rows

    for attempt in attempts:
        if attempt.undecided is None or (attempt.alone is not None and is_empty(attempt.alone)):
            return attempt.refresh
        if attempt.is_worth_trying:
            if is_empty(attempt.undecided):
                return attempt.refresh
            attempt.failed()
    return None


def _proved(
    node: Node,
    statement: Statement | None,
    deltas: Mapping[str, pa.Table],
    given: dict[str, pa.Table],
    engine: Engine,
    cache: RefreshCache,
) -> Refresh | None:
    """The autonomous step that a proof about the statement gives, for any content of the node or for the one that it
    has, if nothing else that the node reads changed."""
    if statement is None or cache.without_autonomy or deltas.keys() & relations_of(node.plan) != {statement.relation}:
        return None
    found = cache.by_statement(node, statement)
    if found is not None:
        return found
    delta = by_content(node, statement, deltas[statement.relation], engine, cache.known)
    if delta is None:
        return None
    given[_CHANGE] = delta
    return Refresh((Stage(Given(_CHANGE, node.schema)),), AUTONOMOUS, REASON)


_CHANGE: Final = "change"


def _run(
    plan: Refresh, node: Node, given: dict[str, pa.Table], engine: Engine, unchanged: Unchanged | None
) -> tuple[pa.Table, int, frozenset[str]]:
    """The node's delta, how many rows were read for it, and the relations that kept results stood for."""
    delta, read, kept = delta_tables.no_change(node.schema), 0, frozenset[str]()
    try:
        for stage in plan.stages:
            if _is_idle(stage, given):
                delta = delta_tables.no_change(stage.plan.schema)
            else:
                over = Over(*settle(stage.plan, given, engine))
                if unchanged is not None and plan.strategy == "differential":
                    over = unchanged.over_parts(over.plan, over.given, engine)
                delta = engine.evaluate(over.plan, over.given)
                read += _rows_read(over.plan if over.kept else stage.plan, node, engine)
                kept |= over.kept
            if stage.result is not None:
                given[stage.result] = delta
    except TidemarkError as error:
        raise _named(error, node) from error
    return delta, read, kept


def _why_irrelevant(node: Node, touched: frozenset[str], network: Network, wave: Wave, cache: RefreshCache) -> str:
    """Why a change below a node does not reach it."""
    reasons = []
    for name in sorted(touched):
        unread = not wave.is_read(name, cache.interest(node, name, network))
        reasons.append("no column that it reads changed: " + name if unread else cache.influence(node, name).reason)
    return _labelled("; ".join(reasons), touched, network)


def _since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 3)


def _is_idle(stage: Stage, given: Mapping[str, pa.Table]) -> bool:
    """Whether what the stage waits for did not come, or came and makes it needless."""
    if stage.when is not None and not given[stage.when].num_rows:
        return True
    return stage.unless is not None and given[stage.unless].num_rows > 0


def _reason(plan: Refresh, touched: frozenset[str], network: Network) -> str:
    if plan.strategy == "complete":
        return plan.reason
    return f"{plan.reason}: {', '.join(_labels(touched, network))}"


def _labelled(text: str, names: frozenset[str], network: Network) -> str:
    for name in names & network.nodes.keys():
        text = text.replace(name, network.nodes[name].label)
    return text


def _labels(names: frozenset[str], network: Network) -> list[str]:
    return sorted(network.nodes[name].label if name in network.nodes else name for name in names)


def _rows_below(plan: Refresh, node: Node, engine: Engine) -> int:
    return sum(_rows_read(stage.plan, node, engine) for stage in plan.stages)


def _rows_read(plan: Plan, node: Node, engine: Engine) -> int:
    """The stored rows of relations below the node that the plan scans: what is read of them at most."""
    scanned = (part.relation for part in walk(plan) if isinstance(part, Stored))
    return sum(engine.rows(relation) for relation in scanned if relation != node.name)


def _named(error: TidemarkError, node: Node) -> TidemarkError:
    """The error with the view's name and the expressions that can raise it."""
    views = " and ".join(repr(view) for view in node.views)
    suspects = [show_expression(e) for part in walk(node.plan) for e in expressions_of(part) if can_fail(e, error.code)]
    where = f"; it may come from {' or '.join(dict.fromkeys(suspects))}" if suspects else ""
    return TidemarkError(
        error.code, f"the view {views} cannot be brought up to date: {error.message}{where}", hint=error.hint
    )
