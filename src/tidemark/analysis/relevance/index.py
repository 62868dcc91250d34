"""Finding, among many filters over one relation, those that a change can pass, without trying each one.

Of each filter one condition on one column is picked that is necessary for it: an equality (or a few), which is looked
up by its value, or else a range, which is looked up among intervals. A filter of alternatives has one for each. The
filters that are found this way are then tried on the rows, if these are few. Filters in which there is nothing to pick
are always among those found. So what is found is never too little.

Which of many intervals hold a value: found in time that follows how many there are, not how many there could be.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Call, Column, Expression, Literal, Value, conjuncts
from tidemark.algebra.functions import canonical
from tidemark.algebra.scalar import Row, value_of
from tidemark.algebra.types import Kind

T = TypeVar("T")


class Intervals(Generic[T]):
    """Closed intervals, each with something that it stands for; an end may be open (None).

    They are sorted by their lower ends. Over that order stands a tree of the greatest upper end: a part of the order is
    looked at only if some interval in it reaches the value.

    >>> found = Intervals([(1, 4, "a"), (3, 9, "b"), (None, 2, "c"), (8, None, "d")])
    >>> sorted(found.overlapping(3, 3)), sorted(found.overlapping(5, 8))
    (['a', 'b'], ['b', 'd'])
    """

    def __init__(self, entries: Iterable[tuple[Any, Any, T]]) -> None:
        given = list(entries)
        ordered = [entry for entry in given if entry[0] is None]
        ordered += sorted((entry for entry in given if entry[0] is not None), key=lambda entry: entry[0])
        self._open = sum(entry[0] is None for entry in given)
        self._lows = [entry[0] for entry in ordered[self._open :]]
        self._highs = [entry[1] for entry in ordered]
        self._items = [entry[2] for entry in ordered]
        self._size = 1
        while self._size < len(ordered):
            self._size *= 2
        # A node is (whether an interval below it has no upper end, the greatest end of the others).
        self._tree: list[tuple[bool, Any]] = [(False, None)] * (2 * self._size)
        for place, high in enumerate(self._highs):
            self._tree[self._size + place] = (high is None, high)
        for node in range(self._size - 1, 0, -1):
            self._tree[node] = _greatest(self._tree[2 * node], self._tree[2 * node + 1])

    def overlapping(self, low: Any, high: Any) -> Iterator[T]:
        """What the intervals stand for that have a value in common with the one from low to high."""
        end = self._open + bisect_right(self._lows, high)
        pending = [(1, 0, self._size)]
        while pending:
            node, start, width = pending.pop()
            endless, greatest = self._tree[node]
            if start >= end or not (endless or (greatest is not None and greatest >= low)):
                continue
            if width == 1:
                yield self._items[start]
            else:
                half = width // 2
                pending += [(2 * node, start, half), (2 * node + 1, start + half, half)]


def _greatest(left: tuple[bool, Any], right: tuple[bool, Any]) -> tuple[bool, Any]:
    ends = [end for _, end in (left, right) if end is not None]
    return left[0] or right[0], max(ends, default=None)


Owner = TypeVar("Owner", bound=Hashable)

FEW_ROWS: Final = 16
"""Of so few rows each is tried on the filters that are found."""
MANY_VALUES: Final = 256
"""Of a column with more values than this, only the least and the greatest are looked up among intervals."""
_TURNED: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


@dataclass(frozen=True)
class _Values:
    """The column has one of these values; NULL is one."""

    column: int
    values: tuple[Value, ...]


@dataclass(frozen=True)
class _Between:
    """The column is not NULL, and from low to high; an end that is None is open."""

    column: int
    low: Any = None
    high: Any = None


_Need = _Values | _Between


class Finder(Generic[Owner]):
    """The owners of filters, by what their filters need of a row.

    >>> from tidemark.algebra.types import BOOLEAN, INT
    >>> a = Column(0, "a", INT)
    >>> def above(n: int) -> Expression:
    ...     return Call("gt", (a, Literal(n, INT)), BOOLEAN)
    >>> finder = Finder([("small", above(1)), ("large", above(100)), ("all", None)])
    >>> sorted(finder.matching([(7,)])), sorted(finder.matching([(500,)]))
    (['all', 'small'], ['all', 'large', 'small'])
    """

    def __init__(self, filters: Iterable[tuple[Owner, Expression | None]]) -> None:
        self._filters = dict(filters)
        self._always: list[Owner] = []
        self._by_value: dict[int, dict[Value, list[Owner]]] = {}
        ranges: dict[int, list[tuple[Any, Any, Owner]]] = {}
        for owner, condition in self._filters.items():
            needs = None if condition is None else _needs(condition)
            if needs is None:
                self._always.append(owner)
            for need in needs or ():
                if isinstance(need, _Values):
                    places = self._by_value.setdefault(need.column, {})
                    for value in need.values:
                        places.setdefault(value, []).append(owner)
                else:
                    ranges.setdefault(need.column, []).append((need.low, need.high, owner))
        self._ranges = {column: Intervals(entries) for column, entries in ranges.items()}
        self._columns = sorted({*self._by_value, *self._ranges})

    def among(self, delta: pa.Table) -> set[Owner]:
        """The owners to whom some row of the delta, whose first columns are the relation's, can matter."""
        if delta.num_rows <= FEW_ROWS:
            width = delta.num_columns
            columns = [[canonical(value) for value in delta.column(i).to_pylist()] for i in range(width)]
            return self.matching(list(zip(*columns, strict=True)))
        found = set(self._always)
        for column in self._columns:
            distinct = pc.unique(delta.column(column))
            self._collect(column, distinct.to_pylist(), found)
        return found

    def matching(self, rows: Sequence[Row]) -> set[Owner]:
        """The owners whose filter is true, or who have none, for one of some rows."""
        if len(rows) > FEW_ROWS:
            found = set(self._always)
            for column in self._columns:
                self._collect(column, list({row[column] for row in rows}), found)
            return found
        candidates: set[Owner] = set()
        for column in self._columns:
            self._collect(column, [row[column] for row in rows], candidates)
        return {owner for owner in (*self._always, *candidates) if self._passes(owner, rows)} if rows else set()

    def _collect(self, column: int, values: list[Value], found: set[Owner]) -> None:
        places = self._by_value.get(column)
        if places is not None:
            for value in values:
                found.update(places.get(value, ()))
        intervals = self._ranges.get(column)
        there: list[Any] = [value for value in values if value is not None]
        if intervals is None or not there:
            return
        pairs = [(value, value) for value in there]
        if len(there) > MANY_VALUES:
            pairs = [(min(there), max(there))]
        for low, high in pairs:
            found.update(intervals.overlapping(low, high))

    def _passes(self, owner: Owner, rows: Sequence[Row]) -> bool:
        condition = self._filters[owner]
        return condition is None or any(value_of(condition, row) is True for row in rows)


