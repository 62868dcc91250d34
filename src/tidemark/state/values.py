"""One value that a program hands over, as a value of a column's type.

It is taken whole, or refused: a fraction is not cut off, a time not rounded to microseconds, a text not read as number.
ISO 8601 texts are read for dates and times, and a time with a zone is taken as the moment that it is, in UTC.

A value of a parameter has the type of the same value written out, until its place says more.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Final

import pyarrow as pa

from tidemark.algebra.functions.values import ACCEPTED, canonical, fit_decimal, fit_integer, fit_real
from tidemark.algebra.text import number
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INT,
    INTEGER_BITS,
    NULL,
    TIMESTAMP,
    VARCHAR,
    Kind,
    Type,
)
from tidemark.errors import TidemarkError, half_character

_ZONED: Final = re.compile("(?P<moment>[0-9-]{10}[ T][0-9:]+([.][0-9]{1,6})?)0*(?P<zone>Z|[+-][0-9]{2}(:?[0-9]{2})?)?")
"""A moment, maybe with zeros beyond microseconds, maybe with a zone; ``ACCEPTED`` has the moment itself."""
_FINER: Final = re.compile(r".*:[0-9]{2}[.][0-9]{7,}(Z|[+-][0-9:]+)?")
_NONE: Final = type(None)
PLAIN: Final[Mapping[Kind, frozenset[type]]] = {
    Kind.BOOLEAN: frozenset({bool, _NONE}),
    Kind.SMALLINT: frozenset({int, _NONE}),
    Kind.INT: frozenset({int, _NONE}),
    Kind.BIGINT: frozenset({int, _NONE}),
    Kind.DOUBLE: frozenset({float, _NONE}),
    Kind.VARCHAR: frozenset({str, _NONE}),
    Kind.DATE: frozenset({dt.date, _NONE}),
}
"""Types of Python whose values Arrow takes as they are, if they are in range: they need not be looked at one by one."""


class Unfit(ValueError):
    """Why a value is none of a type."""


def taken_all(values: list[Any], type: Type) -> list[Any]:
    """The values as those of a type, each as ``taken``."""
    if not {value.__class__ for value in values} <= PLAIN.get(type.kind, frozenset()):
        return [taken(value, type) for value in values]
    known = [value for value in values if value is not None]
    if type.is_integer and known:
        _integer(min(known), type)
        _integer(max(known), type)
    if type.kind is Kind.VARCHAR:
        for value in known:
            if not value.isascii():
                text(value)
    return values


def taken(value: Any, type: Type) -> Any:
    """The value as one of a type, as Arrow takes it, or ``Unfit``."""
    if value is None:
        return None
    if type.element is not None:
        return _list(value, type.element)
    if type.fields:
        return _struct(value, type)
    match type.kind:
        case Kind.BOOLEAN:
            return _boolean(value)
        case Kind.VARCHAR:
            return text(value)
        case Kind.BYTEA:
            return _bytes(value)
        case Kind.DATE | Kind.TIMESTAMP:
            return _time(value, type)
        case Kind.TIMESTAMPTZ:
            moment = _time(value, TIMESTAMP)
            assert moment is None or isinstance(moment, dt.datetime)
            return None if moment is None else moment.replace(tzinfo=dt.UTC)
        case Kind.REAL:
            return _real(value)
        case Kind.DOUBLE:
            return _double(value)
        case Kind.DECIMAL:
            return _decimal(value, type)
    return _integer(value, type)


def text(value: Any) -> str:
    """A text, whole characters only: half of a surrogate pair stands for none and cannot be stored."""
    if not isinstance(value, str):
        raise Unfit(f"{value!r} is no text")
    if (half := half_character(value)) is not None:
        raise Unfit(f"{value!r} has half of a surrogate pair at character {half + 1}, which is no text")
    return str(value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise Unfit(f"{value!r} is no bytes")


def must_be_text(value: Any, what: str) -> str:
    """A text that a program hands over as a name or a payload."""
    try:
        return text(value)
    except Unfit as error:
        raise TidemarkError("type", f"{what} is a text: {error}") from error


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if getattr(value, "dtype", None) == "bool":  # numpy has its own
        return bool(value)
    raise Unfit(f"{value!r} is neither True nor False")


# Values without a column


def plain(value: Any) -> Any:
    """A value of a parameter as one of Python's own, if it has a type of itself; in the one form that it has here."""
    kind = value.__class__
    if kind is dt.date or (kind is str and value.isascii()):
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else Decimal(value)
    if value is None or isinstance(value, bool | list | tuple | Mapping):
        return value
    if isinstance(value, str):
        return taken(value, VARCHAR)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(value)
    if getattr(value, "dtype", None) == "bool":
        return bool(value)
    if hasattr(value, "dtype") and not isinstance(value, Integral | Real):  # a time of numpy
        if value == value and value.dtype.kind == "M":
            value = _from_numpy(value)
        return taken(value, TIMESTAMP if isinstance(value, dt.datetime) or not isinstance(value, dt.date) else DATE)
    if isinstance(value, dt.datetime):
        return taken(value, TIMESTAMP)
    if isinstance(value, dt.date):
        return taken(value, DATE)
    if isinstance(value, Integral):
        return plain(int(value))
    if isinstance(value, Decimal) and value.is_finite():
        return canonical(value)
    if isinstance(value, Real):
        return canonical(taken(value, DOUBLE))
    raise Unfit(f"{value!r} is a value of no type")


