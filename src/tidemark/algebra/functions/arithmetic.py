"""Arithmetic: exact on integers and decimals, IEEE 754 on doubles.

Inputs hold no negative zero. Sums of such doubles have none either, but products, quotients and remainders can,
so those add a positive zero, which changes nothing else.

The quotient behind AVG.
"""

from __future__ import annotations

import decimal as numbers
import math
import operator
from collections.abc import Callable
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.dates import day_template, with_day_meaning, with_days
from tidemark.algebra.functions.division import quotient, quotient_signature, quotient_template, remainder_signature
from tidemark.algebra.functions.resolvers import numeric, takes
from tidemark.algebra.functions.table import (
    DUCKDB_ERROR,
    SPARK_ERROR,
    Engine,
    Function,
    Meaning,
    Resolver,
    Signature,
    Template,
    by_decimal,
    by_double,
    call,
    guarded,
    infix,
    pattern,
    to_result,
)
from tidemark.algebra.functions.values import EXACT, fit
from tidemark.algebra.types import BIGINT, DATE, DOUBLE, INT, MAX_PRECISION, NULL, Kind, Type, common_type, decimal
from tidemark.errors import TidemarkError

_OVERFLOW: Final = "overflow: the result is out of range of its type"
_DIVISION: Final = "division_by_zero: the divisor is zero"
_DUCKDB_FAST_DIGITS: Final = 18
_DUCKDB_DAYS: Final = "CAST({0} - {1} AS INTEGER)"
_SPARK_DAYS: Final = "datediff({0}, {1})"


def _sum_signature(left: Type, right: Type) -> Signature:
    """One digit more than the wider side. At 38 digits there is none to add, so both sides must fit the result."""
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    if precision <= MAX_PRECISION:
        return Signature((left, right), decimal(precision, scale))
    widest = decimal(MAX_PRECISION, scale)
    return Signature((widest, widest), widest)


def _product_signature(left: Type, right: Type) -> Signature | None:
    scale = left.scale + right.scale
    if scale > MAX_PRECISION:
        return None
    return Signature((left, right), decimal(min(MAX_PRECISION, left.precision + right.precision), scale))


def _two_numbers(decimals: Callable[[Type, Type], Signature | None]) -> Resolver:
    """Integers give the wider integer, and anything with a DOUBLE gives DOUBLE."""

    def resolve(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2:
            return None
        shared = common_type(*types)
        if shared is None or not shared.is_numeric:
            return None
        if shared.kind is Kind.DECIMAL:
            left, right = ((shared if given == NULL else given).as_decimal() for given in types)
            return decimals(left, right)
        return Signature((shared, shared), shared)

    return resolve


def _checked(operation: Callable[..., Any]) -> Meaning:
    """The operation without any rounding, then fitted into the result's type."""

    def meaning(values: tuple[Value, ...], signature: Signature) -> Value:
        with numbers.localcontext(EXACT):
            return fit(operation(*values), signature.result)

    return meaning


def _quotient(left: Any, right: Any) -> Any:
    """Integers are divided toward zero, where Python goes to minus infinity."""
    if right == 0:
        raise TidemarkError("division_by_zero", f"{left} divided by zero")
    if isinstance(left, float):
        return left / right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: Any, right: Any) -> Any:
    """The remainder has the sign of the dividend, where Python's has that of the divisor."""
    if right == 0:
        raise TidemarkError("division_by_zero", f"{left} modulo zero")
    if isinstance(left, float):
        return math.nan if math.isinf(left) else math.fmod(left, right)
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _divide(values: tuple[Any, ...], signature: Signature) -> Value:
    if signature.result.kind is Kind.DECIMAL:
        return quotient(values[0], values[1], signature)
    return _checked(_quotient)(values, signature)


