"""The ladder of strategies: how one node is brought up to date for one block, by the cheapest step that is sound.

The rungs stand in ``LADDER``, cheapest first (BLAKELEY 7.2). Each takes a visit and says what came of it, or None if
it cannot serve; the last one always can. Recursion and rederivation are ways of the differential rung.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from tidemark.algebra.plans import Fixpoint, Given, Plan, relations_of
from tidemark.calculus.as_of import Block
from tidemark.datalog.fixpoint import TooFar
from tidemark.engines.limits import EngineLimits
from tidemark.errors import TidemarkError
from tidemark.storage.delta import Rows, Tables
from tidemark.strategy.autonomous import REASON, by_content
from tidemark.strategy.cache import MOST_JOINED, RefreshCache
from tidemark.strategy.cost import Costs, costs, may_be_evaluated_anew
from tidemark.strategy.graph import Network
from tidemark.strategy.irrelevant import can_add
from tidemark.strategy.nodes import (
    AUTONOMOUS,
    COMPLETE,
    DIFFERENTIAL,
    INCREMENTAL,
    IRRELEVANT,
    REPLACED,
    UNTOUCHED,
    WHOLE,
    Node,
    NodeKind,
    Refresh,
    Stage,
)
from tidemark.strategy.recursion.rederive import rederived
from tidemark.strategy.visit import Done, Visit, evaluated, named, rows_below, run
from tidemark.strategy.wave import Step, Wave

Rung = Callable[[Visit], Done | None]


def untouched(visit: Visit) -> Done | None:
    """Nothing that the node reads changed. The front of a wave does not come to such nodes, but for those that begin to
    mean something else."""
    if visit.touched or visit.node.strategy == REPLACED:
        return None
    return Done(Rows(visit.node.schema, bag={}), 0, UNTOUCHED, "nothing that it reads changed")


def afresh(visit: Visit) -> Done | None:
    """The whole node again, without a look at what of a change that was written ahead matters to it."""
    node, wave = visit.node, visit.wave
    if not visit.is_ahead or not may_be_evaluated_anew(node, visit.network):
        return None
    found = _costs_at_most(visit)
    if node.name not in wave.anew and not found.are_much_dearer:
        return None
    return _anew(replace(visit, is_anew=True), found)._replace(is_looked_at=False)


def _costs_at_most(visit: Visit) -> Costs:
    """What both ways cost if all of the change matters."""
    rows, limits = visit.wave.rows, visit.engine.limits
    plan = visit.cache.get(visit.node, visit.node.influents.intersection(rows), rows, limits)
    changed = sum(rows[name].count for name in visit.touched)
    return costs(visit.node, plan, changed, visit.engine, is_ahead=True)


def irrelevant(visit: Visit) -> Done | None:
    """What changed cannot matter to the node: not in the columns that it reads, nor in rows that can reach it."""
    if visit.is_whole or (visit.changed and not _unwanted(visit)):
        return _impossible(visit)
    reasons = []
    for name in sorted(visit.touched):
        unread = not visit.wave.is_read(name, visit.interest(name))
        reasons.append(f"no column that it reads changed: {name}" if unread else _filtered(visit, name))
    reason, nodes = "; ".join(reasons), visit.network.nodes
    for name in visit.touched & nodes.keys():
        reason = reason.replace(name, nodes[name].label)
    return Done(Rows(visit.node.schema, bag={}), 0, IRRELEVANT, reason)


def _filtered(visit: Visit, name: str) -> str:
    if visit.node.kind is NodeKind.SHARED:
        return f"no changed row of {name} can matter to anything that reads it"
    return visit.cache.influence(visit.node, name).reason


def _impossible(visit: Visit) -> Done | None:
    """Of what has no rows none can go, and some changes can add none."""
    if visit.is_whole or not visit.node.is_forbidden:
        return None
    if _may_add(visit):
        return None
    reason = f"it holds, and {visit.labels} changed in a way that can add no row to what it forbids"
    return Done(Rows(visit.node.schema, bag={}), 0, IRRELEVANT, reason)


def _may_add(visit: Visit) -> bool:
    return can_add(visit.node.plan, {name: visit.matter.rows[name] for name in visit.changed})


def _unwanted(visit: Visit) -> bool:
    """Whether all that share a node can do without its change."""
    if visit.node.kind is not NodeKind.SHARED:
        return False
    changed = {name: visit.matter.rows[name] for name in visit.changed}
    return visit.cache.readers_without(visit.node, changed, visit.network)


def _spared(visit: Visit) -> Done | None:
    """Nothing of a shared node is stored, so its change always has to be read for: it is not derived if each of those
    that read it can do without, and left for later if only some do that have to be asked first."""
    node, network = visit.node, visit.network
    if visit.is_asked:
        return None
    if visit.is_ahead and _is_better_anew(visit):
        return Done(Rows(node.schema, bag={}), 0, UNTOUCHED, SPARED)
    if len(network.reading.get(node.name, ())) > 2 * MOST_JOINED:
        return None
    asking = network.asking(node.name)
    others = [reader for reader in network.readers(node.name) if not reader.is_asked]
    if len(asking) > MOST_JOINED or len(others) > MOST_JOINED:
        return None
    steps = dict[str, Refresh]()
    if not all(_does_without(visit, reader, steps) for reader in others):
        return None
    visit.wave.alone.update(steps)
    if asking:
        visit.wave.waiting[node.name] = node
    return Done(Rows(node.schema, bag={}), 0, UNTOUCHED if asking else AUTONOMOUS, SPARED)


def _is_better_anew(shared: Visit) -> bool:
    """Whether all that share a node are better evaluated as a whole, than by a change that is derived for them."""
    network, prices = shared.network, shared.engine.limits.prices_ahead
    if len(network.reading.get(shared.node.name, ())) > MOST_JOINED:
        return False
    readers = network.readers(shared.node.name)
    if not all(may_be_evaluated_anew(reader, network) for reader in readers):
        return False
    others = [_costs_at_most(replace(shared, node=reader)) for reader in readers if reader.name not in shared.wave.anew]
    if not _costs_at_most(shared).beside(others, prices.stage, prices.changed):
        return False
    shared.wave.anew.update(reader.name for reader in readers)
    return True


SPARED: Final = "each that reads it can do without its change"


def _does_without(shared: Visit, reader: Node, steps: dict[str, Refresh]) -> bool:
    """Whether a node can do without the change of one that it shares with others: it is proved that what changed below
    means nothing to it, or it follows from what is stored of it. The ``steps`` are told by which it does then.

    The proof of relevance is about rows, whatever else changes; the others hold if nothing that the node reads is still
    to be visited.
    """
    if reader.strategy in WHOLE:
        return False
    visit = replace(shared, node=reader, is_beyond=True)
    if reader.name in visit.wave.alone or visit.changed.isdisjoint(relations_of(shared.node.plan)):
        return True
    nodes = shared.network.nodes
    below = (nodes[name] for name in relations_of(reader.plan) if name in nodes)
    if any(nodes.place(node) > nodes.place(shared.node) for node in below):
        return False
    if reader.is_forbidden and not _may_add(visit):
        return True
    if _recurs(visit):
        return False
    found = _attempted(visit) or (_by_statement(visit) if _is_worth_a_proof(shared) else None)
    if found is not None:
        steps[reader.name] = found
    return found is not None


def beside(shared: Node, network: Network, wave: Wave) -> list[str]:
    """Those who read a shared node of which no change was derived, and are to be visited all the same: they follow
    alone, or are asked later."""
    is_left = shared.name in wave.waiting
    if not (is_left or wave.alone or wave.anew):
        return []
    readers = network.readers(shared.name)
    return [reader.name for reader in readers if wave.is_beside_shared(reader.name) or (is_left and reader.is_asked)]


def asked_in_vain(visit: Visit) -> bool:
    """Whether it is clear without deriving its change that a wave adds no row to a node that waits to be asked."""
    started = time.perf_counter()
    visit = replace(visit, is_beyond=bool(visit.node.shared))
    done = irrelevant(visit)
    if done is None:
        if _may_add(visit):
            return False
        reason = f"{visit.labels} changed in a way that can add no row to it"
        done = Done(Rows(visit.node.schema, bag={}), 0, IRRELEVANT, reason)
    took, node = _milliseconds_since(started), visit.node
    visit.wave.steps.append(Step(node.label, IRRELEVANT, done.reason, visit.rows_in, 0, 0, took, visit.rows_in))
    return True


def autonomous(visit: Visit) -> Done | None:
    """The change and what is stored of the node are enough: nothing below it is read."""
    if visit.is_whole or _recurs(visit):
        return None
    if visit.node.kind is NodeKind.SHARED:
        return _spared(visit)
    if visit.is_ahead and _costs_too_much(visit):
        return None
    if visit.node.name in visit.wave.alone:
        return run(visit, visit.wave.alone[visit.node.name])
    if visit.refresh.strategy == AUTONOMOUS:
        return run(visit, visit.refresh)
    if visit.refresh.strategy != DIFFERENTIAL:
        return None
    found = _attempted(visit)
    if found is not None:
        return run(visit, found)
    return _proved(visit) if _is_worth_a_proof(visit) else None


def _is_worth_a_proof(visit: Visit) -> bool:
    """Whether the differentials may read so much that it is worth while to look for a proof that spares it: at most all
    that is below the node, and about what they read the last time where they look up what they meet."""
    known, least = visit.cache.ways[visit.node.name].read.get(visit.changed), visit.engine.limits.worth_a_proof
    if known is not None and known * max(_changed(visit), 1) < least:
        return False
    return rows_below(visit.refresh, visit.node, visit.engine) >= least


def differential(visit: Visit) -> Done | None:
    """The differentials of what changed, over what is stored below the node."""
    if _costs_too_much(visit):
        return None
    found = next((done for way in WAYS if (done := way(visit)) is not None), None)
    if found is not None:
        visit.cache.ways[visit.node.name].read[visit.changed] = found.read / max(_changed(visit), 1)
    return found


def _changed(visit: Visit) -> int:
    return sum([visit.matter.rows[name].count for name in visit.changed])


def complete(visit: Visit) -> Done | None:
    """The whole node again, against what is stored of it."""
    if visit.refresh.strategy == COMPLETE:
        return run(visit, visit.refresh)
    return _anew(visit, _costs(visit))


def _anew(visit: Visit, found: Costs) -> Done:
    plan = visit.cache.anew(visit.node, visit.matter.rows)
    return run(visit, replace(plan, reason=found.reason))


def _costs_too_much(visit: Visit) -> bool:
    """Whether the differentials of the node cost more than evaluating it anew, which it allows."""
    if not may_be_evaluated_anew(visit.node, visit.network):
        return False
    ways = (DIFFERENTIAL, AUTONOMOUS) if visit.is_ahead else (DIFFERENTIAL,)
    return visit.refresh.strategy in ways and _costs(visit).are_dearer


def _costs(visit: Visit) -> Costs:
    return costs(visit.node, visit.refresh, _changed(visit), visit.engine, is_ahead=visit.is_ahead)


LADDER: Final[tuple[Rung, ...]] = (untouched, afresh, irrelevant, autonomous, differential, complete)


def climb(visit: Visit) -> None:
    """Bring the node up to date by the first rung that serves, and note in the wave which that was."""
    started = time.perf_counter()
    done = next(done for rung in LADDER if (done := rung(visit)) is not None)
    node, wave = visit.node, visit.wave
    if done.delta.count:
        wave.rows[node.name] = done.delta
    wave.strategies[node.name] = done.strategy
    if done.strategy != UNTOUCHED:
        rows_in, rows_out = visit.rows_in, done.delta.size
        filtered = rows_in if done.strategy == IRRELEVANT else visit.rows_filtered if done.is_looked_at else 0
        took = _milliseconds_since(started)
        wave.steps.append(
            Step(node.label, done.strategy, done.reason, rows_in, rows_out, done.read, took, filtered, done.rederived)
        )


def within_reach(
    name: str, network: Network, wave: Wave, cache: RefreshCache, limits: EngineLimits
) -> Iterable[str] | None:
    """The nodes that read a changed relation and to which the change can matter, where many read it; None for all of
    them where few do. One step stands for all others: they need no visit to be found irrelevant."""
    started = time.perf_counter()
    if any(rows.is_by_reference for rows in wave.rows.values()):
        return None
    if network.is_shared(name):
        found = cache.readers_reached(network.nodes[name], wave.rows, network)
    else:
        finder = cache.finder(name, network, limits)
        found = None if finder is None else finder.among(wave.deltas[name])
    if found is None:
        return None
    others = len(network.reading[name]) - len(found)
    if others:
        rows, took = wave.rows[name].size, _milliseconds_since(started)
        reason = f"found by their filters: no changed row of {name} can matter to them"
        wave.steps.append(Step(f"{others} other nodes", IRRELEVANT, reason, rows, 0, 0, took, rows))
    return found


def _milliseconds_since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 3)


def _recurs(visit: Visit) -> bool:
    """Whether the node follows by rules."""
    node = visit.node
    return node.rules is not None or (isinstance(node.plan, Fixpoint) and node.is_stored and not visit.is_whole)


def _attempted(visit: Visit) -> Refresh | None:
    """The first autonomous step that is right for this change."""

    def is_empty(plan: Plan) -> bool:
        return not evaluated(plan, visit.given, visit.engine).count

    limits = visit.engine.limits
    for attempt in visit.cache.attempts(visit.node, visit.changed, visit.matter.rows, limits):
        if attempt.undecided is None or (attempt.alone is not None and is_empty(attempt.alone)):
            return attempt.refresh
        if attempt.is_worth_trying:
            if is_empty(attempt.undecided):
                return attempt.refresh
            attempt.failed()
    return None


def _proved(visit: Visit) -> Done | None:
    """The autonomous step that a proof about the statement gives, for any content of the node or for the one that it
    has, if nothing else that the node reads changed."""
    node, statement, rows = visit.node, visit.wave.statement, visit.matter.rows
    if statement is None or not _is_all_that_matters(visit):
        return None
    found = _by_statement(visit)
    if found is not None:
        return run(visit, found)
    if rows[statement.relation].is_by_reference:
        return None
    delta = by_content(node, statement, rows[statement.relation].table, visit.engine, visit.cache.known)
    if delta is None:
        return None
    return run(visit, Refresh((Stage(Given(_CHANGE, node.schema)),), AUTONOMOUS, REASON), {_CHANGE: Rows.of(delta)})


def _by_statement(visit: Visit) -> Refresh | None:
    """The autonomous step that follows from the statement for any content of the node."""
    statement = visit.wave.statement
    if statement is None or not _is_all_that_matters(visit):
        return None
    return visit.cache.by_statement(visit.node, statement)


def _is_all_that_matters(visit: Visit) -> bool:
    """Whether nothing matters to the node but what the statement did."""
    statement, reads = visit.wave.statement, relations_of(visit.node.plan)
    if statement is None or visit.cache.without_autonomy:
        return False
    return visit.matter.rows.keys() & reads == {statement.relation}


_CHANGE: Final = "change"


def rederivation(visit: Visit) -> Done | None:
    """The change of a recursive view that is not stored, by rederivation on demand; None if that goes too far."""
    rules, cache, wave = visit.node.rules, visit.cache, visit.wave
    if rules is None:
        return None
    key = (id(rules.program), visit.changed)
    read = made = 0
    try:
        if key not in wave.rederivations:
            block = Block(changed=visit.changed, unstored=cache.unstored, ahead=cache.ahead)
            wave.rederivations[key] = found = rederived(
                rules, block, cache.known.keys, Tables(visit.given), visit.engine
            )
            read, made = found.read, found.rederived  # counted with the view that was first
    except TooFar:
        return None
    except TidemarkError as error:
        raise named(error, visit.node) from error
    delta = wave.rederivations[key].deltas[rules.predicate]
    return Done(delta, read, DIFFERENTIAL, f"rederivation on demand: {visit.labels}", made)


def recursion(visit: Visit) -> Done | None:
    """The change of a recursion, which is found for all members of its fixpoint at once."""
    node, plan, wave = visit.node, visit.node.plan, visit.wave
    if not isinstance(plan, Fixpoint) or node.rules is not None or not _recurs(visit):
        return None
    key = plan.of(plan.members[0][0]) if node.kind is not NodeKind.VIEW else plan
    read = 0  # counted with the member that was first
    if key not in wave.recursions:
        # Of views that begin in this transaction nothing has to be brought up to date.
        served = [visit.network.nodes[view] for view in node.views if view in visit.network.nodes]
        at_any_cost = bool(served) and all(view.strategy == INCREMENTAL for view in served)
        try:
            following = visit.cache.recursion(node, plan, visit.changed, visit.network)
            wave.recursions[key] = following.follow(Tables(visit.given), visit.engine, at_any_cost=at_any_cost)
        except TidemarkError as error:
            raise named(error, node) from error
        read = wave.recursions[key].read
    found = wave.recursions[key]
    reason = found.reason if found.strategy == COMPLETE else f"{found.reason}: {visit.labels}"
    return Done(found.deltas[plan.predicate], read, found.strategy, reason)


def differentials(visit: Visit) -> Done | None:
    """The plans of the calculus, unless they would take longer than the whole does."""
    return None if visit.refresh.strategy == COMPLETE else run(visit, visit.refresh)


WAYS: Final[tuple[Rung, ...]] = (rederivation, recursion, differentials)
"""The ways of the differential rung."""