def type_of(value: Any) -> Type:
    """The type that the value has as a literal; that of NULL if its place has to say."""
    match value:
        case bool():
            return BOOLEAN
        case int():
            return INT if -(2**31) < value < 2**31 else BIGINT
        case Decimal():
            return number(_written(value)).type
        case float():
            return DOUBLE
        case str():
            return VARCHAR
        case bytes():
            return BYTEA
        case dt.datetime():
            return TIMESTAMP
        case dt.date():
            return DATE
    return NULL


def _written(value: Decimal) -> str:
    """A decimal as it is written out. A whole number has a point, too, or it would be an integer where it is small."""
    text = format(value, "f")
    return text if "." in text else f"{text}."


# Numbers


def _integer(value: Any, type: Type) -> int:
    if value.__class__ is int and value.bit_length() < INTEGER_BITS[type.kind]:
        return int(value)
    number = _number(value)
    try:
        return fit_integer(number if isinstance(number, int) else _whole(number), type)
    except TidemarkError as error:
        raise Unfit(f"{value!r} is out of range") from error


def _whole(number: Decimal | float) -> int:
    if not (number.is_finite() if isinstance(number, Decimal) else math.isfinite(number)):
        raise Unfit(f"{number!r} is no whole number")
    if isinstance(number, Decimal) and not number.is_zero() and number.adjusted() > 40:
        raise Unfit(f"{number!r} is out of range")  # before thousands of digits are written out
    if number != (whole := int(number)):
        raise Unfit(f"{number!r} has a fraction")
    return whole


def _double(value: Any) -> float:
    number = _number(value)
    if isinstance(number, float):
        return number
    try:
        nearest = float(number)
    except OverflowError as error:
        raise Unfit(f"{value!r} is out of range") from error
    if math.isinf(nearest) and (isinstance(number, int) or number.is_finite()):
        raise Unfit(f"{value!r} is out of range")
    # Of 0.1 a DOUBLE has the nearest number, which shows the same digits; of others it has all that there are.
    if number not in (Decimal(repr(nearest)), Decimal(nearest)):
        raise Unfit(f"{value!r} has more digits than a DOUBLE keeps")
    return nearest


_REAL_DIGITS: Final = range(6, 10)
"""So many tell a REAL from all others."""


def _real(value: Any) -> float:
    number = _double(value)
    try:
        nearest = fit_real(number)
    except TidemarkError as error:
        raise Unfit(f"{value!r} is out of range") from error
    # Of 0.1 a REAL has the nearest number, which shows the same digits; of others it has all that there are.
    if not math.isfinite(number) or number == nearest or any(float(f"{nearest:.{n}g}") == number for n in _REAL_DIGITS):
        return nearest
    raise Unfit(f"{value!r} has more digits than a REAL keeps")


