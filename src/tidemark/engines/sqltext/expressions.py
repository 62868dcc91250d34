"""The SQL of expressions.

Guards: a condition that can fail is evaluated on joined rows only, after the conditions before it.

    σ[f] (R ⋈[p] S)   as   FROM R, S WHERE p AND (CASE WHEN p IS NOT TRUE THEN FALSE ELSE f END)

Optimizers take a condition that reads R alone below the join, where it would see rows of R that have no partner: a
division by zero in such a row would raise, although the plan never divides by it. Within CASE the condition reads what
its guards read, so it stays above their joins. It has two branches or more, since an optimizer may turn one into AND.

A condition that is itself what links its relations is left as it is: without it they would be joined pair by pair.

The SQL of aggregates: over rows that are there, and, where that is possible, over signed entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tidemark.algebra.aggregate_table import Aggregation
from tidemark.algebra.aggregate_texts import SortText, Text, Written
from tidemark.algebra.aggregates import AggregateCall
from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, FieldOf, Literal
from tidemark.algebra.functions import FUNCTIONS, Signature
from tidemark.algebra.types import DOUBLE, VARCHAR, Type


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


class AggregateDialect(Protocol):
    """What differs between the engines' aggregates."""

    def type_name(self, type: Type) -> str: ...
    def literal(self, literal: Literal) -> str: ...
    def aggregate(self, row: Aggregation) -> Text: ...


def counts_copies(call: AggregateCall) -> bool:
    """Whether each copy of a row adds to the result, in a way that a weight cannot stand for."""
    return call.row.counts_copies and not call.distinct


def additive(
    call: AggregateCall, texts: tuple[str, ...], dialect: AggregateDialect, weight: str | None, *, signed: bool
) -> str:
    """The call from entries as they are, perhaps signed ones; ``weight`` is what an entry counts, if it is not one."""
    if call.argument is None:
        text = "COUNT(*)" if weight is None else f"COALESCE(SUM({weight}), 0)"
        return f"CAST({text} AS BIGINT)"
    value = texts[0]
    if call.is_count:
        counted = f"SUM(CASE WHEN {value} IS NULL THEN 0 ELSE {weight} END)"
        text = f"COUNT({value})" if weight is None else f"COALESCE({counted}, 0)"
        return f"CAST({text} AS BIGINT)"
    type_name = dialect.type_name(call.type)
    wide = f"CAST({value} AS {type_name})"
    if weight is None:
        return f"CAST(SUM({wide}) AS {type_name})"
    total = f"CAST(SUM(CASE WHEN {weight} > 0 THEN {wide} ELSE -{wide} END) AS {type_name})"
    if signed:
        return total
    # Values that cancel leave no value: their sum is NULL, not 0.
    values = f"SUM(CASE WHEN {value} IS NULL THEN 0 ELSE {weight} END)"
    return f"CASE WHEN {values} > 0 THEN {total} END"


def unit_aggregate(call: AggregateCall, texts: tuple[str, ...], dialect: AggregateDialect, weight: str | None) -> str:
    """The call over the texts of its expressions; ``weight`` counts the copies of a row, if rows stand for many."""
    written = Written(
        call.function.value,
        texts[0],
        dialect.type_name(call.type),
        call.distinct,
        _order(call, texts),
        dialect.literal(Literal(call.separator, VARCHAR)),
        None if call.condition is None else texts[-1],
        "" if call.fraction is None else dialect.literal(Literal(call.fraction, DOUBLE)),
        call.descending,
        "COUNT(*)" if weight is None else f"SUM({weight})",
    )
    return dialect.aggregate(call.row)(written)


def _order(call: AggregateCall, texts: tuple[str, ...]) -> tuple[SortText, ...]:
    """The keys of the call's order, and the value itself behind them."""
    named = zip(call.order, texts[1 : 1 + len(call.order)], strict=True)
    keys = tuple(SortText(text, key.descending, key.nulls_first) for key, text in named)
    return keys if call.distinct and keys else (*keys, SortText(texts[0]))