def _duckdb_product(arguments: tuple[str, ...], signature: Signature) -> str:
    """DuckDB multiplies decimals of up to 18 digits within 18 digits, unless one side is wider than that."""
    left, right = arguments
    given = signature.arguments[0]
    if signature.result.kind is Kind.DECIMAL and signature.result.precision > _DUCKDB_FAST_DIGITS:
        left = f"CAST({left} AS DECIMAL({max(_DUCKDB_FAST_DIGITS + 1, given.precision)},{given.scale}))"
    return f"CAST({left} * {right} AS {signature.result})"


def _unless_zero(otherwise: str) -> Template:
    """DuckDB gives infinity or NaN for doubles; whether it fails for integers depends on a setting."""
    return guarded(DUCKDB_ERROR, "{1} = 0 AND {0} IS NOT NULL", _DIVISION, otherwise)


def _same(given: Type) -> Type:
    return given


_ADD = Function(
    "add",
    "a + b",
    with_days(_two_numbers(_sum_signature), takes(DATE, INT, gives=DATE), takes(INT, DATE, gives=DATE)),
    with_day_meaning(1, _checked(operator.add)),
    day_template(DUCKDB_ERROR, 1, "({0} + {1})", _DUCKDB_DAYS, infix("+")),
    day_template(SPARK_ERROR, 1, "date_add({0}, {1})", _SPARK_DAYS, infix("+")),
    fails=_OVERFLOW,
    infix="+",
)

_SUBTRACT = Function(
    "subtract",
    "a - b",
    with_days(_two_numbers(_sum_signature), takes(DATE, DATE, gives=INT), takes(DATE, INT, gives=DATE)),
    with_day_meaning(-1, _checked(operator.sub)),
    day_template(DUCKDB_ERROR, -1, "({0} - {1})", _DUCKDB_DAYS, infix("-")),
    day_template(SPARK_ERROR, -1, "date_sub({0}, {1})", _SPARK_DAYS, infix("-")),
    fails=_OVERFLOW,
    infix="-",
)

_MULTIPLY = Function(
    "multiply",
    "a * b",
    _two_numbers(_product_signature),
    _checked(operator.mul),
    by_double(pattern("({0} * {1} + 0e0)"), _duckdb_product),
    by_double(pattern("({0} * {1} + 0D)"), to_result("{0} * {1}")),
    fails=_OVERFLOW,
    infix="*",
)

_DIVIDE = Function(
    "divide",
    "a / b",
    _two_numbers(quotient_signature),
    _divide,
    by_decimal(
        quotient_template(Engine.DUCKDB),
        by_double(_unless_zero("({0} / {1} + 0e0)"), _unless_zero("({0} // {1})")),
    ),
    by_decimal(quotient_template(Engine.SPARK), by_double(pattern("({0} / {1} + 0D)"), to_result("{0} div {1}"))),
    fails=f"{_DIVISION}; {_OVERFLOW}",
    infix="/",
)

_MODULO = Function(
    "modulo",
    "a % b",
    _two_numbers(remainder_signature),
    _checked(_remainder),
    # The smallest integer modulo -1 is 0, but DuckDB takes it for an overflow; modulo 1 is the same for all.
    by_decimal(
        _unless_zero("({0} % {1})"),
        by_double(_unless_zero("({0} % {1} + 0e0)"), _unless_zero("({0} % (CASE WHEN {1} = -1 THEN 1 ELSE {1} END))")),
    ),
    by_decimal(to_result("{0} % {1}"), by_double(pattern("({0} % {1} + 0D)"), infix("%"))),
    fails=_DIVISION,
    infix="%",
)

_NEGATE = Function(
    "negate",
    "-a",
    numeric(_same),
    _checked(operator.neg),
    # A cast, because DuckDB takes the negative of a constant for a wider integer.
    by_double(pattern("(0e0 - {0})"), to_result("(- {0})")),
    by_double(pattern("(0D - {0})"), pattern("(- {0})")),
    fails=_OVERFLOW,
    infix="-",
)

_ABS = Function("abs", "abs(a)", numeric(_same), _checked(operator.abs), call("abs"), call("abs"), fails=_OVERFLOW)

ARITHMETIC: Final = (_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _MODULO, _NEGATE, _ABS)


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
