"""When versions were committed: what changes are stamped with, and which version a time means.

Times never decrease from version to version: while a clock that was set back catches up, commits take the time of the
one before. So the versions up to a time are the first ones, and the last of them is what was true then.

The clock of a database: when it is created, and how a transaction moves it on.

Where the time of a transaction goes, by phase.
"""

from __future__ import annotations

import datetime as dt
from array import array
from collections.abc import Mapping
from time import perf_counter
from typing import Final

import pyarrow as pa

from tidemark.algebra.history import CLOCK, CLOCK_SCHEMA, CLOCK_TEXT
from tidemark.algebra.plans import Stored, relations_of
from tidemark.engines.engine import Engine
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import Catalog, Table, View
from tidemark.storage.delta import Rows, Tables, as_rows

_EPOCH: Final = dt.datetime(1970, 1, 1)
_STEP: Final = dt.timedelta(microseconds=1)
TIMESTAMP: Final = pa.timestamp("us")


class CommitTimes:
    """The times of consecutive versions up to the last one, naive UTC, eight bytes for each.

    >>> noon = dt.datetime(2027, 1, 1, 12)
    >>> times = CommitTimes(pa.table({"version": [1, 2], "time": [noon, noon]}))
    >>> times.version_at(noon), times.next(dt.datetime(2026, 1, 1)) == noon
    (2, True)
    """

    def __init__(self, stored: pa.Table) -> None:
        """Of what is stored, in the order of versions, those up to the last one without a gap: where the log was cut
        some older ones may be left."""
        versions: list[int] = stored.column("version").to_pylist()
        start = len(versions)
        while start and (start == len(versions) or versions[start - 1] == versions[start] - 1):
            start -= 1
        moments = stored.column("time").slice(start).cast(TIMESTAMP).cast(pa.int64())
        self.oldest = versions[start] if versions else 1
        self._moments = array("q", moments.to_pylist())

    @property
    def newest(self) -> int:
        return self.oldest + len(self._moments) - 1

    def get(self, version: int) -> dt.datetime | None:
        """When a version was committed; None if that is not known any more."""
        place = version - self.oldest
        return _moment(self._moments[place]) if 0 <= place < len(self._moments) else None

    def next(self, now: dt.datetime) -> dt.datetime:
        """The time of a version that is committed now."""
        last = self.get(self.newest)
        return now if last is None else max(now, last)

    def put(self, version: int, time: dt.datetime) -> None:
        """A version was committed: the last one."""
        del self._moments[max(0, version - self.oldest) :]
        if version != self.newest + 1:
            self.oldest, self._moments = version, array("q")
        self._moments.append((time - _EPOCH) // _STEP)

    def forget(self, oldest: int) -> None:
        """Nobody can ask for versions before one any more."""
        gone = min(oldest, self.newest) - self.oldest
        if gone > 0:
            del self._moments[:gone]
            self.oldest += gone

    def version_at(self, time: dt.datetime) -> int:
        """The last version that was committed at or before a time."""
        wanted = (time - _EPOCH) // _STEP
        for place in range(len(self._moments) - 1, -1, -1):
            if self._moments[place] <= wanted:
                return self.oldest + place
        first = self.get(self.oldest)
        if first is None:
            raise TidemarkError("version", f"there was no version at {_shown(time)}", hint="there is none yet")
        oldest = f"the oldest version is {self.oldest}, committed at {_shown(first)}"
        if self.oldest == 1:
            raise TidemarkError("version", f"there was no version at {_shown(time)}", hint=oldest)
        raise TidemarkError(
            "version", f"the log does not reach back to {_shown(time)}", hint=f"{oldest}; ALTER LOG SET keeps more"
        )

    def stamps(self, versions: pa.ChunkedArray) -> pa.Array:
        """The time of each of these versions; NULL where it is not known any more."""
        encoded = versions.combine_chunks().dictionary_encode()
        moments = pa.array([self.get(version) for version in encoded.dictionary.to_pylist()], TIMESTAMP)
        return moments.take(encoded.indices)


def _moment(microseconds: int) -> dt.datetime:
    return _EPOCH + microseconds * _STEP


def _shown(time: dt.datetime) -> str:
    return time.isoformat(sep=" ")


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
    return Tables({**as_rows(pending), CLOCK: Rows.of(step(before, now))})


def must_be_later(now: dt.datetime, before: dt.datetime) -> None:
    if now < before:
        raise TidemarkError(
            "time",
            f"the clock stands at {before.isoformat(sep=' ')}, which is later than {now.isoformat(sep=' ')}",
            hint="time goes forward only",
        )


# Where the time of a transaction goes

MOST_REMEMBERED: Final = 256


class Laps:
    """The seconds that each phase of something took. One phase goes on at a time: the next one ends it. That it is told
    costs a fifth of a microsecond.

    >>> laps = Laps()
    >>> for phase in ("bind", "find", "bind", None):
    ...     laps.begin(phase)
    >>> list(laps.seconds), all(seconds >= 0 for seconds in laps.seconds.values())
    (['bind', 'find'], True)
    """

    __slots__ = ("_phase", "_since", "seconds")

    def __init__(self, before: Mapping[str, float] | None = None) -> None:
        """``before`` are the phases that came before."""
        self.seconds: dict[str, float] = dict(before or ())
        self._phase: str | None = None
        self._since = 0.0

    def begin(self, phase: str | None) -> None:
        """A phase begins; with None there is a break."""
        now, last, seconds = perf_counter(), self._phase, self.seconds
        if last is not None:
            seconds[last] = seconds.get(last, 0.0) + now - self._since
        self._phase, self._since = phase, now

    def add(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds


class RememberedLaps:
    """The phases of the last versions that this connection has made, in memory alone."""

    def __init__(self) -> None:
        self._known: dict[int, Mapping[str, float]] = {}

    def take(self, version: int, seconds: Mapping[str, float]) -> None:
        self._known[version] = seconds
        while len(self._known) > MOST_REMEMBERED:
            self._known.pop(next(iter(self._known)), None)

    def of(self, version: int) -> Mapping[str, float] | None:
        """The phases of a version; None if it is too long ago, or if another connection has made it."""
        return self._known.get(version)
