"""Groups, order and windows over rows, compiled once per plan.

    aggregated(γ)(rows)   one row for each group                first_rows(τ)(rows)   the rows that a LIMIT takes
    windowed(ω)(rows)     each row with what its partition says

Rows are put in order by one pass for each key, from the last key to the first, each of which keeps what came before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from typing import Any, Final, TypeAlias

from tidemark.algebra.aggregate_meanings import Weighted
from tidemark.algebra.aggregates import AggregateCall, AggregateFunction, SortKey
from tidemark.algebra.compiled import Of, compiled, compiled_row, holds
from tidemark.algebra.expressions import Expression, Literal, Value
from tidemark.algebra.functions import rank
from tidemark.algebra.plans import Aggregate, Sort, Window
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import Kind, Type
from tidemark.algebra.windows import Bound, Frame, Unit, WindowCall, WindowFunction
from tidemark.errors import TidemarkError
from tidemark.storage.delta import Bag

Entries: TypeAlias = Sequence[tuple[Row, int]]
Net: TypeAlias = Collection[tuple[Row, int]]
"""No row twice, no weight zero."""
OfEntries: TypeAlias = Callable[[Entries], Value]

_SUMS: Final = Context(prec=120)
"""Wide enough that no sum is rounded before it is known whether it fits."""


def repeated(rows: Net) -> list[Row]:
    """The rows of positive weight, each as often as its weight says."""
    return [row for row, weight in rows for _ in range(weight)]


def counted(rows: Iterable[Row]) -> Bag:
    bag: Bag = {}
    for row in rows:
        bag[row] = bag.get(row, 0) + 1
    return bag


# Order


def in_order(keys: Sequence[SortKey]) -> Callable[[Iterable[Row]], list[Row]]:
    """Puts rows in order; those that the keys do not tell apart stay as they were."""
    passes = [(_place(key), key.descending) for key in reversed(keys)]

    def ordered(rows: Iterable[Row]) -> list[Row]:
        found = list(rows)
        for place, descending in passes:
            found.sort(key=place, reverse=descending)
        return found

    return ordered


def _place(key: SortKey) -> Callable[[Row], tuple[Any, ...]]:
    """What one key compares of a row: whether it is NULL first, then its value."""
    of = compiled(key.expression)
    null, other = (0, 1) if key.nulls_first != key.descending else (1, 0)
    if _compares_by_rank(key.expression):
        return lambda row: (null,) if (value := of(row)) is None else (other, rank(value))
    return lambda row: (null,) if (value := of(row)) is None else (other, value)


def _compares_by_rank(expression: Expression) -> bool:
    return expression.type.kind is Kind.DOUBLE or expression.type.is_nested


def first_rows(plan: Sort) -> Callable[[Net], Bag]:
    """The rows from the offset on, as many as the limit allows; ties do not leave open which ones."""
    ordered = in_order(plan.total.keys if plan.leaves_out else plan.keys)
    start, end, visible = plan.offset, None if plan.limit is None else plan.offset + plan.limit, plan.visible
    return lambda rows: counted(row[:visible] for row in ordered(repeated(rows))[start:end])


# Groups


def aggregated(plan: Aggregate) -> Callable[[Net], Bag]:
    """Without keys there is one group, which always gives a row."""
    key_of, calls = compiled_row(plan.keys), [aggregate(call) for call in plan.aggregates]
    has_keys, asks_weight = bool(plan.keys), bool(plan.keys) and not plan.signed

    def groups(source: Net) -> Bag:
        found: dict[Row, list[tuple[Row, int]]] = {} if has_keys else {(): []}
        for entry in source:
            found.setdefault(key_of(entry[0]), []).append(entry)
        return {
            key + tuple([call(entries) for call in calls]): 1
            for key, entries in found.items()
            if not asks_weight or sum([weight for _, weight in entries]) > 0
        }

    return groups


def aggregate(call: AggregateCall) -> OfEntries:
    """The value of a call over the entries of a group."""
    if call.argument is None:
        return lambda entries: sum([weight for _, weight in entries])
    of = compiled(call.argument)
    if call.function is AggregateFunction.COUNT and not call.distinct:
        return lambda entries: sum([weight for row, weight in entries if of(row) is not None])
    if call.is_exact_sum and not call.distinct:
        return _sum_of_integers(of) if call.argument.type.is_integer and call.type.is_integer else _sum(of, call.type)
    meaning, order = call.row.meaning, in_order((*call.order, SortKey(call.argument)))
    condition = None if call.condition is None else holds(call.condition)
    return lambda entries: meaning(_Group(call, of, order, condition, entries))


def _sum_of_integers(of: Of) -> OfEntries:
    def total(entries: Entries) -> Value:
        present = [value * weight for row, weight in entries if (value := of(row)) is not None]
        found = sum(present)
        if not -(2**63) <= found < 2**63:
            raise TidemarkError("overflow", "SUM is out of range for BIGINT")
        return found if present else None

    return total


def _sum(of: Of, type_: Type) -> OfEntries:
    is_integer, one = type_.is_integer, Decimal(1).scaleb(-type_.scale)
    limit = Decimal(2**63) if is_integer else Decimal(10) ** (type_.precision - type_.scale)

    def total(entries: Entries) -> Value:
        found, is_there = Decimal(0), False
        for row, weight in entries:
            value = of(row)
            if value is not None:
                found, is_there = _SUMS.fma(value, weight, found), True
        if not is_there:
            return None
        if not (-limit < found < limit or (is_integer and found == -limit)):
            raise TidemarkError("overflow", f"SUM is out of range for {type_}")
        return int(found) if is_integer else found.quantize(one, context=_SUMS)

    return total


@dataclass
class _Group:
    """The entries of a group as one call sees them (``aggregate_meanings.Group``)."""

    call: AggregateCall
    of: Of
    order: Callable[[Iterable[Row]], list[Row]]
    condition: Of | None
    entries: Entries

    @property
    def rows(self) -> int:
        return sum(weight for _, weight in self.entries)

    @cached_property
    def values(self) -> Weighted:
        return [(self.of(row), weight) for row, weight in self.entries]

    @cached_property
    def present(self) -> Weighted:
        found = [(value, weight) for value, weight in self.values if value is not None]
        return [(value, 1) for value in dict.fromkeys(v for v, w in found if w > 0)] if self.call.distinct else found

    @property
    def each(self) -> list[Value]:
        return [value for value, weight in self.present for _ in range(weight)]

    @property
    def in_order(self) -> list[Value]:
        """Values in the order of the call's keys; equal places are filled by value."""
        condition = self.condition
        chosen = {row: w for row, w in self.entries if w > 0 and (condition is None or condition(row))}
        values = [self.of(row) for row in self.order(chosen) for _ in range(chosen[row])]
        return list(dict.fromkeys(values)) if self.call.distinct else values

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


