"""The clock of a database: when it is created, and how a transaction moves it on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import pyarrow as pa

from tidemark.algebra.clock import CLOCK, CLOCK_SCHEMA, CLOCK_TEXT
from tidemark.algebra.plans import Stored, relations_of
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.sql.catalog import Catalog, Table, View


def with_clock(catalog: Catalog, view: View) -> Catalog:
    """The catalog, with a clock if the view that was defined in it reads one."""
    if CLOCK in catalog.relations or CLOCK not in relations_of(view.plan):
        return catalog
    return catalog.with_relation(Table(CLOCK, CLOCK_SCHEMA, CLOCK_TEXT))


def naive(time: dt.datetime) -> dt.datetime:
    """A point in time as a TIMESTAMP: UTC, without a zone."""
    return time if time.tzinfo is None else time.astimezone(dt.UTC).replace(tzinfo=None)


def stored_time(engine: Engine) -> dt.datetime:
    """The time at which the clock stands."""
    found: dt.datetime = engine.fetch(Stored(CLOCK, CLOCK_SCHEMA), {}).column(0)[0].as_py()
    return found


def step(before: dt.datetime | None, after: dt.datetime) -> pa.Table:
    """The delta of the clock; the first time it is set there is nothing before."""
    entries = [(after, 1)] if before is None else [(before, -1), (after, 1)]
    return pa.table(
        [pa.array([time for time, _ in entries], pa.timestamp("us")), pa.array([w for _, w in entries], pa.int64())],
        schema=CLOCK_SCHEMA.weighted,
    )


def moved(
    pending: Mapping[str, pa.Table], catalog: Catalog, before: dt.datetime | None, now: dt.datetime
) -> Mapping[str, pa.Table]:
    """What a transaction changes, with the clock moved on to now. It never goes back: one that was set back waits."""
    if CLOCK not in catalog.relations or (before is not None and now <= before):
        return pending
    return {**pending, CLOCK: step(before, now)}


def must_be_later(now: dt.datetime, before: dt.datetime) -> None:
    if now < before:
        raise TidemarkError(
            "time",
            f"the clock stands at {before.isoformat(sep=' ')}, which is later than {now.isoformat(sep=' ')}",
            hint="time goes forward only",
        )
