"""Applying a delta to a stored relation: rows leave, then rows come; one row for another is an update of its place.

Leaving rows are matched as a whole and counted: fewer than expected is the error ``damaged``.

A few rows are written into the statements themselves, which spares handing over an Arrow table.

Join conditions for DuckDB that match whole keys or rows of a delta.

DuckDB prunes what it scans by *one* plain equality; when it must hash several columns it reads all of them in full, up
to 3 times slower on millions of rows. So one column should drive the join, and the others be checked on what it
leaves, in a CASE. But only a column that tells most of the delta's rows apart may do so: with one that does not (a
tenant, a status) nearly every stored row would be compared with every row of the delta.

Writing ahead: a large change stands in DuckDB's tables while its views are derived, in the transaction that will be the
commit. The statements of this connection see it, and nobody else does. What is read then is what will be stored, so
that views are evaluated anew without adding the change to each table that they scan; and it would have to be written
all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Literal, Value
from tidemark.algebra.types import WEIGHT
from tidemark.engines.duckdb.dialect import assigned_text, compared_text, hearing_interrupts, quote, translating
from tidemark.engines.duckdb.tables import StoredRelation
from tidemark.engines.limits import DUCKDB
from tidemark.errors import TidemarkError
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import MANY, bag_of, distinct_values

PLACE: Final = "rowid"


def all_match(pairs: Sequence[tuple[str, str]], columns: Sequence[pa.ChunkedArray]) -> str:
    """Each left side equals its right side, whose values are the column; NULL matches NULL.

    >>> all_match([("a.x", "d.x"), ("a.y", "d.y")], [pa.chunked_array([[1, 1]]), pa.chunked_array([[5, None]])])
    'a.x = d.x AND a.y IS NOT DISTINCT FROM d.y'
    >>> all_match([("a.x", "d.x"), ("a.y", "d.y")], [pa.chunked_array([[7] * 8]), pa.chunked_array([list(range(8))])])
    'a.y = d.y AND CASE WHEN a.x = d.x THEN TRUE ELSE FALSE END'
    """
    texts = [_equal_text(pair, column) for pair, column in zip(pairs, columns, strict=True)]
    driver = _driver(columns)
    if driver is None:
        return " AND ".join(texts)
    return _all_equal([texts[driver], *(text for i, text in enumerate(texts) if i != driver)], 1)


def _equal_text(pair: tuple[str, str], column: pa.ChunkedArray) -> str:
    left, right = pair
    return f"{left} {'IS NOT DISTINCT FROM' if column.null_count else '='} {right}"


def _all_equal(texts: Sequence[str], driving: int) -> str:
    """All conditions, of which so many first ones drive the join."""
    first, rest = " AND ".join(texts[:driving]), " AND ".join(texts[driving:])
    return f"{first} AND CASE WHEN {rest} THEN TRUE ELSE FALSE END" if rest else first


def _driver(columns: Sequence[pa.ChunkedArray]) -> int | None:
    """The first column without NULLs that tells most rows apart."""
    for position, column in enumerate(columns):
        distinct = 0 if column.null_count else distinct_values(column)
        if distinct > 1 and distinct * DUCKDB.selective >= len(column):
            return position
    return None


class Applying:
    """Changes one relation by a delta. ``registered`` gives a name under which DuckDB can read the delta."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        relation: StoredRelation,
        delta: pa.Table,
        registered: Callable[[pa.Table], str],
        key: tuple[int, ...] = (),
    ) -> None:
        self._connection, self._relation = connection, relation
        self._delta, self._key = delta, key or relation.key
        self._name: Callable[[], str] = lambda: registered(delta)

    def run(self) -> TidemarkError | None:
        """Remove and add; what is to be told if rows were not there that should leave."""
        leaving, coming = delta_tables.deleted(self._delta), delta_tables.inserted(self._delta)
        wanted = delta_tables.size(leaving) if leaving.num_rows else 0
        found = 0
        is_one_for_one = len(self._delta) == 2 and self._delta.column(WEIGHT).to_pylist() in ([-1, 1], [1, -1])
        if is_one_for_one:
            found = self._replace(leaving, coming)
        elif wanted:
            found = self._remove(leaving)
        if coming.num_rows and not (is_one_for_one and found):
            self._add(coming)
        if found == wanted:
            return None
        return TidemarkError(
            "damaged",
            f"{self._relation.name} should lose {wanted} rows, but {found} were found",
            hint="run AUDIT on its views; the stored content was changed by somebody else",
        )

    # A row for another

    def _replace(self, leaving: pa.Table, coming: pa.Table) -> int:
        """Change one copy of a row into another row; how many were found."""
        [old], [new] = bag_of(leaving), bag_of(coming)
        changed = zip(self._names(), self._cells(new), old, new, strict=True)
        set_ = ", ".join(f"{name} = {cell}" for name, cell, before, after in changed if before != after)
        if self._key:
            where = self._equals(old)
        else:
            where = f"{PLACE} IN (SELECT {PLACE} FROM {self._relation.table} WHERE {self._equals(old)} LIMIT 1)"
        return self._run(f"UPDATE {self._relation.table} SET {set_} WHERE {where}")

    # Rows leave

    def _remove(self, leaving: pa.Table) -> int:
        """Remove as many equal rows as the negative weights say; how many were found."""
        if leaving.num_rows == 1:
            return self._remove_copies(leaving)
        return self._remove_by_key(leaving) if self._key else self._remove_matching(leaving)

    def _remove_copies(self, leaving: pa.Table) -> int:
        """Remove copies of one row."""
        [(row, weight)] = bag_of(leaving).items()
        table = self._relation.table
        if self._key:
            return self._run(f"DELETE FROM {table} WHERE {self._equals(row)}")
        chosen = f"SELECT {PLACE} FROM {table} WHERE {self._equals(row)} LIMIT {-weight}"
        return self._run(f"DELETE FROM {table} WHERE {PLACE} IN ({chosen})")

    def _remove_by_key(self, leaving: pa.Table) -> int:
        return self._run(
            f"DELETE FROM {self._relation.table} AS r USING {self._name()} AS d "
            f"WHERE d.{WEIGHT} < 0 AND {self._equal(leaving.columns[:-1])}"
        )

    def _remove_matching(self, leaving: pa.Table) -> int:
        table = self._relation.table
        equal = self._equal(leaving.columns[:-1])
        entries = f"(SELECT *, row_number() OVER () AS entry FROM {self._name()} WHERE {WEIGHT} < 0) AS d"
        return self._run(
            f"DELETE FROM {table} WHERE {PLACE} IN (SELECT id FROM (SELECT r.{PLACE} AS id, d.{WEIGHT} AS weight, "
            f"row_number() OVER (PARTITION BY d.entry) AS copy FROM {table} AS r JOIN {entries} "
            f"ON {equal}) AS found WHERE copy <= -weight)"
        )

    def _equal(self, columns: Sequence[pa.ChunkedArray]) -> str:
        """Whole rows of r and d are equal. The column that may drive the join comes first: one of the key, else the one
        with the most values."""
        names, key = self._names(), self._key
        others = [p for p in range(len(names)) if p not in key]
        order = [*key, *others] if key else sorted(others, key=lambda p: -distinct_values(columns[p]))
        pairs, values = [(f"r.{names[p]}", f"d.c{p}") for p in order], [columns[p] for p in order]
        if not key or len(self._delta) <= MANY or any(columns[p].null_count for p in key):
            return all_match(pairs, values)
        # So many rows are everywhere in the table: nothing is pruned, and the whole key finds fewer to compare.
        return _all_equal([_equal_text(*pair) for pair in zip(pairs, values, strict=True)], len(key))

    # Rows come

    def _add(self, coming: pa.Table) -> None:
        into = f"INSERT INTO {self._relation.table}"
        if delta_tables.size(coming) <= DUCKDB.literal_rows:
            bag = bag_of(coming)
            rows = (f"({', '.join(self._cells(row))})" for row, weight in bag.items() for _ in range(weight))
            self._run(f"{into} VALUES {', '.join(rows)}")
            return
        shown = ", ".join(f"d.c{i}" for i in range(len(self._relation.schema)))
        source = f"{self._name()} AS d"
        if pc.max(coming.column(WEIGHT)).as_py() > 1:
            source += f", LATERAL (SELECT unnest(range(d.{WEIGHT}))) AS copies"
        self._run(f"{into} SELECT {shown} FROM {source} WHERE d.{WEIGHT} > 0")

    # Text

    def _run(self, text: str) -> int:
        return int(self._connection.execute(text).fetchall()[0][0])

    def _names(self) -> list[str]:
        return [quote(field.name) for field in self._relation.schema.fields]

    def _equals(self, row: tuple[Value, ...]) -> str:
        """The columns have the values of a row."""
        cells = (Literal(value, type) for value, type in zip(row, self._relation.schema.types, strict=True))
        return " AND ".join(f"{name} {_is(cell)}" for name, cell in zip(self._names(), cells, strict=True))

    def _cells(self, row: tuple[Value, ...]) -> list[str]:
        return [assigned_text(Literal(v, t)) for v, t in zip(row, self._relation.schema.types, strict=True)]


