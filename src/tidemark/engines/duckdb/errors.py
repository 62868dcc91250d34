"""DuckDB's errors in Tidemark's words."""

from __future__ import annotations

import re

import duckdb

from tidemark.errors import TidemarkError

_CODES = ("division_by_zero", "overflow", "invalid_value")


def translated(error: duckdb.Error) -> TidemarkError:
    """An error that evaluating a plan raised: overflow, division by zero, a value that cannot be cast."""
    text = str(error).split("\n")[0]
    for code in _CODES:
        match = re.search(rf"{code}: ?(.*)", text)
        if match:
            return TidemarkError(code, match.group(1) or code.replace("_", " "))
    short = re.sub(r"^[A-Za-z ]*Error: ", "", text)
    if isinstance(error, duckdb.OutOfRangeException) or "verflow" in text or "out of range" in text:
        return TidemarkError("overflow", short)
    if isinstance(error, duckdb.ConversionException):
        code = "overflow" if "range" in text or "could not be cast" in text.lower() else "invalid_value"
        return TidemarkError(code, short)
    if isinstance(error, duckdb.OutOfMemoryException):
        return TidemarkError("out_of_memory", short, hint="make the transaction smaller or give DuckDB more memory")
    return TidemarkError("evaluation_failed", short)
