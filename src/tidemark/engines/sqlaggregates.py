"""The SQL of aggregates: over rows that are there, and, where that is possible, over signed entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from tidemark.algebra.aggregates import DEVIATIONS, PERCENTILES, AggregateCall, AggregateFunction
from tidemark.algebra.expressions import Literal
from tidemark.algebra.types import DOUBLE, VARCHAR, Type

MORE_THAN_ONE: Final = "cardinality: a subquery that is used as a value gives more than one row"


@dataclass(frozen=True)
class SortText:
    """A key of an order, with the text of its expression."""

    text: str
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return f"{self.text} {'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


class AggregateDialect(Protocol):
    """What differs between the engines' aggregates."""

    def type_name(self, type: Type) -> str: ...
    def literal(self, literal: Literal) -> str: ...
    def string_agg(self, value: str, separator: str, order: str, *, distinct: bool) -> str: ...
    def array_agg(self, value: str, order: tuple[SortText, ...], condition: str | None, *, distinct: bool) -> str: ...
    def single(self, value: str, rows: str) -> str: ...
    def mode(self, value: str, direction: str) -> str: ...
    def element_in_order(self, value: str, place: str, *, descending: bool) -> str: ...


def is_additive(call: AggregateCall) -> bool:
    """Whether the call can be computed from signed entries as they are."""
    counts = (AggregateFunction.COUNT_ROWS, AggregateFunction.COUNT)
    return not call.distinct and (call.function in counts or call.is_exact_sum)


def counts_copies(call: AggregateCall) -> bool:
    """Whether each copy of a row adds to the result, in a way that a weight cannot stand for."""
    if call.distinct or call.function in (AggregateFunction.MIN, AggregateFunction.MAX, AggregateFunction.SINGLE):
        return False
    return call.function not in (AggregateFunction.COUNT_ROWS, AggregateFunction.COUNT)


def additive(
    call: AggregateCall, texts: tuple[str, ...], dialect: AggregateDialect, weight: str | None, *, signed: bool
) -> str:
    """The call from entries as they are, perhaps signed ones; ``weight`` is what an entry counts, if it is not one."""
    if call.argument is None:
        text = "COUNT(*)" if weight is None else f"COALESCE(SUM({weight}), 0)"
        return f"CAST({text} AS BIGINT)"
    value = texts[0]
    if call.function is AggregateFunction.COUNT:
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
    value, type_name = texts[0], dialect.type_name(call.type)
    distinct = "DISTINCT " if call.distinct else ""
    match call.function:
        case AggregateFunction.COUNT:
            return f"CAST(COUNT({distinct}{value}) AS BIGINT)"
        case AggregateFunction.SUM:
            return f"CAST(SUM({distinct}CAST({value} AS {type_name})) AS {type_name})"
        case AggregateFunction.STRING_AGG:
            separator = dialect.literal(Literal(call.separator, VARCHAR))
            order = ", ".join(map(str, _order(call, texts)))
            return dialect.string_agg(value, separator, order, distinct=call.distinct)
        case AggregateFunction.ARRAY_AGG:
            condition = None if call.condition is None else texts[-1]
            return dialect.array_agg(value, _order(call, texts), condition, distinct=call.distinct)
        case AggregateFunction.MODE:
            return dialect.mode(value, "DESC" if call.descending else "ASC")
        case function if function in PERCENTILES:
            element = dialect.element_in_order(value, _place(call, value, dialect), descending=call.descending)
            return f"CASE WHEN COUNT({value}) > 0 THEN {element} END"
        case AggregateFunction.SINGLE:
            return dialect.single(value, "COUNT(*)" if weight is None else f"SUM({weight})")
        case function if function in DEVIATIONS:
            return spread(function.value, value)
    return f"{call.function.value}({value})"


def spread(function: str, value: str, over: str = "") -> str:
    """A variance or deviation of doubles, which is not a number if one of them is not finite, as in PostgreSQL.

    DuckDB takes that of a single value for zero, whatever the value is.
    """
    return f"({function}({value}){over} + 0 * MAX(ABS({value})){over})"


def _place(call: AggregateCall, value: str, dialect: AggregateDialect) -> str:
    """The place of a percentile among the values, counted from 1."""
    fraction = dialect.literal(Literal(call.fraction, DOUBLE))
    if call.function is AggregateFunction.PERCENTILE_DISC:
        return f"GREATEST(CAST(CEIL({fraction} * COUNT({value})) AS INT), 1)"
    rounded = "FLOOR" if call.function is AggregateFunction.PERCENTILE_LOW else "CEIL"
    return f"CAST({rounded}({fraction} * (COUNT({value}) - 1)) AS INT) + 1"


def _order(call: AggregateCall, texts: tuple[str, ...]) -> tuple[SortText, ...]:
    """The keys of the call's order, and the value itself behind them."""
    named = zip(call.order, texts[1 : 1 + len(call.order)], strict=True)
    keys = tuple(SortText(text, key.descending, key.nulls_first) for key, text in named)
    return keys if call.distinct and keys else (*keys, SortText(texts[0]))
