"""Immutable dictionaries that grow: one with another entry shares what it has with the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


class Growing(Mapping[str, T]):
    """A dictionary by name, in the order in which the names came.

    The entries lie in one dictionary, of which each mapping sees as many as it had when it was made. So one more costs
    no copy, unless the mapping is not the latest any more, or has the name already.

    >>> one = Growing[int]().with_entry("a", 1)
    >>> two = one.with_entry("b", 2)
    >>> dict(one), dict(two), dict(one.with_entry("c", 3))
    ({'a': 1}, {'a': 1, 'b': 2}, {'a': 1, 'c': 3})
    """

    __slots__ = ("_entries", "_length")

    def __init__(self, entries: Mapping[str, T] | None = None) -> None:
        self._entries = {name: (place, value) for place, (name, value) in enumerate((entries or {}).items())}
        self._length = len(self._entries)

    def with_entry(self, name: str, value: T) -> Growing[T]:
        """This mapping and one entry more, or another one under a name that it has."""
        if len(self._entries) != self._length or name in self:
            return Growing({**self, name: value})
        grown = Growing[T]()
        self._entries[name] = (self._length, value)
        grown._entries, grown._length = self._entries, self._length + 1
        return grown

    def __getitem__(self, name: str) -> T:
        place, value = self._entries[name]
        if place >= self._length:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(list(islice(self._entries, self._length)))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return repr(dict(self))
