"""The values of the types in Python: one canonical form each, their order, and what fits into a type.

Which of the table's errors an engine's message means.

Guards in the generated SQL raise messages that begin with a code; the engines' own errors are recognised by their
wording. Whoever runs generated SQL translates its errors with ``failure_code``.

Which texts are values: one regular expression per type, read alike by Python, RE2 (DuckDB) and Java (Spark).

No backslash appears in them, because Spark's parser and DuckDB's treat it differently inside a string literal.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import INTEGER_BITS, MAX_PRECISION, Kind, Type
from tidemark.errors import TidemarkError

NAN: Final = float("nan")
"""The only NaN. Tuples compare their members by identity first, so rows with this one compare equal."""

EXACT: Final = Context(prec=200, rounding=ROUND_HALF_UP, traps=[InvalidOperation])
"""Wide enough that sums and products of two DECIMAL(38) are never rounded; ties go away from zero."""


def canonical(value: Any) -> Value:
    """The one form of a value: no negative zero, a single NaN, and tuples for arrays and structs.

    >>> canonical(-0.0), canonical(float("nan")) is NAN, canonical(7)
    (0.0, True, 7)
    """
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    if isinstance(value, Decimal) and value.is_zero():
        return value.copy_abs()
    if isinstance(value, list | tuple):  # Arrow gives lists, which cannot be members of bags
        return tuple(map(canonical, value))
    if isinstance(value, dict):  # and of a struct a dictionary
        return tuple(map(canonical, value.values()))
    return value  # type: ignore[no-any-return]


def rank(value: Any) -> Any:
    """A key that orders the values of one type as SQL does: NaN equals itself and is above all other numbers.

    Arrays go by their elements, of which NULL equals itself and is above all others, and then by their length.

    >>> sorted([NAN, 1.0, float("inf")], key=rank), sorted([(1, None), (1, 2), (1,)], key=rank)
    ([1.0, inf, nan], [(1,), (1, 2), (1, None)])
    """
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    if isinstance(value, tuple):
        return tuple((element is None, rank(element)) for element in value)
    return value


LEAST_REAL: Final = 2.0**-150
"""What is no larger than this rounds to zero as a REAL, which is out of range as in PostgreSQL."""
BEYOND_REAL: Final = (2.0 - 2.0**-24) * 2.0**127
"""What is no smaller than this has no finite REAL."""


def fit_real(value: float) -> float:
    """The number that a REAL has nearest to the given one, or the error "overflow".

    >>> fit_real(0.1), fit_real(float("-inf"))
    (0.10000000149011612, -inf)
    """
    if math.isfinite(value) and value and not LEAST_REAL < abs(value) < BEYOND_REAL:
        raise TidemarkError("overflow", f"{value} is out of range for REAL")
    if not math.isfinite(value):
        return NAN if math.isnan(value) else value
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found + 0.0


def fit(value: Any, type: Type) -> Value:
    """The value in the canonical form of a numeric type, or the error "overflow" if the type cannot hold it."""
    if type.is_integer:
        return fit_integer(value, type)
    if type.kind is Kind.DECIMAL:
        return fit_decimal(value, type)
    return canonical(value)


def fit_integer(value: int, type: Type) -> int:
    limit = 1 << (INTEGER_BITS[type.kind] - 1)
    if not -limit <= value < limit:
        raise overflow(value, type)
    return value


_UNITS: Final = tuple(Decimal(1).scaleb(-scale) for scale in range(MAX_PRECISION + 1))
"""The last digit of each scale."""


def fit_decimal(value: Decimal, type: Type) -> Decimal:
    """Round to the type's scale, half away from zero, and check that the digits suffice."""
    whole_digits = type.precision - type.scale
    # Far too large is decided on the exponent: quantize would fail on more digits than its context has.
    if not value.is_zero() and value.adjusted() > whole_digits:
        raise overflow(value, type)
    rounded = value.quantize(_UNITS[type.scale], context=EXACT)
    if not rounded.is_zero() and rounded.adjusted() >= whole_digits:
        raise overflow(value, type)
    return rounded.copy_abs() if rounded.is_zero() else rounded


def overflow(value: object, type: Type) -> TidemarkError:
    return TidemarkError("overflow", f"{value} is out of range for {type}")


_MESSAGES: Final = (
    ("cardinality", r"cardinality: "),
    ("division_by_zero", r"division_by_zero: |Division by zero|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO"),
    (
        "invalid_value",
        r"invalid_value: |field value out of range|Conversion Error: Date out of range|CAST_INVALID_INPUT"
        r"|DATETIME_FIELD_OUT_OF_BOUNDS|Like pattern must not end|INVALID_FORMAT",
    ),
    (
        "overflow",
        r"overflow: |Out of Range Error|out of range|Could not (?:cast|convert)|Failed to cast"
        r"|ARITHMETIC_OVERFLOW|CAST_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|NUMERIC_OUT_OF_SUPPORTED_RANGE",
    ),
)
_ANY: Final = re.compile("|".join(f"(?P<{code}>{wording})" for code, wording in _MESSAGES))


def failure_code(message: str) -> str | None:
    """The code of the table's error that the message begins with, or None if it is another error.

    >>> failure_code("Invalid Input Error: division_by_zero: the divisor is zero")
    'division_by_zero'
    >>> failure_code("[CAST_OVERFLOW] The value 2147483648L of the type BIGINT cannot be cast to INT")
    'overflow'
    """
    # Later lines quote the statement, in which the guards' own texts stand.
    found = _ANY.search(message.partition("\n")[0])
    return found.lastgroup if found else None


_UNSIGNED: Final = "([0-9]+([.][0-9]*)?|[.][0-9]+)"
_YEAR: Final = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DATE: Final = f"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}"
_TIME: Final = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?"

_ZONE: Final = " ?([zZ]|UTC|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?)"

_SPECIAL: Final = "[nN][aA][nN]|[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?"

TRUE_TEXTS: Final = ("true", "t", "yes", "1")
FALSE_TEXTS: Final = ("false", "f", "no", "0")

ACCEPTED: Final = {
    Kind.SMALLINT: "[+-]?[0-9]+",
    Kind.INT: "[+-]?[0-9]+",
    Kind.BIGINT: "[+-]?[0-9]+",
    Kind.DECIMAL: f"[+-]?{_UNSIGNED}",
    Kind.REAL: f"[+-]?{_UNSIGNED}([eE][+-]?[0-9]{{1,3}})?|{_SPECIAL}",
    Kind.DOUBLE: f"[+-]?{_UNSIGNED}([eE][+-]?[0-9]{{1,3}})?|{_SPECIAL}",
    Kind.DATE: _DATE,
    Kind.TIMESTAMP: f"{_DATE}([ T]{_TIME})?",
    Kind.TIMESTAMPTZ: f"{_DATE}([ T]{_TIME}({_ZONE})?)?",
    Kind.BYTEA: "[!-~]x([0-9a-fA-F]{2})*",
}
"""What a text must be, apart from spaces around it. Whether a day exists is left to the calendar.

That the first character of a BYTEA is a backslash is asked apart."""
