"""The SQL of aggregates: over rows that are there, and, where that is possible, over signed entries."""

from __future__ import annotations

from typing import Protocol

from tidemark.algebra.aggregate_table import Aggregation
from tidemark.algebra.aggregate_texts import SortText, Text, Written
from tidemark.algebra.aggregates import AggregateCall
from tidemark.algebra.expressions import Literal
from tidemark.algebra.types import DOUBLE, VARCHAR, Type


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
