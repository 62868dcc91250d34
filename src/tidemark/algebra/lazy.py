"""Attributes that are worked out when they are first asked for, and then are attributes like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """The same as ``functools.cached_property``, which takes a lock each time before Python 3.12: for objects of which
    each transaction makes some.

    >>> class Word:
    ...     @lazy
    ...     def letters(self) -> list[str]:
    ...         return list("word")
    >>> word = Word()
    >>> word.letters is word.letters
    True
    """

    def __init__(self, of: Callable[[Any], T]) -> None:
        self._of, self.__doc__ = of, of.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, one: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, one: object, owner: type) -> T: ...

    def __get__(self, one: object | None, owner: type) -> lazy[T] | T:
        if one is None:
            return self
        found = one.__dict__[self._name] = self._of(one)
        return found
