"""Values that are compared by what they are made of, where many are made of the same parts.

Plans, expressions and formulas share their parts: seen as a tree, one may be far larger than what is kept of it. So the
hash of each is worked out once, and two that were found equal are not compared again.

Immutable dictionaries that share what they have with those that they were made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")

_HASH = "_hash"
_EQUAL = "_equal"


def structural(cls: type[T]) -> type[T]:
    """For a frozen dataclass: the same equality and hash, each of them worked out once for each object.

    >>> from dataclasses import dataclass
    >>> @structural
    ... @dataclass(frozen=True)
    ... class Pair:
    ...     left: object
    ...     right: object
    >>> def nested(depth):
    ...     return Pair(below := nested(depth - 1), below) if depth else "leaf"
    >>> nested(200) == nested(200), len({nested(200), nested(200)})
    (True, 1)
    """
    worked_out, compared = cls.__hash__, cls.__eq__

    def __hash__(self: T) -> int:
        known: int | None = self.__dict__.get(_HASH)
        if known is None:
            known = self.__dict__[_HASH] = worked_out(self)
        return known

    def __eq__(self: T, other: object) -> bool:
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        if hash(self) != hash(other):
            return False
        token = self.__dict__.get(_EQUAL)
        if token is not None and token is other.__dict__.get(_EQUAL):
            return True
        equal = compared(self, other)
        if equal is True:
            # Those that equal one of the two equal the other: they share a token.
            other.__dict__[_EQUAL] = self.__dict__.setdefault(_EQUAL, object())
        return equal

    def __getstate__(self: T) -> dict[str, object]:
        # What is worked out is left out: hashes of texts differ from process to process.
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    for name, method in (("__hash__", __hash__), ("__eq__", __eq__), ("__getstate__", __getstate__)):
        setattr(cls, name, method)
    return cls


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