class Finders(Generic[Owner]):
    """The same for owners that come and go: newer ones are in finders of their own, each of which is of less than half
    as many as the next older one, so that a filter is put in order a few times in all.

    >>> from tidemark.algebra.types import BOOLEAN, INT
    >>> above = [Call("gt", (Column(0, "a", INT), Literal(n, INT)), BOOLEAN) for n in range(3)]
    >>> finders = Finders({"one": above[1], "two": above[2]})
    >>> finders.change({"nought": above[0], "one": above[0]}, {"two"})
    >>> sorted(finders.matching([(1,)]))
    ['nought', 'one']
    """

    def __init__(self, filters: Mapping[Owner, Expression | None]) -> None:
        self._filters: list[dict[Owner, Expression | None]] = []
        self._finders: list[Finder[Owner]] = []
        self._put(dict(filters))

    def change(self, come: Mapping[Owner, Expression | None], gone: Set[Owner]) -> None:
        """Let some owners go, and others come, or the same with other filters."""
        for owner in {*come, *gone}:
            for known in self._filters:
                known.pop(owner, None)
        if come:
            self._put(dict(come))

    def _put(self, filters: dict[Owner, Expression | None]) -> None:
        while self._filters and len(self._filters[-1]) <= 2 * len(filters):
            filters = {**self._filters.pop(), **filters}
            self._finders.pop()
        self._filters.append(filters)
        self._finders.append(Finder(filters.items()))

    def among(self, delta: pa.Table) -> set[Owner]:
        """The owners to whom some row of the delta, whose first columns are the relation's, can matter."""
        return self._found([finder.among(delta) for finder in self._finders])

    def matching(self, rows: Sequence[Row]) -> set[Owner]:
        """The owners whose filter is true, or who have none, for one of some rows."""
        return self._found([finder.matching(rows) for finder in self._finders])

    def _found(self, found: list[set[Owner]]) -> set[Owner]:
        return {owner for some, known in zip(found, self._filters, strict=True) for owner in some if owner in known}


