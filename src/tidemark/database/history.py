"""The past of relations, their logs since a version, as far as they are retained; and their content now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidemark.algebra.history import logged_name, logs_read
from tidemark.algebra.plans import Given, Negate, Plan, Stored, union
from tidemark.algebra.types import VERSION
from tidemark.calculus.as_of import Block, resolve
from tidemark.database.retained import must_reach
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.network.settle import settle
from tidemark.sql.catalog import Relation, View

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


def changes_since(name: str, since: int, store: Store) -> pa.Table:
    """What each version after ``since`` did to a relation; to a view, at its creation, all that it held then."""
    relation = store.catalog.relations[name]
    must_reach(store, name, since, each_version=True)
    logged = store.engine.changes(name, since)
    born = store.created[name]
    if not isinstance(relation, View) or born <= since:
        return logged
    # The initial content is not kept apart: it is the content now, rolled back over the log.
    later = delta_tables.net(logged.drop_columns([VERSION]))
    plan = union((content(relation), Negate(Given("log", relation.schema))), relation.schema)
    initial = store.engine.evaluate(*settle(plan, {"log": later}, store.engine))
    stamp = pa.array([born] * initial.num_rows, pa.int64())
    return pa.concat_tables([initial.add_column(len(relation.schema), VERSION, stamp).cast(logged.schema), logged])


def content(relation: Relation) -> Plan:
    """A relation as it is now: what is stored of it, or, of an external view, what its definition says."""
    if isinstance(relation, View) and relation.external:
        return resolve(relation.plan, Block())
    return Stored(relation.name, relation.schema)