# Windows


class _Partition:
    """The rows of a partition in order; for each the number of its place, and where the places begin and end."""

    def __init__(self, rows: list[Row], place_of: Callable[[Row], Row]) -> None:
        self.rows = rows
        self.values: dict[tuple[object, int, int], Value] = {}
        """What calls gave over frames, each from a row to another."""
        self.number: list[int] = []
        self.starts: list[int] = []
        before: object = None
        for position, row in enumerate(rows):
            place = place_of(row)
            if not position or place != before:
                self.starts.append(position)
            before = place
            self.number.append(len(self.starts) - 1)

    def start(self, number: int) -> int:
        """Where a place begins, that of a number beyond all places where the rows end."""
        return self.starts[max(0, number)] if number < len(self.starts) else len(self.rows)

    def end(self, number: int) -> int:
        """The last row of a place."""
        return self.start(number + 1) - 1 if number >= 0 else -1


_Call: TypeAlias = Callable[[_Partition, int], Value]


def windowed(plan: Window) -> Callable[[Net], Bag] | None:
    """None if a frame goes by a distance between values, which is left to an engine."""
    frames = [call.frame for call in plan.calls if call.frame is not None]
    if any(frame.unit is Unit.RANGE and (frame.start.offset or frame.end.offset) for frame in frames):
        return None
    partition_of = compiled_row(plan.partition)
    ordered = in_order(plan.order + tuple(SortKey(column) for column in plan.input.columns()))
    places = [_place(key) for key in plan.order]
    calls = [_window_call(call) for call in plan.calls]

    def place_of(row: Row) -> Row:
        return tuple([place(row) for place in places])

    def windows(source: Net) -> Bag:
        partitions: dict[Row, list[Row]] = {}
        for row in repeated(source):
            partitions.setdefault(partition_of(row), []).append(row)
        return counted(
            row + tuple([call(partition, position) for call in calls])
            for rows in partitions.values()
            for partition in (_Partition(ordered(rows), place_of),)
            for position, row in enumerate(partition.rows)
        )

    return windows


