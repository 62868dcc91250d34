"""Groups, first rows and windows over rows in memory, compiled once per plan.

    aggregated(γ)(rows)   one row for each group                first_rows(τ)(rows)   the rows that a LIMIT takes
    windowed(ω)(rows)     each row with what its partition says

A window function is evaluated for a whole partition at once. Rows beside each other have frames that share most of
their rows: sums and counts over any frame are differences of running ones, exact however long the partition is; the
extremum of a frame that only grows is kept while it grows. What can fail, sees values in an order, or is none of these
is evaluated for each frame by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from itertools import accumulate, repeat
from operator import sub
from typing import Any, Final, TypeAlias

from tidemark.algebra.aggregate_meanings import Weighted
from tidemark.algebra.aggregates import AggregateCall, AggregateFunction, SortKey
from tidemark.algebra.compiled import Of, compares_by_rank, compiled, compiled_row, holds, in_order, in_total_order
from tidemark.algebra.expressions import Expression, Literal, Value
from tidemark.algebra.plans import Aggregate, Sort, Window
from tidemark.algebra.scalar import Row, can_fail
from tidemark.algebra.types import Type
from tidemark.algebra.windows import Bound, Frame, Unit, WindowCall, WindowFunction
from tidemark.errors import TidemarkError
from tidemark.storage.delta import Bag, Entry, NetRows

Entries: TypeAlias = Sequence[tuple[Row, int]]
Net: TypeAlias = Collection[tuple[Row, int]]
"""No row twice, no weight zero."""
OfEntries: TypeAlias = Callable[[Entries], Value]

SUMS: Final = Context(prec=120)
"""Wide enough that no sum is rounded before it is known whether it fits."""


def repeated(rows: Net) -> list[Row]:
    """The rows of positive weight, each as often as its weight says."""
    return [row for row, weight in rows for _ in range(weight)]


def counted(rows: Iterable[Row]) -> Bag:
    bag: Bag = {}
    for row in rows:
        bag[row] = bag.get(row, 0) + 1
    return bag


def first_rows(plan: Sort) -> Callable[[Net], Bag]:
    """The rows from the offset on, as many as the limit allows; ties do not leave open which ones."""
    ordered = in_order(plan.total.keys if plan.leaves_out else plan.keys)
    start, end, visible = plan.offset, None if plan.limit is None else plan.offset + plan.limit, plan.visible
    return lambda rows: counted(row[:visible] for row in ordered(repeated(rows))[start:end])


# Groups


def aggregated(plan: Aggregate) -> Callable[[Net], list[Entry]]:
    """Without keys there is one group, which always gives a row."""
    key_of, calls = compiled_row(plan.keys), [aggregate(call) for call in plan.aggregates]
    has_keys, asks_weight = bool(plan.keys), bool(plan.keys) and not plan.signed

    def groups(source: Net) -> list[Entry]:
        found: dict[Row, list[tuple[Row, int]]] = {} if has_keys else {(): []}
        for entry in source:
            key = key_of(entry[0])
            known = found.get(key)
            if known is None:
                found[key] = [entry]
            else:
                known.append(entry)
        return [
            (key + tuple([call(entries) for call in calls]), 1)
            for key, entries in found.items()
            if not asks_weight or sum([weight for _, weight in entries]) > 0
        ]

    return groups


def aggregate(call: AggregateCall) -> OfEntries:
    """The value of a call over the entries of a group."""
    if call.argument is None:
        return lambda entries: sum([weight for _, weight in entries])
    of = compiled(call.argument)
    if call.function is AggregateFunction.COUNT and not call.distinct:
        return lambda entries: sum([weight for row, weight in entries if of(row) is not None])
    if call.is_exact_sum and not call.distinct:
        return (_sum_of_integers if call.argument.type.is_integer else _sum)(of, fitted(call))
    if call.function in EXTREMA and not compares_by_rank(call.argument):
        return _extremum(of, EXTREMA[call.function])
    if call.function is AggregateFunction.COUNT:
        return lambda entries: len({value for row, weight in entries if weight > 0 and (value := of(row)) is not None})
    meaning, order = call.row.meaning, in_order((*call.order, SortKey(call.argument)))
    condition = None if call.condition is None else holds(call.condition)
    return lambda entries: meaning(_Group(call, of, order, condition, entries))


EXTREMA: Final[dict[object, Callable[..., Any]]] = {AggregateFunction.MIN: min, AggregateFunction.MAX: max}


def _extremum(of: Of, better: Callable[..., Any]) -> OfEntries:
    def extremum(entries: Entries) -> Value:
        values = [value for row, weight in entries if weight > 0 and (value := of(row)) is not None]
        found: Value = better(values) if values else None
        return found

    return extremum


def _sum_of_integers(of: Of, fit: Callable[[Any], Value]) -> OfEntries:
    def total(entries: Entries) -> Value:
        present = [value * weight for row, weight in entries if (value := of(row)) is not None]
        found = fit(sum(present))
        return found if present else None

    return total


def _sum(of: Of, fit: Callable[[Any], Value]) -> OfEntries:
    def total(entries: Entries) -> Value:
        found, is_there = Decimal(0), False
        for row, weight in entries:
            value = of(row)
            if value is not None:
                found, is_there = SUMS.fma(value, weight, found), True
        return fit(found) if is_there else None

    return total


def fitted(call: AggregateCall) -> Callable[[Any], Value]:
    """What makes an exact sum a value of the call's type, or refuses it."""
    type_ = call.type
    one, limit = Decimal(1).scaleb(-type_.scale), Decimal(10) ** (type_.precision - type_.scale)

    def fit(found: int | Decimal) -> Value:
        if not -limit < found < limit:
            raise TidemarkError("overflow", f"SUM is out of range for {type_}")
        return SUMS.quantize(found, one)

    return _fitted_integer if type_.is_integer else fit


