"""Asking triggers and ends: what they look at is what has changed since the tidemark, and the state now."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable

import pyarrow as pa

from tidemark.algebra.plans import Plan, relations_of
from tidemark.algebra.types import Schema
from tidemark.database.conditions import Moment, clock_times, holds
from tidemark.database.pairing import Key, shortest
from tidemark.database.reading import readable
from tidemark.database.standing import Standing
from tidemark.database.store import Store
from tidemark.log import deltas as delta_tables
from tidemark.network import Wave
from tidemark.network.settle import settle
from tidemark.sql.catalog import Catalog, View
from tidemark.sql.text import Source
from tidemark.sql.trigger_conditions import CHANGES, bind_when, changed_by
from tidemark.sql.trigger_reads import names_time
from tidemark.sql.triggers import OnChange, When


class Asking:
    """Asks the triggers and ends of one database. ``wave`` derives what has changed in a relation that lags,
    ``net_since`` gives the net change of any other, and ``read`` brings views up to date that are refreshed on read."""

    def __init__(
        self,
        store: Store,
        wave: Callable[[View, Standing], Wave],
        net_since: Callable[[str, int], pa.Table],
        read: Callable[[Iterable[str]], None],
    ) -> None:
        self._store, self._wave, self._net_since, self._read = store, wave, net_since, read
        self._plans: tuple[Catalog, dict[int, tuple[When, Plan]]] = (store.catalog, {})

    def is_due(self, view: View, standing: Standing, now: dt.datetime) -> bool:
        """Whether the trigger holds. If nothing at all has happened since the last time, only the clock can say so."""
        trigger = None if view.lag is None else view.lag.trigger
        if trigger is None:
            return False
        if standing.tidemark >= self._store.version and all(t > now for t in clock_times(trigger, standing.executed)):
            return False
        return holds(trigger, self._moment(view, standing, now))

    def is_over(self, view: View, standing: Standing, now: dt.datetime) -> bool:
        """Whether the end has come."""
        if view.lag is None:
            return False
        until = view.lag.until
        if until.time is not None and until.time <= now:
            return True
        if until.results is not None and standing.results >= until.results:
            return True
        return until.condition is not None and self._value(view, until.condition, None, now)

    def _moment(self, view: View, standing: Standing, now: dt.datetime) -> Moment:
        store = self._store

        def changes(leaf: OnChange | When) -> tuple[pa.Table, Key | None, Schema]:
            relation = changed_by(leaf, view, store.catalog)
            keys = store.refreshes.known.keys.get(relation.name)
            key = shortest(keys) if keys else None
            if relation.name == view.name:
                delta = self._wave(view, standing).deltas.get(view.name)
            else:
                self._read({relation.name} & store.catalog.read_through)
                delta = self._net_since(relation.name, standing.tidemark)
            return (delta_tables.no_change(relation.schema) if delta is None else delta), key, relation.schema

        return Moment(now, standing.executed, changes, lambda when, rows: self._value(view, when, rows, now))

    def _value(self, view: View, when: When, rows: pa.Table | None, now: dt.datetime) -> bool:
        store = self._store
        plan = self._plan(view, when, now)
        resolved, given = readable(plan, frozenset(store.catalog.relations), {})
        self._read(relations_of(plan) & store.catalog.read_through)
        named = {} if rows is None else {CHANGES: rows}
        found = store.engine.evaluate(*settle(resolved, {**given, **named}, store.engine))
        return bool(found.num_rows and found.column(0)[0].as_py() is True)

    def _plan(self, view: View, when: When, now: dt.datetime) -> Plan:
        """The plan of a condition; of one that does not name the time it is kept while the definitions are the same."""
        catalog = self._store.catalog
        if self._plans[0] is not catalog:
            self._plans = (catalog, {})
        known = self._plans[1].get(id(when))
        if known is not None:
            return known[1]
        source = Source(view.text, view.dialect, now)
        plan = bind_when(when, changed_by(when, view, catalog).schema, catalog, source)
        if not names_time(when.condition):
            self._plans[1][id(when)] = (when, plan)  # the condition is kept, so that nothing else takes its identity
        return plan
