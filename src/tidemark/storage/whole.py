"""Small relations in memory as a whole: each row once, and found by any columns that somebody asks by.

The law is that of an arrangement (``arrangements.py``), by all columns at once: rows are Python values already, so that
a look-up is that of a dictionary, and a step that reads all of a relation is given what is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidemark.algebra.compiled import key_of
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import Schema
from tidemark.storage import delta as deltas
from tidemark.storage.batches import Batch, Vector
from tidemark.storage.delta import Bag, Entry, Rows, entries_of
from tidemark.storage.runs import Numbers

ROW_BYTES: Final = 500
"""About so much a row takes."""
PLACE_BYTES: Final = 300
"""About so much a row takes in each dictionary by which it is found."""


class Whole:
    """All rows of a small relation. What it has found is not changed any more.

    There are the rows as one bag or at least one dictionary; the bag is made again when it is asked for.
    """

    def __init__(self, schema: Schema, rows: pa.Table, most: int) -> None:
        self.schema, self.carried = schema, tuple(range(len(schema)))
        self.columns: tuple[int, ...] = ()
        self.left_out = 0
        self._most = most
        self._rows: Bag | None = deltas.to_bag(deltas.weighted(rows))
        self._by: dict[tuple[int, ...], dict[Row, Bag]] = {}
        self._columns: _AsColumns | None = None
        self._given = 0
        """How many rows were given as columns since the last change."""
        self.entries = len(self._rows)

    @property
    def nbytes(self) -> int:
        as_columns = 0 if self._columns is None else ROW_BYTES + PLACE_BYTES * self._columns.count
        return self.entries * (ROW_BYTES + PLACE_BYTES * len(self._by) + as_columns)

    def carries(self, needed: Collection[int] | None) -> bool:
        return True

    def serves(self, columns: tuple[int, ...]) -> bool:
        return True

    def matching(self, columns: tuple[int, ...], keys: Iterable[Row], most: int) -> dict[Row, Bag] | None:
        """See ``Arrangements.matching``. All rows are asked for by no column; how many there are of a key does not
        matter, since they are there."""
        if not columns:
            rows = self._all()
            return {(): rows} if rows else {}
        index = self._index(columns)
        return {key: index[key] for key in keys if key in index and None not in key}

    def matching_table(
        self, columns: tuple[int, ...], key_columns: Sequence[pa.Array | pa.ChunkedArray], most: int
    ) -> pa.Table | None:
        """See ``Arrangements.matching_table``."""
        if not columns:
            return deltas.from_bag(self._all(), self.schema) if self.entries <= most else None
        keys = dict.fromkeys(zip(*map(deltas.values_of, key_columns), strict=True))
        found = self.matching(columns, keys, most) or {}
        if sum(map(len, found.values())) > most:
            return None
        return deltas.from_bag({row: weight for bag in found.values() for row, weight in bag.items()}, self.schema)

    def matching_batch(
        self, columns: tuple[int, ...], keys: Sequence[Vector], most: int
    ) -> tuple[Batch, Numbers] | None:
        """See ``Arrangement.matching_batch``. Rows are made columns one by one, until as many were as there are: then
        all are, as long as they stay the same."""
        asked = list(zip(*(deltas.values_of(key.array()) for key in keys), strict=True)) if columns else [()]
        if self._columns is None and self._given >= self.entries:
            self._columns = _AsColumns(Rows(self.schema, bag=self._all()))
        if self._columns is not None:
            return self._columns.matching(columns, asked, most)
        found, owners, listed = self.matching(columns, asked, most) or {}, list[int](), list[Entry]()
        for number, key in enumerate(asked):
            rows = found.get(key, {})
            listed += rows.items()
            owners += [number] * len(rows)
        if len(listed) > most:
            return None
        self._given += len(listed)
        return Rows(self.schema, listed=listed).batch, np.array(owners, np.int64)

    def _all(self) -> Bag:
        if self._rows is None:
            self._rows = {}
            for rows in next(iter(self._by.values())).values():
                self._rows.update(rows)
        return self._rows

    def _index(self, columns: tuple[int, ...]) -> dict[Row, Bag]:
        """The rows by what they have in some columns."""
        index = self._by.get(columns)
        if index is None:
            index, key_of_row = {}, key_of(columns)
            for row, weight in self._all().items():
                key = key_of_row(row)
                rows = index.get(key)
                if rows is None:
                    index[key] = {row: weight}
                else:
                    rows[row] = weight
            self._by[columns] = index
        return index

    def takes(self, delta: Rows) -> bool:
        """Whether it is to be fed with a delta, or has to go."""
        return self.entries + delta.count <= 2 * self._most

    def feed(self, delta: Rows) -> None:
        """Take a net delta of the relation."""
        self._columns, self._given = None, 0
        if not self._by:
            self._rows = _with(self._all(), delta)
            self.entries = len(self._rows)
            return
        grown = [_follow(index, columns, delta) for columns, index in self._by.items()]
        self._rows, self.entries = None, self.entries + grown[0]


class _AsColumns:
    """All rows as columns, and where those of a key stand."""

    def __init__(self, rows: Rows) -> None:
        self._entries = [row for row, _ in entries_of(rows.net)]
        self._batch = rows.batch
        self._places: dict[tuple[int, ...], dict[Row, list[int]]] = {}

    @property
    def count(self) -> int:
        """By how many columns places are known."""
        return len(self._places)

    def matching(self, columns: tuple[int, ...], keys: Sequence[Row], most: int) -> tuple[Batch, Numbers] | None:
        """See ``Arrangement.matching_batch``."""
        if not columns:
            found, owners = list(range(len(self._entries))), [0] * len(self._entries)
        else:
            index, found, owners = self._index(columns), list[int](), list[int]()
            for number, key in enumerate(keys):
                places = index.get(key)
                if places is not None and None not in key:
                    found += places
                    owners += [number] * len(places)
        if len(found) > most:
            return None
        return self._batch.take(np.array(found, np.int64)), np.array(owners, np.int64)

    def _index(self, columns: tuple[int, ...]) -> dict[Row, list[int]]:
        index = self._places.get(columns)
        if index is None:
            index = self._places[columns] = {}
            for place, key in enumerate(map(key_of(columns), self._entries)):
                index.setdefault(key, []).append(place)
        return index


def _follow(index: dict[Row, Bag], columns: tuple[int, ...], delta: Rows) -> int:
    """Let rows by key follow, and say how many more there are. Rows that were found before may still be read, so those
    of a key that changes are others from then on."""
    key_of_row, changed, grown = key_of(columns), dict[Row, Bag](), 0
    for row, weight in entries_of(delta.net):
        key = key_of_row(row)
        rows = changed.get(key)
        if rows is None:
            rows = changed[key] = dict(index.get(key, ()))
            grown -= len(rows)
        after = rows.pop(row, 0) + weight
        if after:
            rows[row] = after
    for key, rows in changed.items():
        grown += len(rows)
        if rows:
            index[key] = rows
        else:
            index.pop(key, None)
    return grown


def _with(rows: Bag, delta: Rows) -> Bag:
    found = dict(rows)
    for row, weight in entries_of(delta.net):
        after = found.pop(row, 0) + weight
        if after:
            found[row] = after
    return found
