"""Whether triggers and ends of lagging relations hold: what they look at is what has changed since the tidemark, and
the state now.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.plans import Plan, relations_of
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.network import Wave
from tidemark.sql.bind.triggers import CHANGES, bind_when, changed_by, changes_schema, is_of_changes, names_time
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.sql.parse.lagging import At, Both, Either, Every, OnChange, Period, Trigger, When, leaves
from tidemark.sql.parse.text import Source
from tidemark.state.moved_pairs import net_pairs_since
from tidemark.state.pairs import Key, Pairs, paired, shortest
from tidemark.state.point import readable
from tidemark.state.state import Store
from tidemark.state.tidemarks import Standing
from tidemark.storage import delta as delta_tables
from tidemark.strategy.settle import settle


@dataclass(frozen=True)
class Changed:
    """The net change of a relation, with a key of it if there is one; ``pairs`` are its rows before and after, if the
    key does not tell which became which."""

    delta: pa.Table
    key: Key | None
    schema: Schema
    pairs: Pairs | None = None


@dataclass(frozen=True)
class Moment:
    """What a trigger is asked about: the time, the last time it held, and ways to what has changed since.

    ``changes`` gives the net change since then, of the query itself or of the relation that a leaf names; ``value``
    the value of a condition over given changes.
    """

    now: dt.datetime
    last: dt.datetime
    changes: Callable[[OnChange | When], Changed]
    value: Callable[[When, pa.Table | None], bool]


def holds(trigger: Trigger, moment: Moment) -> bool:
    """Whether the trigger says that the time has come. What costs nothing is asked first.

    Times that passed while nobody was there to see them count as one: a trigger is due if one of its times lies
    between the last execution and now.
    """
    match trigger:
        case At(cron=cron):
            due = cron.after(moment.last)
            return due is not None and due <= moment.now
        case Every(period=period):
            return later(moment.last, period) <= moment.now
        case OnChange(rows=rows):
            return changed_rows(moment.changes(trigger), rows) >= rows
        case When() if is_of_changes(trigger):
            changed = side_by_side(moment.changes(trigger))
            return bool(changed.num_rows) and moment.value(trigger, changed)
        case When():
            return moment.value(trigger, None)
        case Both(parts=parts):
            return all(holds(part, moment) for part in _cheap_first(parts))
        case Either(parts=parts):
            return any(holds(part, moment) for part in _cheap_first(parts))
    raise TypeError(f"no trigger: {trigger!r}")


def clock_times(trigger: Trigger | None, last: dt.datetime) -> list[dt.datetime]:
    """The times after the last one at which the clock makes a part of a trigger hold, for each part that asks it. From
    then on it holds."""
    found = []
    for leaf in leaves(trigger):
        match leaf:
            case At(cron=cron):
                found += [time for time in (cron.after(last),) if time is not None]
            case Every(period=period):
                found.append(later(last, period))
    return found


def later(moment: dt.datetime, period: Period) -> dt.datetime:
    """A moment and an interval: the months first, to the last day of a shorter month, then the rest.

    >>> later(dt.datetime(2027, 1, 31), Period(1, dt.timedelta(days=1), "1 month 1 day"))
    datetime.datetime(2027, 3, 1, 0, 0)

    What lies beyond the calendar comes never, which is its end.

    >>> later(dt.datetime(2027, 1, 31), Period(12 * 9000, dt.timedelta(0), "9000 years"))
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
    """
    try:
        return _moved(moment, period)
    except (ValueError, OverflowError):
        return dt.datetime.max


def _moved(moment: dt.datetime, period: Period) -> dt.datetime:
    if period.months:
        years, month = divmod(moment.month - 1 + period.months, 12)
        first = moment.replace(year=moment.year + years, month=month + 1, day=1)
        after = (first.replace(day=28) + dt.timedelta(days=4)).replace(day=1)
        last_day = (after - dt.timedelta(days=1)).day
        moment = first.replace(day=min(moment.day, last_day))
    return moment + period.rest


def side_by_side(changed: Changed) -> pa.Table:
    """A net delta as rows before and after: DRA's differential relation, the outer join of what went and what came by
    identity. Without a key nothing can be paired."""
    delta, key, schema = changed.delta, changed.key, changed.schema
    stamp = pa.repeat(pa.scalar(0, pa.int64()), delta.num_rows)
    width = delta.num_columns - 1
    if key is None:
        key = tuple(range(width))  # whole rows: a net delta has none twice
    pairs = changed.pairs or paired(delta.add_column(width, VERSION, stamp), schema, key)
    columns = [*_fields(pairs.old, schema), *_fields(pairs.new, schema)]
    weights = pa.repeat(pa.scalar(1, pa.int64()), len(pairs.old))
    wanted = changes_schema(schema).weighted
    return delta_tables.net(pa.Table.from_arrays([*columns, weights], names=wanted.names).cast(wanted))


def _fields(structs: pa.StructArray, schema: Schema) -> list[pa.Array]:
    return [pc.struct_field(structs, [i]) for i in range(len(schema))]


def changed_rows(changed: Changed, enough: int) -> int:
    """How many rows came, went or were modified; a modified one is one row, where a key tells."""
    if changed.pairs is not None:
        return len(changed.pairs.old)
    entries = delta_tables.size(changed.delta)
    if changed.key is None or not changed.delta.num_rows or entries < enough:
        return entries
    return int(pc.sum(side_by_side(changed).column(WEIGHT)).as_py())


def _cheap_first(parts: tuple[Trigger, ...]) -> list[Trigger]:
    return sorted(parts, key=lambda part: 0 if isinstance(part, At | Every) else 1)


def earlier(moment: dt.datetime, period: Period) -> dt.datetime:
    """A moment without an interval; a month counts as 31 days, so that it is not too late."""
    try:
        return moment - period.rest - dt.timedelta(days=31 * period.months)
    except OverflowError:
        return dt.datetime.min


class Asking:
    """Asks the triggers and ends of one database. ``wave`` derives what has changed in a lagging relation,
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

        def changes(leaf: OnChange | When) -> Changed:
            relation = changed_by(leaf, view, store.catalog)
            keys = store.refreshes.known.keys.get(relation.name)
            key, pairs = shortest(keys) if keys else None, None
            if relation.name == view.name:
                delta = self._wave(view, standing).deltas.get(view.name)
            else:
                self._read({relation.name} & store.catalog.read_through)
                delta = self._net_since(relation.name, standing.tidemark)
                pairs = net_pairs_since(store, relation, standing.tidemark)
            delta = delta_tables.no_change(relation.schema) if delta is None else delta
            return Changed(delta, key, relation.schema, pairs)

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
