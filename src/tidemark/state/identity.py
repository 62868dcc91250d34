"""Which rows were given other keys, version by version: what a table's own log cannot say.

A table of which a transaction has changed keys has a second log, of old keys and new ones. It begins with the first
such transaction, and is cut and dropped with the table's own. A row that comes as what another row was when it left is
not in the table's net change: such rows stand in the second log as they are.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.types import VARCHAR, Field, Schema
from tidemark.sql.catalog.catalog import Table
from tidemark.state.course import Act, old_rows
from tidemark.state.lives import Row, lived
from tidemark.storage import delta as delta_tables
from tidemark.storage.commit import Creation
from tidemark.storage.delta import from_bag
from tidemark.storage.streams import from_bytes, to_bytes

NOTE: Final = "moved"
"""The note that names the tables which have such a log."""
CROSSED: Final = "crossed"


def moves_name(table: str) -> str:
    """The name of the log, which no relation of a user's has."""
    return f"_moved {table}"


def key_of_table(table: Table) -> tuple[int, ...]:
    return tuple(sorted(table.primary_key))


def moves_schema(table: Table) -> Schema:
    """The columns of the key before, those of the key after, and rows that crossed others, as a text."""
    fields = tuple(replace(table.schema[i], nullable=True) for i in key_of_table(table))
    old, new = (tuple(replace(f, name=f"{which} {f.name}") for f in fields) for which in ("old", "new"))
    return Schema((*old, *new, Field(CROSSED, VARCHAR)))


def creation(table: Table) -> Creation:
    """The log begins."""
    return Creation(moves_name(table.name), moves_schema(table), internal=True, kept=False)


def moves(table: Table, steps: Sequence[Act]) -> pa.Table | None:
    """What a transaction did to the keys of a table, as a change of that log; None if no row has another key."""
    has_forms = any(delta_tables.has_forms(table.schema[i].type.arrow) for i in table.primary_key)
    if len(steps) == 1 and not has_forms:
        return _moves_of_one(table, steps[0])
    return _moves_of_several(table, steps)


def _moves_of_one(table: Table, step: Act) -> pa.Table | None:
    """The same for one UPDATE: its pairs are all that happened, so that columns can be compared as a whole."""
    key, pairs, width = key_of_table(table), step.pairs, len(table.schema)
    assert pairs is not None
    differs = (pc.not_equal(pairs.column(i), pairs.column(width + i)) for i in key)
    moved = pairs.filter(reduce(pc.or_, differs))
    if not moved.num_rows:
        return None
    keys = [*(moved.column(i) for i in key), *(moved.column(width + i) for i in key)]
    rest = [pa.nulls(moved.num_rows, pa.string()), pa.repeat(pa.scalar(1, pa.int64()), moved.num_rows)]
    schema = moves_schema(table).weighted
    found = pa.Table.from_arrays([*keys, *rest], names=schema.names).cast(schema)
    # A row that left and is not missing came again, of another row.
    left = old_rows(moved, table.schema)
    crossed = delta_tables.inserted(delta_tables.combine(left, delta_tables.deleted(step.delta)))
    if not crossed.num_rows:
        return found
    return pa.concat_tables([found, from_bag({_crossing(key, crossed): 1}, moves_schema(table))])


def _moves_of_several(table: Table, steps: Iterable[Act]) -> pa.Table | None:
    key = key_of_table(table)
    found: dict[Row, int] = {}
    leaving, coming = Counter[Row](), Counter[Row]()
    for one in lived(steps, key):
        if one.old is not None:
            leaving[one.old] += one.count
        if one.new is not None:
            coming[one.new] += one.count
        if one.old is not None and one.new is not None:
            before, after = (tuple(row[i] for i in key) for row in (one.old, one.new))
            if before != after:
                found[(*before, *after, None)] = 1
    if not found:
        return None
    crossed = leaving & coming
    if crossed:
        found[_crossing(key, from_bag(crossed, table.schema))] = 1
    return from_bag(found, moves_schema(table))


def _crossing(key: tuple[int, ...], rows: pa.Table) -> Row:
    """The entry that has the rows which crossed others."""
    return (*(None,) * (2 * len(key)), packed(rows))


def noted(notes: Mapping[str, str]) -> frozenset[str]:
    """The tables that have such a log."""
    return frozenset(json.loads(notes.get(NOTE, "[]")))


def packed(rows: pa.Table) -> str:
    return base64.b64encode(to_bytes(rows)).decode()


def unpacked(text: str) -> pa.Table:
    return from_bytes(base64.b64decode(text))
