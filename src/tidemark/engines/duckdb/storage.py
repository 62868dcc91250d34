"""How relations, their logs and the commits lie in a DuckDB database.

User tables and views are plain tables of the main schema, equal rows repeated, so that any DuckDB client can read
them. Everything else (commits, logs, inner states) lies in the schema ``_tidemark``. Small deltas are logged as Arrow,
all those of a commit with one statement; large ones in a table of their relation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Literal, Value
from tidemark.algebra.functions import duckdb_type
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.engines.duckdb.dialect import all_equal, literal_text, quote
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.log.commit import Alteration

FORMAT = 1
OWN_SCHEMA = "_tidemark"
MOST_LITERAL_ROWS = 8


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
    connection.execute(f"CREATE TABLE {OWN_SCHEMA}.log (version BIGINT, relation VARCHAR, delta BLOB)")
    connection.execute("COMMIT")


def create(connection: duckdb.DuckDBPyConnection, relation: StoredRelation) -> None:
    columns = [f"{quote(f.name)} {duckdb_type(f.type)}" for f in relation.schema.fields]
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
    connection.execute(f"DROP TABLE {relation.table}")
    if relation.logged:
        connection.execute(f"DROP TABLE {relation.log_table}")


def apply_delta(
    connection: duckdb.DuckDBPyConnection, relation: StoredRelation, delta: pa.Table, name_of: Callable[[pa.Table], str]
) -> None:
    """Bring the stored rows up to date. ``name_of`` gives a name under which DuckDB can read the delta.

    A few rows are written into the statements themselves: that spares registering them, and a literal key prunes.
    """
    leaving, coming = delta_tables.deleted(delta), delta_tables.inserted(delta)
    if leaving.num_rows == 1:
        _delete_literal(connection, relation, leaving)
    elif leaving.num_rows:
        _delete(connection, relation, leaving, name_of(delta))
    if 0 < delta_tables.size(coming) <= MOST_LITERAL_ROWS:
        rows = ", ".join(f"({', '.join(cells)})" for cells in _literals(relation, delta_tables.expand(coming)))
        connection.execute(f"INSERT INTO {relation.table} VALUES {rows}")
    elif coming.num_rows:
        _insert(connection, relation, delta, name_of(delta))


def _literals(relation: StoredRelation, rows: pa.Table) -> list[list[str]]:
    columns = [column.to_pylist() for column in rows.columns[: len(relation.schema)]]
    types = relation.schema.types
    return [
        [literal_text(Literal(v, t)) for v, t in zip(row, types, strict=True)] for row in zip(*columns, strict=True)
    ]


def _delete_literal(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, leaving: pa.Table) -> None:
    """Remove copies of one row."""
    [cells] = _literals(relation, leaving)
    wanted = delta_tables.size(leaving)
    nulls = [leaving.column(p).null_count > 0 for p in range(len(cells))]
    equal = " AND ".join(
        f"{quote(f.name)} {'IS NULL' if null else f'= {cell}'}"
        for f, cell, null in zip(relation.schema.fields, cells, nulls, strict=True)
    )
    chosen = f"SELECT rowid FROM {relation.table} WHERE {equal} LIMIT {wanted}"
    found = connection.execute(f"DELETE FROM {relation.table} WHERE rowid IN ({chosen})").fetchall()[0][0]
    _all_found(relation, found, wanted)


def _all_found(relation: StoredRelation, found: int, wanted: int) -> None:
    if found != wanted:
        raise TidemarkError(
            "damaged",
            f"{relation.name} should lose {wanted} rows, but {found} were found",
            hint="run AUDIT on its views; the stored content was changed by somebody else",
        )


def _insert(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, delta: pa.Table, registered: str) -> None:
    shown = ", ".join(f"d.c{i}" for i in range(len(relation.schema)))
    source = f"{registered} AS d"
    if pc.max(delta.column(WEIGHT)).as_py() > 1:
        source += f", LATERAL (SELECT unnest(range(d.{WEIGHT}))) AS copies"
    connection.execute(f"INSERT INTO {relation.table} SELECT {shown} FROM {source} WHERE d.{WEIGHT} > 0")


def _delete(
    connection: duckdb.DuckDBPyConnection, relation: StoredRelation, leaving: pa.Table, registered: str
) -> None:
    """Remove as many equal rows as the negative weights say; fewer found means a damaged database."""
    positions = _driving_first(relation, leaving)
    pairs = tuple(
        (f"r.{quote(relation.schema[p].name)}", f"d.c{p}", leaving.column(p).null_count > 0) for p in positions
    )
    if relation.key:
        text = f"DELETE FROM {relation.table} AS r USING {registered} AS d WHERE d.{WEIGHT} < 0 AND {all_equal(pairs)}"
    else:
        entries = f"(SELECT *, row_number() OVER () AS entry FROM {registered} WHERE {WEIGHT} < 0) AS d"
        text = (
            f"DELETE FROM {relation.table} WHERE rowid IN (SELECT id FROM (SELECT r.rowid AS id, d.{WEIGHT} AS weight, "
            f"row_number() OVER (PARTITION BY d.entry) AS copy FROM {relation.table} AS r JOIN {entries} "
            f"ON {all_equal(pairs)}) AS found WHERE copy <= -weight)"
        )
    found = connection.execute(text).fetchall()[0][0]
    _all_found(relation, found, delta_tables.size(leaving))


def _driving_first(relation: StoredRelation, leaving: pa.Table) -> list[int]:
    """The columns with the most telling one in front: a key's, else the one with the most different values."""
    positions = list(range(len(relation.schema)))
    if relation.key:
        return [*relation.key, *(p for p in positions if p not in relation.key)]
    few = leaving.slice(0, 100)
    return sorted(positions, key=lambda p: (few.column(p).null_count > 0, -len(pc.unique(few.column(p)))))


def _has_table(connection: duckdb.DuckDBPyConnection, schema: str, table: str) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?", [schema, table]
    ).fetchall()
    return bool(found != [(0,)])
