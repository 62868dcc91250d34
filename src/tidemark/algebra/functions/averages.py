"""The quotient behind AVG."""

from __future__ import annotations

from typing import Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.table import Function, Signature
from tidemark.algebra.types import BIGINT, DOUBLE, Type


def _resolve(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 2 or not types[0].is_numeric or types[1] != BIGINT:
        return None
    return Signature(types, DOUBLE)


def _meaning(values: tuple[Value, ...], signature: Signature) -> Value:
    total, count = values
    return float(total) / float(count) if count else None  # type: ignore[arg-type]


def _sql(arguments: tuple[str, ...], signature: Signature) -> str:
    return f"(CAST({arguments[0]} AS DOUBLE) / CAST(NULLIF({arguments[1]}, 0) AS DOUBLE))"


AVERAGES: Final = (
    Function(
        name="average",
        usage="average(sum, count)  -- what AVG makes of a sum and a count of values; NULL if the count is 0",
        resolve=_resolve,
        meaning=_meaning,
        duckdb=_sql,
        spark=_sql,
        nullable=lambda _: True,
    ),
)
