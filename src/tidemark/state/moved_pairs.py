"""Changes in pairs where rows were given other keys: from the log of a table and that of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.types import VERSION, Schema
from tidemark.sql.catalog.catalog import Relation, Table
from tidemark.state.course import Act, side_by_side
from tidemark.state.identity import CROSSED, moves_name, unpacked
from tidemark.state.lives import Row, lived
from tidemark.state.pairs import Key, Pairs, key_of, paired
from tidemark.state.state import Store
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows, from_rows


@dataclass(frozen=True)
class Moved:
    """Entries of that log: what to add to the net changes of a table, and which row is which in them."""

    table: Table
    entries: pa.Table

    @cached_property
    def old_keys(self) -> dict[int, dict[Row, Row]]:
        """By version and new key, the old ones."""
        width, found = len(self.table.primary_key), dict[int, dict[Row, Row]]()
        columns = [column.to_pylist() for column in self.entries.columns]
        for *cells, crossed, version, _ in zip(*columns, strict=True):
            if crossed is None:
                found.setdefault(version, {})[tuple(cells[width:])] = tuple(cells[:width])
        return found

    def and_then(self, later: Moved) -> Moved:
        """These entries, and later ones."""
        return Moved(later.table, pa.concat_tables([self.entries, later.entries]))

    def with_crossed(self, changes: pa.Table) -> pa.Table:
        """Changes (columns, ``_version``, ``_weight``) with the rows that both left and came, which are not in the net
        change."""
        table, parts = self.table, [changes]
        for text, version in zip(*(self.entries[name].to_pylist() for name in (CROSSED, VERSION)), strict=True):
            if text is None:
                continue
            rows = delta_tables.extended(unpacked(text), table.schema, table.defaults)
            stamp = pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows)
            for signed in (delta_tables.negated(rows), rows):
                parts.append(signed.add_column(len(table.schema), VERSION, stamp).cast(changes.schema))
        return pa.concat_tables(parts)


def moved_since(store: Store, relation: Relation, since: int) -> Moved | None:
    """What was logged of other keys after a version; None if nothing was."""
    if relation.name not in store.moved or not isinstance(relation, Table):
        return None
    entries = store.engine.changes(moves_name(relation.name), since)
    return Moved(relation, entries) if entries.num_rows else None


def paired_since(changes: pa.Table, relation: Relation, since: int, store: Store) -> Pairs:
    """The changes of a relation after a version in pairs, those of each version for itself."""
    key, moved = key_of(relation, store.catalog), moved_since(store, relation, since)
    if moved is None:
        return paired(changes, relation.schema, key)
    return paired(moved.with_crossed(changes), relation.schema, key, moved.old_keys)


def net_pairs(changes: pa.Table, moved: Moved, key: Key) -> Pairs:
    """The changes of several versions, net, as pairs of what was before all of them and what is after. The rows that
    crossed others are among them."""
    schema = moved.table.schema
    steps = []
    for version, delta in delta_tables.by_version(changes):
        stamp = pa.repeat(pa.scalar(version, pa.int64()), delta.num_rows)
        stamped = delta.add_column(len(schema), VERSION, stamp)
        pairs = paired(stamped, schema, key, {version: moved.old_keys.get(version, {})})
        steps.append(Act(version, Rows.of(delta_tables.net(delta)), Rows.of(_beside(pairs, schema))))
    last = 0 if not steps else steps[-1].place
    found = lived(steps, key)
    rows = from_rows([row for one in found for row in (one.old, one.new) if row is not None], schema)
    old, new, place = list[int | None](), list[int | None](), 0
    for one in found:
        for places, row in ((old, one.old), (new, one.new)):
            places.append(None if row is None else place)
            place += row is not None
    return Pairs.of(rows, pa.array([last] * len(found), pa.int64()), key, old, new)


def net_pairs_since(store: Store, relation: Relation, since: int) -> Pairs | None:
    """The net changes of a table after a version, if rows were given other keys since; None if the key tells."""
    moved = moved_since(store, relation, since)
    if moved is None:
        return None
    changes = moved.with_crossed(store.engine.changes(relation.name, since))
    return net_pairs(changes, moved, key_of(relation, store.catalog))


def _beside(pairs: Pairs, schema: Schema) -> pa.Table:
    """The rows that were updated, old and new beside each other."""
    updated = pairs.updated
    columns = [pc.struct_field(updated[which], [i]) for which in ("old", "new") for i in range(len(schema))]
    weights = pa.repeat(pa.scalar(1, pa.int64()), updated.num_rows)
    return pa.Table.from_arrays([*columns, weights], schema=side_by_side(schema).weighted)
