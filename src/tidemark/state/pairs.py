"""Changes with old and new rows in pairs, by a key of the relation.

The signed form (``_weight``) stays the one that adds up; this is the same in the form that a program wants which
keeps a copy by key: what was inserted, deleted, or updated, and from what to what.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.keys import RelationKeys, keys_of, why_no_key
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import Catalog, Relation, Table
from tidemark.storage.delta import to_rows, with_codes

Key = tuple[int, ...]
Row = tuple[Any, ...]
OldKeys = Mapping[int, Mapping[Row, Row]]
"""By version and new key, the keys that rows had before."""
NONE_MOVED: Final[OldKeys] = {}


def key_of(relation: Relation, catalog: Catalog, known: RelationKeys | None = None) -> Key:
    """The shortest, then leftmost key of a relation, given those of all relations if they are known; refused if none
    can be derived."""
    if known is None:
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


class RelationKeysOf(Mapping[str, frozenset[Key]]):
    """The keys of the relations of a catalog, each worked out when it is asked for."""

    def __init__(self, catalog: Catalog, known: Mapping[str, frozenset[Key]] | None = None) -> None:
        self.catalog = catalog
        self.known = dict(known or {})

    def __getitem__(self, name: str) -> frozenset[Key]:
        found = self.known.get(name)
        if found is None:
            relation = self.catalog.relations[name]
            if isinstance(relation, Table):
                found = frozenset({tuple(sorted(relation.primary_key))} if relation.primary_key else ())
            else:
                found = keys_of(relation.plan, self)
            self.known[name] = found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.catalog.relations

    def __iter__(self) -> Iterator[str]:
        return iter(self.catalog.relations)

    def __len__(self) -> int:
        return len(self.catalog.relations)


def relation_keys(catalog: Catalog, before: RelationKeys | None = None) -> RelationKeys:
    """The keys of all relations; those that are known already are taken over if the catalog only has more relations
    than the one that they are of."""
    if isinstance(before, RelationKeysOf) and catalog.relations.since(before.catalog.relations) is not None:
        return RelationKeysOf(catalog, before.known)
    return RelationKeysOf(catalog)


@dataclass(frozen=True)
class Pairs:
    """Changes as three columns of structs: the key, the row before and the row after; with their versions."""

    version: pa.Array
    key: pa.StructArray
    old: pa.StructArray
    new: pa.StructArray

    @staticmethod
    def of(rows: pa.Table, versions: pa.Array, key: Key, old: Sequence[int | None], new: Sequence[int | None]) -> Pairs:
        """Pairs by the places of their rows; the key is the one that a row had before, if it was there."""
        befores, afters = (pa.array(places, pa.int64()) for places in (old, new))
        structs = _structs(rows, range(rows.num_columns))
        keys = _structs(rows, key).take(pc.coalesce(befores, afters))
        return Pairs(versions, keys, structs.take(befores), structs.take(afters))

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


def paired(changes: pa.Table, schema: Schema, key: Key, old_keys: OldKeys = NONE_MOVED) -> Pairs:
    """Changes (the columns, ``_version``, ``_weight``) in pairs, in the order of versions.

    A deleted and an inserted row of one version that agree in the key are one row before and after; a row that was
    given another key is the one that had the old key, which ``old_keys`` has by version and new key. Rows that the
    key does not tell apart, which a view may have had before it was replaced, come one by one.
    """
    changes = _each(changes)
    signs, versions = changes.column(WEIGHT), changes.column(VERSION)
    here = pa.array(range(changes.num_rows), pa.int64())
    identified, is_moved = _identified(changes, key, old_keys)
    entries = pa.table(
        {
            **{f"c{position}": identified.column(position) for position in key},
            "moved": is_moved,
            "version": versions,
            "old": pc.if_else(pc.less(signs, 0), here, None),
            "new": pc.if_else(pc.greater(signs, 0), here, None),
        }
    )
    names = [f"c{position}" for position in key]
    groups = (
        with_codes(entries)
        .group_by([*names, "moved", "version"], use_threads=False)
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
    either = pc.coalesce(places["old"], places["new"]).combine_chunks()
    rows = _structs(changes, range(len(schema)))
    return Pairs(
        versions.combine_chunks().take(either),
        _structs(changes, key).take(either),
        rows.take(places["old"].combine_chunks()),
        rows.take(places["new"].combine_chunks()),
    )


def _identified(changes: pa.Table, key: Key, old_keys: OldKeys) -> tuple[pa.Table, pa.Array]:
    """The changes with the keys that their rows had before, and which of them are of rows that have another one."""
    count = changes.num_rows
    places, is_moved = list(range(count)), [False] * count
    if not old_keys:
        return changes, pa.array(is_moved, pa.bool_())
    concerned = pc.indices_nonzero(pc.is_in(changes.column(VERSION), pa.array(list(old_keys), pa.int64())))
    chosen = changes.take(concerned)
    keys = to_rows(chosen.select(list(key)))
    leaving, coming = dict[tuple[int, Row], int](), dict[tuple[int, Row], int]()
    stamps, signs = (chosen.column(name).to_pylist() for name in (VERSION, WEIGHT))
    for place, version, row, sign in zip(concerned.to_pylist(), stamps, keys, signs, strict=True):
        (leaving if sign < 0 else coming)[version, row] = place
    for version, known in old_keys.items():
        for new, old in known.items():
            before, after = leaving.get((version, old)), coming.get((version, new))
            if before is not None and after is not None:
                places[after], is_moved[before], is_moved[after] = before, True, True
    return changes.take(pa.array(places, pa.int64())), pa.array(is_moved, pa.bool_())


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
