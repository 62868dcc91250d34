"""Rounding to whole numbers, and the sign. A DECIMAL loses its scale, other numbers keep their type."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.resolvers import numeric
from tidemark.algebra.functions.table import Function, Signature, Template, by_double, pattern, to_result, typed
from tidemark.algebra.functions.values import EXACT, fit
from tidemark.algebra.types import DOUBLE, INT, Type, decimal


def _whole(given: Type) -> Type:
    return decimal(given.precision, 0)


def _unless_integer(template: Template) -> Template:
    """Integers are whole already, and engines would take them through a double."""
    return lambda arguments, signature: (
        arguments[0] if signature.arguments[0].is_integer else template(arguments, signature)
    )


def _rounding(
    name: str, mode: str, doubles: Callable[[float], int], duckdb: str, spark: str, decimals_on_spark: str | None = None
) -> Function:
    """``duckdb`` and ``spark`` are the SQL for doubles; for decimals both engines' own functions agree.

    Negative numbers round to negative zero, hence the positive zero that is added.
    """

    def meaning(value: Any, signature: Signature) -> Value:
        if isinstance(value, Decimal):
            value = value.quantize(Decimal(1), rounding=mode, context=EXACT)
        elif isinstance(value, float) and math.isfinite(value):
            value = float(doubles(value))
        return fit(value, signature.result)

    decimals = to_result(f"{name}({{0}})")
    on_spark = decimals if decimals_on_spark is None else to_result(decimals_on_spark)
    return Function(
        name,
        f"{name}(a)",
        numeric(_whole),
        typed(meaning),
        _unless_integer(by_double(pattern(f"({duckdb} + 0e0)"), decimals)),
        _unless_integer(by_double(pattern(f"({spark} + 0D)"), on_spark)),
    )


def _spark_by_bigint(name: str) -> str:
    """Spark rounds doubles to a BIGINT; those beyond 2^52, and what is not a number, are as whole as can be."""
    return f"(CASE WHEN abs({{0}}) < 4503599627370496D THEN CAST({name}({{0}}) AS DOUBLE) ELSE {{0}} END)"


def _toward_zero(up: str, down: str) -> str:
    """Spark has no function that cuts the fraction of a number off."""
    return f"(CASE WHEN {{0}} < 0 THEN {up} ELSE {down} END)"


def _sign(value: Any, signature: Signature) -> Value:
    """NaN has the sign 0, as in PostgreSQL."""
    sign = (value > 0) - (value < 0)
    return float(sign) if signature.result == DOUBLE else sign


def _sign_signature(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 1 or not types[0].is_numeric:
        return None
    return Signature(types, DOUBLE if types[0] == DOUBLE else INT)


_SIGN = Function(
    "sign",
    "sign(a)",
    _sign_signature,
    typed(_sign),
    to_result("sign({0})"),
    by_double(pattern("(CASE WHEN isnan({0}) THEN 0D ELSE signum({0}) + 0D END)"), to_result("signum({0})")),
)

ROUNDING: Final = (
    _rounding("round", ROUND_HALF_UP, round, "round_even({0}, 0)", "rint({0})"),
    _rounding("floor", ROUND_FLOOR, math.floor, "floor({0})", _spark_by_bigint("floor")),
    _rounding("ceil", ROUND_CEILING, math.ceil, "ceil({0})", _spark_by_bigint("ceil")),
    _rounding(
        "trunc",
        ROUND_DOWN,
        math.trunc,
        "trunc({0})",
        _toward_zero(_spark_by_bigint("ceil"), _spark_by_bigint("floor")),
        _toward_zero("ceil({0})", "floor({0})"),
    ),
    _SIGN,
)