def _fitted_integer(found: int | Decimal) -> Value:
    if not -(2**63) <= found < 2**63:
        raise TidemarkError("overflow", "SUM is out of range for BIGINT")
    return int(found)


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
    """The rows of a partition in order, and what the order sees of each, unless it sees that all are different."""

    def __init__(self, rows: list[Row], places: list[Any] | None) -> None:
        self.rows, self._places = rows, places

    @cached_property
    def starts(self) -> Sequence[int]:
        """Where each place begins."""
        places = self._places
        if places is None:
            return range(len(self.rows))
        return [at for at in range(len(places)) if not at or places[at] != places[at - 1]]

    @cached_property
    def number(self) -> Sequence[int]:
        """For each row the number of its place."""
        if self._places is None:
            return range(len(self.rows))
        starts = [*self.starts, len(self.rows)]
        return [place for place in range(len(starts) - 1) for _ in range(starts[place + 1] - starts[place])]

    @property
    def are_apart(self) -> bool:
        """Whether each row is a place of its own."""
        return self._places is None

    def start(self, number: int) -> int:
        """Where a place begins, that of a number beyond all places where the rows end."""
        return self.starts[max(0, number)] if number < len(self.starts) else len(self.rows)

    def end(self, number: int) -> int:
        """The last row of a place."""
        return self.start(number + 1) - 1 if number >= 0 else -1


_Call: TypeAlias = Callable[[_Partition], Sequence[Value]]
"""The values of a call for the rows of a partition."""


def windowed(plan: Window) -> Callable[[Net], NetRows] | None:
    """None if a frame goes by a distance between values, which is left to an engine."""
    frames = [call.frame for call in plan.calls if call.frame is not None]
    if any(frame.unit is Unit.RANGE and (frame.start.offset or frame.end.offset) for frame in frames):
        return None
    partition_of, ordered = compiled_row(plan.partition), in_total_order(plan.order, plan.input.columns())
    calls = [_window_call(call) for call in plan.calls]

    def windows(source: Net) -> NetRows:
        rows = [row for row, weight in source if weight == 1]
        is_each_once = len(rows) == len(source)
        if not is_each_once:
            rows = repeated(source)
        found = list[Row]()
        for of_one in _by_partition(rows, partition_of):
            partition = _Partition(*ordered(of_one))
            values = zip(*[call(partition) for call in calls], strict=True)
            found += [row + more for row, more in zip(partition.rows, values, strict=True)]
        return [(row, 1) for row in found] if is_each_once else counted(found)

    return windows


def _by_partition(rows: Iterable[Row], partition_of: Callable[[Row], Row]) -> Iterable[list[Row]]:
    partitions: dict[Row, list[Row]] = {}
    for row in rows:
        key = partition_of(row)
        known = partitions.get(key)
        if known is None:
            partitions[key] = [row]
        else:
            known.append(row)
    return partitions.values()


