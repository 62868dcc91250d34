"""DuckDB's errors in Tidemark's words."""

from __future__ import annotations

import re

import duckdb

from tidemark.algebra.functions import failure_code
from tidemark.errors import TidemarkError


def translated(error: duckdb.Error) -> TidemarkError:
    """An error that evaluating a plan raised: overflow, division by zero, a value that cannot be cast."""
    text = str(error).split("\n")[0]
    code = failure_code(text)
    if code is not None:
        # Guards raise "code: words"; DuckDB's own messages begin with their kind.
        _, guard, words = text.partition(f"{code}: ")
        return TidemarkError(code, words if guard else _short(text))
    short = _short(text)
    if isinstance(error, duckdb.OutOfMemoryException):
        return TidemarkError("out_of_memory", short, hint="make the transaction smaller or give DuckDB more memory")
    return TidemarkError("evaluation_failed", short)


def _short(text: str) -> str:
    """The message without its kind and without the names of generated columns."""
    return re.sub(r"^[A-Za-z ]*Error: | when casting from source column \S+", "", text)
