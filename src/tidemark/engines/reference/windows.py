"""Window functions row by row, as the definitions say."""

from __future__ import annotations

from tidemark.algebra.aggregates import AggregateFunction, SortKey
from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import Window
from tidemark.algebra.scalar import Row, value_of
from tidemark.algebra.windows import WindowCall, WindowFunction
from tidemark.engines.reference.frames import Places
from tidemark.engines.reference.grouping import aggregate_value
from tidemark.engines.reference.ordering import in_order


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
