"""Applying a delta to a stored relation: rows leave, then rows come; one row for another is an update of its place.

Leaving rows are matched as a whole and counted: fewer than expected is the error ``damaged``. Where a look-up of this
transaction has met them already, they are compared with what it found, and are removed by their places.

A few rows are written into the statements themselves, which spares handing over an Arrow table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Literal, Value
from tidemark.algebra.types import WEIGHT
from tidemark.engines.duckdb.dialect import assigned_text, compared_text, quote
from tidemark.engines.duckdb.lookups import PLACE, StoredRows
from tidemark.engines.duckdb.matching import all_match
from tidemark.engines.duckdb.storage import StoredRelation
from tidemark.engines.rows import bag_of
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.log.codes import distinct_values

FEW: Final = 64
"""Up to so many leaving rows are looked for one by one among those whose places are known."""
MOST_LITERAL_ROWS: Final = 8
"""Up to so many rows are written into a statement; parsing more costs more than handing over an Arrow table."""
_PLACES: Final = "_tidemark_places"


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

    def run(self, known: Iterable[StoredRows]) -> None:
        """Remove and add. ``known`` are rows of the relation, as they are stored now, with their places."""
        leaving, coming = delta_tables.deleted(self._delta), delta_tables.inserted(self._delta)
        is_one_for_one = (
            self._delta.column(WEIGHT).to_pylist() in ([-1, 1], [1, -1]) if len(self._delta) == 2 else False
        )
        if leaving.num_rows:
            wanted = delta_tables.size(leaving)
            if is_one_for_one:
                found = self._replace(leaving, coming, list(known))
            else:
                found = self._remove(leaving, list(known))
            if found != wanted:
                raise TidemarkError(
                    "damaged",
                    f"{self._relation.name} should lose {wanted} rows, but {found} were found",
                    hint="run AUDIT on its views; the stored content was changed by somebody else",
                )
        if coming.num_rows and not is_one_for_one:
            self._add(coming)

    # A row for another

    def _replace(self, leaving: pa.Table, coming: pa.Table, known: Sequence[StoredRows]) -> int:
        """Change one copy of a row into another row; how many were found."""
        [old], [new] = bag_of(leaving), bag_of(coming)
        changed = zip(self._names(), self._cells(new), old, new, strict=True)
        set_ = ", ".join(f"{name} = {cell}" for name, cell, before, after in changed if before != after)
        places = self._places(leaving, known)
        if places is not None:
            where = f"{PLACE} = {places[0].as_py()}"
        elif self._key:
            where = self._equals(old)
        else:
            where = f"{PLACE} IN (SELECT {PLACE} FROM {self._relation.table} WHERE {self._equals(old)} LIMIT 1)"
        return self._run(f"UPDATE {self._relation.table} SET {set_} WHERE {where}")

    # Rows leave

    def _remove(self, leaving: pa.Table, known: Sequence[StoredRows]) -> int:
        """Remove as many equal rows as the negative weights say; how many were found."""
        places = self._places(leaving, known)
        if places is not None:
            return self._remove_at(places)
        if leaving.num_rows == 1:
            return self._remove_copies(leaving)
        return self._remove_by_key(leaving) if self._key else self._remove_matching(leaving)

    def _places(self, leaving: pa.Table, known: Sequence[StoredRows]) -> pa.Array | None:
        """The places of the rows that leave, if all of them are known."""
        if leaving.num_rows <= FEW:
            return _places_of_few(leaving, [rows.places for rows in known if isinstance(rows.places, dict)])
        tables = [rows for rows in known if isinstance(rows.places, pa.ChunkedArray)]
        # Without a key a row may stand several times, and only some of its copies leave.
        return _places_of_many(leaving, tables) if tables and self._key else None

    def _remove_at(self, places: pa.Array) -> int:
        table = self._relation.table
        if len(places) <= MOST_LITERAL_ROWS:
            return self._run(f"DELETE FROM {table} WHERE {PLACE} IN ({', '.join(map(str, places.to_pylist()))})")
        self._connection.register(_PLACES, pa.Table.from_arrays([places], names=["place"]))
        return self._run(f"DELETE FROM {table} WHERE {PLACE} IN (SELECT place FROM {_PLACES})")

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
        order = [*key, *sorted(others, key=lambda p: -distinct_values(columns[p]))]
        return all_match([(f"r.{names[p]}", f"d.c{p}") for p in order], [columns[p] for p in order])

    # Rows come

    def _add(self, coming: pa.Table) -> None:
        into = f"INSERT INTO {self._relation.table}"
        if delta_tables.size(coming) <= MOST_LITERAL_ROWS:
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


def _places_of_few(leaving: pa.Table, known: Sequence[Mapping[tuple[Value, ...], Sequence[int]]]) -> pa.Array | None:
    chosen: list[int] = []
    for row, weight in bag_of(leaving).items():
        places = {place for part in known for place in part.get(row, ())}
        if len(places) < -weight:
            return None
        chosen += sorted(places)[:-weight]
    return pa.array(chosen, pa.int64())


def _places_of_many(leaving: pa.Table, known: Sequence[StoredRows]) -> pa.Array | None:
    if any(pa.types.is_nested(type_) for type_ in leaving.schema.types):
        return None  # Arrow does not join by lists
    names = [f"c{i}" for i in range(leaving.num_columns - 1)]
    columns = list(range(len(names)))
    stored = pa.concat_tables([rows.table.select(columns).append_column("place", rows.places) for rows in known])
    wanted = leaving.select(columns).rename_columns(names)
    # Arrow's join leaves out rows with NULL, which then are searched for.
    joined = wanted.join(stored.rename_columns([*names, "place"]), keys=names, join_type="inner", use_threads=False)
    places = pc.unique(joined.column("place"))
    return places if len(places) == leaving.num_rows else None


def _is(cell: Literal) -> str:
    return "IS NULL" if cell.value is None else f"= {compared_text(cell)}"
