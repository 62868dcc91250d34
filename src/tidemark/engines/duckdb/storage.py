"""How relations, their logs and the commits lie in a DuckDB database.

User tables and views are plain tables of the main schema, equal rows repeated, so that any DuckDB client can read
them. Everything else (commits, logs, inner states) lies in the schema ``_tidemark``.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from tidemark.algebra.functions import duckdb_type
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.engines.duckdb.dialect import quote
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables

FORMAT = 1
OWN_SCHEMA = "_tidemark"


@dataclass(frozen=True)
class StoredRelation:
    """One stored relation: where it lies and whether its changes are logged."""

    name: str
    schema: Schema
    logged: bool
    internal: bool

    @property
    def table(self) -> str:
        return f"{OWN_SCHEMA if self.internal else 'main'}.{quote(self.name)}"

    @property
    def log_table(self) -> str:
        return f"{OWN_SCHEMA}.{quote('log ' + self.name)}"


def prepare(connection: duckdb.DuckDBPyConnection, path: str) -> None:
    """Make an empty database ours; refuse one that is somebody else's or from a newer Tidemark."""
    if _has_table(connection, OWN_SCHEMA, "format"):
        found = connection.execute(f"SELECT version FROM {OWN_SCHEMA}.format").fetchall()
        if found != [(FORMAT,)]:
            raise TidemarkError(
                "format",
                f"{path} has the storage format {found}, this Tidemark reads {FORMAT}",
                hint="open it with the version of Tidemark that wrote it",
            )
        return
    if connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() != [(0,)]:
        raise TidemarkError(
            "not_a_database",
            f"{path} is a DuckDB file, but not a Tidemark database",
            hint="give Tidemark a file of its own",
        )
    connection.execute("BEGIN")
    connection.execute(f"CREATE SCHEMA {OWN_SCHEMA}")
    connection.execute(f"CREATE TABLE {OWN_SCHEMA}.format AS SELECT CAST({FORMAT} AS INTEGER) AS version")
    connection.execute(
        f"CREATE TABLE {OWN_SCHEMA}.commits "
        "(version BIGINT, time TIMESTAMP, catalog VARCHAR[], trace VARCHAR, relations VARCHAR)"
    )
    connection.execute("COMMIT")


def create(connection: duckdb.DuckDBPyConnection, relation: StoredRelation) -> None:
    columns = [f"{quote(f.name)} {duckdb_type(f.type)}" for f in relation.schema.fields]
    connection.execute(f"CREATE TABLE {relation.table} ({', '.join(columns)})")
    if relation.logged:
        stamps = [f"{VERSION} BIGINT", f"{WEIGHT} BIGINT"]
        connection.execute(f"CREATE TABLE {relation.log_table} ({', '.join(columns + stamps)})")


def drop(connection: duckdb.DuckDBPyConnection, relation: StoredRelation) -> None:
    connection.execute(f"DROP TABLE {relation.table}")
    if relation.logged:
        connection.execute(f"DROP TABLE {relation.log_table}")


def apply_delta(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, delta: pa.Table, version: int) -> None:
    """Bring the stored rows up to date and append the delta to the log."""
    names = [f"c{i}" for i in range(len(relation.schema))]
    nullable = {name for name, column in zip(names, delta.columns, strict=False) if column.null_count}
    connection.register("delta", delta.rename_columns([*names, WEIGHT]))
    try:
        _delete(connection, relation, names, nullable, delta)
        connection.execute(
            f"INSERT INTO {relation.table} SELECT {', '.join(f'd.{name}' for name in names)} FROM delta AS d, "
            f"LATERAL (SELECT unnest(range(d.{WEIGHT}))) AS copies WHERE d.{WEIGHT} > 0"
        )
        if relation.logged:
            connection.execute(
                f"INSERT INTO {relation.log_table} SELECT {', '.join(names)}, {version}, {WEIGHT} FROM delta"
            )
    finally:
        connection.unregister("delta")


def _delete(
    connection: duckdb.DuckDBPyConnection,
    relation: StoredRelation,
    names: list[str],
    nullable: set[str],
    delta: pa.Table,
) -> None:
    """Remove as many equal rows as the negative weights say; fewer found means a damaged database."""
    leaving = delta_tables.size(delta_tables.deleted(delta))
    if not leaving:
        return
    # '=' wherever the delta holds no NULL: DuckDB prunes by it, and cannot by IS NOT DISTINCT FROM.
    matches = " AND ".join(
        f"r.{quote(f.name)} {'IS NOT DISTINCT FROM' if name in nullable else '='} d.{name}"
        for name, f in zip(names, relation.schema.fields, strict=True)
    )
    partition = ", ".join(f"d.{name}" for name in names)
    found = connection.execute(
        f"DELETE FROM {relation.table} WHERE rowid IN (SELECT id FROM (SELECT r.rowid AS id, d.{WEIGHT} AS weight, "
        f"row_number() OVER (PARTITION BY {partition}) AS copy FROM {relation.table} AS r JOIN "
        f"(SELECT * FROM delta WHERE {WEIGHT} < 0) AS d ON {matches}) AS found WHERE copy <= -weight)"
    ).fetchall()[0][0]
    if found != leaving:
        raise TidemarkError(
            "damaged",
            f"{relation.name} should lose {leaving} rows, but only {found} were found",
            hint="run AUDIT on its views; the stored content was changed by somebody else",
        )


def _has_table(connection: duckdb.DuckDBPyConnection, schema: str, table: str) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?", [schema, table]
    ).fetchall()
    return bool(found != [(0,)])
