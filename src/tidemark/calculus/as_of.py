"""Logical rollback: a relation at any point is what is stored, plus or minus the changes between; and plans read there.

    S_old = S_new − ΔS         and, read the other way,        S_new = S_old ⊎ ΔS

Engines store each relation as of the last committed version. A block begins at some point at or after that version
(in the middle of an open transaction there may be *prior* changes between) and spans a delta. So:

    old   = stored ⊎ prior
    new   = stored ⊎ prior ⊎ Δ
    as of an earlier version v = stored − (the log since v)

A lagging relation (a snapshot, a continual query) is brought up to date by a block that spans the versions since its
tidemark. The relations below it are stored as of the end of that block already:

    new   = stored
    old   = stored − Δ           with Δ the net log since the tidemark

Nothing is ever copied, and nothing is consolidated here: a scan yields weighted rows, perhaps several for one row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemark.algebra.plans import Given, Negate, Plan, Scan, State, Stored, empty, transform, union

_SIGNS = {State.DELTA: "Δ", State.INSERTED: "Δ+", State.DELETED: "Δ-"}


@dataclass(frozen=True)
class Block:
    """What a delta spans, as sets of relation names.

    ``changed`` relations have a delta in this block; ``prior`` ones were changed earlier in the same open
    transaction; ``unstored`` ones were created in it, so that the engine holds nothing of them yet; ``since`` ones
    are read as of an earlier version, with their log since then given. Relations ``ahead`` are stored as of the end of
    the block: their delta is the log of many versions, and their old state is what is stored without it.
    """

    changed: frozenset[str] = frozenset()
    prior: frozenset[str] = frozenset()
    unstored: frozenset[str] = frozenset()
    since: frozenset[str] = frozenset()
    ahead: frozenset[str] = frozenset()


def delta_name(relation: str, state: State = State.DELTA) -> str:
    """The name under which a relation's delta is given to the engine."""
    return f"{_SIGNS[state]}{relation}"


def prior_name(relation: str) -> str:
    return f"prior {relation}"


def log_name(relation: str) -> str:
    return f"log {relation}"


def resolve(plan: Plan, block: Block) -> Plan:
    """The plan with every scan replaced by what is stored and what is given."""
    return transform(plan, lambda p: _resolve_scan(p, block) if isinstance(p, Scan) else None)


def _resolve_scan(scan: Scan, block: Block) -> Plan:
    relation, schema = scan.relation, scan.schema
    if scan.state in _SIGNS:
        if relation not in block.changed:
            return empty(schema)
        return Given(delta_name(relation, scan.state), schema)
    parts: list[Plan] = []
    if relation not in block.unstored:
        parts.append(Stored(relation, schema))
    if relation in block.since:
        parts.append(Negate(Given(log_name(relation), schema)))
    if relation in block.prior:
        parts.append(Given(prior_name(relation), schema))
    if relation in block.changed:
        delta = Given(delta_name(relation), schema)
        if relation in block.ahead and scan.state is State.OLD:
            parts.append(Negate(delta))
        elif relation not in block.ahead and scan.state is State.NEW:
            parts.append(delta)
    return union(tuple(parts), schema)


def at(plan: Plan, state: State) -> Plan:
    """The plan with every relation read at the given state."""
    return transform(plan, lambda p: replace(p, state=state) if isinstance(p, Scan) else None)


def old(plan: Plan) -> Plan:
    """The plan evaluated before the block."""
    return at(plan, State.OLD)


def new(plan: Plan) -> Plan:
    """The plan evaluated after the block."""
    return at(plan, State.NEW)
