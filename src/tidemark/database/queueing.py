"""The queue of detached work: what is committed of it, and as an open transaction sees it.

It is read once, and follows the commits from then on, so that a long queue costs a transaction that does not ask for it
nothing.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from tidemark.algebra.plans import Stored
from tidemark.database.detaching import DETACHED_SCHEMA, DETACHED_TABLE, Entry, entries
from tidemark.database.store import Store
from tidemark.log import deltas as delta_tables


def queued(store: Store) -> Collection[Entry]:
    """All entries that are committed, in no order."""
    if DETACHED_TABLE not in store.catalog.relations:
        return ()
    if store.detached is None:
        is_empty = not store.engine.rows(DETACHED_TABLE)
        table = None if is_empty else store.engine.fetch(Stored(DETACHED_TABLE, DETACHED_SCHEMA), {})
        store.detached = {} if table is None else {entry.id: entry for entry in entries(table)}
        store.detached_since.clear()
    while store.detached_since:
        _follow(store.detached, store.detached_since.pop(0))
    return store.detached.values()


def queued_in(store: Store, pending: pa.Table | None) -> Collection[Entry]:
    """The entries as an open transaction sees them, which has changes of its own."""
    known = queued(store)
    if pending is None:
        return known
    found = {entry.id: entry for entry in known}
    _follow(found, pending)
    return found.values()


def _follow(found: dict[str, Entry], delta: pa.Table) -> None:
    for entry in entries(delta_tables.expand(delta_tables.deleted(delta))):
        found.pop(entry.id, None)
    found |= {entry.id: entry for entry in entries(delta_tables.expand(delta_tables.inserted(delta)))}
