"""Notes in a DuckDB database, and forgetting what is logged; always inside a transaction of the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import duckdb

from tidemark.algebra.types import VERSION, WEIGHT
from tidemark.engines.duckdb.dialect import quote
from tidemark.engines.duckdb.storage import OWN_SCHEMA, StoredRelation
from tidemark.log.commit import Forgetting

_KEPT: Final = "_tidemark_kept"
_NOTHING: Final = json.dumps({"created": [], "dropped": [], "altered": []})


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


def forget(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, forgetting: Forgetting) -> None:
    """Remove what is logged of a relation up to a version, and log what is kept of it instead."""
    up_to = [forgetting.up_to]
    connection.execute(f"DELETE FROM {OWN_SCHEMA}.log WHERE relation = ? AND version <= ?", [relation.name, *up_to])
    connection.execute(f"DELETE FROM {relation.log_table} WHERE {VERSION} <= ?", up_to)
    if forgetting.kept is None or not forgetting.kept.num_rows:
        return
    width = len(relation.schema)
    names = [f"c{i}" for i in range(width)]
    columns = ", ".join(quote(name) for name in (*relation.schema.names, VERSION, WEIGHT))
    connection.register(_KEPT, forgetting.kept.rename_columns([*names, VERSION, WEIGHT]))
    try:
        shown = ", ".join((*names, VERSION, WEIGHT))
        connection.execute(f"INSERT INTO {relation.log_table} ({columns}) SELECT {shown} FROM {_KEPT}")
    finally:
        connection.unregister(_KEPT)


def forget_traces(connection: duckdb.DuckDBPyConnection, up_to: int) -> None:
    """Remove what commits up to a version say that nobody needs to open the database: all but definitions, and the
    last."""
    if not up_to:
        return
    last = f"(SELECT max(version) FROM {OWN_SCHEMA}.commits)"
    old = f"version <= {int(up_to)} AND version < {last}"
    connection.execute(
        f"DELETE FROM {OWN_SCHEMA}.commits WHERE {old} AND len(catalog) = 0 AND relations = ?", [_NOTHING]
    )
    connection.execute(f"UPDATE {OWN_SCHEMA}.commits SET trace = NULL WHERE {old} AND trace IS NOT NULL")
