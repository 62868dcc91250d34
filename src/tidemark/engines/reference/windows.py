"""Window functions row by row, as the definitions say."""

from __future__ import annotations

from tidemark.algebra.aggregates import AggregateFunction, SortKey
from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import Window
from tidemark.algebra.scalar import Row, value_of
from tidemark.algebra.windows import Bound, Unit, WindowCall, WindowFunction
from tidemark.engines.reference.grouping import aggregate_value
from tidemark.engines.reference.ordering import compare, in_order


def windowed(plan: Window, rows: list[Row]) -> list[Row]:
    """Each row with the values of the window's functions behind it."""
    partitions: dict[Row, list[Row]] = {}
    for row in rows:
        partitions.setdefault(tuple(value_of(part, row) for part in plan.partition), []).append(row)
    total = plan.order + tuple(SortKey(column) for column in plan.input.columns())
    result: list[Row] = []
    for partition in partitions.values():
        ordered = sorted(partition, key=in_order(total))
        places = _Places(ordered, plan.order)
        for position, row in enumerate(ordered):
            result.append(row + tuple(_value(call, places, position) for call in plan.calls))
    return result


class _Places:
    """The rows of a partition in order, and for each the first and last row of its place."""

    def __init__(self, rows: list[Row], order: tuple[SortKey, ...]) -> None:
        self.rows = rows
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


def _value(call: WindowCall, places: _Places, position: int) -> Value:
    rows, count = places.rows, len(places.rows)
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
            distance = _number(call.arguments[1])
            other = position + (distance if call.function is WindowFunction.LEAD else -distance)
            if 0 <= other < count:
                return value_of(call.arguments[0], rows[other])
            return value_of(call.arguments[2], rows[position])
    assert call.frame is not None
    start = _edge(call.frame.start, call.frame.unit, places, position, first=True)
    end = _edge(call.frame.end, call.frame.unit, places, position, first=False)
    frame = rows[max(0, start) : max(0, end + 1)] if start <= end else []
    if isinstance(call.function, AggregateFunction):
        group: dict[Row, int] = {}
        for row in frame:
            group[row] = group.get(row, 0) + 1
        return aggregate_value(call.aggregate, group)
    wanted = {WindowFunction.FIRST_VALUE: 0, WindowFunction.LAST_VALUE: len(frame) - 1}
    at = wanted[call.function] if call.function in wanted else _number(call.arguments[1]) - 1
    return value_of(call.arguments[0], frame[at]) if 0 <= at < len(frame) else None


def _edge(bound: Bound, unit: Unit, places: _Places, position: int, *, first: bool) -> int:
    if bound.offset is None:
        return 0 if bound.preceding else len(places.rows) - 1
    if unit is Unit.RANGE:
        return places.first[position] if first else places.last[position]
    return position - bound.offset if bound.preceding else position + bound.offset


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
