"""The queue of detached work: what is committed of it, and as an open transaction sees it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidemark.algebra.plans import Stored
from tidemark.database.detaching import DETACHED_SCHEMA, DETACHED_TABLE, Entry, entries
from tidemark.database.store import Store
from tidemark.log import deltas as delta_tables


def queued(store: Store) -> Sequence[Entry]:
    """All entries that are committed, the oldest first, and those of one version in the order in which they came."""
    if DETACHED_TABLE not in store.catalog.relations:
        return ()
    if store.detached is None:
        is_empty = not store.engine.rows(DETACHED_TABLE)
        table = None if is_empty else store.engine.fetch(Stored(DETACHED_TABLE, DETACHED_SCHEMA), {})
        store.detached = () if table is None else tuple(entries(table))
    return store.detached


def queued_in(store: Store, pending: pa.Table | None) -> list[Entry]:
    """The entries as an open transaction sees them, which has changes of its own."""
    found = {entry.id: entry for entry in queued(store)}
    if pending is not None:
        for entry in entries(delta_tables.expand(delta_tables.deleted(pending))):
            found.pop(entry.id, None)
        found |= {entry.id: entry for entry in entries(delta_tables.expand(delta_tables.inserted(pending)))}
    return list(found.values())
