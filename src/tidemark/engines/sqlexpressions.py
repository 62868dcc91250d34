"""The SQL of expressions."""

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
