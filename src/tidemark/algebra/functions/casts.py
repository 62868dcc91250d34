"""Casts: which are allowed, what they mean, and the SQL that means the same on each engine.

Engines differ most in what they read from text and in how they round, so text is checked against a regular
expression before an engine sees it, and rounding is spelled out wherever an engine's own differs.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import cast_sql
from tidemark.algebra.functions.cast_sql import duckdb_type, spark_type
from tidemark.algebra.functions.values import (
    ACCEPTED,
    EXACT,
    FALSE_TEXTS,
    TRUE_TEXTS,
    canonical,
    fit_decimal,
    fit_integer,
    fit_real,
    overflow,
)
from tidemark.algebra.types import INTEGER_DIGITS, MAX_PRECISION, Kind, Type, decimal
from tidemark.errors import TidemarkError

_BIGINT_LIMIT: Final = 2.0**63


def cast_scalar(value: Any, source: Type, target: Type) -> Value:
    """The value of an allowed cast between two different types."""
    if source.kind is Kind.VARCHAR:
        return _parse(value, target)
    match target.kind:
        case Kind.BOOLEAN:
            return bool(value)
        case Kind.SMALLINT | Kind.INT | Kind.BIGINT:
            return _integer(value, target)
        case Kind.DECIMAL:
            number = _from_double(value, target) if isinstance(value, float) else Decimal(value)
            return fit_decimal(number, target)
        case Kind.DOUBLE:
            return canonical(float(value))
        case Kind.REAL:
            return fit_real(float(value))
        case Kind.VARCHAR:
            return _text(value)
        case Kind.TIMESTAMP if source.kind is Kind.TIMESTAMPTZ:
            return value.replace(tzinfo=None)  # type: ignore[no-any-return]
        case Kind.TIMESTAMPTZ if source.kind is Kind.TIMESTAMP:
            return value.replace(tzinfo=dt.UTC)  # type: ignore[no-any-return]
        case Kind.TIMESTAMPTZ:
            return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
        case Kind.DATE:
            return dt.date(value.year, value.month, value.day)
        case Kind.TIMESTAMP:
            return dt.datetime(value.year, value.month, value.day)
    raise ValueError(f"there is no cast from {source} to {target}")


def _integer(value: bool | int | float | Decimal, target: Type) -> int:
    """Ties go away from zero in a DECIMAL and to the even neighbour in a DOUBLE, as in PostgreSQL."""
    if isinstance(value, Decimal):
        return fit_integer(int(value.quantize(Decimal(1), context=EXACT)), target)
    if isinstance(value, float) and not math.isfinite(value):
        raise overflow(value, target)
    return fit_integer(round(value), target)


def _from_double(value: float, target: Type) -> Decimal:
    """The whole part exactly, plus the fraction times a power of ten, rounded to a whole number.

    Each step is one exact or correctly rounded operation on doubles that all engines share; their own casts
    print the number first and do not print the same digits.
    """
    if not -_BIGINT_LIMIT <= value < _BIGINT_LIMIT:  # true for NaN as well
        raise overflow(value, target)
    whole = math.trunc(value)
    scaled = Decimal((value - whole) * 10.0**target.scale).quantize(Decimal(1), context=EXACT)
    return EXACT.add(Decimal(whole), scaled.scaleb(-target.scale, context=EXACT))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(sep=" ")
        text = text.rstrip("0") if value.microsecond else text
        return text if value.tzinfo is None else f"{text}+00"
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return str(value)


def _parse(text: str, target: Type) -> Value:
    trimmed = text.strip(" ")
    if target.kind is Kind.BOOLEAN:
        return _parse_boolean(trimmed.lower(), text)
    if target.kind is Kind.BYTEA:
        trimmed = text
    is_accepted = re.fullmatch(ACCEPTED[target.kind], trimmed) is not None
    if not is_accepted or (target.kind is Kind.BYTEA and text[0] != "\\"):
        raise _malformed(text, target.kind)
    try:
        return _read(trimmed, target)
    except ValueError as error:  # a day that the calendar does not have
        raise _malformed(text, target.kind) from error


def _read(text: str, target: Type) -> Value:
    match target.kind:
        case Kind.DATE:
            return dt.date.fromisoformat(text)
        case Kind.TIMESTAMP:
            return dt.datetime.fromisoformat(text)
        case Kind.TIMESTAMPTZ:
            return _moment(text)
        case Kind.BYTEA:
            return bytes.fromhex(text[2:])
        case Kind.DECIMAL:
            return fit_decimal(Decimal(text), target)
        case Kind.REAL | Kind.DOUBLE:
            number = canonical(float(text))
            if math.isinf(float(text)) and "inf" not in text.lower():
                raise overflow(text, target)
            return number if target.kind is Kind.DOUBLE else fit_real(float(text))
    # Python refuses to read thousands of digits as an integer; as a decimal, the range is checked first.
    return fit_integer(int(fit_decimal(Decimal(text), decimal(MAX_PRECISION, 0))), target)


def _moment(text: str) -> dt.datetime:
    """A point in time, in UTC; without a zone the text is of UTC."""
    plain = text.upper().replace("UTC", "Z").replace(" Z", "Z").replace(" +", "+").replace(" -", "-")
    moment = dt.datetime.fromisoformat(plain)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=dt.UTC)
    try:
        return moment.astimezone(dt.UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is out of range in UTC") from error


def _parse_boolean(lowered: str, text: str) -> bool:
    if lowered in TRUE_TEXTS:
        return True
    if lowered in FALSE_TEXTS:
        return False
    raise _malformed(text, Kind.BOOLEAN)


def _malformed(text: str, kind: Kind) -> TidemarkError:
    return TidemarkError("invalid_value", f"not a {kind.value}: {text}")


__all__ = [
    "assignment_cast_allowed",
    "cast_fails",
    "cast_value",
    "duckdb_cast",
    "duckdb_type",
    "explicit_cast_allowed",
    "implicit_cast_allowed",
    "spark_cast",
    "spark_type",
]

_TO_TEXT: Final = (Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.BYTEA)
_MAX_SCALE_FROM_DOUBLE: Final = 18
"""The fraction of a double goes through a BIGINT, which has room for 18 digits."""


def explicit_cast_allowed(source: Type, target: Type) -> bool:
    """Whether CAST may be written between the two types.

    A double or a real has no text yet: engines print different digits for the same number.
    """
    if source == target or implicit_cast_allowed(source, target):
        return True
    if source.element is not None and target.element is not None:
        return explicit_cast_allowed(source.element, target.element)
    if source.fields and target.fields:
        return _by_fields(explicit_cast_allowed, source, target)
    match source.kind, target.kind:
        case _, Kind.NULL:
            return False
        case _ if source.is_nested or target.is_nested:
            return False
        case Kind.VARCHAR, _:
            return True
        case _, Kind.VARCHAR:
            return source.is_exact or source.kind in _TO_TEXT
        case ((Kind.REAL | Kind.DOUBLE), Kind.DECIMAL):
            return target.scale <= _MAX_SCALE_FROM_DOUBLE
        case (Kind.BOOLEAN, Kind.INT) | (Kind.INT, Kind.BOOLEAN) | (Kind.TIMESTAMP, Kind.DATE):
            return True
        case Kind.TIMESTAMPTZ, (Kind.DATE | Kind.TIMESTAMP):
            return True
    return source.is_numeric and target.is_numeric


def implicit_cast_allowed(source: Type, target: Type) -> bool:
    """Whether the binder may widen silently: every value of the source has a place in the target.

    >>> from tidemark.algebra.types import BIGINT, INT, decimal
    >>> implicit_cast_allowed(INT, BIGINT), implicit_cast_allowed(INT, decimal(10, 2))
    (True, False)
    """
    if source == target or source.kind is Kind.NULL:
        return True
    if source.element is not None and target.element is not None:
        return implicit_cast_allowed(source.element, target.element)
    if source.fields and target.fields:
        return _by_fields(implicit_cast_allowed, source, target)
    match source.kind, target.kind:
        case _, Kind.DOUBLE:
            return source.is_numeric
        case (Kind.DATE, Kind.TIMESTAMP) | ((Kind.DATE | Kind.TIMESTAMP), Kind.TIMESTAMPTZ):
            return True
    if source.is_integer and target.is_integer:
        return INTEGER_DIGITS[source.kind] < INTEGER_DIGITS[target.kind]
    if source.is_exact and target.kind is Kind.DECIMAL:
        narrow = source.as_decimal()
        whole_digits = target.precision - target.scale
        return narrow.scale <= target.scale and narrow.precision - narrow.scale <= whole_digits
    return False


def assignment_cast_allowed(source: Type, target: Type) -> bool:
    """Whether INSERT and UPDATE may convert silently: what widens, any number to any other, range checked, and
    a point in time as the time that it is in UTC."""
    if source.is_numeric and target.is_numeric:
        return explicit_cast_allowed(source, target)
    if (source.kind, target.kind) == (Kind.TIMESTAMPTZ, Kind.TIMESTAMP):
        return True
    if source.element is not None and target.element is not None:
        return assignment_cast_allowed(source.element, target.element)
    if source.fields and target.fields:
        return _by_fields(assignment_cast_allowed, source, target)
    return implicit_cast_allowed(source, target)


def _by_fields(allowed: Callable[[Type, Type], bool], source: Type, target: Type) -> bool:
    """Structs are cast field by field, in their order, whatever the names."""
    return len(source.fields) == len(target.fields) and all(map(allowed, source.parts, target.parts))


def cast_fails(source: Type, target: Type) -> str | None:
    """In words, when the cast raises an error; None if it never does.

    >>> from tidemark.algebra.types import BIGINT, INT
    >>> cast_fails(BIGINT, INT), cast_fails(INT, BIGINT)
    ('overflow: out of range', None)
    """
    if implicit_cast_allowed(source, target):
        return None
    if source.element is not None and target.element is not None:
        return cast_fails(source.element, target.element)
    if source.fields and target.fields:
        failures = map(cast_fails, source.parts, target.parts)
        return "; ".join(dict.fromkeys(failure for failure in failures if failure)) or None
    if source.kind is Kind.VARCHAR:
        range_too = target.is_numeric
        return f"invalid_value: not the text of a {target.kind.value}" + "; overflow: out of range" * range_too
    if source.is_numeric and target.is_numeric:
        return "overflow: out of range"
    return None


def cast_value(value: Value, source: Type, target: Type) -> Value:
    """The value cast from one type to the other.

    >>> from decimal import Decimal
    >>> from tidemark.algebra.types import INT, decimal
    >>> cast_value(Decimal("-2.5"), decimal(2, 1), INT)
    -3
    """
    _check(source, target)
    if value is None or source == target:
        return value
    if source.element is not None and target.element is not None and isinstance(value, tuple):
        return tuple(cast_value(element, source.element, target.element) for element in value)
    if source.fields and isinstance(value, tuple):
        return tuple(map(cast_value, value, source.parts, target.parts))
    return cast_scalar(value, source, target)


def duckdb_cast(text: str, source: Type, target: Type) -> str:
    """The cast of an expression in DuckDB's SQL.

    >>> from tidemark.algebra.types import INT, VARCHAR
    >>> duckdb_cast("a", INT, VARCHAR)
    'CAST(a AS VARCHAR)'
    """
    _check(source, target)
    return text if source == target else cast_sql.duckdb(text, source, target)


def spark_cast(text: str, source: Type, target: Type) -> str:
    """The cast of an expression in Spark's SQL.

    >>> from tidemark.algebra.types import INT, VARCHAR
    >>> spark_cast("a", INT, VARCHAR)
    'CAST(a AS STRING)'
    """
    _check(source, target)
    return text if source == target else cast_sql.spark(text, source, target)


def _check(source: Type, target: Type) -> None:
    if not explicit_cast_allowed(source, target):
        raise ValueError(f"there is no cast from {source} to {target}")
