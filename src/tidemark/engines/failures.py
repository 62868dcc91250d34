"""Exceptions of libraries and of the operating system in Tidemark's words, whichever engine they come from.

Engines translate what evaluating and committing raises where it is raised. What comes from elsewhere, when a database
is opened or its log is read, is told here. A library is known by the module of its exception, so that none is imported
for another one's sake.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from tidemark.errors import TidemarkError, too_complex
from tidemark.storage.disk import first_line, storage_trouble


def translated(error: BaseException) -> TidemarkError | None:
    """The error in our words; None if nothing but a fault of ours explains it."""
    if isinstance(error, TidemarkError):
        return error
    library = type(error).__module__.partition(".")[0].lstrip("_")
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
            from tidemark.engines.spark.errors import translated as of_spark

            return of_spark(error)
        case "deltalake":
            return TidemarkError("storage_failed", f"the lake cannot be read or written: {text}", hint=_LOOK)
    if isinstance(error, OSError):
        return TidemarkError("storage_failed", f"the storage failed: {text}", hint=_LOOK)
    return None


_LOOK: Final = "see to the disk and to the files of the database"
