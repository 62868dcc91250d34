"""What one row of the function table says.

Each function or operator that may appear in a query stands in the table once, with its signature, its NULL and
error behaviour, the SQL that means it on each engine, and its meaning in Python for the reference engine. What is
not in the table is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import Type


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
