"""One case of a function or a cast: what it is called with and what every engine must give."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal as D
from functools import cached_property

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import FUNCTIONS, Signature, cast_value, duckdb_cast, spark_cast
from tidemark.algebra.functions.values import fit
from tidemark.algebra.types import Type

INFINITY = math.inf
SMALLEST = -(2**31)
LARGEST = 2**31 - 1
FAMILY = "\U0001f926\U0001f3fcx"  # one picture of two code points, then a letter
ACCENT = "ae\u0301"  # the accent is a code point of its own


@dataclass(frozen=True)
class Fails:
    code: str


ZERO = Fails("division_by_zero")
OVERFLOW = Fails("overflow")
INVALID = Fails("invalid_value")


@dataclass(frozen=True)
class Case:
    """A call of a function or, if there is a target, a cast of one value to that type."""

    name: str
    types: tuple[Type, ...]
    values: tuple[Value, ...]
    expected: Value | Fails = None
    target: Type | None = None

    def __str__(self) -> str:
        shown = ", ".join(f"{value!r} {type}" for value, type in zip(self.values, self.types, strict=True))
        return f"{self.name}({shown})" + (f" as {self.target}" if self.target else "")

    @cached_property
    def signature(self) -> Signature:
        if self.target is not None:
            return Signature(self.types, self.target)
        signature = FUNCTIONS[self.name].resolve(self.types)
        assert signature is not None, f"{self} is refused"
        return signature

    @property
    def answer(self) -> Value:
        """What is expected, with all the digits of its type."""
        assert not isinstance(self.expected, Fails)
        return complete(self.expected, self.signature.result)

    def reference(self, values: tuple[Value, ...]) -> Value:
        """What the meaning in Python gives for values of the case's types."""
        if self.target is not None:
            return cast_value(values[0], self.types[0], self.target)
        function, signature = FUNCTIONS[self.name], self.signature
        values = tuple(map(cast_value, values, self.types, signature.arguments))
        return None if function.strict and None in values else function.meaning(values, signature)

    def duckdb(self, arguments: tuple[str, ...]) -> str:
        if self.target is not None:
            return duckdb_cast(arguments[0], self.types[0], self.target)
        widened = tuple(map(duckdb_cast, arguments, self.types, self.signature.arguments))
        return FUNCTIONS[self.name].duckdb(widened, self.signature)

    def spark(self, arguments: tuple[str, ...]) -> str:
        if self.target is not None:
            return spark_cast(arguments[0], self.types[0], self.target)
        widened = tuple(map(spark_cast, arguments, self.types, self.signature.arguments))
        return FUNCTIONS[self.name].spark(widened, self.signature)


def same(left: Value, right: Value) -> bool:
    """Equal to the last digit: the same Python type, scale and sign of zero."""
    return type(left) is type(right) and repr(_in_utc(left)) == repr(_in_utc(right))


def _in_utc(value: Value) -> Value:
    """There are many objects for the one zone."""
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo is not None else value


def day(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def calls(name: str, *types: Type, rows: Sequence[tuple[object, ...]]) -> Iterator[Case]:
    """One case per row: the arguments, then what is expected."""
    for *values, expected in rows:
        yield Case(name, types, tuple(map(complete, values, types)), expected)  # type: ignore[arg-type]


def casts(source: Type, target: Type, rows: list[tuple[Value, object]]) -> Iterator[Case]:
    for value, expected in rows:
        yield Case("cast", (source,), (complete(value, source),), expected, target)  # type: ignore[arg-type]


def complete(value: object, type: Type) -> Value:
    """The value with all the digits of its type."""
    return fit(value, type) if isinstance(value, D) else value  # type: ignore[return-value]
