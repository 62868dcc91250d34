"""The log of changes in a DuckDB database: small deltas as Arrow in one table, large ones in tables of their own.

Small deltas are quick to add and slow to read, one by one. So when a relation has many, they are moved to its own
table, where reading them takes as long as their rows are many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import duckdb
import pyarrow as pa

from tidemark.algebra.types import VERSION, WEIGHT
from tidemark.engines.duckdb.dialect import quote
from tidemark.engines.duckdb.storage import OWN_SCHEMA, StoredRelation
from tidemark.log.entries import entries, log_schema
from tidemark.log.streams import read_many, to_bytes

MOST_ROWS_INLINE: Final = 50_000
"""Up to so many entries are logged as Arrow, which takes half the time of adding them to a table."""


def append(
    connection: duckdb.DuckDBPyConnection,
    relations: Mapping[str, StoredRelation],
    deltas: Mapping[str, pa.Table],
    version: int,
) -> list[str]:
    """Log the deltas of one commit, and say which of them as small ones."""
    inline: list[object] = []
    for name, delta in deltas.items():
        if not relations[name].logged or not delta.num_rows:
            continue
        if delta.num_rows <= MOST_ROWS_INLINE:
            inline += [version, name, to_bytes(delta)]
        else:
            _append_rows(connection, relations[name], _stamped(delta, version))
    if inline:
        places = ", ".join(["(?, ?, ?)"] * (len(inline) // 3))
        connection.execute(f"INSERT INTO {OWN_SCHEMA}.log VALUES {places}", inline)
    return [str(name) for name in inline[1::3]]


def counted(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """How many small deltas each relation has."""
    return dict(connection.execute(f"SELECT relation, count(*) FROM {OWN_SCHEMA}.log GROUP BY ALL").fetchall())


def gather(connection: duckdb.DuckDBPyConnection, relation: StoredRelation) -> None:
    """Move the small deltas of a relation to its own table, inside a transaction of the engine."""
    parts = _inline(connection, relation, -1)
    if parts:
        _append_rows(connection, relation, pa.concat_tables(parts))
        forget(connection, relation)


def read(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, since: int) -> pa.Table:
    """The changes of a relation after a version, in the order of versions."""
    schema = log_schema(relation.schema)
    shown = ", ".join(quote(name) for name in schema.names)
    rows = connection.sql(f"SELECT {shown} FROM {relation.log_table} WHERE {VERSION} > {int(since)}").to_arrow_table()
    parts = [rows.rename_columns(schema.names).cast(schema), *_inline(connection, relation, since)]
    return pa.concat_tables(parts).sort_by(VERSION)


def _inline(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, since: int) -> list[pa.Table]:
    """The small deltas of a relation after a version, each with its version, in order."""
    found = connection.execute(
        f"SELECT version, delta FROM {OWN_SCHEMA}.log WHERE relation = ? AND version > ? ORDER BY version",
        [relation.name, since],
    ).fetchall()
    runs = read_many([data for _, data in found])
    return list(entries([version for version, _ in found], runs, relation.schema, relation.added))


def _stamped(delta: pa.Table, version: int) -> pa.Table:
    stamp = pa.repeat(pa.scalar(version, pa.int64()), delta.num_rows)
    return delta.add_column(delta.num_columns - 1, VERSION, stamp)


def forget(connection: duckdb.DuckDBPyConnection, relation: StoredRelation) -> None:
    """Remove what is logged of a relation that is dropped."""
    connection.execute(f"DELETE FROM {OWN_SCHEMA}.log WHERE relation = ?", [relation.name])


def _append_rows(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, stamped: pa.Table) -> None:
    names = [*(f"c{i}" for i in range(len(relation.schema))), VERSION, WEIGHT]
    columns = ", ".join(quote(name) for name in (*relation.schema.names, VERSION, WEIGHT))
    connection.register("delta", stamped.rename_columns(names))
    try:
        connection.execute(f"INSERT INTO {relation.log_table} ({columns}) SELECT {', '.join(names)} FROM delta")
    finally:
        connection.unregister("delta")
