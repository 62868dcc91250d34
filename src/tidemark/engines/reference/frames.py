"""Which rows of a partition a frame has, as the definitions say."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

from tidemark.algebra.aggregates import SortKey
from tidemark.algebra.frames import MICROSECONDS_PER_DAY, Bound, Frame, Span, Unit
from tidemark.algebra.functions import cast_value, rank
from tidemark.algebra.scalar import Row, value_of
from tidemark.engines.reference.ordering import compare

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
            a, b = rank(_number(there)), rank(limit)
            return (-1 if a < b else 1 if a > b else 0) * (-1 if key.descending else 1)

        return self._bounded(compared, first=first)

    def _bounded(self, compared: Callable[[int], int], *, first: bool) -> int:
        """The first position that is not before what is compared with, or the last one that is not after it."""
        if first:
            return next((at for at in range(len(self.rows)) if compared(at) >= 0), len(self.rows))
        return next((at for at in reversed(range(len(self.rows))) if compared(at) <= 0), -1)


def _number(value: Any) -> Any:
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
