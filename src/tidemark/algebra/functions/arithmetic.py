"""Arithmetic: exact on integers and decimals, IEEE 754 on doubles.

Inputs hold no negative zero. Sums of such doubles have none either, but products, quotients and remainders can,
so those add a positive zero, which changes nothing else.

The quotient behind AVG.

Rounding to whole numbers, and the sign. A DECIMAL loses its scale, other numbers keep their type.

Operators on the bits of integers. A shift is by the count modulo the width, as in PostgreSQL.
"""

from __future__ import annotations

import decimal as numbers
import math
import operator
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.casts import implicit_cast_allowed
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
    plain,
    to_result,
    typed,
)
from tidemark.algebra.functions.values import EXACT, fit
from tidemark.algebra.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    INTEGER_BITS,
    MAX_PRECISION,
    NULL,
    Kind,
    Type,
    common_type,
    decimal,
)
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
    """Integers give the wider integer, and anything with a REAL or a DOUBLE gives DOUBLE."""

    def resolve(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2:
            return None
        shared = common_type(*types)
        if shared is None or not shared.is_numeric:
            return None
        if shared.kind is Kind.DECIMAL:
            left, right = ((shared if given == NULL else given).as_decimal() for given in types)
            return decimals(left, right)
        if shared.is_float:
            shared = DOUBLE
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
    return Signature((DOUBLE,), DOUBLE) if types[0].is_float else Signature(types, INT)


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


def _two_integers(types: tuple[Type, ...]) -> Signature | None:
    shared = common_type(*types) if len(types) == 2 else None
    return Signature((shared, shared), shared) if shared is not None and shared.is_integer else None


def _one_integer(types: tuple[Type, ...]) -> Signature | None:
    return numeric(lambda given: given)(types) if len(types) == 1 and types[0].is_integer else None


def _shift_signature(types: tuple[Type, ...]) -> Signature | None:
    """SMALLINT is left out: engines widen it to different types."""
    if len(types) != 2 or not implicit_cast_allowed(types[1], INT):
        return None
    given = INT if types[0] == NULL else types[0]
    return Signature((given, INT), given) if given.is_integer and INTEGER_BITS[given.kind] >= 32 else None


def _wrapped(value: int, bits: int) -> int:
    """The integer of that many bits, in two's complement."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def _shift(left: bool) -> Callable[[tuple[Any, ...], Signature], Value]:
    def meaning(values: tuple[Any, ...], signature: Signature) -> Value:
        bits = INTEGER_BITS[signature.result.kind]
        count = values[1] % bits
        return _wrapped(values[0] << count, bits) if left else values[0] >> count

    return meaning


def _duckdb_shift(left: bool) -> Template:
    """DuckDB fails when a bit falls off the left end, so the shift is a product of unsigned numbers, cut off.

    To the right it is a division that goes to minus infinity.
    """

    def template(arguments: tuple[str, ...], signature: Signature) -> str:
        value, count = arguments
        bits = INTEGER_BITS[signature.result.kind]
        power = f"CAST(pow(2, ((({count} % {bits}) + {bits}) % {bits})) AS HUGEINT)"
        if not left:
            wide = f"CAST({value} AS HUGEINT)"
            return f"CAST(({wide} - (({wide} % {power}) + {power}) % {power}) // {power} AS {signature.result})"
        modulus, half = 2**bits, 2 ** (bits - 1)
        # Only the bits that stay are multiplied, so that the product fits into 128 bits.
        staying = f"({modulus} // {power})"
        kept = f"((CAST({value} AS HUGEINT) % {staying}) + {staying}) % {staying}"
        product = f"(({kept}) * {power})"
        return (
            f"CAST((CASE WHEN {product} >= {half} THEN {product} - {modulus} ELSE {product} END) AS {signature.result})"
        )

    return template


def _bitwise(name: str, symbol: str, meaning: Callable[[int, int], int], duckdb: Template, spark: str) -> Function:
    return Function(name, f"a {symbol} b", _two_integers, plain(meaning), duckdb, infix(spark), infix=symbol)


BITS: Final = (
    _bitwise("bit_and", "&", operator.and_, infix("&"), "&"),
    _bitwise("bit_or", "|", operator.or_, infix("|"), "|"),
    _bitwise("bit_xor", "#", operator.xor, call("xor"), "^"),
    Function(
        "bit_not",
        "~a",
        _one_integer,
        plain(operator.invert),
        to_result("(~ {0})"),
        pattern("(~ {0})"),
        infix="~",
    ),
    Function(
        "shift_left",
        "a << count",
        _shift_signature,
        _shift(left=True),
        _duckdb_shift(left=True),
        call("shiftleft"),
        infix="<<",
    ),
    Function(
        "shift_right",
        "a >> count",
        _shift_signature,
        _shift(left=False),
        _duckdb_shift(left=False),
        call("shiftright"),
        infix=">>",
    ),
)
