"""Settling: what must be net before it is computed with is evaluated first.

An expression that can fail (a division, a cast) must not see entries that cancel: a row that the transaction removed,
or a pair of a deleted and an inserted row that never was. ``Net`` marks such inputs. They are evaluated by themselves,
and their net rows are given to the rest, so that no optimizer can move the failing expression below the netting.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import pyarrow as pa

from tidemark.algebra.plans import Given, Net, Plan, relations_of, transform, walk
from tidemark.engines.base import Engine


def settle(
    plan: Plan, given: Mapping[str, pa.Table], engine: Engine, unstored: Set[str] = frozenset()
) -> tuple[Plan, Mapping[str, pa.Table]]:
    """The plan without ``Net``, and what it needs given. Inputs over ``unstored`` relations are left as they are."""
    if not any(isinstance(part, Net) for part in walk(plan)):
        return plan, given
    known = dict(given)

    def replaced(part: Plan) -> Plan | None:
        if not isinstance(part, Net):
            return None
        source = transform(part.input, replaced)
        if relations_of(source) & unstored:
            return source
        name = f"net {len(known)}"
        known[name] = engine.evaluate(source, known)
        return Given(name, part.schema)

    return transform(plan, replaced), known
