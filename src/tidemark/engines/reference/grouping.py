"""Groups and their aggregates, as the definitions say.

Rows in order, as the definitions say.

Window functions row by row, as the definitions say.

Which rows of a partition a frame has, as the definitions say.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property, cmp_to_key
from typing import Any

from tidemark.algebra.aggregate_meanings import Weighted
from tidemark.algebra.aggregates import AggregateCall, AggregateFunction, SortKey
from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import cast_value, rank
from tidemark.algebra.plans import Aggregate, Sort, Window
from tidemark.algebra.plans import SortKey as PlanSortKey
from tidemark.algebra.scalar import Row, value_of
from tidemark.algebra.types import Type
from tidemark.algebra.windows import MICROSECONDS_PER_DAY, Bound, Frame, Span, Unit, WindowCall, WindowFunction


def repeated(bag: Mapping[Row, int]) -> list[Row]:
    """The rows of positive weight, each as often as its weight says."""
    return [row for row, weight in bag.items() for _ in range(weight)]


def first_rows(plan: Sort, rows: list[Row]) -> list[Row]:
    """The rows in order, from the offset on, as many as the limit allows; ties do not leave open which ones."""
    ordered = sorted(rows, key=in_order(plan.total.keys if plan.leaves_out else plan.keys))
    return ordered[plan.offset : None if plan.limit is None else plan.offset + plan.limit]


def in_order(keys: tuple[PlanSortKey, ...]) -> Callable[[Row], Any]:
    return cmp_to_key(lambda left, right: compare(left, right, keys))


def compare(left: Row, right: Row, keys: tuple[PlanSortKey, ...]) -> int:
    for key in keys:
        a, b = value_of(key.expression, left), value_of(key.expression, right)
        if rank(a) == rank(b):  # which NaN is, too
            continue
        if a is None or b is None:
            return -1 if (a is None) == key.nulls_first else 1
        smaller = rank(a) < rank(b)
        return -1 if smaller != key.descending else 1
    return 0


Bag = dict[Row, int]


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
    return call.row.meaning(_Group(call, group))


@dataclass
class _Group:
    """The rows of a group as one call sees them (``aggregate_meanings.Group``)."""

    call: AggregateCall
    bag: Bag

    @property
    def rows(self) -> int:
        return sum(self.bag.values())

    @cached_property
    def values(self) -> Weighted:
        assert self.call.argument is not None
        return [(value_of(self.call.argument, row), weight) for row, weight in self.bag.items()]

    @cached_property
    def present(self) -> Weighted:
        found = [(value, weight) for value, weight in self.values if value is not None]
        if self.call.distinct:
            return [(value, 1) for value in {value: weight for value, weight in found if weight > 0}]
        return found

    @property
    def each(self) -> list[Value]:
        return [value for value, weight in self.present for _ in range(weight)]

    @property
    def in_order(self) -> list[Value]:
        """Values in the order of the call's keys; equal places are filled by value."""
        call, condition = self.call, self.call.condition
        assert call.argument is not None
        chosen = {r: w for r, w in self.bag.items() if condition is None or value_of(condition, r) is True}
        rows = [row for row in sorted(chosen, key=in_order((*call.order, SortKey(call.argument)))) if chosen[row] > 0]
        values = [value_of(call.argument, row) for row in rows for _ in range(chosen[row])]
        return list(dict.fromkeys(values)) if call.distinct else values

    @property
    def type(self) -> Type:
        return self.call.type

    @property
    def separator(self) -> str:
        return self.call.separator

    @property
    def fraction(self) -> float | None:
        return self.call.fraction

    @property
    def descending(self) -> bool:
        return self.call.descending


_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""After so many years the calendar repeats itself, in so many days."""


class Places:
    """The rows of a partition in order, and for each the first and last row of its place and the place's number."""

    def __init__(self, rows: list[Row], order: tuple[SortKey, ...]) -> None:
        self.rows, self.order = rows, order
        self.first: list[int] = []
        self.rank: list[int] = []
        for position, row in enumerate(rows):
            same = position > 0 and compare(rows[position - 1], row, order) == 0
            self.first.append(self.first[-1] if same else position)
            self.rank.append(self.rank[-1] + (0 if same else 1) if position else 1)
        self.last = [0] * len(rows)
        for position in reversed(range(len(rows))):
            ends = position + 1 == len(rows) or self.first[position + 1] != self.first[position]
            self.last[position] = position if ends else self.last[position + 1]

    def frame(self, frame: Frame, position: int) -> list[Row]:
        """The rows of the frame of the row at a position, in order."""
        start = self._edge(frame, frame.start, position, first=True)
        end = self._edge(frame, frame.end, position, first=False)
        return self.rows[max(0, start) : max(0, end + 1)] if start <= end else []

    def _edge(self, frame: Frame, bound: Bound, position: int, *, first: bool) -> int:
        offset = bound.offset
        if offset is None:
            return 0 if bound.preceding else len(self.rows) - 1
        if frame.unit is Unit.ROWS:
            assert isinstance(offset, int), "rows are counted"
            return position - offset if bound.preceding else position + offset
        own = self.first[position] if first else self.last[position]
        if offset == 0:
            return own
        if frame.unit is Unit.RANGE:
            return self._reach(frame, bound, position, own, first=first)
        assert isinstance(offset, int), "places are counted"
        wanted = self.rank[position] + (-offset if bound.preceding else offset)
        return self._bounded(lambda other: (self.rank[other] > wanted) - (self.rank[other] < wanted), first=first)

    def _reach(self, frame: Frame, bound: Bound, position: int, own: int, *, first: bool) -> int:
        """The first row that is not before the bound, or the last one that is not after it."""
        (key,) = self.order

        def value(at: int) -> Any:
            found = value_of(key.expression, self.rows[at])
            assert frame.measure is not None, "a distance is measured in a type"
            return found if found is None else cast_value(found, key.expression.type, frame.measure)

        here = value(position)
        if here is None:
            return own
        limit = _shifted(here, bound.offset, -1 if bound.preceding != key.descending else 1)

        def compared(other: int) -> int:
            there = value(other)
            if there is None:
                return -1 if key.nulls_first else 1
            a, b = rank(_frame_number(there)), rank(limit)
            return (-1 if a < b else 1 if a > b else 0) * (-1 if key.descending else 1)

        return self._bounded(compared, first=first)

    def _bounded(self, compared: Callable[[int], int], *, first: bool) -> int:
        """The first position that is not before what is compared with, or the last one that is not after it."""
        if first:
            return next((at for at in range(len(self.rows)) if compared(at) >= 0), len(self.rows))
        return next((at for at in reversed(range(len(self.rows))) if compared(at) <= 0), -1)


