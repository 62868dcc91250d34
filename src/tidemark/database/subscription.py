"""Subscriptions: the changes of a relation, one version after the other."""

from __future__ import annotations

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
    ) -> None:
        self._store, self._relation, self._changes = store, relation, changes
        self._is_paired = paired
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
                self._read()
                if self._waiting:
                    return self._waiting.popleft()
                remaining = None if deadline is None else deadline - time.monotonic()
                if remaining is not None and remaining <= 0:
                    return None
                self._store.committed.wait(remaining)
        return None

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
        self.tidemark = self._store.version
        if not found.num_rows:
            return
        for version in pc.unique(found.column(VERSION)).sort().to_pylist():
            part = found.filter(pc.equal(found.column(VERSION), version)).drop_columns([VERSION])
            self._waiting.append(self._change(version, part))

    def __iter__(self) -> Iterator[Change]:
        while True:
            change = self.poll(None)
            if change is None:
                return
            yield change

    def close(self) -> None:
        """End the subscription; whoever waits in it returns."""
        with self._store.committed:
            self._is_closed = True
            self._store.committed.notify_all()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