def _window_call(call: WindowCall) -> _Call:
    match call.function:
        case WindowFunction.ROW_NUMBER:
            return lambda _, position: position + 1
        case WindowFunction.RANK:
            return lambda partition, at: partition.start(partition.number[at]) + 1
        case WindowFunction.DENSE_RANK:
            return lambda partition, at: partition.number[at] + 1
        case WindowFunction.PERCENT_RANK:
            return _percent_rank
        case WindowFunction.CUME_DIST:
            return lambda partition, at: (partition.end(partition.number[at]) + 1) / len(partition.rows)
        case WindowFunction.NTILE:
            tiles = _number(call.arguments[0])
            return lambda partition, at: _tile(at, len(partition.rows), tiles)
        case WindowFunction.LAG | WindowFunction.LEAD:
            return _neighbour(call)
    assert call.frame is not None
    edges = _edges(call.frame)
    if isinstance(call.function, AggregateFunction):
        return _over_frame(aggregate(call.aggregate), edges)
    return _chosen(call, edges)


def _percent_rank(partition: _Partition, at: int) -> float:
    rows = len(partition.rows)
    return partition.start(partition.number[at]) / (rows - 1) if rows > 1 else 0.0


_Edges: TypeAlias = Callable[[_Partition, int], tuple[int, int]]


def _edges(frame: Frame) -> _Edges:
    """The first row of a frame and the one after its last."""
    start, end = _edge(frame, frame.start, is_first=True), _edge(frame, frame.end, is_first=False)

    def edges(partition: _Partition, at: int) -> tuple[int, int]:
        first, last = max(0, start(partition, at)), min(len(partition.rows) - 1, end(partition, at))
        return (first, last + 1) if first <= last else (0, 0)

    return edges


def _edge(frame: Frame, bound: Bound, *, is_first: bool) -> Callable[[_Partition, int], int]:
    offset = bound.offset
    if offset is None:
        return (lambda partition, at: 0) if bound.preceding else (lambda partition, at: len(partition.rows) - 1)
    away = 0
    if offset:
        assert isinstance(offset, int), "rows and places are counted"
        away = -offset if bound.preceding else offset
    if frame.unit is Unit.ROWS:
        return lambda partition, at: at + away
    if is_first:
        return lambda partition, at: partition.start(partition.number[at] + away)
    return lambda partition, at: partition.end(partition.number[at] + away)


def _over_frame(value_of: OfEntries, edges: _Edges) -> _Call:
    """Rows next to each other often have the same frame, which is evaluated once then."""

    def over_frame(partition: _Partition, at: int) -> Value:
        first, end = edges(partition, at)
        key = (over_frame, first, end)
        if key not in partition.values:
            partition.values[key] = value_of(list(counted(partition.rows[first:end]).items()))
        return partition.values[key]

    return over_frame


def _chosen(call: WindowCall, edges: _Edges) -> _Call:
    """The first, the last or the n-th value of a frame."""
    of, ignores = compiled(call.arguments[0]), call.ignores_nulls
    is_last = call.function is WindowFunction.LAST_VALUE
    place = 0 if call.function is not WindowFunction.NTH_VALUE else _number(call.arguments[1]) - 1

    def chosen(partition: _Partition, at: int) -> Value:
        first, end = edges(partition, at)
        values = _seen(of, partition.rows[first:end], ignores)
        wanted = len(values) - 1 if is_last else place
        return values[wanted] if 0 <= wanted < len(values) else None

    return chosen


def _neighbour(call: WindowCall) -> _Call:
    """The value so many rows before or after; with IGNORE NULLS only rows that have one are counted."""
    backward, distance, ignores = call.function is WindowFunction.LAG, _number(call.arguments[1]), call.ignores_nulls
    of, otherwise = compiled(call.arguments[0]), compiled(call.arguments[2])

    def neighbour(partition: _Partition, position: int) -> Value:
        rows = partition.rows
        if ignores:
            found = _seen(of, rows[:position][::-1] if backward else rows[position + 1 :], ignores)
            found = found[distance - 1 : distance]
        else:
            at = position - distance if backward else position + distance
            found = [of(rows[at])] if 0 <= at < len(rows) else []
        value: Value = found[0] if found else otherwise(rows[position])
        return value

    return neighbour


def _seen(of: Of, rows: list[Row], ignores_nulls: bool) -> list[Value]:
    values = [of(row) for row in rows]
    return [value for value in values if value is not None] if ignores_nulls else values


def _tile(position: int, rows: int, tiles: int) -> int:
    """Which of the tiles a row is in: the first ones have one row more if the rows do not divide evenly."""
    size, larger = divmod(rows, tiles)
    if position < larger * (size + 1):
        return position // (size + 1) + 1
    return larger + (position - larger * (size + 1)) // size + 1


def _number(argument: Expression) -> int:
    assert isinstance(argument, Literal) and isinstance(argument.value, int), "its number is a literal"
    return argument.value
