"""Subscriptions: the changes of a relation, one version after the other."""

from __future__ import annotations

import datetime as dt
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.types import VERSION
from tidemark.database.pairing import key_of, paired
from tidemark.database.store import Store
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables


@dataclass(frozen=True)
class Change:
    """What one version did to a relation. Equal rows repeat.

    ``updated`` is there if pairs were asked for: ``key``, ``old`` and ``new`` of the rows that are in neither of the
    others.
    """

    version: int
    inserted: pa.Table
    deleted: pa.Table
    updated: pa.Table | None = None


PRECISIONS = ("each version", "net")


@dataclass(frozen=True)
class Quality:
    """How soon and how precisely a subscriber learns of changes.

    It is told when ``batch`` rows have changed, net, or when the first change is ``max_staleness`` old, whichever comes
    first; at once if neither is asked for. ``precision`` is a change for each version, or one net change of all of
    them.
    """

    max_staleness: dt.timedelta | None = None
    batch: int | None = None
    precision: str = "each version"

    @staticmethod
    def of(max_staleness: float | dt.timedelta | None, batch: int | None, precision: str) -> Quality:
        """The quality that was asked for, or an error."""
        if max_staleness is not None and not isinstance(max_staleness, dt.timedelta):
            max_staleness = dt.timedelta(seconds=max_staleness)
        if max_staleness is not None and max_staleness < dt.timedelta(0):
            raise TidemarkError("type", "max_staleness is a time: seconds, or a timedelta")
        if batch is not None and batch < 1:
            raise TidemarkError("type", f"a batch has at least one row, not {batch}")
        if precision not in PRECISIONS:
            raise TidemarkError("type", f"{precision!r} is no precision", hint=f"one of {', '.join(PRECISIONS)}")
        return Quality(max_staleness, batch, precision)

    @property
    def needs_net(self) -> bool:
        return self.precision == "net" or self.batch is not None


EACH_AT_ONCE = Quality()


def _sooner(one: float | None, other: float | None) -> float | None:
    times = [time for time in (one, other) if time is not None]
    return min(times, default=None)


class Subscription:
    """Iterates over changes as they are committed, waiting for the next one, until it is closed.

    ``poll`` does not wait longer than asked. A subscription reads the change log from its own tidemark on, so a slow
    reader holds nobody up and misses nothing.
    """

    def __init__(
        self,
        store: Store,
        relation: str,
        since: int | None,
        changes: Callable[[str, int], pa.Table],
        content: Callable[[], pa.Table],
        *,
        paired: bool = False,
        quality: Quality = EACH_AT_ONCE,
        mark: Callable[[int], None] | None = None,
    ) -> None:
        self._store, self._relation, self._changes = store, relation, changes
        self._is_paired = paired
        self._quality, self._mark = quality, mark
        self._last: int | None = None
        self._identity = store.catalog.relations[relation].identity
        self._waiting: deque[Change] = deque()
        self._is_closed = False
        with store.lock:
            self.tidemark = store.version if since is None else since
            if since is None:
                self._waiting.append(self._first(content()))

    def poll(self, timeout: float | None = 0) -> Change | None:
        """The next change, or None if there is none within ``timeout`` seconds (None waits for ever)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._store.committed:
            while not self._is_closed:
                if self._store.is_closed and not self._waiting:
                    return None
                self.acknowledge()
                self._read()
                if self._waiting:
                    self._last = self._waiting[0].version if len(self._waiting) > 1 else self.tidemark
                    return self._waiting.popleft()
                remaining = None if deadline is None else deadline - time.monotonic()
                if remaining is not None and remaining <= 0:
                    return None
                self._store.committed.wait(_sooner(remaining, self._held_for()))
        return None

    def acknowledge(self) -> None:
        """Say that the change which came last has been dealt with. Asking for the next one says so too.

        A subscriber with a name goes on after it when it comes again; until then the log keeps what comes after.
        """
        if self._last is not None:
            self._marked(self._last)
            self._last = None

    def _marked(self, version: int) -> None:
        if self._mark is not None:
            self._mark(version)

    def _held_for(self) -> float | None:
        """How many seconds what has changed may still wait for more; None if nothing waits."""
        if self._quality.max_staleness is None or self.tidemark >= self._store.version:
            return None
        return max(0.001, (self._oldest() + self._quality.max_staleness - self._store.now()) / dt.timedelta(seconds=1))

    def _oldest(self) -> dt.datetime:
        """When the first version was committed that was not delivered; long ago if nobody saw it."""
        return self._store.times.get(self.tidemark + 1, dt.datetime.min)

    def _first(self, rows: pa.Table) -> Change:
        if not self._is_paired:
            return Change(self.tidemark, rows, rows.slice(0, 0))
        return self._change(self.tidemark, delta_tables.weighted(rows))

    def _change(self, version: int, part: pa.Table) -> Change:
        """The entries of one version as a change."""
        if self._is_paired:
            relation = self._store.catalog.relations[self._relation]
            stamp = pa.array([version] * part.num_rows, pa.int64())
            stamped = part.add_column(part.num_columns - 1, VERSION, stamp)
            pairs = paired(stamped, relation.schema, key_of(relation, self._store.catalog))
            return Change(version, pairs.inserted, pairs.deleted, pairs.updated)
        inserted, deleted = delta_tables.inserted(part), delta_tables.deleted(part)
        return Change(version, delta_tables.expand(inserted), delta_tables.expand(deleted))

    def _read(self) -> None:
        """Fetch what was committed since the tidemark."""
        if self._waiting or self._store.is_closed or self.tidemark >= self._store.version:
            return
        current = self._store.catalog.relations.get(self._relation)
        if current is None or current.identity is not self._identity:
            raise TidemarkError(
                "unknown_relation", f"{self._relation!r} was dropped, or got other columns, while subscribed"
            )
        found = self._changes(self._relation, self.tidemark)
        net = delta_tables.net(found.drop_columns([VERSION])) if self._quality.needs_net else found
        if found.num_rows and self._waits_for_more(net):
            return
        self.tidemark = self._store.version
        if not found.num_rows:
            self._marked(self.tidemark)  # nothing of it concerns the subscriber
            return
        if self._quality.precision == "net":
            if net.num_rows:
                self._waiting.append(self._change(self.tidemark, net))
            return
        for version in pc.unique(found.column(VERSION)).sort().to_pylist():
            part = found.filter(pc.equal(found.column(VERSION), version)).drop_columns([VERSION])
            self._waiting.append(self._change(version, part))

    def _waits_for_more(self, net: pa.Table) -> bool:
        """Whether what has changed is too little, and not old enough, to be delivered."""
        quality = self._quality
        if quality.batch is None and quality.max_staleness is None:
            return False
        if quality.batch is not None and delta_tables.size(net) >= quality.batch:
            return False
        return quality.max_staleness is None or self._oldest() + quality.max_staleness > self._store.now()

    def __iter__(self) -> Iterator[Change]:
        while True:
            change = self.poll(None)
            if change is None:
                return
            yield change

    def close(self) -> None:
        """End the subscription; whoever waits in it returns."""
        with self._store.committed:
            if not self._is_closed and not self._store.is_closed:
                self.acknowledge()
            self._is_closed = True
            self._store.committed.notify_all()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
