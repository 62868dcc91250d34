"""Opening the file of a database, once in this process: DuckDB itself keeps other processes out."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import duckdb

from tidemark.engines.duckdb.storage import prepare
from tidemark.errors import TidemarkError

_open_paths: set[str] = set()
_open_paths_lock = threading.Lock()


def release(path: str) -> None:
    """The file may be opened again; ``path`` is its real one."""
    with _open_paths_lock:
        _open_paths.discard(path)


def opened(path: str | None) -> duckdb.DuckDBPyConnection:
    """A connection to a database that is ready to be used: in a file, or in memory."""
    if path is None:
        connection = duckdb.connect(":memory:")
        prepare(connection, "memory")
        return connection
    real = os.path.realpath(path)
    parent = Path(real).parent
    if not parent.is_dir():
        raise TidemarkError("not_a_database", f"the folder of {path} does not exist", hint=f"create {parent} first")
    with _open_paths_lock:
        if real in _open_paths:
            raise _in_use(path)
        _open_paths.add(real)
    try:
        connection = _connect_file(path)
        try:
            prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    except BaseException:
        release(real)
        raise
    return connection


def _connect_file(path: str) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(path)
    except duckdb.Error as error:
        text = str(error)
        if "lock" in text.lower():
            raise _in_use(path) from error
        raise TidemarkError(
            "not_a_database",
            f"{path} cannot be opened as a database: {text.splitlines()[0]}",
            hint="give the path of a Tidemark database, or of a file that does not exist yet",
        ) from error


def _in_use(path: str) -> TidemarkError:
    return TidemarkError(
        "in_use",
        f"{path} is in use by another connection",
        hint="close it there first; one process at a time may open a durable database",
    )