def _decimal(value: Any, type: Type) -> Decimal:
    if value.__class__ is Decimal and value.is_finite() and value.adjusted() < type.precision - type.scale:
        fitting = fit_decimal(value, type)
        if fitting == value:
            return fitting
    number = _number(value)
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if not exact.is_finite():
        raise Unfit(f"{value!r} is no number with digits")
    if not exact.is_zero() and exact.adjusted() >= type.precision - type.scale:
        raise Unfit(f"{value!r} is out of range")
    digits = exact.as_tuple()
    assert isinstance(digits.exponent, int)
    beyond = -digits.exponent - type.scale
    if beyond > 0 and any(digits.digits[-beyond:]):
        raise Unfit(f"{value!r} has more than {type.scale} digits after the point")
    return fit_decimal(exact, type)


def _number(value: Any) -> int | float | Decimal:
    if isinstance(value, bool) or getattr(value, "dtype", None) == "bool":
        raise Unfit("True and False are not numbers")
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Decimal):
        return value
    if isinstance(value, float) or (isinstance(value, Real) and float(value) == value):
        return float(value)
    raise Unfit(f"{value!r} is no number")


# Times


def _time(value: Any, type: Type) -> dt.date | None:
    if value != value:  # pandas' NaT and numpy's, which stand for no time
        return None
    if isinstance(value, str):
        return _read(value, type)
    if hasattr(value, "dtype"):  # numpy's
        value = _from_numpy(value)
    is_moment = isinstance(value, dt.datetime)
    if type.kind is Kind.DATE:
        if is_moment or not isinstance(value, dt.date):
            raise Unfit(f"{value!r} is no datetime.date")
        return value
    if is_moment:
        return _moment(value)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    raise Unfit(f"{value!r} is no datetime.datetime")


def _from_numpy(value: Any) -> Any:
    """A time of numpy as Python has it: one of whole days, months or years is a date. Of nanoseconds Arrow knows."""
    found = value.item() if value.dtype.kind == "M" else None
    if isinstance(found, dt.date):
        return found
    try:
        return pa.array([value])[0].as_py()
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise Unfit(f"{value!r} is no time of microseconds") from error


def _moment(value: dt.datetime) -> dt.datetime:
    """Without a zone, and of Python's own class: pandas' times have nanoseconds."""
    if getattr(value, "nanosecond", 0):
        raise Unfit(f"{value!r} is finer than a microsecond")
    moment = dt.datetime.combine(value.date(), value.time(), value.tzinfo)
    if value.tzinfo is None:
        return moment
    try:
        return moment.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError as error:
        raise Unfit(f"{value!r} is out of range in UTC") from error


def _read(given: str, type: Type) -> dt.date:
    plain, zone = given.strip(" "), ""
    if type.kind is Kind.TIMESTAMP and (found := _ZONED.fullmatch(plain)):
        plain, zone = found["moment"], found["zone"] or ""
    if not re.fullmatch(ACCEPTED[type.kind], plain):
        if type.kind is Kind.TIMESTAMP and _FINER.fullmatch(given.strip(" ")):
            raise Unfit(f"{given!r} is finer than a microsecond")
        raise Unfit(f"{given!r} is no ISO 8601 text of a {type.kind.value}")
    try:
        if type.kind is Kind.DATE:
            return dt.date.fromisoformat(plain)
        return _moment(dt.datetime.fromisoformat(plain + zone))
    except ValueError as error:
        if isinstance(error, Unfit):
            raise
        raise Unfit(f"{given!r} is no {type.kind.value}: {error}") from error


# Parts


def _list(value: Any, element: Type) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise Unfit(f"an array takes a list, a tuple or None, not {value!r}")
    return [taken(part, element) for part in value]


def _struct(value: Any, type: Type) -> tuple[Any, ...]:
    """A STRUCT takes a dict with all its fields, or a tuple of them; Arrow would take NULL for one that is missing."""
    names = [name for name, _ in type.fields]
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise Unfit(f"a STRUCT takes a dict of {', '.join(names)}, this one has {_listed(value)}")
        parts: Iterable[Any] = [value[name] for name in names]
    elif isinstance(value, tuple) and len(value) == len(names):
        parts = value
    else:
        raise Unfit(f"a STRUCT takes a dict or a tuple of {', '.join(names)}, or None, not {value!r}")
    return tuple(taken(part, wanted) for part, wanted in zip(parts, type.parts, strict=True))


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names)) or "none"
