"""A DuckDB database that is only read, when no writer has it.

DuckDB brings a file up to date when it opens one, and a tail is merged. So a reader works on a copy in a temporary
folder, made while the lock of the file says that nobody writes it; the files of the database stay as they are, byte by
byte. Where the file system can, the copy shares its blocks and costs nothing.

Verifying everything that a database file stores: DuckDB compares the checksum of each block that it reads.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import duckdb

from tidemark.engines.duckdb.dialect import is_damage, quote, translated
from tidemark.engines.duckdb.engine import DuckDBEngine, copying_of, opened, release
from tidemark.engines.duckdb.settings import real_path
from tidemark.engines.duckdb.tail import EARLIER_MARK
from tidemark.engines.engine import Checked, read_only
from tidemark.engines.opening import must_be_a_place, opening
from tidemark.errors import TidemarkError
from tidemark.storage.commit import Commit, Followed, Forgetting, Loaded
from tidemark.storage.tide import SUFFIX

_BESIDE: Final = (".wal", SUFFIX, f"{SUFFIX}{EARLIER_MARK}", EARLIER_MARK)
"""What belongs to a file, if it is there."""
_CLONE: Final = 0x40049409
"""Linux' number for sharing the blocks of a file with a copy of it."""


class DuckDBReader(DuckDBEngine):
    """Reads the database at a path, as it was when it was opened."""

    def __init__(self, path: str, *, memory: int | None = None) -> None:
        with opening(path):
            if not must_be_a_place(path, folder=False):
                raise TidemarkError(
                    "not_a_database",
                    f"there is no database at {path} that could be read",
                    hint="read_only=True opens a database that is there",
                )
        self._original = path
        self._scratch = Path(tempfile.mkdtemp(prefix="tidemark-reader-"))
        try:
            with opening(path):
                copy = _copied(path, self._scratch)
            try:
                super().__init__(str(copy), memory=memory)
            except TidemarkError as error:
                raise self._told(error) from error
        except BaseException:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise

    def load(self) -> Loaded:
        try:
            return super().load()
        except TidemarkError as error:
            raise self._told(error) from error

    def keep_up(self, foretell: Callable[[Followed], None]) -> bool:
        """Nobody writes the copy."""
        return False

    def commit(self, commit: Commit) -> None:
        raise read_only("a commit")

    def forget(
        self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None], oldest: int = 0
    ) -> None:
        raise read_only("a note")

    def checkpoint(self) -> bool:
        raise read_only("CHECKPOINT")

    def close(self) -> None:
        try:
            super().close()
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _told(self, error: TidemarkError) -> TidemarkError:
        """The error with the path that was asked for."""
        message = error.message.replace(str(self._scratch / Path(self._original).name), self._original)
        hint = error.hint and error.hint.replace(str(self._scratch / Path(self._original).name), self._original)
        return error.restated(message, hint=hint)


def _copied(path: str, folder: Path) -> Path:
    """The copy of a database, made while nobody writes it."""
    copy = folder / Path(path).name
    with copying_of(path) as real, open(real, "rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the lock that DuckDB takes
        except OSError as error:
            raise TidemarkError(
                "in_use", f"{path} is in use by another connection", hint="it can be read when that is closed"
            ) from error
        _clone(real, copy)
        for suffix in _BESIDE:
            if os.path.exists(f"{real}{suffix}"):
                _clone(f"{real}{suffix}", Path(f"{copy}{suffix}"))
    return copy


def _clone(source: str, target: Path) -> None:
    with open(source, "rb") as file, open(target, "xb") as copy, suppress(OSError):
        fcntl.ioctl(copy, _CLONE, file.fileno())
        return
    shutil.copyfile(source, target)


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
