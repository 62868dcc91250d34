"""Whether the trigger of something that lags says that its time has come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.database.pairing import Key, paired
from tidemark.log import deltas as delta_tables
from tidemark.sql.trigger_conditions import changes_schema, is_of_changes
from tidemark.sql.triggers import At, Both, Either, Every, OnChange, Period, Trigger, When, leaves


@dataclass(frozen=True)
class Moment:
    """What a trigger is asked about: the time, the last time it held, and ways to what has changed since.

    ``changes`` gives the net change since then, of the query itself or of the relation that a leaf names, with a key
    of it if there is one; ``value`` the value of a condition over given changes.
    """

    now: dt.datetime
    last: dt.datetime
    changes: Callable[[OnChange | When], tuple[pa.Table, Key | None, Schema]]
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
            delta, key, schema = moment.changes(trigger)
            return changed_rows(delta, key, schema, rows) >= rows
        case When() if is_of_changes(trigger):
            delta, key, schema = moment.changes(trigger)
            return bool(delta.num_rows) and moment.value(trigger, side_by_side(delta, key, schema))
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


def side_by_side(delta: pa.Table, key: Key | None, schema: Schema) -> pa.Table:
    """A net delta as rows before and after: DRA's differential relation, the outer join of what went and what came by
    the key. Without a key nothing can be paired."""
    stamp = pa.repeat(pa.scalar(0, pa.int64()), delta.num_rows)
    width = delta.num_columns - 1
    if key is None:
        key = tuple(range(width))  # whole rows: a net delta has none twice
    pairs = paired(delta.add_column(width, VERSION, stamp), schema, key)
    columns = [*_fields(pairs.old, schema), *_fields(pairs.new, schema)]
    weights = pa.repeat(pa.scalar(1, pa.int64()), len(pairs.old))
    wanted = changes_schema(schema).weighted
    return delta_tables.net(pa.Table.from_arrays([*columns, weights], names=wanted.names).cast(wanted))


def _fields(structs: pa.StructArray, schema: Schema) -> list[pa.Array]:
    return [pc.struct_field(structs, [i]) for i in range(len(schema))]


def changed_rows(delta: pa.Table, key: Key | None, schema: Schema, enough: int) -> int:
    """How many rows came, went or were modified; a modified one is one row, where a key tells."""
    entries = delta_tables.size(delta)
    if key is None or not delta.num_rows or entries < enough:
        return entries
    return int(pc.sum(side_by_side(delta, key, schema).column(WEIGHT)).as_py())


def _cheap_first(parts: tuple[Trigger, ...]) -> list[Trigger]:
    return sorted(parts, key=lambda part: 0 if isinstance(part, At | Every) else 1)


def earlier(moment: dt.datetime, period: Period) -> dt.datetime:
    """A moment without an interval; a month counts as 31 days, so that it is not too late."""
    try:
        return moment - period.rest - dt.timedelta(days=31 * period.months)
    except OverflowError:
        return dt.datetime.min
