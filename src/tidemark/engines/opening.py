"""Opening what is stored: whatever goes wrong is told with the path, and with what to do.

Exceptions of libraries and of the operating system in Tidemark's words, whichever engine they come from. Engines
translate what evaluating and committing raises where it is raised. What comes from elsewhere, when a database is opened
or its log is read, is told here. A library is known by the module of its exception, so that none is imported for
another one's sake.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from tidemark.errors import TidemarkError, library_of, too_complex
from tidemark.storage.disk import first_line, storage_trouble

ABOUT_STORAGE: Final = frozenset({"not_a_database", "damaged", "format", "in_use", "storage_failed", "permission"})
PASSING: Final = frozenset(
    {
        *("target", "unsupported", "java_missing", "unknown_dialect", "type", "out_of_memory", "closed"),
        *("option", "interrupted", "timeout"),
    }
)
ENGINES: Final = frozenset({"evaluation_failed", "internal"})
_NO_PLACE: Final = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.ENODEV})


@contextmanager
def opening(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """While a database is opened. One in memory (None) has no path to be told."""
    try:
        yield
    except TidemarkError as error:
        if path is None or error.code in PASSING or (error.code in ABOUT_STORAGE and _named(path, error.message)):
            raise
        if error.code in ABOUT_STORAGE:
            raise error.within(_shown(path)) from error
        what = "" if error.code in ENGINES else "it holds a definition that cannot be read: "
        raise damaged(path, what + error.message) from error
    except Exception as error:
        if path is None:
            raise
        raise told(error, path) from error


def told(error: Exception, path: str | os.PathLike[str]) -> TidemarkError:
    """What is said of an exception while something stored is opened."""
    found = storage_trouble(error, path)
    if found is not None:
        return found
    number = getattr(error, "errno", None)
    if number in _NO_PLACE or "null byte" in str(error) or "null character" in str(error):
        return not_a_database(path, first_line(error))
    known = translated(error)
    if known is not None and known.code == "out_of_memory":
        return known
    return damaged(path, f"{type(error).__name__}: {first_line(error)}")


def must_be_a_place(path: str | os.PathLike[str], *, folder: bool) -> bool:
    """Refuse a path at which no database can be; whether there is something already.

    Nothing is opened for it: a pipe would keep whoever opens it waiting.
    """
    wanted, is_wanted = ("a folder", os.path.isdir) if folder else ("a file", os.path.isfile)
    text = os.fspath(path)
    try:
        os.stat(text)
    except FileNotFoundError:
        if os.path.islink(text):
            place = os.path.realpath(text)
            raise not_a_database(path, f"it is a link to {place}, which does not exist") from None
        return False
    except NotADirectoryError as error:
        raise not_a_database(path, "a part of the path is not a folder") from error
    except (OSError, ValueError) as error:
        raise told(error, path) from error
    if not is_wanted(text):
        raise not_a_database(path, f"it is not {wanted}")
    return True


def not_a_database(path: str | os.PathLike[str], reason: str) -> TidemarkError:
    return TidemarkError(
        "not_a_database",
        f"{_shown(path)} is not a Tidemark database: {reason}",
        hint="give the path of a Tidemark database, or one where nothing is yet",
    )


def damaged(path: str | os.PathLike[str], reason: str) -> TidemarkError:
    return TidemarkError(
        "damaged",
        f"{_shown(path)} cannot be read: {reason}",
        hint="restore it from a backup; if another version of Tidemark wrote it, open it with that one",
    )


def _shown(path: str | os.PathLike[str]) -> str:
    """The path as it can be printed on a line."""
    text = os.fspath(path)
    return text if text.isprintable() else repr(text)


def _named(path: str | os.PathLike[str], message: str) -> bool:
    return any(os.path.basename(os.path.normpath(text)) in message for text in (os.fspath(path), _shown(path)))


def translated(error: BaseException) -> TidemarkError | None:
    """The error in our words; None if nothing but a fault of ours explains it."""
    if isinstance(error, TidemarkError):
        return error
    library = library_of(error)
    text = first_line(error)
    if isinstance(error, RecursionError):
        return too_complex()
    if isinstance(error, MemoryError | pa.ArrowMemoryError):
        return TidemarkError("out_of_memory", text or "there is not enough memory", hint="do less at a time")
    if isinstance(error, OSError) or library in ("duckdb", "deltalake", "pyspark", "py4j"):
        told = storage_trouble(error)
        if told is not None:
            return told
    match library:
        case "duckdb":
            from tidemark.engines.duckdb.dialect import translated as of_duckdb

            return of_duckdb(error)  # type: ignore[arg-type]
        case "pyspark" | "py4j":
            from tidemark.engines.spark.shield import translated as of_spark

            return of_spark(error)
        case "deltalake":
            return TidemarkError("storage_failed", f"the lake cannot be read or written: {text}", hint=_LOOK)
    if isinstance(error, OSError):
        return TidemarkError("storage_failed", f"the storage failed: {text}", hint=_LOOK)
    return None


_LOOK: Final = "see to the disk and to the files of the database"