def _window_call(call: WindowCall) -> _Call:
    match call.function:
        case WindowFunction.ROW_NUMBER:
            return lambda partition: range(1, len(partition.rows) + 1)
        case WindowFunction.RANK:
            return lambda partition: [partition.starts[number] + 1 for number in partition.number]
        case WindowFunction.DENSE_RANK:
            return lambda partition: [number + 1 for number in partition.number]
        case WindowFunction.PERCENT_RANK:
            return _percent_ranks
        case WindowFunction.CUME_DIST:
            return _shares_up_to
        case WindowFunction.NTILE:
            tiles = _number(call.arguments[0])
            return lambda partition: [_tile(at, len(partition.rows), tiles) for at in range(len(partition.rows))]
        case WindowFunction.LAG | WindowFunction.LEAD:
            return _neighbours_filled(call) if call.ignores_nulls else _neighbours(call)
    assert call.frame is not None
    edges = _edges(call.frame)
    if isinstance(call.function, AggregateFunction):
        return _aggregates(call.aggregate, edges)
    return _chosen(call, edges)


def _percent_ranks(partition: _Partition) -> list[Value]:
    others = len(partition.rows) - 1
    return [partition.starts[number] / others for number in partition.number] if others else [0.0]


def _shares_up_to(partition: _Partition) -> list[Value]:
    rows = len(partition.rows)
    return [(partition.end(number) + 1) / rows for number in partition.number]


def _tile(position: int, rows: int, tiles: int) -> int:
    """Which of the tiles a row is in: the first ones have one row more if the rows do not divide evenly."""
    size, larger = divmod(rows, tiles)
    if position < larger * (size + 1):
        return position // (size + 1) + 1
    return larger + (position - larger * (size + 1)) // size + 1


def _number(argument: Expression) -> int:
    assert isinstance(argument, Literal) and isinstance(argument.value, int), "its number is a literal"
    return argument.value


# Neighbours


def _neighbours(call: WindowCall) -> _Call:
    """The value so many rows before or after."""
    of, otherwise = compiled(call.arguments[0]), compiled(call.arguments[2])
    distance = _number(call.arguments[1]) * (-1 if call.function is WindowFunction.LAG else 1)

    def before(partition: _Partition) -> list[Value]:
        rows = partition.rows
        return [*map(otherwise, rows[:-distance]), *map(of, rows[: max(0, len(rows) + distance)])]

    def after(partition: _Partition) -> list[Value]:
        rows = partition.rows
        return [*map(of, rows[distance:]), *map(otherwise, rows[max(0, len(rows) - distance) :])]

    return before if distance < 0 else after


def _neighbours_filled(call: WindowCall) -> _Call:
    """The same where only rows that have a value are counted."""
    backward, distance = call.function is WindowFunction.LAG, _number(call.arguments[1])
    of, otherwise = compiled(call.arguments[0]), compiled(call.arguments[2])

    def neighbours(partition: _Partition) -> list[Value]:
        seen, found = list[Value](), list[Value]()
        for row in partition.rows if backward else reversed(partition.rows):
            found.append(seen[-distance] if 0 < distance <= len(seen) else otherwise(row))
            value = of(row)
            if value is not None:
                seen.append(value)
        return found if backward else found[::-1]

    return neighbours


# Frames


@dataclass(frozen=True)
class _Frames:
    """For each row the first row of its frame, unless this is the first of all for each, and the one after its last."""

    firsts: Sequence[int] | None
    ends: Sequence[int]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(repeat(0) if self.firsts is None else self.firsts, self.ends, strict=False)

    def between(self, up_to: Sequence[Any], minus: Callable[[Any, Any], Any]) -> list[Any]:
        """What running totals say of each frame."""
        if self.firsts is None:
            return [up_to[end] for end in self.ends]
        return [minus(up_to[end], up_to[first]) for first, end in self]


_Edges: TypeAlias = Callable[[_Partition], _Frames]


def _edges(frame: Frame) -> _Edges:
    is_from_start = frame.start.offset is None and frame.start.preceding
    start, end = _edge(frame, frame.start, is_first=True), _edge(frame, frame.end, is_first=False)

    def edges(partition: _Partition) -> _Frames:
        rows = len(partition.rows)
        lasts = end(partition)
        if is_from_start:
            is_up_to_each = isinstance(lasts, range) and lasts == range(rows)
            ends = range(1, rows + 1) if is_up_to_each else [max(0, min(rows, last + 1)) for last in lasts]
            return _Frames(None, ends)
        frames = [(max(0, first), min(rows - 1, last) + 1) for first, last in zip(start(partition), lasts, strict=True)]
        frames = [(first, end) if first < end else (0, 0) for first, end in frames]
        return _Frames([first for first, _ in frames], [end for _, end in frames])

    return edges


