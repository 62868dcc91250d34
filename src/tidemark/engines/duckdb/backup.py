"""A copy of a DuckDB database as of its last version: all of it is read, and written to a file of its own."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import duckdb

from tidemark.engines.duckdb.dialect import is_damage, quote, translated
from tidemark.engines.duckdb.settings import config, configure, lock
from tidemark.engines.duckdb.tables import CLOSED, OWN_SCHEMA, give_id
from tidemark.errors import TidemarkError
from tidemark.storage.disk import sync


def copy_to(connection: duckdb.DuckDBPyConnection, target: Path) -> None:
    """Write a copy to a file that is not there yet. No transaction of the engine may be open.

    The file itself is not read from here: closing it would give up the lock that DuckDB holds on it.
    """
    if target.exists():
        raise TidemarkError("backup", f"{target} is there already", hint="name a file that does not exist yet")
    if not target.parent.is_dir():
        raise TidemarkError("backup", f"the folder {target.parent} does not exist", hint="create it first")
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}.draft")
    try:
        _copy(connection, draft)
        sync(draft)
        os.link(draft, target)
        sync(target.parent)
    except duckdb.Error as error:
        if is_damage(error):
            raise translated(error) from error
        raise TidemarkError(
            "storage_failed", f"the backup could not be written: {translated(error).message}"
        ) from error
    except OSError as error:
        raise TidemarkError("storage_failed", f"the backup could not be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
        draft.with_name(f"{draft.name}.wal").unlink(missing_ok=True)


def _copy(connection: duckdb.DuckDBPyConnection, draft: Path) -> None:
    """Table by table, as Arrow: a connection of ours attaches no other file."""
    cursor = connection.cursor()
    try:
        with duckdb.connect(str(draft), config=config()) as copy:
            configure(copy)
            lock(copy)
            cursor.execute("BEGIN")
            for schema, name, definition in _tables(cursor):
                copy.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
                copy.execute(definition)
                table = f"{quote(schema)}.{quote(name)}"
                copy.register("given", cursor.sql(f"SELECT * FROM {table}").to_arrow_reader())
                copy.execute(f"INSERT INTO {table} SELECT * FROM given")
                copy.unregister("given")
            for (definition,) in cursor.execute("SELECT sql FROM duckdb_indexes() WHERE sql IS NOT NULL").fetchall():
                copy.execute(definition)
            copy.execute(f"UPDATE {OWN_SCHEMA}.format SET version = {CLOSED}")
            give_id(copy)
            copy.execute("CHECKPOINT")
    finally:
        cursor.close()


def _tables(cursor: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = cursor.execute(
        "SELECT schema_name, table_name, sql FROM duckdb_tables() "
        "WHERE NOT temporary AND database_name = current_database() ORDER BY ALL"
    ).fetchall()
    return found
