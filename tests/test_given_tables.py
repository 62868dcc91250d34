"""The names under which DuckDB reads given tables."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from tidemark.engines.duckdb.embedded import MOST_KEPT, GivenTables


def table(value: int) -> pa.Table:
    return pa.table({"x": [value], "_weight": [1]})


def test_tables_of_one_statement_have_names_of_their_own() -> None:
    """A table that has a name already must not lose it to a new table of the same statement."""
    connection = duckdb.connect()
    given = GivenTables(connection)
    first = table(0)
    given.names_of([first])
    for value in range(1, MOST_KEPT):
        given.names_of([table(value)])
    names = given.names_of([table(100), first])  # the ring has come round to the first one's name
    assert [connection.execute(f"SELECT c0 FROM {name}").fetchall() for name in names] == [[(100,)], [(0,)]]