def _is(cell: Literal) -> str:
    return "IS NULL" if cell.value is None else f"= {compared_text(cell)}"


Store = Callable[[str, pa.Table, tuple[int, ...]], None]
"""Stores the change of a relation, which has this key if the relation does not say so itself."""


class Ahead:
    """What was written before the commit, by relation. ``undo`` forgets what is not committed."""

    def __init__(self, begin: Callable[[], None], store: Store, undo: Callable[[], None]) -> None:
        self._begin, self._store, self._undo = begin, store, undo
        self.deltas: dict[str, pa.Table] = {}
        self.is_begun = False

    @hearing_interrupts()
    def begin(self) -> None:
        """Begin a transaction of DuckDB's, after all that was committed is in the tables."""
        self.is_begun = True
        with translating():
            self._begin()

    @hearing_interrupts()
    def write(self, relation: str, delta: pa.Table, key: tuple[int, ...]) -> None:
        """Have the relation as it will be with its net change."""
        with translating():
            self._store(relation, delta, key)
        self.deltas[relation] = delta

    def forget(self) -> None:
        """Forget what was written, if anything was: it will not be committed."""
        if self.is_begun:
            self._undo()

    def ended(self) -> None:
        """The transaction is over."""
        self.deltas, self.is_begun = {}, False

    def reads(self, relations: Iterable[str]) -> bool:
        """Whether one of these relations is not as it was committed."""
        return bool(self.deltas) and not self.deltas.keys().isdisjoint(relations)

    def must_be_part_of(self, deltas: Mapping[str, pa.Table]) -> None:
        """Refuse a commit that has not what was written."""
        others = [name for name, delta in self.deltas.items() if deltas.get(name) is not delta]
        if others:
            raise ValueError(f"what was written ahead of {', '.join(others)} is not what is committed")