def _needs(condition: Expression) -> list[_Need] | None:
    """Conditions on single columns, one of which is true wherever the condition is; None if there are none."""
    options = [needs for part in conjuncts(condition) if (needs := _part(part)) is not None]
    ranges = [needs[0] for needs in options if len(needs) == 1 and isinstance(needs[0], _Between)]
    options += [[_narrowed([r for r in ranges if r.column == column])] for column in {r.column for r in ranges}]
    return min(options, key=_cost, default=None)


def _part(part: Expression) -> list[_Need] | None:
    match part:
        case Literal(value=value):
            return None if value is True else []
        case Call(function="or", arguments=arguments):
            sides = [_needs(argument) for argument in arguments]
            found = [need for side in sides for need in side or ()]
            return None if any(side is None for side in sides) else found
        case Call(function="is_null", arguments=(Column(index=index),)):
            return [_Values(index, (None,))]
        case Call(function="in_list", arguments=(Column(index=index, type=type), *others)) if _has_order(type.kind):
            values = tuple(other.value for other in others if isinstance(other, Literal) and other.value is not None)
            return [_Values(index, values)] if all(isinstance(other, Literal) for other in others) else None
        case Call(function=name, arguments=(Column() as column, Literal(value=value))) if name in _TURNED:
            return _compared(name, column, value)
        case Call(function=name, arguments=(Literal(value=value), Column() as column)) if name in _TURNED:
            return _compared(_TURNED[name], column, value)
    return None


def _compared(name: str, column: Column, value: Value) -> list[_Need] | None:
    if not _has_order(column.type.kind):
        return None
    if value is None:
        return []
    if name == "eq":
        return [_Values(column.index, (value,))]
    return [_Between(column.index, high=value) if name in ("lt", "le") else _Between(column.index, low=value)]


def _has_order(kind: Kind) -> bool:
    """Whether values of the type are in Python as they are in SQL: floats, with NaN, are not."""
    return kind not in (Kind.REAL, Kind.DOUBLE, Kind.ARRAY, Kind.NULL)


def _narrowed(ranges: list[_Between]) -> _Need:
    lows = [r.low for r in ranges if r.low is not None]
    highs = [r.high for r in ranges if r.high is not None]
    return _Between(ranges[0].column, max(lows, default=None), min(highs, default=None))


def _cost(needs: list[_Need]) -> tuple[int, int]:
    """Values are better than ranges with two ends, and those than others; fewer are better than more."""
    kinds = (0 if isinstance(n, _Values) else 1 if n.low is not None and n.high is not None else 2 for n in needs)
    return max(kinds, default=0), sum(len(n.values) if isinstance(n, _Values) else 1 for n in needs)
