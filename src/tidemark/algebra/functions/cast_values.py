"""What casts mean, in Python."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.texts import ACCEPTED, FALSE_TEXTS, TRUE_TEXTS
from tidemark.algebra.functions.values import EXACT, canonical, fit_decimal, fit_integer, overflow
from tidemark.algebra.types import MAX_PRECISION, Kind, Type, decimal
from tidemark.errors import TidemarkError

_BIGINT_LIMIT: Final = 2.0**63


def cast(value: Any, source: Type, target: Type) -> Value:
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
        case Kind.VARCHAR:
            return _text(value)
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
        text = value.isoformat(sep=" ")
        return text.rstrip("0") if value.microsecond else text
    return str(value)


def _parse(text: str, target: Type) -> Value:
    trimmed = text.strip(" ")
    if target.kind is Kind.BOOLEAN:
        return _parse_boolean(trimmed.lower(), text)
    if not re.fullmatch(ACCEPTED[target.kind], trimmed):
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
        case Kind.DECIMAL:
            return fit_decimal(Decimal(text), target)
        case Kind.DOUBLE:
            if math.isinf(float(text)) and "inf" not in text.lower():
                raise overflow(text, target)
            return canonical(float(text))
    # Python refuses to read thousands of digits as an integer; as a decimal, the range is checked first.
    return fit_integer(int(fit_decimal(Decimal(text), decimal(MAX_PRECISION, 0))), target)


def _parse_boolean(lowered: str, text: str) -> bool:
    if lowered in TRUE_TEXTS:
        return True
    if lowered in FALSE_TEXTS:
        return False
    raise _malformed(text, Kind.BOOLEAN)


def _malformed(text: str, kind: Kind) -> TidemarkError:
    return TidemarkError("invalid_value", f"not a {kind.value}: {text}")
