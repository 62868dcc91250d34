"""What one row of the function table says.

Each function or operator that may appear in a query stands in the table once, with its signature, its NULL and
error behaviour, the SQL that means it on each engine, and its meaning in Python for the reference engine. What is
not in the table is refused.

Short forms for SQL templates and Python meanings follow. Every template gives text that stands by itself, in
parentheses or as a call, and expects the same of its arguments.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import BYTEA, DOUBLE, Kind, Type


@dataclass(frozen=True)
class Signature:
    """The types that the arguments are brought to, and the type of the result."""

    arguments: tuple[Type, ...]
    result: Type


Resolver: TypeAlias = Callable[[tuple[Type, ...]], Signature | None]
"""From the types of the given arguments to the signature that serves them, or None."""

Template: TypeAlias = Callable[[tuple[str, ...], Signature], str]
"""From the SQL of the arguments to the SQL of the call, in one engine's dialect."""

Meaning: TypeAlias = Callable[[tuple[Value, ...], Signature], Value]
"""From the values of the arguments to the value of the call, in Python."""


@dataclass(frozen=True)
class Function:
    """One row of the table.

    A ``strict`` function gives NULL when any argument is NULL, and its meaning never sees one. ``nullable`` tells,
    from whether each argument can be NULL, whether the result can. ``fails`` says in words when it raises.
    """

    name: str
    usage: str
    resolve: Resolver
    meaning: Meaning
    duckdb: Template
    spark: Template
    strict: bool = True
    nullable: Callable[[tuple[bool, ...]], bool] = any
    fails: str | None = None
    infix: str | None = None


class Engine(enum.Enum):
    """Whose SQL a template writes, where that cannot be told from the text alone."""

    DUCKDB = "duckdb"
    SPARK = "spark"

    @property
    def raising(self) -> str:
        """The function that raises an error."""
        return DUCKDB_ERROR if self is Engine.DUCKDB else SPARK_ERROR


DUCKDB_ERROR: Final = "error"
SPARK_ERROR: Final = "raise_error"


def infix(symbol: str) -> Template:
    return lambda arguments, _: "(" + f" {symbol} ".join(arguments) + ")"


def call(name: str) -> Template:
    return lambda arguments, _: f"{name}({', '.join(arguments)})"


def pattern(text: str) -> Template:
    """SQL with ``{0}``, ``{1}`` … for the arguments."""
    return lambda arguments, _: text.format(*arguments)


def guard(raising: str, condition: str, failure: str, otherwise: str) -> str:
    """``otherwise``, except that ``failure`` is raised where the condition holds.

    CASE is the one form whose branches both engines evaluate only when they are taken. A condition that is NULL
    does not hold, so a guard leaves NULL alone.
    """
    return f"(CASE WHEN {condition} THEN {raising}('{failure}') ELSE {otherwise} END)"


def guarded(raising: str, condition: str, failure: str, otherwise: str) -> Template:
    """The same as a template, each part with ``{0}``, ``{1}`` … for the arguments."""
    return pattern(guard(raising, condition, failure, otherwise))


def let(engine: Engine, variable: str, parts: Mapping[str, str], body: str) -> str:
    """The body, which may say ``variable.part`` for each part, however often: the part is evaluated once.

    SQL has no names for parts of an expression, but both engines have functions of lists that take a lambda.
    """
    if engine is Engine.DUCKDB:
        fields = ", ".join(f"{name} := {text}" for name, text in parts.items())
        return f"(list_transform([struct_pack({fields})], lambda {variable}: {body})[1])"
    fields = ", ".join(f"'{name}', {text}" for name, text in parts.items())
    return f"(transform(array(named_struct({fields})), {variable} -> {body})[0])"


def plain(function: Callable[..., Value]) -> Meaning:
    """A meaning that does not depend on the types."""
    return lambda values, _: function(*values)


def typed(function: Callable[[Any, Signature], Value]) -> Meaning:
    """A meaning of one argument that depends on the types."""
    return lambda values, signature: function(values[0], signature)


def by_double(doubles: Template, others: Template) -> Template:
    """One template if the arguments are doubles, another if they are exact."""
    return lambda arguments, signature: (doubles if DOUBLE in signature.arguments else others)(arguments, signature)


def by_bytes(of_bytes: Template, others: Template) -> Template:
    """One template if the arguments are bytes, another if they are not."""
    return lambda arguments, signature: (of_bytes if BYTEA in signature.arguments else others)(arguments, signature)


def by_decimal(decimals: Template, others: Template) -> Template:
    """One template if the result is a decimal, another if it is not."""
    return lambda arguments, signature: (decimals if signature.result.kind is Kind.DECIMAL else others)(
        arguments, signature
    )


def to_result(text: str) -> Template:
    """The pattern, cast to the numeric type of the result where an engine would choose another one itself."""
    return lambda arguments, signature: f"CAST({text.format(*arguments)} AS {signature.result})"


def by_count(templates: Mapping[int, Template]) -> Template:
    """The template that belongs to the number of arguments."""
    return lambda arguments, signature: templates[len(arguments)](arguments, signature)
