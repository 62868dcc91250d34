"""Arrow tables that the embedded DuckDB can read by name.

Registering one costs about a millisecond, as much as a small statement, and a transaction reads the same deltas and the
same tails in many: so a table keeps its name until the stored relations have changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import duckdb
import pyarrow as pa

from tidemark.algebra.types import WEIGHT

MOST_KEPT: Final = 256
MOST_ROWS_KEPT: Final = 1_000_000
"""Beyond these the tables should go before the next statement; one statement may name as many as it needs."""


class Registered:
    """Names of weighted tables, with positional column names."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._kept: dict[int, tuple[pa.Table, str]] = {}
        self._numbered = 0

    def name_of(self, table: pa.Table) -> str:
        kept = self._kept.get(id(table))
        if kept is not None:
            return kept[1]
        self._numbered += 1
        name = f"arrow_{self._numbered}"
        positional = [f"c{i}" for i in range(table.num_columns - 1)] + [WEIGHT]
        self._connection.register(name, table.rename_columns(positional))
        # The table itself is kept, so that its identity cannot be taken by another one.
        self._kept[id(table)] = (table, name)
        return name

    def keep_only(self, tables: Iterable[pa.Table]) -> None:
        wanted = {id(table) for table in tables}
        for key in [key for key in self._kept if key not in wanted]:
            self._connection.unregister(self._kept.pop(key)[1])

    @property
    def is_full(self) -> bool:
        return len(self._kept) > MOST_KEPT or sum(table.num_rows for table, _ in self._kept.values()) > MOST_ROWS_KEPT
