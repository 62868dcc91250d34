"""Subscriptions: the changes of a relation, one version after the other."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.types import VERSION
from tidemark.continual.retention import KEEP
from tidemark.database.conditions import changed_rows
from tidemark.database.following import Following, Mark
from tidemark.database.pairing import key_of, paired, shortest
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


def _no_staleness(given: object) -> TidemarkError:
    return TidemarkError(
        "type", f"max_staleness is a time that can pass, not {given!r}", hint="seconds, or a timedelta"
    )


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
        since: int | None,
        changes: Callable[[str, int], pa.Table],
        content: Callable[[], pa.Table],
        *,
        paired: bool = False,
        quality: Quality = EACH_AT_ONCE,
        name: str | None = None,
        mark: Mark | None = None,
        policy: str = KEEP,
    ) -> None:
        super().__init__(store, relation, name, mark, policy)
        self._changes, self._is_paired, self._quality = changes, paired, quality
        self._waiting: deque[Change] = deque()
        with store.lock:
            self.tidemark = store.version if since is None else since
            self._held: list[pa.Table] = []
            self._seen = self.tidemark
            if since is None:
                self._waiting.append(self._first(content()))

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
        """When the first change was committed that is not delivered; long ago if nobody saw it."""
        first = pc.min(self._held[0].column(VERSION)).as_py()
        return self._store.times.get(first, NEVER)

    def _stale_at(self, staleness: dt.timedelta) -> dt.datetime:
        """When the first change that is not delivered is too old; at the end of the calendar if it never is."""
        oldest = self._oldest()
        return oldest + staleness if staleness <= dt.datetime.max - oldest else dt.datetime.max

    def _first(self, rows: pa.Table) -> Change:
        if not self._is_paired:
            return Change(self.tidemark, rows, rows.slice(0, 0))
        return self._change(self.tidemark, delta_tables.weighted(rows))

    def _change(self, version: int, part: pa.Table) -> Change:
        """The entries of one version as a change."""
        if self._is_paired:
            relation = self._store.catalog.relations[self.relation]
            stamp = pa.array([version] * part.num_rows, pa.int64())
            stamped = part.add_column(part.num_columns - 1, VERSION, stamp)
            pairs = paired(stamped, relation.schema, key_of(relation, self._store.catalog))
            return Change(version, pairs.inserted, pairs.deleted, pairs.updated)
        inserted, deleted = delta_tables.inserted(part), delta_tables.deleted(part)
        return Change(version, delta_tables.expand(inserted), delta_tables.expand(deleted))

    def _read(self) -> None:
        """Fetch what was committed since, and let it wait, or be delivered."""
        store = self._store
        if self._waiting or store.is_closed:
            return
        if self._seen < store.version:
            if self.is_gone:
                raise TidemarkError(
                    "unknown_relation", f"{self.relation!r} was dropped, or got other columns, while subscribed"
                )
            found = self._changes(self.relation, self._seen)
            self._seen = store.version
            if found.num_rows:
                self._held.append(found)
        if self._held and not self._waits_for_more():
            self._release()
        elif not self._held and self.tidemark < self._seen:
            self._nothing_until(self._seen)  # nothing of it concerns the subscriber

    def _release(self) -> None:
        """Deliver what was held, as a change of each version or as one net change."""
        held, self._held = pa.concat_tables(self._held), []
        if self._quality.precision == "net":
            parts = [(self._seen, delta_tables.net(held.drop_columns([VERSION])))]
        else:
            parts = delta_tables.by_version(held)
        self._waiting.extend(self._change(version, part) for version, part in parts if part.num_rows)
        self.tidemark = self._seen
        if not self._waiting:
            self._nothing_until(self._seen)

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
        relation, keys = self._store.catalog.relations[self.relation], self._store.refreshes.known.keys
        key = shortest(keys[relation.name]) if keys.get(relation.name) else None
        net = delta_tables.net(pa.concat_tables(self._held).drop_columns([VERSION]))
        return changed_rows(net, key, relation.schema, enough)
