"""Structs: values of several named fields, each of a simple type. A field is read by an expression of its own.

A struct whose fields are all NULL is no NULL. Two are equal if their fields are, where NULL equals NULL.
"""

from __future__ import annotations

from typing import Final

from tidemark.algebra.functions.cast_sql import duckdb_struct, spark_struct
from tidemark.algebra.functions.table import Function, Signature
from tidemark.algebra.functions.templates import plain
from tidemark.algebra.types import NULL, VARCHAR, Type, row_of


def _row(types: tuple[Type, ...]) -> Signature | None:
    if not types or any(given.is_nested for given in types):
        return None
    settled = tuple(VARCHAR if given == NULL else given for given in types)
    return Signature(settled, row_of(*settled))


STRUCTS: Final = (
    Function(
        "struct",
        "ROW(a, …)",
        _row,
        plain(lambda *values: values),
        lambda arguments, signature: duckdb_struct(arguments, signature.result),
        lambda arguments, signature: spark_struct(arguments, signature.result),
        strict=False,
        nullable=lambda _: False,
    ),
)
