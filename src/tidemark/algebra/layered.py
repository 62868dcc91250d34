"""Immutable dictionaries that share what they have with those that they were made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Layered(Mapping[K, V]):
    """A dictionary; one with more entries, or others, is made of layers of which the older ones are shared.

    Each layer is more than twice as large as the next newer one, so that there are few of them, and an entry is copied
    a few times in all, however many come one by one.

    >>> one = Layered({"a": 1, "b": 2})
    >>> two = one.with_entries({"b": 3, "c": 4})
    >>> dict(one), dict(two), len(two), two["a"], two.get("d")
    ({'a': 1, 'b': 2}, {'a': 1, 'b': 3, 'c': 4}, 3, 1, None)
    """

    __slots__ = ("_layers", "_length")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._layers: tuple[dict[K, V], ...] = (dict(entries or {}),)
        self._length = len(self._layers[0])

    def with_entries(self, entries: Mapping[K, V]) -> Layered[K, V]:
        """This dictionary with some entries more, or others under keys that it has."""
        if not entries:
            return self
        grown = Layered[K, V]()
        grown._length = self._length + sum(key not in self for key in entries)
        layers, newest = list(self._layers), dict(entries)
        while layers and len(layers[-1]) <= 2 * len(newest):
            newest = {**layers.pop(), **newest}
        grown._layers = (*layers, newest)
        return grown

    def __getitem__(self, key: K) -> V:
        for layer in reversed(self._layers):
            if key in layer:
                return layer[key]
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return any(key in layer for layer in self._layers)

    def __iter__(self) -> Iterator[K]:
        if len(self._layers) == 1:
            return iter(self._layers[0])
        return iter(dict.fromkeys(key for layer in self._layers for key in layer))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return repr(dict(self))