def _edge(frame: Frame, bound: Bound, *, is_first: bool) -> Callable[[_Partition], Sequence[int]]:
    offset = bound.offset
    if offset is None:
        if bound.preceding:
            return lambda partition: [0] * len(partition.rows)
        return lambda partition: [len(partition.rows) - 1] * len(partition.rows)
    away = 0
    if offset:
        assert isinstance(offset, int), "rows and places are counted"
        away = -offset if bound.preceding else offset

    def by_row(partition: _Partition) -> Sequence[int]:
        return range(away, len(partition.rows) + away)

    def by_place(partition: _Partition) -> Sequence[int]:
        if partition.are_apart:
            return by_row(partition)
        edge = partition.start if is_first else partition.end
        return [edge(number + away) for number in partition.number]

    return by_row if frame.unit is Unit.ROWS else by_place


def _chosen(call: WindowCall, edges: _Edges) -> _Call:
    """The first, the last or the n-th value of a frame."""
    of, ignores = compiled(call.arguments[0]), call.ignores_nulls
    is_last = call.function is WindowFunction.LAST_VALUE
    place = 0 if call.function is not WindowFunction.NTH_VALUE else _number(call.arguments[1]) - 1

    def one(rows: list[Row], first: int, end: int) -> Value:
        if not ignores:
            at = end - 1 if is_last else first + place
            found: Value = of(rows[at]) if first <= at < end else None
            return found
        values = [value for value in map(of, rows[first:end]) if value is not None]
        wanted = len(values) - 1 if is_last else place
        return values[wanted] if 0 <= wanted < len(values) else None

    return lambda partition: [one(partition.rows, first, end) for first, end in edges(partition)]


# Aggregates over frames


def _aggregates(call: AggregateCall, edges: _Edges) -> _Call:
    of = None if call.argument is None else compiled(call.argument)
    if call.argument is not None and can_fail(call.argument):
        return _one_by_one(call, edges)  # a row may be in no frame, and is not looked at then
    if call.adds_up and not call.distinct:
        return _counts(of, edges) if call.is_count else _sums(call, edges)
    if call.function in EXTREMA and call.argument is not None and not compares_by_rank(call.argument):
        return _extrema(call, edges)
    return _one_by_one(call, edges)


def _one_by_one(call: AggregateCall, edges: _Edges) -> _Call:
    """Rows beside each other often have the same frame, which is evaluated once then."""
    value_of = aggregate(call)

    def over_frames(partition: _Partition) -> list[Value]:
        known, frames, rows = dict[tuple[int, int], Value](), edges(partition), partition.rows
        for first, end in frames:
            if (first, end) not in known:
                known[first, end] = value_of(list(counted(rows[first:end]).items()))
        return [known[frame] for frame in frames]

    return over_frames


def _counts(of: Of | None, edges: _Edges) -> _Call:
    if of is None:
        return lambda partition: [end - first for first, end in edges(partition)]

    def counts(partition: _Partition) -> list[Value]:
        up_to = list(accumulate([of(row) is not None for row in partition.rows], initial=0))
        return edges(partition).between(up_to, sub)

    return counts


def _sums(call: AggregateCall, edges: _Edges) -> _Call:
    assert call.argument is not None
    of, fit, nothing = compiled(call.argument), fitted(call), Decimal(0)
    are_integers, are_plain = call.argument.type.is_integer, call.type.is_integer

    def sums(partition: _Partition) -> list[Value]:
        values, frames = list(map(of, partition.rows)), edges(partition)
        has_null = None in values
        present = [0 if value is None else value for value in values] if has_null else values
        if are_integers:
            found = frames.between(list(accumulate(present, initial=0)), sub)
        else:
            found = frames.between(list(accumulate(present, SUMS.add, initial=nothing)), SUMS.subtract)
        if are_plain and not has_null and all(frames.ends):
            fit(min(found)), fit(max(found))  # if these fit, all do
            return found
        there = frames.between(list(accumulate([value is not None for value in values], initial=0)), sub)
        return [fit(total) if count else None for total, count in zip(found, there, strict=True)]

    return sums


def _extrema(call: AggregateCall, edges: _Edges) -> _Call:
    """The extremum of frames that all begin with the first row is found as they grow."""
    assert call.argument is not None
    of, better, one_by_one = compiled(call.argument), EXTREMA[call.function], _one_by_one(call, edges)

    def kept(best: Value, value: Value) -> Value:
        chosen: Value = value if best is None else best if value is None else better(best, value)
        return chosen

    def extrema(partition: _Partition) -> Sequence[Value]:
        frames = edges(partition)
        if frames.firsts is not None:
            return one_by_one(partition)
        up_to: list[Value] = [None, *accumulate(map(of, partition.rows), kept)]
        return [up_to[end] for end in frames.ends]

    return extrema
