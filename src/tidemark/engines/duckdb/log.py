"""The log of changes in a DuckDB database: small deltas as Arrow in one table, large ones in tables of their own.

Small deltas are quick to add and slow to read, one by one. So when a relation has many, they are moved to its own
table, where reading them takes as long as their rows are many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from tidemark.algebra.types import VERSION, WEIGHT
from tidemark.engines.duckdb.dialect import quote
from tidemark.engines.duckdb.tables import OWN_SCHEMA, StoredRelation
from tidemark.engines.limits import DUCKDB
from tidemark.storage.streams import entries, log_schema, read_many, to_bytes


def append(
    connection: duckdb.DuckDBPyConnection,
    relations: Mapping[str, StoredRelation],
    deltas: Mapping[str, pa.Table],
    version: int,
) -> list[str]:
    """Log the deltas of one commit, and say which of them as small ones."""
    inline: list[tuple[int, str, bytes]] = []
    for name, delta in deltas.items():
        if not relations[name].logged or not delta.num_rows:
            continue
        if delta.num_rows <= DUCKDB.inline_rows:
            inline.append((version, name, to_bytes(delta)))
        else:
            append_rows(connection, relations[name], _stamped(delta, version))
    append_streams(connection, inline)
    return [name for _, name, _ in inline]


def append_streams(connection: duckdb.DuckDBPyConnection, streams: Sequence[tuple[int, str, bytes]]) -> None:
    """Log small deltas: version, relation and the delta as Arrow."""
    if not streams:
        return
    versions, names, written = zip(*streams, strict=True)
    columns = {
        "v": pa.array(versions, pa.int64()),
        "r": pa.array(names, pa.string()),
        "d": pa.array(written, pa.binary()),
    }
    connection.register("delta", pa.table(columns))
    connection.execute(f"INSERT INTO {OWN_SCHEMA}.log SELECT v, r, d FROM delta")
    connection.unregister("delta")  # after a failure it goes with the transaction


def counted(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """How many small deltas each relation has."""
    return dict(connection.execute(f"SELECT relation, count(*) FROM {OWN_SCHEMA}.log GROUP BY ALL").fetchall())


def gather(connection: duckdb.DuckDBPyConnection, relation: StoredRelation) -> None:
    """Move the small deltas of a relation to its own table, inside a transaction of the engine."""
    parts = _inline(connection, relation, -1)
    if parts:
        append_rows(connection, relation, pa.concat_tables(parts))
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


def append_rows(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, stamped: pa.Table) -> None:
    """Log the rows of deltas, each with its version."""
    names = [*(f"c{i}" for i in range(len(relation.schema))), VERSION, WEIGHT]
    columns = ", ".join(quote(name) for name in (*relation.schema.names, VERSION, WEIGHT))
    connection.register("delta", stamped.rename_columns(names))
    connection.execute(f"INSERT INTO {relation.log_table} ({columns}) SELECT {', '.join(names)} FROM delta")
    connection.unregister("delta")  # after a failure it goes with the transaction
