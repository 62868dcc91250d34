"""Reading relations at the current point of a transaction: what is stored, overlaid with what is pending.

What a query sees inside an open transaction: what is stored and true, and the transaction's own changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

from tidemark.algebra.cache import PerPlan
from tidemark.algebra.compiled import key_of
from tidemark.algebra.plans import Plan, relations_of
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import Schema
from tidemark.calculus.as_of import Block, delta_name, resolve
from tidemark.calculus.terms import distribute
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.state.history import past
from tidemark.state.state import Store
from tidemark.storage.delta import Bag, Rows, Tables, as_rows
from tidemark.strategy.nodes import expand
from tidemark.strategy.settle import settle
from tidemark.strategy.wave import named_rows

MOST_INDEXED: Final = 10_000
"""A change of more rows is not looked through for keys."""
_NOTHING: Final[Mapping[str, pa.Table]] = {}
_NO_ROWS: Final[Bag] = {}


@dataclass
class _Index:
    """Pending rows by the values of some columns; ``waiting`` are changes that are not in it yet."""

    of: Callable[[Row], Row]
    waiting: list[Rows]
    rows: dict[Row, Bag] = field(default_factory=dict)

    def found(self, keys: Iterable[Row]) -> Bag:
        """The net change of rows with these keys."""
        while self.waiting:
            for row, weight in self.waiting.pop().bag.items():
                known = self.rows.setdefault(self.of(row), {})
                known[row] = known.get(row, 0) + weight
        return {row: weight for key in keys for row, weight in self.rows.get(key, _NO_ROWS).items() if weight}


class Pending:
    """What the statements of a transaction changed. It is netted when it is read, and not with each statement."""

    def __init__(self, deltas: Mapping[str, pa.Table] = _NOTHING) -> None:
        self._parts = {name: [change] for name, change in as_rows(deltas).items()}
        self._large = {name for name, [change] in self._parts.items() if change.count > MOST_INDEXED}
        self._indexes: dict[tuple[str, tuple[int, ...]], _Index] = {}

    def add(self, table: str, change: Rows) -> None:
        if not change.count:
            return
        self._parts.setdefault(table, []).append(change)
        if change.count > MOST_INDEXED:
            self._large.add(table)
        for (indexed, _), index in self._indexes.items():
            if indexed == table:
                index.waiting.append(change)

    def __bool__(self) -> bool:
        """Whether anything is pending that is not undone."""
        return bool(self._parts) and bool(self.net())

    def net(self) -> Tables:
        """The net change of each table that has one."""
        for name, parts in tuple(self._parts.items()):
            if len(parts) > 1:
                netted = Rows.together(parts)
                if netted.count:
                    self._parts[name] = [netted]
                else:
                    del self._parts[name]
        return Tables({name: change for name, [change] in self._parts.items()})

    def near(self, table: str, schema: Schema, columns: tuple[int, ...], keys: Sequence[Row]) -> Rows | None:
        """The same as far as rows are concerned that have one of different keys in some columns. What is said of others
        is left out, or not."""
        if table not in self._parts:
            return None
        if table in self._large:
            return self.net().rows.get(table)
        index = self._indexes.get((table, columns))
        if index is None:
            index = self._indexes[table, columns] = _Index(key_of(columns), list(self._parts[table]))
        found = index.found(keys)
        return Rows(schema, bag=found) if found else None


def expanded(plan: Plan, catalog: Catalog, stored: Set[str]) -> Plan:
    """The plan with the views that are not stored yet (created in this transaction) as their definitions."""
    if all(
        name in stored for name in relations_of(plan)
    ):  # as ever, but in the transaction that creates them: no look at all views
        return plan
    views = (*catalog.materialized_views, *catalog.lagging_views)
    fresh = {v.name: v.plan for v in views if v.name not in stored}
    return expand(plan, fresh) if fresh else plan


def readable(plan: Plan, stored: Set[str], deltas: Mapping[str, pa.Table]) -> tuple[Plan, Mapping[str, pa.Table]]:
    """The resolved plan, with what is pending laid over what is stored, and the deltas to give with it."""
    read = relations_of(plan)
    changed = frozenset(name for name in read if name in deltas)
    unstored = frozenset(name for name in read if name not in stored)
    rows = as_rows(deltas)
    return _over(plan, changed, unstored), named_rows({name: rows[name] for name in changed})


def _over(plan: Plan, changed: frozenset[str], unstored: frozenset[str]) -> Plan:
    known = _resolved(plan)
    resolved = known.get((changed, unstored))
    if resolved is None:
        resolved = known[changed, unstored] = distribute(resolve(plan, Block(changed=changed, unstored=unstored)))
    return resolved


def _nothing_yet(plan: Plan) -> dict[tuple[frozenset[str], frozenset[str]], Plan]:
    return {}


_resolved: Final = PerPlan(_nothing_yet)
"""What a plan becomes for the relations of it that changed, and those that are not stored."""


def first_principle(plan: Plan, catalog: Catalog) -> Plan:
    """A view's definition over base tables alone."""
    return expand(plan, {view.name: view.plan for view in catalog.materialized_views})


class Point(Protocol):
    """A point of an open transaction: its definitions and its net changes so far."""

    store: Store
    catalog: Catalog

    @property
    def pending(self) -> Mapping[str, pa.Table]: ...

    def derived_deltas(self) -> Mapping[str, pa.Table]: ...


def seen_near(
    plan: Plan, table: str, store: Store, catalog: Catalog, change: Rows | None
) -> tuple[Plan, dict[str, Rows]]:
    """The same for a plan that reads one table by key, and no view: over what is stored of it and, if there is any, the
    change of rows near these keys. The plan is not settled."""
    changed = frozenset() if change is None else frozenset({table})
    resolved = _over(plan, changed, frozenset() if table in store.stored_of(catalog) else frozenset({table}))
    return resolved, {} if change is None else {delta_name(table): change}


def seen(
    plan: Plan, point: Point, named: Mapping[str, pa.Table], unrefreshed: frozenset[str]
) -> tuple[Plan, Mapping[str, pa.Table]]:
    """The plan over what is stored and pending, and over what is given under a name. Views are brought up to date
    only if the plan reads one; those that lag are ``unrefreshed``, and are seen through their definitions."""
    store, catalog = point.store, point.catalog
    stored = store.stored_of(catalog)
    if unrefreshed:
        stored = stored - unrefreshed
    plan = expanded(plan, catalog, stored)
    derived = any(isinstance(catalog.get(name), View) for name in relations_of(plan))
    resolved, given = readable(plan, stored, point.derived_deltas() if derived else point.pending)
    rows = {**as_rows(given), **as_rows(named), **as_rows(past(plan, store))}
    return settle(resolved, Tables(rows), store.reading(catalog))
