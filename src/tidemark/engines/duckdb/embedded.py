"""Arrow tables that DuckDB can read by name, kept registered for a while.

One transaction reads the same deltas, and on a lake the same tails, in many statements. Registering a table costs as
much as a small statement, so it stays under its name: in a ring of names until that name is needed for another one, or
until the stored relations have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

import duckdb
import pyarrow as pa

from tidemark.algebra.types import WEIGHT
from tidemark.engines.duckdb.dialect import hearing_interrupts

MOST_KEPT = 32
MOST_ROWS_KEPT = 200_000


class GivenTables:
    """A ring of names under which weighted tables are registered, with positional column names."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._kept: dict[int, tuple[pa.Table, str]] = {}
        self._next = 0
        self._size = MOST_KEPT

    def names_of(self, tables: list[pa.Table]) -> list[str]:
        """The names of the tables that one statement reads, all valid at once."""
        if len(tables) * 2 > self._size:
            self._size = len(tables) * 2
        # Those that have a name already keep it: a new one must not take it from them.
        used = {self._kept[id(table)][1] for table in tables if id(table) in self._kept}
        return [self.name_of(table, used) for table in tables]

    def name_of(self, table: pa.Table, used: Set[str] = frozenset()) -> str:
        """The name under which the table can be read, until as many others were asked for as are kept."""
        kept = self._kept.get(id(table))
        if kept is not None:
            return kept[1]
        name = self._following()
        while name in used:
            name = self._following()
        self._kept = {key: entry for key, entry in self._kept.items() if entry[1] != name}
        positional = [f"c{i}" for i in range(table.num_columns - 1)] + [WEIGHT]
        with hearing_interrupts():
            self._connection.register(name, table.rename_columns(positional))
        # The table itself is kept, so that its identity cannot be taken by another one.
        self._kept[id(table)] = (table, name)
        return name

    def _following(self) -> str:
        """The next name of the ring."""
        name = f"_tidemark_given_{self._next}"
        self._next = (self._next + 1) % self._size
        return name

    def release(self) -> None:
        """Let go of the tables if they are large."""
        if sum(table.num_rows for table, _ in self._kept.values()) > MOST_ROWS_KEPT:
            for _, name in self._kept.values():
                self._connection.unregister(name)
            self._kept = {}

    def rolled_back(self) -> None:
        """Names that were registered inside a transaction may be gone with it: trust none of them."""
        self._kept = {}


MOST_REGISTERED: Final = 256
MOST_ROWS_REGISTERED: Final = 1_000_000
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
        with hearing_interrupts():
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
        return (
            len(self._kept) > MOST_REGISTERED
            or sum(table.num_rows for table, _ in self._kept.values()) > MOST_ROWS_REGISTERED
        )
