"""Subscriptions: the changes of a relation, one version after the other."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.types import VERSION
from tidemark.changes.follow import Following, Mark
from tidemark.errors import TidemarkError
from tidemark.snapshots.triggers import Changed, changed_rows
from tidemark.state.boundary import bounded
from tidemark.state.moved_pairs import Moved, moved_since, net_pairs
from tidemark.state.pairs import Key, Pairs, key_of, paired, shortest
from tidemark.state.state import Store
from tidemark.storage import delta as delta_tables
from tidemark.storage.retention import KEEP


@dataclass(frozen=True)
class Change:
    """What one version did to a relation, and when it was committed (UTC). Equal rows repeat.

    ``time`` is None if that is not known any more: an earlier Tidemark forgot it with other parts of the log.
    ``updated`` is there if pairs were asked for: ``key``, ``old`` and ``new`` of the rows that are in neither of the
    others.
    """

    version: int
    inserted: pa.Table
    deleted: pa.Table
    updated: pa.Table | None = None
    time: dt.datetime | None = None


NEVER = dt.datetime.min
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
        if precision not in PRECISIONS:
            raise TidemarkError("type", f"{precision!r} is no precision", hint=f"one of {', '.join(PRECISIONS)}")
        if batch is not None and (not isinstance(batch, int) or isinstance(batch, bool) or batch < 1):
            raise TidemarkError("type", f"a batch is a number of rows, at least one, not {batch!r}")
        if max_staleness is None or isinstance(max_staleness, dt.timedelta):
            staleness = max_staleness
        else:
            try:
                staleness = dt.timedelta(seconds=max_staleness)
            except (TypeError, ValueError, OverflowError) as error:
                raise _no_staleness(max_staleness) from error
        if staleness is not None and staleness < dt.timedelta(0):
            raise _no_staleness(max_staleness)
        return Quality(staleness, batch, precision)

    @property
    def waits(self) -> bool:
        return self.max_staleness is not None or self.batch is not None


EACH_AT_ONCE = Quality()


def _of_pairs(version: int, time: dt.datetime | None, pairs: Pairs) -> Change:
    return Change(version, pairs.inserted, pairs.deleted, pairs.updated, time)


def _no_staleness(given: object) -> TidemarkError:
    return TidemarkError(
        "type", f"max_staleness is a time that can pass, not {given!r}", hint="seconds, or a timedelta"
    )


@dataclass(frozen=True)
class Subscriber:
    """Who subscribes: whether it wants pairs of old and new rows, how soon and how precisely it is told, and, if it has
    a name, how it says how far it has come and what is done when it lags."""

    paired: bool = False
    quality: Quality = EACH_AT_ONCE
    name: str | None = None
    mark: Mark | None = None
    policy: str = KEEP


@dataclass(frozen=True)
class Reader:
    """How a subscription reads what is committed: the store while it is read, and the changes since a version."""

    reading: Callable[[], AbstractContextManager[Store]]
    changes: Callable[[Store, str, int], pa.Table]


@bounded
class Subscription(Following[Change]):
    """Iterates over changes as they are committed, waiting for the next one, until it is closed.

    ``poll`` does not wait longer than asked. A subscription reads the change log from its own tidemark on, so a slow
    reader holds nobody up and misses nothing; the log keeps what it has not read while it is open.
    """

    kind = "subscription"

    def __init__(
        self,
        store: Store,
        relation: str,
        version: int,
        reader: Reader,
        content: pa.Table | None,
        subscriber: Subscriber,
    ) -> None:
        super().__init__(store, relation, subscriber.name, subscriber.mark, subscriber.policy)
        self._reading, self._changes = reader.reading, reader.changes
        self._catalog = store.catalog
        self._is_paired, self._quality = subscriber.paired, subscriber.quality
        self._waiting: deque[Change] = deque()
        self.tidemark = version
        self._held: list[pa.Table] = []
        self._moved: Moved | None = None
        self._seen = self.tidemark
        if content is not None:
            self._waiting.append(self._first(content))

    @property
    def water_mark(self) -> int:
        return self._seen

    def _next(self) -> Change | None:
        self._read()
        if not self._waiting:
            return None
        self._last = self._waiting[0].version if len(self._waiting) > 1 else self.tidemark
        return self._waiting.popleft()

    def _held_for(self) -> float | None:
        """How many seconds what has changed may still wait for more; None if nothing waits."""
        if self._quality.max_staleness is None or not self._held:
            return None
        return max(0.001, (self._stale_at(self._quality.max_staleness) - self._store.now()) / dt.timedelta(seconds=1))

    def _oldest(self) -> dt.datetime:
        """When the first change was committed that is not delivered; long ago if nobody knows, or if the clock was set
        back since: it must not wait until that has caught up."""
        first = self._store.times.get(pc.min(self._held[0].column(VERSION)).as_py())
        return NEVER if first is None or first > self._store.now() else first

    def _stale_at(self, staleness: dt.timedelta) -> dt.datetime:
        """When the first change that is not delivered is too old; at the end of the calendar if it never is."""
        oldest = self._oldest()
        return oldest + staleness if staleness <= dt.datetime.max - oldest else dt.datetime.max

    def _first(self, rows: pa.Table) -> Change:
        if not self._is_paired:
            return Change(self.tidemark, rows, rows.slice(0, 0), time=self._store.times.get(self.tidemark))
        return self._change(self.tidemark, delta_tables.weighted(rows))

    def _change(self, version: int, part: pa.Table) -> Change:
        """The entries of one version as a change."""
        time = self._store.times.get(version)
        if self._is_paired:
            relation = self._catalog.relations[self.relation]
            stamp = pa.array([version] * part.num_rows, pa.int64())
            stamped = part.add_column(part.num_columns - 1, VERSION, stamp)
            moved = self._moved
            old_keys = {} if moved is None else {version: moved.old_keys.get(version, {})}
            return _of_pairs(version, time, paired(stamped, relation.schema, self._key(), old_keys))
        inserted, deleted = delta_tables.inserted(part), delta_tables.deleted(part)
        return Change(version, delta_tables.expand(inserted), delta_tables.expand(deleted), time=time)

    def _read(self) -> None:
        """Fetch what was committed since, and let it wait, or be delivered."""
        store = self._store
        if self._waiting or store.is_closed:
            return
        if self._seen < store.last_version:
            try:
                self._fetch()
            except TidemarkError:
                if self._is_over():  # meanwhile: then there is nothing more to come
                    return
                raise
        if self._held and not self._waits_for_more():
            self._release()
        elif not self._held and self.tidemark < self._seen:
            self._nothing_until(self._seen)  # nothing of it concerns the subscriber

    def _fetch(self) -> None:
        """Read what was committed since."""
        with self._reading() as store:
            current = store.catalog.get(self.relation)
            if current is None or current.identity is not self._identity:
                raise TidemarkError(
                    "unknown_relation", f"{self.relation!r} was dropped, or got other columns, while subscribed"
                )
            found = self._changes(store, self.relation, self._seen)
            moved = self._moved_since(store, self._seen)
            if moved is not None:
                found = moved.with_crossed(found) if self._is_paired else found
                moved = moved if self._moved is None else self._moved.and_then(moved)
            held = [*self._held, *([found] if found.num_rows else [])]
            moved = self._moved if moved is None else moved
            # In one step, so that an exception loses nothing and doubles nothing.
            self._held, self._seen, self._catalog, self._moved = held, store.version, store.catalog, moved

    def _release(self) -> None:
        """Deliver what was held, as a change of each version or as one net change."""
        waiting = deque(self._released(pa.concat_tables(self._held)))
        self._waiting, self._held, self._moved, self.tidemark = waiting, [], None, self._seen
        if not self._waiting:
            self._nothing_until(self._seen)

    def _released(self, held: pa.Table) -> Iterator[Change]:
        if self._quality.precision != "net":
            yield from (self._change(version, part) for version, part in delta_tables.by_version(held))
        elif self._is_paired and self._moved is not None:
            pairs = net_pairs(held, self._moved, self._key())
            if len(pairs.old):
                yield _of_pairs(self._seen, self._store.times.get(self._seen), pairs)
        else:
            net = delta_tables.net(held.drop_columns([VERSION]))
            if net.num_rows:
                yield self._change(self._seen, net)

    def _moved_since(self, store: Store, since: int) -> Moved | None:
        """Which rows were given other keys, if it matters to whoever reads."""
        if not self._is_paired and self._quality.batch is None:
            return None
        return moved_since(store, store.catalog.relations[self.relation], since)

    def _key(self) -> Key:
        return key_of(self._catalog.relations[self.relation], self._catalog)

    def _nothing_until(self, version: int) -> None:
        self.tidemark = version
        self._marked(version)

    def _waits_for_more(self) -> bool:
        """Whether what has changed is too little, and not old enough, to be delivered."""
        quality, store = self._quality, self._store
        if not quality.waits:
            return False
        if quality.batch is not None and self._changed_rows(quality.batch) >= quality.batch:
            return False
        return quality.max_staleness is None or self._stale_at(quality.max_staleness) > store.now()

    def _changed_rows(self, enough: int) -> int:
        """How many rows have changed, net; a modified one is one, where a key tells."""
        relation, keys = self._catalog.relations[self.relation], self._store.refreshes.known.keys
        if self._moved is not None:
            held = pa.concat_tables(self._held)
            held = held if self._is_paired else self._moved.with_crossed(held)
            return len(net_pairs(held, self._moved, self._key()).old)
        key = shortest(keys[relation.name]) if keys.get(relation.name) else None
        net = delta_tables.net(pa.concat_tables(self._held).drop_columns([VERSION]))
        return changed_rows(Changed(net, key, relation.schema), enough)
