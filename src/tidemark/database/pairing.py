"""Changes with old and new rows in pairs, by a key of the relation.

The signed form (``_weight``) stays the one that adds up; this is the same in the form that a program wants which
keeps a copy by key: what was inserted, deleted, or updated, and from what to what.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.keys import RelationKeys, keys_of, why_no_key
from tidemark.algebra.plans import relations_of
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.errors import TidemarkError
from tidemark.log.codes import with_codes
from tidemark.sql.catalog import Catalog, Relation, Table

Key = tuple[int, ...]


def key_of(relation: Relation, catalog: Catalog) -> Key:
    """The shortest, then leftmost key of a relation; refused if none can be derived."""
    known = relation_keys(catalog)
    keys = known[relation.name]
    if keys:
        return shortest(keys)
    if isinstance(relation, Table):
        why, hint = "it has no PRIMARY KEY", "declare one, or read the changes by their weights"
    else:
        why = why_no_key(relation.plan, known)
        hint = "select a key of each relation that it joins, or GROUP BY, or DISTINCT; or read them by their weights"
    raise TidemarkError("no_key", f"old and new rows of {relation.name!r} cannot be paired: {why}", hint=hint)


def shortest(keys: frozenset[Key]) -> Key:
    """The shortest, then leftmost key."""
    return min(keys, key=lambda key: (len(key), key))


def relation_keys(
    catalog: Catalog, before: Catalog | None = None, known_before: RelationKeys | None = None
) -> RelationKeys:
    """The keys of all relations, each from those before it.

    Those of the catalog ``before`` are taken over where neither the relation nor the keys below it are others.
    """
    known: dict[str, frozenset[Key]] = {}
    others: set[str] = set()
    keys_before = known_before or {}
    for name, relation in catalog.relations.items():
        is_known = before is not None and before.get(name) is relation
        if isinstance(relation, Table):
            known[name] = frozenset({tuple(sorted(relation.primary_key))} if relation.primary_key else ())
        elif is_known and not (others and relations_of(relation.plan) & others):
            known[name] = keys_before[name]
        else:
            known[name] = keys_of(relation.plan, known)
        if known[name] != keys_before.get(name):
            others.add(name)
    return known


@dataclass(frozen=True)
class Pairs:
    """Changes as three columns of structs: the key, the row before and the row after; with their versions."""

    version: pa.Array
    key: pa.StructArray
    old: pa.StructArray
    new: pa.StructArray

    @property
    def table(self) -> pa.Table:
        """``_version``, ``_change``, ``key``, ``old`` and ``new``; old or new is NULL where there is none."""
        kinds = pc.if_else(self.old.is_null(), "inserted", pc.if_else(self.new.is_null(), "deleted", "updated"))
        return pa.table({VERSION: self.version, "_change": kinds, "key": self.key, "old": self.old, "new": self.new})

    @property
    def inserted(self) -> pa.Table:
        return _rows(self.new.filter(self.old.is_null()))

    @property
    def deleted(self) -> pa.Table:
        return _rows(self.old.filter(self.new.is_null()))

    @property
    def updated(self) -> pa.Table:
        both = pc.and_(self.old.is_valid(), self.new.is_valid())
        return pa.table({"key": self.key, "old": self.old, "new": self.new}).filter(both)


def paired(changes: pa.Table, schema: Schema, key: Key) -> Pairs:
    """Changes (the columns, ``_version``, ``_weight``) in pairs, in the order of versions.

    A deleted and an inserted row of one version that agree in the key are one row before and after. Rows that the key
    does not tell apart, which a view may have had before it was replaced, come one by one.
    """
    changes = _each(changes)
    signs, versions = changes.column(WEIGHT), changes.column(VERSION)
    here = pa.array(range(changes.num_rows), pa.int64())
    entries = pa.table(
        {
            **{f"c{position}": changes.column(position) for position in key},
            "version": versions,
            "old": pc.if_else(pc.less(signs, 0), here, None),
            "new": pc.if_else(pc.greater(signs, 0), here, None),
        }
    )
    names = [f"c{position}" for position in key]
    groups = (
        with_codes(entries)
        .group_by([*names, "version"], use_threads=False)
        .aggregate(
            [("old", "list"), ("new", "list"), ("old", "count"), ("new", "count"), ("old", "max"), ("new", "max")]
        )
    )
    single = pc.and_(pc.less_equal(groups["old_count"], 1), pc.less_equal(groups["new_count"], 1))
    chosen, others = (
        groups.filter(single),
        groups.filter(pc.invert(single)).select(["old_list", "new_list"]).to_pylist(),
    )
    leaving = [place for group in others for place in group["old_list"] if place is not None]
    coming = [place for group in others for place in group["new_list"] if place is not None]
    places = pa.table(
        {
            "old": pa.chunked_array([*chosen["old_max"].chunks, _places(leaving + [None] * len(coming))], pa.int64()),
            "new": pa.chunked_array([*chosen["new_max"].chunks, _places([None] * len(leaving) + coming)], pa.int64()),
        }
    )
    at = versions.take(pc.coalesce(places["new"], places["old"]))
    places = places.take(pc.sort_indices(at))
    either = pc.coalesce(places["new"], places["old"]).combine_chunks()
    rows = _structs(changes, range(len(schema)))
    return Pairs(
        versions.combine_chunks().take(either),
        _structs(changes, key).take(either),
        rows.take(places["old"].combine_chunks()),
        rows.take(places["new"].combine_chunks()),
    )


def _places(listed: list[int | None]) -> pa.Array:
    return pa.array(listed, pa.int64())


def _each(changes: pa.Table) -> pa.Table:
    """Each entry as often as its weight says."""
    weights = pc.abs(changes.column(WEIGHT))
    if not changes.num_rows or pc.max(weights).as_py() == 1:
        return changes
    repeated = [place for place, weight in enumerate(weights.to_pylist()) for _ in range(weight)]
    return changes.take(pa.array(repeated, pa.int64()))


def _structs(table: pa.Table, positions: range | Key) -> pa.StructArray:
    """Some columns of a table as one column."""
    fields = [table.schema.field(position) for position in positions]
    if not fields:
        return pa.array([{}] * table.num_rows, pa.struct([]))
    return pa.StructArray.from_arrays([table.column(p).combine_chunks() for p in positions], fields=fields)


def _rows(structs: pa.StructArray) -> pa.Table:
    return pa.Table.from_struct_array(structs)
