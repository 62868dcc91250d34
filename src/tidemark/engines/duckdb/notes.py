"""Notes in a DuckDB database, and forgetting what is logged; always inside a transaction of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import duckdb
import pyarrow as pa

from tidemark.algebra.types import VERSION, WEIGHT
from tidemark.engines.duckdb.dialect import quote
from tidemark.engines.duckdb.storage import OWN_SCHEMA, StoredRelation
from tidemark.log.commit import Forgetting, Logged

_KEPT: Final = "_tidemark_kept"


def read(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    return dict(connection.execute(f"SELECT name, text FROM {OWN_SCHEMA}.notes").fetchall())


def write(connection: duckdb.DuckDBPyConnection, notes: Mapping[str, str | None]) -> None:
    """Keep notes; those that are None go."""
    if not notes:
        return
    places = ", ".join("?" for _ in notes)
    connection.execute(f"DELETE FROM {OWN_SCHEMA}.notes WHERE name IN ({places})", list(notes))
    kept = [cell for name, text in notes.items() if text is not None for cell in (name, text)]
    if kept:
        rows = ", ".join(["(?, ?)"] * (len(kept) // 2))
        connection.execute(f"INSERT INTO {OWN_SCHEMA}.notes VALUES {rows}", kept)


def forget(connection: duckdb.DuckDBPyConnection, log: Mapping[StoredRelation, Forgetting]) -> None:
    """Remove what is logged of relations up to a version, and log what is kept of it instead."""
    by_version: dict[int, list[str]] = {}
    for relation, forgetting in log.items():
        by_version.setdefault(forgetting.up_to, []).append(relation.name)
    for up_to, names in by_version.items():
        connection.execute(
            f"DELETE FROM {OWN_SCHEMA}.log WHERE version <= ? AND relation IN (SELECT unnest(?))", [up_to, names]
        )
    for relation in _with_rows(connection, list(log)):
        connection.execute(f"DELETE FROM {relation.log_table} WHERE {VERSION} <= ?", [log[relation].up_to])
    for relation, forgetting in log.items():
        if forgetting.kept is not None and forgetting.kept.num_rows:
            _keep(connection, relation, forgetting.kept)


def _with_rows(connection: duckdb.DuckDBPyConnection, relations: Sequence[StoredRelation]) -> list[StoredRelation]:
    """Those of the relations that have large deltas in a table of their own."""
    found = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = ? AND estimated_size > 0", [OWN_SCHEMA]
    ).fetchall()
    names = {name for (name,) in found}
    return [relation for relation in relations if f"log {relation.name}" in names]


def _keep(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, kept: pa.Table) -> None:
    names = [f"c{i}" for i in range(len(relation.schema))]
    columns = ", ".join(quote(name) for name in (*relation.schema.names, VERSION, WEIGHT))
    connection.register(_KEPT, kept.rename_columns([*names, VERSION, WEIGHT]))
    try:
        shown = ", ".join((*names, VERSION, WEIGHT))
        connection.execute(f"INSERT INTO {relation.log_table} ({columns}) SELECT {shown} FROM {_KEPT}")
    finally:
        connection.unregister(_KEPT)


def logged(connection: duckdb.DuckDBPyConnection, relations: Sequence[StoredRelation]) -> list[Logged]:
    """The bytes of small deltas, and what the rows of large ones take about."""
    inline = f"SELECT relation, version, octet_length(delta) FROM {OWN_SCHEMA}.log"
    found = [Logged(*row) for row in connection.execute(inline).fetchall()]
    for relation in _with_rows(connection, relations):
        counted = f"SELECT {VERSION}, count(*) FROM {relation.log_table} GROUP BY ALL"
        width = 8 * (len(relation.schema) + 2)
        found += [Logged(relation.name, v, rows * width) for v, rows in connection.execute(counted).fetchall()]
    return found
