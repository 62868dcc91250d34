"""The table of functions and operators: what may appear in a query, and what it means on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidemark.algebra.functions.arithmetic import ARITHMETIC, AVERAGES, BITS, ROUNDING
from tidemark.algebra.functions.arrays import ARRAY_PARTS, ARRAYS, STRUCTS
from tidemark.algebra.functions.buckets import BUCKETS
from tidemark.algebra.functions.casts import (
    assignment_cast_allowed,
    cast_fails,
    cast_scalar,
    cast_value,
    duckdb_cast,
    duckdb_type,
    explicit_cast_allowed,
    implicit_cast_allowed,
    spark_cast,
    spark_type,
)
from tidemark.algebra.functions.dates import DATES
from tidemark.algebra.functions.doubles import DOUBLES
from tidemark.algebra.functions.logic import COMPARISON, LOGIC
from tidemark.algebra.functions.patterns import PATTERNS, REGEXES
from tidemark.algebra.functions.pieces import PIECES
from tidemark.algebra.functions.strings import STRINGS
from tidemark.algebra.functions.table import Function, Signature
from tidemark.algebra.functions.values import NAN, canonical, failure_code, rank

GROUPS: Final[Mapping[str, tuple[Function, ...]]] = MappingProxyType(
    {
        "Arithmetic": ARITHMETIC + ROUNDING + AVERAGES + BUCKETS,
        "Roots, powers, logarithms and angles": DOUBLES,
        "Bits": BITS,
        "Comparison": COMPARISON,
        "Logic": LOGIC,
        "Text": STRINGS + PIECES + PATTERNS + REGEXES,
        "Dates and timestamps": DATES,
        "Arrays": ARRAYS + ARRAY_PARTS,
        "Structs": STRUCTS,
    }
)

FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {function.name: function for group in GROUPS.values() for function in group}
)

__all__ = [
    "FUNCTIONS",
    "GROUPS",
    "NAN",
    "Function",
    "Signature",
    "assignment_cast_allowed",
    "canonical",
    "cast_fails",
    "cast_scalar",
    "cast_value",
    "duckdb_cast",
    "duckdb_type",
    "explicit_cast_allowed",
    "failure_code",
    "implicit_cast_allowed",
    "rank",
    "spark_cast",
    "spark_type",
]
