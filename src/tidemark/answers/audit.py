"""AUDIT: what is stored against the definition, evaluated on the base tables (first principle).

Engines are not trusted: the definition is evaluated as it was written, in another way than it was filled and is kept
true (``Engine.plainly``), so that what is wrong there is not wrong here alike.
"""

from __future__ import annotations

from collections.abc import Callable, Set

import pyarrow as pa

from tidemark.algebra.approximate import RELATIVE, RELATIVE_OF_REAL, are_close
from tidemark.algebra.functions import canonical
from tidemark.algebra.history import as_of
from tidemark.algebra.plans import Negate, Plan, Stored, union
from tidemark.calculus.as_of import Block, resolve
from tidemark.calculus.terms import distribute
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import View
from tidemark.state.history import past
from tidemark.state.point import first_principle
from tidemark.state.state import Store
from tidemark.state.tidemarks import Standing
from tidemark.storage import delta as deltas
from tidemark.strategy.settle import settle


def audit(view: View, store: Store, standing_of: Callable[[str], Standing]) -> pa.Table:
    """The rows whose stored weight differs from what it should be, with the difference.

    A lagging relation is compared with its definition evaluated on the relations below as they were at its tidemark.
    """
    if view.external:
        return deltas.no_change(view.schema)  # nothing is stored that could differ
    stored = Stored(view.name, view.schema)
    if view.lag is None:
        expected = resolve(first_principle(view.plan, store.catalog), Block())
        plan, given = union((stored, Negate(expected)), view.schema), dict[str, pa.Table]()
    else:
        plan = distribute(union((stored, Negate(_at_tidemark(view, standing_of(view.name)))), view.schema))
        given = past(plan, store)
    with store.engine.plainly() as plain:
        found = plain.evaluate(*settle(plan, given, plain))
    return _without_close(found, view.approximate) if view.approximate else found


def _at_tidemark(view: View, standing: Standing) -> Plan:
    if standing.invalid:
        what = f"{view.name!r} cannot be compared with its definition as of version {standing.tidemark}"
        raise TidemarkError("version", f"{what}: the log was cut", hint=f"REFRESH {view.name} first")
    return as_of(view.plan, standing.tidemark)


def _without_close(found: pa.Table, approximate: Set[int]) -> pa.Table:
    """The differences without pairs that differ in approximate columns only, and there by less than the tolerance."""
    exact = [i for i in range(found.num_columns - 1) if i not in approximate]
    reals = frozenset(i for i in approximate if pa.types.is_float32(found.schema.types[i]))
    entries = list(zip(*(map(canonical, column.to_pylist()) for column in found.columns), strict=True))
    expected: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for position, entry in enumerate(deltas.expanded_positions(found)):
        if entries[entry][-1] < 0:
            expected.setdefault(tuple(entries[entry][i] for i in exact), []).append((position, entry))
    kept: list[tuple[int, int]] = []
    for entry in deltas.expanded_positions(found):
        if entries[entry][-1] < 0:
            continue
        candidates = expected.get(tuple(entries[entry][i] for i in exact), [])
        match = next((c for c in candidates if _close(entries[entry], entries[c[1]], approximate, reals)), None)
        if match is None:
            kept.append((entry, 1))
        else:
            candidates.remove(match)
    kept += [(entry, -1) for waiting in expected.values() for _, entry in waiting]
    rows = found.take(pa.array([entry for entry, _ in kept], pa.int64())).select(range(found.num_columns - 1))
    weights = pa.array([weight for _, weight in kept], pa.int64())
    return deltas.net(rows.append_column(found.schema.names[-1], weights))


def _close(left: tuple[object, ...], right: tuple[object, ...], approximate: Set[int], reals: Set[int]) -> bool:
    return all(are_close(left[i], right[i], RELATIVE_OF_REAL if i in reals else RELATIVE) for i in approximate)
