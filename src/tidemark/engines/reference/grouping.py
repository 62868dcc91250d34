"""Groups and their aggregates, as the definitions say."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal, localcontext
from typing import Final

from tidemark.algebra.aggregates import EXTREMA, AggregateCall, AggregateFunction, SortKey
from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import NAN, canonical, rank
from tidemark.algebra.plans import Aggregate
from tidemark.algebra.scalar import Row, value_of
from tidemark.algebra.types import Kind, Type
from tidemark.engines.reference.ordering import in_order
from tidemark.errors import TidemarkError

Bag = dict[Row, int]

_SPREADS: Final[dict[AggregateFunction, Callable[[list[float]], float]]] = {
    AggregateFunction.VAR_POP: statistics.pvariance,
    AggregateFunction.STDDEV_POP: statistics.pstdev,
    AggregateFunction.VAR_SAMP: statistics.variance,
    AggregateFunction.STDDEV_SAMP: statistics.stdev,
}
_OF_SAMPLES: Final = (AggregateFunction.VAR_SAMP, AggregateFunction.STDDEV_SAMP)


def aggregated(plan: Aggregate, source: Bag) -> Bag:
    groups: dict[Row, Bag] = {} if plan.keys else {(): {}}
    for row, weight in source.items():
        groups.setdefault(tuple(value_of(key, row) for key in plan.keys), {})[row] = weight
    result: Bag = {}
    for key, group in groups.items():
        if plan.keys and not plan.signed and sum(group.values()) <= 0:
            continue
        result[key + tuple(aggregate_value(call, group) for call in plan.aggregates)] = 1
    return result


def aggregate_value(call: AggregateCall, group: Bag) -> Value:
    """The value of one aggregate over the rows of a group."""
    if call.argument is None:
        return sum(group.values())
    values = [(value_of(call.argument, row), weight) for row, weight in group.items()]
    present = [(value, weight) for value, weight in values if value is not None]
    if call.distinct:
        present = [(value, 1) for value in {value: weight for value, weight in present if weight > 0}]
    if call.function is AggregateFunction.COUNT:
        return sum(weight for _, weight in present)
    if call.is_exact_sum:
        return exact_sum(present, call.type) if present else None
    if call.function is AggregateFunction.SINGLE:
        return _only(values)
    if call.function is AggregateFunction.MODE:
        return _most_frequent(call, present)
    if call.function is AggregateFunction.STRING_AGG:
        return _joined(call, group)
    if call.function is AggregateFunction.ARRAY_AGG:
        return _listed(call, group)
    return _of_values(call, [value for value, weight in present for _ in range(weight)])


def exact_sum(values: Iterable[tuple[Value, int]], type: Type) -> Value:
    """The weighted sum, exact, refused when it does not fit its type."""
    with localcontext() as context:
        context.prec = 120
        total = sum((Decimal(value) * weight for value, weight in values), Decimal(0))  # type: ignore[arg-type]
        if type.kind is Kind.BIGINT:
            if not -(2**63) <= total < 2**63:
                raise TidemarkError("overflow", "SUM is out of range for BIGINT")
            return int(total)
        if abs(total) >= Decimal(10) ** (type.precision - type.scale):
            raise TidemarkError("overflow", f"SUM is out of range for {type}")
        return total.quantize(Decimal(1).scaleb(-type.scale))


def _of_values(call: AggregateCall, values: list[Value]) -> Value:
    """An extremum or an approximate aggregate of the values, equal ones repeated."""
    if not values:
        return None
    if call.fraction is not None:
        return sorted(values, key=rank, reverse=call.descending)[_place(call, len(values)) - 1]
    if call.function in EXTREMA:
        return (min if call.function is AggregateFunction.MIN else max)(values, key=rank)
    numbers = [float(value) for value in values]  # type: ignore[arg-type]
    if call.function is AggregateFunction.SUM:
        return _total(numbers)
    if call.function in _OF_SAMPLES and len(numbers) < 2:
        return None
    return _spread(call.function, numbers)


def _total(numbers: list[float]) -> Value:
    """The sum of doubles, right to the last digit; one that is beyond their range is infinite."""
    if all(map(math.isfinite, numbers)):
        with suppress(OverflowError):
            return math.fsum(numbers)
    return canonical(sum(numbers))


def _spread(function: AggregateFunction, numbers: list[float]) -> Value:
    """A variance or deviation: not a number if one of them is not finite, and infinite beyond the range of doubles."""
    if not all(map(math.isfinite, numbers)):
        return NAN
    try:
        return _SPREADS[function](numbers)
    except OverflowError:
        return math.inf


def _place(call: AggregateCall, count: int) -> int:
    """The place of a percentile, counted from 1. The products are floats, as in PostgreSQL."""
    assert call.fraction is not None, "a percentile has a fraction"
    if call.function is AggregateFunction.PERCENTILE_DISC:
        return max(1, math.ceil(call.fraction * count))
    rounded = math.floor if call.function is AggregateFunction.PERCENTILE_LOW else math.ceil
    return 1 + rounded(call.fraction * (count - 1))


def _most_frequent(call: AggregateCall, values: Iterable[tuple[Value, int]]) -> Value:
    counts: dict[Value, int] = {}
    for value, weight in values:
        counts[value] = counts.get(value, 0) + weight
    ordered = sorted((value for value in counts if counts[value] > 0), key=rank, reverse=call.descending)
    return max(ordered, key=lambda value: counts[value], default=None)


def _only(values: list[tuple[Value, int]]) -> Value:
    rows = [(value, weight) for value, weight in values if weight > 0]
    if sum(weight for _, weight in rows) > 1:
        raise TidemarkError("cardinality", "a subquery that is used as a value gives more than one row")
    return rows[0][0] if rows else None


def _joined(call: AggregateCall, group: Bag) -> Value:
    texts = [str(value) for value in _values_in_order(call, group) if value is not None]
    return call.separator.join(texts) if texts else None


def _listed(call: AggregateCall, group: Bag) -> Value:
    condition = call.condition
    chosen = group if condition is None else {r: w for r, w in group.items() if value_of(condition, r) is True}
    return tuple(_values_in_order(call, chosen)) or None


def _values_in_order(call: AggregateCall, group: Bag) -> list[Value]:
    """Values in the order of the call's keys; equal places are filled by value."""
    assert call.argument is not None
    order = (*call.order, SortKey(call.argument))
    rows = [row for row in sorted(group, key=in_order(order)) if group[row] > 0]
    values = [value_of(call.argument, row) for row in rows for _ in range(group[row])]
    return list(dict.fromkeys(values)) if call.distinct else values
