"""What a query sees inside an open transaction: what is stored and true, and the transaction's own changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from tidemark.algebra.plans import Plan, relations_of
from tidemark.database.history import past
from tidemark.database.reading import expanded, readable
from tidemark.database.store import Store
from tidemark.network.settle import settle
from tidemark.sql.catalog import Catalog, View


class Point(Protocol):
    """A point of an open transaction: its definitions and its net changes so far."""

    store: Store
    catalog: Catalog
    pending: dict[str, pa.Table]

    def derived_deltas(self) -> Mapping[str, pa.Table]: ...


def seen(plan: Plan, point: Point, named: Mapping[str, pa.Table]) -> tuple[Plan, Mapping[str, pa.Table]]:
    """The plan over what is stored and pending, and over what is given under a name. Views are brought up to date
    only if the plan reads one."""
    store, catalog = point.store, point.catalog
    stored = store.stored_of(catalog)
    if catalog.lagging_views:
        stored = _refreshed(relations_of(plan), stored, point)
    plan = expanded(plan, catalog, stored)
    derived = any(isinstance(catalog.get(name), View) for name in relations_of(plan))
    resolved, given = readable(plan, stored, point.derived_deltas() if derived else point.pending)
    return settle(resolved, {**given, **named, **past(plan, store)}, store.reading(catalog))


def _refreshed(names: frozenset[str], stored: frozenset[str], point: Point) -> frozenset[str]:
    """What is stored and true: views that are refreshed on read are, unless this transaction has changes of its
    own, which then see them through their definitions."""
    read = point.catalog.read_through & names
    if not read:
        return stored
    if point.pending or point.catalog is not point.store.catalog:
        return stored - read
    point.store.before_read(read)
    return stored
