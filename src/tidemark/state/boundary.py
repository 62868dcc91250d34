"""The boundary: every exception that leaves the public interface is a ``TidemarkError``.

``bounded`` stands at each public class and function. What is ours passes; what others raise (an engine, the operating
system, Python itself) is told in our words, with what was raised as its cause; what only a fault of ours can explain is
``internal``. Arguments of a wrong type are found here, too, by the annotations of simple types.

Exceptions that are not ours to judge pass as they are: ``KeyboardInterrupt`` and its like, also where a library
made an error of its own of it; those of a ``with`` block, which Python itself raises; and those of functions that the
program lends (``lent``).

Room for statements that are nested deeply.

Parsing, binding and analysis go down into a statement by calling themselves, some forty calls for each level of
parentheses. Python allows a thousand calls inside each other unless it is told otherwise; while the database works, it
allows more. What is nested more deeply still is refused.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from types import FunctionType, TracebackType
from typing import Any, Final, TypeVar, cast

from tidemark.engines.opening import translated
from tidemark.errors import TidemarkError, too_complex, was_pressed

Bounded = TypeVar("Bounded", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

_TYPES: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "str": ((str,), "a text"),
    "str | None": ((str, type(None)), "a text, or None"),
    "bool": ((bool,), "True or False"),
    "float | None": ((int, float, type(None)), "a number, or None"),
    "str | os.PathLike[str]": ((str, os.PathLike), "a text or a pathlib.Path"),
    "dt.datetime | None": ((dt.datetime, type(None)), "a datetime, or None"),
}
"""What arguments must be, by the text of their annotation. Others have checks of their own, with codes of their own."""
_SPECIAL: Final = ("__init__", "__enter__", "__exit__", "__iter__", "__next__")
_LENT: Final = "_raised_by_a_function_of_the_program"


def bounded(guarded: Bounded) -> Bounded:
    """The function, of which nothing but a ``TidemarkError`` is raised; or the class with all its public methods."""
    if isinstance(guarded, type):
        return cast("Bounded", _bounded_class(guarded))
    return cast("Bounded", _bounded_function(cast("FunctionType", guarded)))


@contextmanager
def lent() -> Iterator[None]:
    """Around a function of the program: what it raises is the program's own, and passes the boundary as it is."""
    try:
        yield
    except Exception as error:
        error.__dict__[_LENT] = True
        raise


def as_error(error: BaseException) -> TidemarkError:
    """An exception in our words."""
    found = error if isinstance(error, TidemarkError) else translated(error)
    return found if found is not None else internal(error)


def internal(error: BaseException) -> TidemarkError:
    """What nobody has foreseen."""
    first = next(iter(str(error).splitlines()), "")
    return TidemarkError(
        "internal",
        f"{type(error).__name__}: {first}",
        hint="this is a fault in Tidemark: please report it, with the exception that this one was raised from",
    )


def _bounded_class(found: Class) -> Class:
    for name, value in tuple(vars(found).items()):
        if name.startswith("_") and name not in _SPECIAL:
            continue
        match value:
            case FunctionType():
                setattr(found, name, _bounded_function(value))
            case property(fget=getter) if getter is not None:
                setattr(found, name, property(_bounded_function(cast("FunctionType", getter)), value.fset, value.fdel))
    return found


def _bounded_function(function: FunctionType) -> FunctionType:
    expected = _expected(function)

    @functools.wraps(function)
    def guarded(*arguments: Any, **named: Any) -> Any:
        known = sys.exception()
        try:
            for position, name, types, words in expected:
                value = arguments[position] if position < len(arguments) else named.get(name, arguments)
                if value is not arguments and not isinstance(value, types):
                    raise TidemarkError("type", f"{name} is {words}, not {_shown(value)}")
            return function(*arguments, **named)
        except Exception as error:
            if isinstance(error, TidemarkError) and error.code == "commit_unknown":
                raise
            if was_pressed(error, known):
                raise KeyboardInterrupt from error
            if _LENT in error.__dict__ or isinstance(error, TidemarkError):
                raise
            if isinstance(error, TypeError) and _is_of_the_call(error):
                raise TidemarkError("type", str(error)) from error
            raise as_error(error) from error
        except BaseException as error:
            if not _is_a_panic(error):
                raise
            raise as_error(error) from error

    return cast("FunctionType", guarded)


def _expected(function: FunctionType) -> tuple[tuple[int, str, tuple[type, ...], str], ...]:
    """Which arguments are looked at: place, name, what they must be, and the words for it."""
    parameters = enumerate(inspect.signature(function).parameters.values())
    return tuple(
        (len(_NOWHERE) if parameter.kind is parameter.KEYWORD_ONLY else position, parameter.name, *_TYPES[annotation])
        for position, parameter in parameters
        if (annotation := str(parameter.annotation)) in _TYPES
    )


_NOWHERE: Final = range(1_000)
"""There are fewer arguments than these, so that what has this place is looked for by its name."""


def _is_of_the_call(error: TypeError) -> bool:
    """Whether it was raised by the call itself: too many arguments, or one that is missing or unknown."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def _is_a_panic(error: BaseException) -> bool:
    """Whether a library written in Rust gave up, which Python is told by an exception that is none of its own kinds."""
    return type(error).__name__ == "PanicException"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


MOST_CALLS: Final = 9_000
"""Each call that goes through C takes up to some 500 bytes of the stack, of which threads have 8 MB."""


class _Room:
    """The limit of the process is raised while someone needs it, and then put back."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._before = 0

    def enter(self) -> None:
        with self._lock:
            if not self._users:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._before, MOST_CALLS))
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and sys.getrecursionlimit() == max(self._before, MOST_CALLS):
                sys.setrecursionlimit(self._before)


_ROOM: Final = _Room()


class Deep:
    """Lets calls go down far enough for nested statements; what goes further is an error of the statement."""

    def __enter__(self) -> None:
        _ROOM.enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _ROOM.leave()
        if isinstance(error, RecursionError):
            raise too_complex() from error


_DEEP: Final = Deep()


def deep() -> Deep:
    """The same context each time: who counts its users is the limit itself."""
    return _DEEP