def _frame_number(value: Any) -> Any:
    """A value as what distances are added to: a moment as microseconds."""
    if not isinstance(value, dt.datetime):
        return value
    return _microseconds(value.toordinal(), value)


def _shifted(value: Any, distance: Any, sign: int) -> Any:
    """The value that lies so far away, also beyond what a column can hold."""
    if isinstance(distance, Span):
        return _moved(value, distance, sign)
    with localcontext() as context:
        context.prec = 80
        return value + sign * (Decimal(distance) if isinstance(value, Decimal) else distance)


def _moved(moment: dt.datetime, span: Span, sign: int) -> int:
    """The months first, with the day cut to the last of its month, then the days, then the microseconds."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + sign * span.months, 12)
    cycles, year_of_cycle = divmod(year - 1, _CYCLE_YEARS)
    day = min(moment.day, calendar.monthrange(year_of_cycle + 1, month + 1)[1])
    days = dt.date(year_of_cycle + 1, month + 1, day).toordinal() + cycles * _CYCLE_DAYS + sign * span.days
    return _microseconds(days, moment) + sign * span.microseconds


def _microseconds(days: int, moment: dt.datetime) -> int:
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    return days * MICROSECONDS_PER_DAY + seconds * 1_000_000 + moment.microsecond


def windowed(plan: Window, rows: list[Row]) -> list[Row]:
    """Each row with the values of the window's functions behind it."""
    partitions: dict[Row, list[Row]] = {}
    for row in rows:
        partitions.setdefault(tuple(value_of(part, row) for part in plan.partition), []).append(row)
    total = plan.order + tuple(SortKey(column) for column in plan.input.columns())
    result: list[Row] = []
    for partition in partitions.values():
        ordered = sorted(partition, key=in_order(total))
        places = Places(ordered, plan.order)
        for position, row in enumerate(ordered):
            result.append(row + tuple(_value(call, places, position) for call in plan.calls))
    return result


def _value(call: WindowCall, places: Places, position: int) -> Value:
    count = len(places.rows)
    match call.function:
        case WindowFunction.ROW_NUMBER:
            return position + 1
        case WindowFunction.RANK:
            return places.first[position] + 1
        case WindowFunction.DENSE_RANK:
            return places.rank[position]
        case WindowFunction.PERCENT_RANK:
            return places.first[position] / (count - 1) if count > 1 else 0.0
        case WindowFunction.CUME_DIST:
            return (places.last[position] + 1) / count
        case WindowFunction.NTILE:
            return _tile(position, count, _number(call.arguments[0]))
        case WindowFunction.LAG | WindowFunction.LEAD:
            return _neighbour(call, places.rows, position)
    assert call.frame is not None
    frame = places.frame(call.frame, position)
    if isinstance(call.function, AggregateFunction):
        group: dict[Row, int] = {}
        for row in frame:
            group[row] = group.get(row, 0) + 1
        return aggregate_value(call.aggregate, group)
    values = _seen(call, frame)
    wanted = {WindowFunction.FIRST_VALUE: 0, WindowFunction.LAST_VALUE: len(values) - 1}
    at = wanted[call.function] if call.function in wanted else _number(call.arguments[1]) - 1
    return values[at] if 0 <= at < len(values) else None


def _neighbour(call: WindowCall, rows: list[Row], position: int) -> Value:
    """The value so many rows before or after; with IGNORE NULLS only rows that have one are counted."""
    backward, distance = call.function is WindowFunction.LAG, _number(call.arguments[1])
    if call.ignores_nulls:
        values = _seen(call, rows[:position][::-1] if backward else rows[position + 1 :])
        found = values[distance - 1 : distance]
    else:
        at = position - distance if backward else position + distance
        found = [value_of(call.arguments[0], rows[at])] if 0 <= at < len(rows) else []
    return found[0] if found else value_of(call.arguments[2], rows[position])


def _seen(call: WindowCall, rows: list[Row]) -> list[Value]:
    values = [value_of(call.arguments[0], row) for row in rows]
    return [value for value in values if value is not None] if call.ignores_nulls else values


def _tile(position: int, rows: int, tiles: int) -> int:
    """Which of the tiles a row is in: the first ones have one row more if the rows do not divide evenly."""
    size, larger = divmod(rows, tiles)
    if position < larger * (size + 1):
        return position // (size + 1) + 1
    return larger + (position - larger * (size + 1)) // size + 1


def _number(argument: object) -> int:
    value = getattr(argument, "value", None)
    assert isinstance(value, int), "a window function's number is a literal"
    return value
