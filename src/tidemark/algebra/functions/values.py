"""The values of the types in Python: one canonical form each, their order, and what fits into a type."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import INTEGER_BITS, Kind, Type
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


def fit_decimal(value: Decimal, type: Type) -> Decimal:
    """Round to the type's scale, half away from zero, and check that the digits suffice."""
    whole_digits = type.precision - type.scale
    # Far too large is decided on the exponent: quantize would fail on more digits than its context has.
    if not value.is_zero() and value.adjusted() > whole_digits:
        raise overflow(value, type)
    rounded = value.quantize(Decimal(1).scaleb(-type.scale), context=EXACT)
    if not rounded.is_zero() and rounded.adjusted() >= whole_digits:
        raise overflow(value, type)
    return rounded.copy_abs() if rounded.is_zero() else rounded


def overflow(value: object, type: Type) -> TidemarkError:
    return TidemarkError("overflow", f"{value} is out of range for {type}")
