"""Values that are compared by what they are made of, where many are made of the same parts.

Plans, expressions and formulas share their parts: seen as a tree, one may be far larger than what is kept of it. So the
hash of each is worked out once, and two that were found equal are not compared again.
"""

from __future__ import annotations

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
