"""The SQL of expressions.

Guards: a condition that can fail is evaluated on joined rows only, after the conditions before it.

    σ[f] (R ⋈[p] S)   as   FROM R, S WHERE p AND (CASE WHEN p IS NOT TRUE THEN FALSE ELSE f END)

Optimizers take a condition that reads R alone below the join, where it would see rows of R that have no partner: a
division by zero in such a row would raise, although the plan never divides by it. Within CASE the condition reads what
its guards read, so it stays above their joins. It has two branches or more, since an optimizer may turn one into AND.

A condition that is itself what links its relations is left as it is: without it they would be joined pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, FieldOf, Literal
from tidemark.algebra.functions import FUNCTIONS, Signature
from tidemark.algebra.types import Type


@dataclass(frozen=True)
class Output:
    """A text, and the aliases of the sources that it reads."""

    text: str
    aliases: frozenset[str] = frozenset()


class ExpressionDialect(Protocol):
    """What differs between the engines' expressions."""

    def literal(self, literal: Literal) -> str: ...
    def cast(self, text: str, source: Type, target: Type) -> str: ...
    def call(self, function: str, arguments: tuple[str, ...], signature: Signature) -> str: ...
    def field(self, text: str, name: str, type: Type) -> str: ...


def output_of(expression: Expression, outputs: tuple[Output, ...], dialect: ExpressionDialect) -> Output:
    """The text of an expression over columns that have these texts."""
    match expression:
        case Column(index=index):
            return outputs[index]
        case Literal():
            return Output(dialect.literal(expression))
        case Cast(argument=argument, type=target):
            inner = output_of(argument, outputs, dialect)
            return Output(dialect.cast(inner.text, argument.type, target), inner.aliases)
        case FieldOf(argument=argument, name=name):
            whole = output_of(argument, outputs, dialect)
            return Output(dialect.field(whole.text, name, expression.type), whole.aliases)
        case Case(branches=branches, default=default):
            parts = [(output_of(c, outputs, dialect), output_of(v, outputs, dialect)) for c, v in branches]
            last = output_of(default, outputs, dialect)
            whens = " ".join(f"WHEN {c.text} THEN {v.text}" for c, v in parts)
            aliases = _together([last, *(part for pair in parts for part in pair)])
            return Output(f"CASE {whens} ELSE {last.text} END", aliases)
        case Call(function=function, arguments=arguments, type=result):
            inner_parts = [output_of(argument, outputs, dialect) for argument in arguments]
            signature = Signature(tuple(argument.type for argument in arguments), result)
            texts = tuple(part.text for part in inner_parts)
            return Output(dialect.call(function, texts, signature), _together(inner_parts))
    raise TypeError(f"not an expression: {expression!r}")


def function_call(function: str, arguments: tuple[str, ...], signature: Signature, engine: str) -> str:
    """The SQL of a call, from the function table."""
    row = FUNCTIONS[function]
    template = row.duckdb if engine == "duckdb" else row.spark
    return template(arguments, signature)


def _together(parts: Iterable[Output]) -> frozenset[str]:
    return frozenset(alias for part in parts for alias in part.aliases)


@dataclass(frozen=True)
class Condition:
    """A conjunct of the WHERE clause, the aliases that it reads, and whether it can raise an error."""

    text: str
    aliases: frozenset[str]
    can_fail: bool = False


def guarded(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions of a block of several sources, with those that can fail behind the ones before them."""
    plain = tuple(c for c in conditions if not c.can_fail)
    held = {c for c in conditions if c.can_fail and _are_linked(c.aliases, plain)}
    places = [place for place, c in enumerate(conditions) if c in held]
    if not places or places[-1] == 0:
        return conditions
    before = conditions[: places[-1] + 1]
    branches = " ".join(f"WHEN ({c.text}) IS NOT TRUE THEN FALSE" for c in before)
    together = Condition(f"CASE {branches} ELSE TRUE END", frozenset(a for c in before for a in c.aliases))
    return (*(c for c in conditions if c not in held), together)


def _are_linked(aliases: frozenset[str], conditions: tuple[Condition, ...]) -> bool:
    """Whether the conditions lead from each of the aliases to each other."""
    if len(aliases) < 2:
        return True
    reached = {min(aliases)}
    for _ in conditions:
        reached |= {alias for c in conditions if c.aliases & reached for alias in c.aliases}
    return aliases <= reached
