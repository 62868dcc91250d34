"""How relations, their logs and the commits lie in a DuckDB database.

User tables and views are plain tables of the main schema, equal rows repeated, so that any DuckDB client can read
them. Everything else (commits, logs, inner states) lies in the schema ``_tidemark``. Small deltas are logged as Arrow,
all those of a commit with one statement; large ones in a table of their relation.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import duckdb

from tidemark.algebra.expressions import Literal, Value
from tidemark.algebra.functions import duckdb_type
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.engines.duckdb.dialect import literal_text, quote
from tidemark.engines.duckdb.settings import configure
from tidemark.errors import TidemarkError
from tidemark.storage.commit import Alteration

CLOSED, OPEN = 1, 2
"""The format of a file that has everything, and of one that belongs together with the tide beside it."""
OWN_SCHEMA = "_tidemark"
NOTES = f"CREATE TABLE IF NOT EXISTS {OWN_SCHEMA}.notes (name VARCHAR, text VARCHAR)"


@dataclass(frozen=True)
class StoredRelation:
    """One stored relation: where it lies and whether its changes are logged."""

    name: str
    schema: Schema
    logged: bool
    internal: bool
    key: tuple[int, ...] = ()
    added: tuple[Value, ...] = ()
    """What entries that were logged before have in the columns that came later, which are the last ones."""
    kept: bool = True
    """Whether there is content, and not only a log."""

    @property
    def table(self) -> str:
        return f"{OWN_SCHEMA if self.internal else 'main'}.{quote(self.name)}"

    @property
    def log_table(self) -> str:
        return f"{OWN_SCHEMA}.{quote('log ' + self.name)}"


def prepare(connection: duckdb.DuckDBPyConnection, path: str) -> None:
    """Make an empty database ours; refuse one that is somebody else's or from a newer Tidemark."""
    configure(connection)
    if _has_table(connection, OWN_SCHEMA, "format"):
        found = connection.execute(f"SELECT version FROM {OWN_SCHEMA}.format").fetchall()
        if found not in ([(CLOSED,)], [(OPEN,)]):
            written = ", ".join(str(number) for (number,) in found)
            raise TidemarkError(
                "format",
                f"{path} has the storage format {written}, this Tidemark reads {CLOSED} and {OPEN}",
                hint="open it with the version of Tidemark that wrote it",
            )
        # Databases of earlier versions have none of these.
        connection.execute(NOTES)
        if not _has_table(connection, OWN_SCHEMA, "tide"):
            give_id(connection)
        return
    if connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() != [(0,)]:
        raise TidemarkError(
            "not_a_database",
            f"{path} is a DuckDB file, but not a Tidemark database",
            hint="give Tidemark a file of its own",
        )
    connection.execute("BEGIN")
    connection.execute(f"CREATE SCHEMA {OWN_SCHEMA}")
    connection.execute(f"CREATE TABLE {OWN_SCHEMA}.format AS SELECT CAST({CLOSED} AS INTEGER) AS version")
    connection.execute(
        f"CREATE TABLE {OWN_SCHEMA}.commits "
        "(version BIGINT, time TIMESTAMP, catalog VARCHAR[], trace VARCHAR, relations VARCHAR)"
    )
    connection.execute(f"CREATE TABLE {OWN_SCHEMA}.log (version BIGINT, relation VARCHAR, delta BLOB)")
    connection.execute(NOTES)
    give_id(connection)
    connection.execute("COMMIT")


def give_id(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the database another one than that of which it may be a copy: its tide has the id, too."""
    connection.execute(f"CREATE OR REPLACE TABLE {OWN_SCHEMA}.tide AS SELECT ? AS id", [uuid.uuid4().hex])


def identity(connection: duckdb.DuckDBPyConnection) -> tuple[bytes, bool]:
    """The id of the database, and whether it belongs together with a tide."""
    text = f"SELECT t.id, f.version FROM {OWN_SCHEMA}.tide AS t, {OWN_SCHEMA}.format AS f"
    [(id_, version)] = connection.execute(text).fetchall()
    return bytes.fromhex(id_), version == OPEN


def create(connection: duckdb.DuckDBPyConnection, relation: StoredRelation) -> None:
    columns = [f"{quote(f.name)} {duckdb_type(f.type)}" for f in relation.schema.fields]
    if relation.kept:
        connection.execute(f"CREATE TABLE {relation.table} ({', '.join(columns)})")
    if relation.logged:
        stamps = [f"{VERSION} BIGINT", f"{WEIGHT} BIGINT"]
        connection.execute(f"CREATE TABLE {relation.log_table} ({', '.join(columns + stamps)})")


def alter(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, alteration: Alteration) -> StoredRelation:
    """Add columns to the stored rows and to the logged ones."""
    width = len(relation.schema)
    for field, value in zip(alteration.schema.fields[width:], alteration.values, strict=True):
        column = f"{quote(field.name)} {duckdb_type(field.type)} DEFAULT {literal_text(Literal(value, field.type))}"
        for table in (relation.table, *((relation.log_table,) if relation.logged else ())):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
            # The default has done its work: defaults of later rows are not the engine's.
            connection.execute(f"ALTER TABLE {table} ALTER COLUMN {quote(field.name)} DROP DEFAULT")
    return replace(relation, schema=alteration.schema, added=relation.added + alteration.values)


def drop(connection: duckdb.DuckDBPyConnection, relation: StoredRelation) -> None:
    if relation.kept:
        connection.execute(f"DROP TABLE {relation.table}")
    if relation.logged:
        connection.execute(f"DROP TABLE {relation.log_table}")


def _has_table(connection: duckdb.DuckDBPyConnection, schema: str, table: str) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?", [schema, table]
    ).fetchall()
    return bool(found != [(0,)])
