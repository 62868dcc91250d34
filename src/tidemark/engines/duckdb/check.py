"""Verifying everything that a database file stores: DuckDB compares the checksum of each block that it reads."""

from __future__ import annotations

from collections.abc import Callable

import duckdb

from tidemark.engines.duckdb.dialect import is_damage, quote, translated
from tidemark.engines.duckdb.engine import opened, release
from tidemark.engines.duckdb.settings import real_path
from tidemark.engines.engine import Checked
from tidemark.errors import TidemarkError


def check_file(path: str, tell: Callable[[str], None]) -> Checked:
    """Read every column of every table, Tidemark's own included."""
    owner = object()
    try:
        connection = opened(path, owner)
    except TidemarkError as error:
        if error.code != "damaged":
            raise
        return Checked((error.message,))
    try:
        return _checked(connection, tell)
    finally:
        connection.close()
        release(real_path(path), owner)


def _checked(connection: duckdb.DuckDBPyConnection, tell: Callable[[str], None]) -> Checked:
    tables = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT temporary ORDER BY ALL"
    ).fetchall()
    damage = list[str]()
    for schema, table in tables:
        tell(table)
        try:
            # A hash needs every value, so that no column is passed over.
            name = f"{quote(schema)}.{quote(table)}"
            connection.execute(f"SELECT count(*), bit_xor(hash(t)) FROM {name} AS t").fetchall()
        except duckdb.Error as error:
            if not is_damage(error):
                raise translated(error) from error
            damage.append(f"{table}: {translated(error).message}")
    return Checked(tuple(damage), files=len(tables))
