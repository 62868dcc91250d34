"""Which instances a rule fires for.

    strict      Σ weights of the instance before the block = 0,  and > 0 after it
    nervous     a derivation of the instance was added in the block

An instance is identified by some columns of the condition; ``condition`` has its rows once each. Of a strict rule those
are all rows of the instance: before the block there was none. For a nervous one they are the rows that were added.
"""

from __future__ import annotations

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import Given, Plan
from tidemark.algebra.types import Schema
from tidemark.calculus.restrict import restrict
from tidemark.engines.reference.arrow import from_bag, to_bag
from tidemark.log import deltas as delta_tables
from tidemark.passes import prepare
from tidemark.rules.blocks import Span

INSTANCES = "instances"
Identity = tuple[int, ...]
Row = tuple[Value, ...]


def became_true(plan: Plan, identity: Identity, change: pa.Table, span: Span) -> pa.Table | None:
    """The rows of the instances that the block makes true; None if there are none."""
    if not delta_tables.inserted(change).num_rows:
        return None
    rows = to_bag(change)
    sums: dict[Row, int] = {}
    for row, weight in rows.items():
        instance = tuple(row[i] for i in identity)
        sums[instance] = sums.get(instance, 0) + weight
    candidates = {instance for instance, weight in sums.items() if weight > 0}
    if not candidates:
        return None
    was_true = _instances(span.before(*_restricted(plan, identity, candidates)), identity)
    fired = candidates - was_true
    found = {row: 1 for row, weight in rows.items() if weight > 0 and tuple(row[i] for i in identity) in fired}
    return from_bag(found, plan.schema) if found else None


def derived_anew(schema: Schema, change: pa.Table) -> pa.Table | None:
    """The rows of which a derivation was added; the change has further columns, which tell derivations apart."""
    added = delta_tables.inserted(change)
    if not added.num_rows:
        return None
    width = len(schema)
    return from_bag({row[:width]: 1 for row in to_bag(added)}, schema)


def still_true(plan: Plan, identity: Identity, rows: pa.Table, span: Span) -> pa.Table | None:
    """The rows that the instances of the given ones have now; None if none of them is true any more."""
    instances = {tuple(row[i] for i in identity) for row in to_bag(rows)}
    found = to_bag(span.after(*_restricted(plan, identity, instances)))
    kept = {row: 1 for row, weight in found.items() if weight > 0}
    return from_bag(kept, plan.schema) if kept else None


def _restricted(plan: Plan, identity: Identity, instances: set[Row]) -> tuple[Plan, dict[str, pa.Table]]:
    """The plan's rows of the given instances."""
    schema = Schema(tuple(plan.schema[i] for i in identity))
    keys = from_bag(dict.fromkeys(instances, 1), schema)
    return restrict(prepare(plan), Given(INSTANCES, schema), identity), {INSTANCES: keys}


def _instances(rows: pa.Table, identity: Identity) -> set[Row]:
    sums: dict[Row, int] = {}
    for row, weight in to_bag(rows).items():
        instance = tuple(row[i] for i in identity)
        sums[instance] = sums.get(instance, 0) + weight
    return {instance for instance, weight in sums.items() if weight > 0}
