"""What each aggregate means in Python, over the values of one group, each with a weight that says how often it is
there. NULL is looked at where a row of the table says so.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal, localcontext
from typing import Any, Protocol, TypeAlias

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.values import NAN, canonical, rank
from tidemark.algebra.types import DOUBLE, Kind, Type
from tidemark.errors import TidemarkError

Weighted: TypeAlias = Sequence[tuple[Value, int]]


class Group(Protocol):
    """The rows of one group, as one call sees them: how many there are, the values of its argument, those that are not
    NULL (each once if they are distinct), these repeated, and all values in the order of the call."""

    @property
    def rows(self) -> int: ...
    @property
    def values(self) -> Weighted: ...
    @property
    def present(self) -> Weighted: ...
    @property
    def each(self) -> list[Value]: ...
    @property
    def in_order(self) -> list[Value]: ...
    @property
    def type(self) -> Type: ...
    @property
    def separator(self) -> str: ...
    @property
    def fraction(self) -> float | None: ...
    @property
    def descending(self) -> bool: ...


Meaning: TypeAlias = Callable[[Group], Value]


def rows(group: Group) -> Value:
    return group.rows


def count(group: Group) -> Value:
    return sum(weight for _, weight in group.present)


def total(group: Group) -> Value:
    """Exact sums are refused when they do not fit their type; sums of doubles are right to the last digit."""
    if not group.present:
        return None
    if group.type != DOUBLE:
        return _exact_sum(group.present, group.type)
    numbers = _numbers(group)
    return _sum_of_doubles(numbers) if numbers else None


def least(group: Group) -> Value:
    return min(group.each, key=rank, default=None)


def greatest(group: Group) -> Value:
    return max(group.each, key=rank, default=None)


def spread(function: Callable[[list[float]], float], fewest: int) -> Meaning:
    """A variance or deviation of at least so many values: not a number if one of them is not finite, and infinite
    beyond the range of doubles."""

    def of_group(group: Group) -> Value:
        numbers = _numbers(group)
        if len(numbers) < fewest:
            return None
        if not all(map(math.isfinite, numbers)):
            return NAN
        try:
            return function(numbers)
        except OverflowError:
            return math.inf

    return of_group


VAR_SAMP, STDDEV_SAMP = spread(statistics.variance, 2), spread(statistics.stdev, 2)
VAR_POP, STDDEV_POP = spread(statistics.pvariance, 1), spread(statistics.pstdev, 1)


def joined(group: Group) -> Value:
    texts = [str(value) for value in group.in_order if value is not None]
    return group.separator.join(texts) if texts else None


def listed(group: Group) -> Value:
    return tuple(group.in_order) or None


def percentile(place: Callable[[float, int], int]) -> Meaning:
    """The value at a place among all values in order, counted from 1. Products are floats, as in PostgreSQL."""

    def of_group(group: Group) -> Value:
        assert group.fraction is not None, "a percentile has a fraction"
        values = sorted(group.each, key=rank, reverse=group.descending)
        return values[place(group.fraction, len(values)) - 1] if values else None

    return of_group


DISCRETE = percentile(lambda fraction, count: max(1, math.ceil(fraction * count)))
LOW = percentile(lambda fraction, count: 1 + math.floor(fraction * (count - 1)))
HIGH = percentile(lambda fraction, count: 1 + math.ceil(fraction * (count - 1)))


def most_frequent(group: Group) -> Value:
    """The value that is there most often, the first of them in order."""
    counts: dict[Value, int] = {}
    for value, weight in group.present:
        counts[value] = counts.get(value, 0) + weight
    ordered = sorted((value for value in counts if counts[value] > 0), key=rank, reverse=group.descending)
    return max(ordered, key=lambda value: counts[value], default=None)


def only(group: Group) -> Value:
    found = [(value, weight) for value, weight in group.values if weight > 0]
    if sum(weight for _, weight in found) > 1:
        raise TidemarkError("cardinality", "a subquery that is used as a value gives more than one row")
    return found[0][0] if found else None


def _numbers(group: Group) -> list[float]:
    values: list[Any] = group.each
    return [float(value) for value in values]


def _exact_sum(values: Weighted, type: Type) -> Value:
    """The weighted sum, exact, refused when it does not fit its type."""
    with localcontext() as context:
        context.prec = 120
        found = sum((Decimal(value) * weight for value, weight in values), Decimal(0))  # type: ignore[arg-type]
        if type.kind is Kind.BIGINT:
            if not -(2**63) <= found < 2**63:
                raise TidemarkError("overflow", "SUM is out of range for BIGINT")
            return int(found)
        if abs(found) >= Decimal(10) ** (type.precision - type.scale):
            raise TidemarkError("overflow", f"SUM is out of range for {type}")
        return found.quantize(Decimal(1).scaleb(-type.scale))


def _sum_of_doubles(numbers: list[float]) -> Value:
    """One that is beyond the range of doubles is infinite."""
    if all(map(math.isfinite, numbers)):
        with suppress(OverflowError):
            return math.fsum(numbers)
    return canonical(sum(numbers))
