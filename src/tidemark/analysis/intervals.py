"""Which of many intervals hold a value: found in time that follows how many there are, not how many there could be."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

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
