"""Opening databases and scripts that the command line names."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlparse

from tidemark.answers.describe import watching
from tidemark.cli.show import console_for
from tidemark.cli.spinner import Status
from tidemark.errors import TidemarkError
from tidemark.session import Database, connect
from tidemark.storage.store import is_url


@contextmanager
def connected(target: str, status: Status, dialect: str = "postgres", allow: Sequence[Path] = ()) -> Iterator[Database]:
    engine = target.partition(":")[0]
    with status.showing("starting Spark" if engine == "spark" else f"opening {target}"):
        database = connect(str(target), dialect=dialect, allow_paths=allow)
    try:
        with watching(database, status.step):
            yield database
    finally:
        with status.showing("closing the database"):
            database.close()


@contextmanager
def existing(target: str) -> Iterator[Database]:
    """A connection to a database that is there already; nothing is created."""
    must_exist(target)
    with connected(target, Status(console_for(stderr=True))) as database:
        yield database


def must_exist(target: str) -> None:
    """Refuse a target at which there is no database."""
    engine, _, path = target.partition(":")
    place = place_of(target)
    if place is None:
        raise TidemarkError(
            "target",
            f"{target!r} would be a new, empty database",
            hint="name one that exists: duckdb:path/to/file.duckdb or spark:path/to/lake",
        )
    needed = place / "_tidemark" / "lake.json" if engine == "spark" else place
    is_there = _has_lake(path) if engine == "spark" and is_url(path) else needed.is_file()
    if engine in ("spark", "duckdb") and not is_there:
        raise TidemarkError(
            "not_a_database", f"there is no database at {path}", hint="tidemark run --database creates one"
        )


def _has_lake(url: str) -> bool:
    from tidemark.storage import bucket

    return bucket.has_object(bucket.place_of(url, {}), "_tidemark/lake.json")


def place_of(target: str) -> Path | None:
    """The file or folder of a durable database."""
    engine, _, path = target.partition(":")
    if not path:
        return None
    if engine != "spark":
        return Path(path)
    return Path(unquote(urlparse(path).path)) if path.startswith("file:") else Path(path).expanduser()


def bytes_of(target: str) -> int | None:
    """How much a durable database takes where it lies; for DuckDB with what lies beside it."""
    place = place_of(target)
    if place is None:
        return None
    _, _, path = target.partition(":")
    if is_url(path):
        from tidemark.storage import bucket  # its library is loaded by those who need it

        return bucket.bytes_at(bucket.place_of(path, {}))
    beside = (place.with_name(f"{place.name}{suffix}") for suffix in (".wal", ".tide"))
    files = place.rglob("*") if place.is_dir() else (place, *beside)
    return sum(file.stat().st_size for file in files if file.is_file())


def read_text(script: Path) -> str:
    """The text of a script; ``-`` is the standard input."""
    try:
        data = sys.stdin.buffer.read() if str(script) == "-" else script.read_bytes()
    except OSError as error:
        raise TidemarkError("script", f"{script} cannot be read: {error.strerror}") from error
    return decoded(data, str(script))


def decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TidemarkError(
            "script", f"{name} is not UTF-8: {error.reason} at byte {error.start}", hint="save it as UTF-8"
        ) from error
