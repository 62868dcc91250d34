"""The past of relations, their logs since a version, as far as they are retained; and their content now.

Whether the log reaches back to a version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidemark.algebra.history import logged_name, logs_read
from tidemark.algebra.plans import Given, Negate, Plan, Stored, union
from tidemark.algebra.types import TIME, VERSION
from tidemark.calculus.as_of import Block, resolve
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import Relation, View
from tidemark.state.times import TIMESTAMP, CommitTimes
from tidemark.storage import delta as delta_tables
from tidemark.storage.retention import Retained
from tidemark.strategy.settle import settle

if TYPE_CHECKING:
    from tidemark.state.state import Store


NOTE = "log retained"


def retained(store: Store) -> Retained:
    text = store.notes.get(NOTE)
    known = _parsed.get(text)
    if known is None:
        if len(_parsed) > 64:
            _parsed.clear()
        known = _parsed[text] = Retained.of_note(text)
    return known


_parsed: dict[str | None, Retained] = {}


def must_reach(store: Store, relation: str, since: int, *, each_version: bool = False) -> None:
    """Refuse to tell the changes since a version that the log does not reach back to, or of which it has only the net
    effect, if those of ``each_version`` are asked for."""
    cut = retained(store).of(relation, store.created.get(relation, 0))
    if not cut.reaches(since) or (each_version and since < cut.full):
        raise TidemarkError(
            "version",
            f"the log of {relation!r} does not reach back to version {since}",
            hint=f"the oldest version is {cut.full}; ALTER LOG SET keeps more",
        )


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


def in_time(changes: pa.Table, times: CommitTimes) -> pa.Table:
    """Changes with the time of each version. A relation that has had a column of that name since before it was reserved
    keeps that one."""
    if TIME in map(str.lower, changes.column_names):
        return changes
    return changes.append_column(pa.field(TIME, TIMESTAMP), times.stamps(changes.column(VERSION)))


def content(relation: Relation) -> Plan:
    """A relation as it is now: what is stored of it, or, of an external view, what its definition says."""
    if isinstance(relation, View) and relation.external:
        return resolve(relation.plan, Block())
    return Stored(relation.name, relation.schema)
