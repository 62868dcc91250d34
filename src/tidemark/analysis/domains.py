"""The values of types as numbers: from where to where they go, and what number stands for a constant."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.values import EXACT
from tidemark.algebra.types import INTEGER_BITS, Kind, Type

Ranks: TypeAlias = Mapping[str, int]
"""The places of the texts that stand in a condition, in the order of text; the empty text is the first of all."""
Range: TypeAlias = tuple[Fraction | None, Fraction | None]

DAY: Final = 86_400_000_000
"""In microseconds."""
_FIRST_DAY: Final = dt.date.min.toordinal()
_LAST_DAY: Final = dt.date.max.toordinal()


def has_numbers(type: Type) -> bool:
    """Whether values of the type are taken as numbers here. Floats and arrays are not, and NULL is of no type."""
    return type.is_exact or type.is_temporal or type.kind is Kind.VARCHAR


def is_dense(type: Type) -> bool:
    return type.kind is Kind.VARCHAR


def unit_of(type: Type) -> Fraction:
    """What one more of the variable means: a decimal is counted in units of its last digit."""
    return Fraction(1, 10**type.scale)


def range_of(type: Type) -> Range:
    """The least and the greatest number that stands for a value of the type.

    >>> from tidemark.algebra.types import SMALLINT, decimal
    >>> range_of(SMALLINT), range_of(decimal(3, 1))
    ((Fraction(-32768, 1), Fraction(32767, 1)), (Fraction(-999, 10), Fraction(999, 10)))
    """
    if type.is_integer:
        limit = 1 << (INTEGER_BITS[type.kind] - 1)
        return Fraction(-limit), Fraction(limit - 1)
    match type.kind:
        case Kind.DECIMAL:
            most = (10**type.precision - 1) * unit_of(type)
            return -most, most
        case Kind.DATE:
            return Fraction(_FIRST_DAY), Fraction(_LAST_DAY)
        case Kind.TIMESTAMP:
            return Fraction(_FIRST_DAY * DAY), Fraction((_LAST_DAY + 1) * DAY - 1)
        case Kind.VARCHAR:
            return Fraction(0), None
    return None, None


def number_of(value: Value, ranks: Ranks) -> Fraction:
    """The number that stands for a constant.

    >>> number_of(dt.date(1, 1, 2), {}), number_of(Decimal("1.5"), {})
    (Fraction(2, 1), Fraction(3, 2))
    """
    match value:
        case int() | Decimal():
            return Fraction(value)
        case str():
            return Fraction(ranks[value])
        case dt.datetime():
            since = value - dt.datetime(1, 1, 1)
            return Fraction(_FIRST_DAY * DAY + since // dt.timedelta(microseconds=1))
        case dt.date():
            return Fraction(value.toordinal())
    raise TypeError(f"no number stands for {value!r}")


def value_of_number(number: int, type: Type, texts: tuple[str, ...]) -> Value:
    """The value that a number of units stands for; the opposite of ``number_of``.

    >>> from tidemark.algebra.types import DATE, decimal
    >>> value_of_number(2, DATE, ()), value_of_number(15, decimal(3, 1), ())
    (datetime.date(1, 1, 2), Decimal('1.5'))
    """
    match type.kind:
        case Kind.DECIMAL:
            return Decimal(number).scaleb(-type.scale, context=EXACT)
        case Kind.DATE:
            return dt.date.fromordinal(number)
        case Kind.TIMESTAMP:
            return dt.datetime(1, 1, 1) + dt.timedelta(microseconds=number - _FIRST_DAY * DAY)
        case Kind.VARCHAR:
            return texts[number]
    return number
