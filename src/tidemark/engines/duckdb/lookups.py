"""Point reads: the rows of a stored relation that have one of a few keys in a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import duckdb

from tidemark.algebra.expressions import Literal
from tidemark.algebra.functions import canonical
from tidemark.algebra.plans import Stored
from tidemark.engines.duckdb.dialect import DuckDBDialect, quote
from tidemark.engines.outward import Keys
from tidemark.engines.reference.evaluate import Bag

MOST_FOUND: Final = 500
MOST_KEPT: Final = 64


class Lookups:
    """Answers look-ups, and remembers the answers until the stored relations change."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, table_of: Callable[[str], str]) -> None:
        self._connection = connection
        self._table_of = table_of
        self._dialect = DuckDBDialect(table_of, {})
        self._kept: dict[tuple[str, int, Keys], Bag | None] = {}

    def __call__(self, relation: Stored, column: int, keys: Keys) -> Bag | None:
        asked = (relation.relation, column, keys)
        if asked not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[asked] = self._read(relation, column, keys)
        return self._kept[asked]

    def forget(self) -> None:
        """The stored relations have changed."""
        self._kept.clear()

    def _read(self, relation: Stored, column: int, keys: Keys) -> Bag | None:
        field = relation.schema[column]
        listed = ", ".join(self._dialect.literal(Literal(key, field.type)) for key in keys)
        shown = ", ".join(quote(name) for name in relation.schema.names)
        rows = self._connection.execute(
            f"SELECT {shown} FROM {self._table_of(relation.relation)} "
            f"WHERE {quote(field.name)} IN ({listed}) LIMIT {MOST_FOUND + 1}"
        ).fetchall()
        if len(rows) > MOST_FOUND:
            return None
        found: Bag = {}
        for values in rows:
            row = tuple(canonical(value) for value in values)
            found[row] = found.get(row, 0) + 1
        return found
