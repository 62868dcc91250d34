"""The past of relations: their logs since a version, as far as they are retained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidemark.algebra.history import logged_name, logs_read
from tidemark.algebra.plans import Plan
from tidemark.algebra.types import VERSION
from tidemark.database.retained import must_reach
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables

if TYPE_CHECKING:
    from tidemark.database.store import Store


def past(plan: Plan, store: Store) -> dict[str, pa.Table]:
    """The logs that a plan reads, under the names by which it reads them."""
    return {logged_name(name, version): _checked(store, name, version) for name, version in set(logs_read(plan))}


def _checked(store: Store, relation: str, version: int) -> pa.Table:
    born = store.created.get(relation)
    if version > store.version:
        raise TidemarkError("version", f"there is no version {version}", hint=f"the last one is {store.version}")
    if born is None or version < born:
        since = "is not committed yet" if born is None else f"was created in version {born}"
        raise TidemarkError("version", f"there is no {relation!r} as of version {version}: it {since}")
    return net_since(store, relation, version)


def net_since(store: Store, relation: str, since: int) -> pa.Table:
    """The net change of a relation since a version."""
    must_reach(store, relation, since)
    if since >= store.version:
        return delta_tables.no_change(store.catalog.relations[relation].schema)
    return delta_tables.net(store.engine.changes(relation, since).drop_columns([VERSION]))
