"""The SQL of aggregates, for DuckDB and for Spark, over rows that are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

MORE_THAN_ONE: Final = "cardinality: a subquery that is used as a value gives more than one row"


@dataclass(frozen=True)
class SortText:
    """A key of an order, with the text of its expression."""

    text: str
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return f"{self.text} {'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@dataclass(frozen=True)
class Written:
    """A call in SQL: its function's name, the texts of its value, type, separator, fraction and condition, and the text
    that counts the rows of the group. ``order`` ends with the value itself."""

    name: str
    value: str
    type: str
    distinct: bool = False
    order: tuple[SortText, ...] = ()
    separator: str = ""
    condition: str | None = None
    fraction: str = ""
    descending: bool = False
    rows: str = "COUNT(*)"

    @property
    def chosen(self) -> str:
        """The value, or its distinct values."""
        return f"DISTINCT {self.value}" if self.distinct else self.value

    @property
    def direction(self) -> str:
        return "DESC" if self.descending else "ASC"

    @property
    def ordered(self) -> str:
        return ", ".join(map(str, self.order))


Text: TypeAlias = Callable[[Written], str]
OverText: TypeAlias = Callable[[Written, str], str]
"""The text of a call over a window, whose own text follows."""


def plain(call: Written) -> str:
    return f"{call.name}({call.value})"


def plain_over(call: Written, over: str) -> str:
    return f"{call.name}({call.value}) OVER ({over})"


def rows(call: Written) -> str:
    return f"CAST({call.rows} AS BIGINT)"


def rows_over(call: Written, over: str) -> str:
    return f"COUNT(*) OVER ({over})"


def count(call: Written) -> str:
    return f"CAST(COUNT({call.chosen}) AS BIGINT)"


def total(call: Written) -> str:
    distinct = "DISTINCT " if call.distinct else ""
    return f"CAST(SUM({distinct}CAST({call.value} AS {call.type})) AS {call.type})"


def total_over(call: Written, over: str) -> str:
    return f"sum(CAST({call.value} AS {call.type})) OVER ({over})"


def spread(call: Written) -> str:
    """A variance or deviation of doubles, which is not a number if one of them is not finite, as in PostgreSQL.

    DuckDB takes that of a single value for zero, whatever the value is.
    """
    return f"({call.name}({call.chosen}) + 0 * MAX(ABS({call.value})))"


def spread_over(call: Written, over: str) -> str:
    return f"({call.name}({call.value}) OVER ({over}) + 0 * MAX(ABS({call.value})) OVER ({over}))"


def duckdb_joined(call: Written) -> str:
    return f"string_agg({call.chosen}, {call.separator} ORDER BY {call.ordered})"


def spark_joined(call: Written) -> str:
    """Beside another aggregate with DISTINCT Spark's own fails; distinct values are ordered by themselves alone."""
    if not call.distinct:
        return f"listagg({call.value}, {call.separator}) WITHIN GROUP (ORDER BY {call.ordered})"
    values = f"sort_array(collect_set({call.value}), {'FALSE' if call.order[0].descending else 'TRUE'})"
    return f"CASE WHEN COUNT({call.value}) > 0 THEN array_join({values}, {call.separator}) END"


def duckdb_listed(call: Written) -> str:
    text = f"list({call.chosen} ORDER BY {call.ordered})"
    return text if call.condition is None else f"{text} FILTER (WHERE {call.condition})"


def spark_listed(call: Written) -> str:
    """Spark's own leaves NULL out, has no order, and is empty instead of NULL: so rows are collected and sorted."""
    asked = "" if call.condition is None else f" FILTER (WHERE {call.condition})"
    keys = ", ".join(f"{key.text} AS k{i}" for i, key in enumerate(call.order))
    found = f"collect_list(struct({call.value} AS v, {keys})){asked}"
    sorting = " ".join(_compared(f"k{i}", key) for i, key in enumerate(call.order))
    found = f"array_sort({f'array_distinct({found})' if call.distinct else found}, (a, b) -> CASE {sorting} ELSE 0 END)"
    return f"CASE WHEN COUNT(*){asked} > 0 THEN transform({found}, e -> e.v) END"


def _compared(field: str, key: SortText) -> str:
    """The branches of a comparison of the structs a and b by one of their fields."""
    null, less = (-1 if key.nulls_first else 1), (1 if key.descending else -1)
    a, b = f"a.{field}", f"b.{field}"
    return (
        f"WHEN {a} IS NULL AND {b} IS NOT NULL THEN {null} WHEN {a} IS NOT NULL AND {b} IS NULL THEN {-null} "
        f"WHEN {a} < {b} THEN {less} WHEN {a} > {b} THEN {-less}"
    )


def duckdb_percentile(place: Text) -> Text:
    def text(call: Written) -> str:
        ordered = f"list({call.value} ORDER BY {call.value} {call.direction})"
        element = f"list_extract({ordered} FILTER (WHERE {call.value} IS NOT NULL), {place(call)})"
        return f"CASE WHEN COUNT({call.value}) > 0 THEN {element} END"

    return text


def spark_percentile(place: Text) -> Text:
    def text(call: Written) -> str:
        ordered = f"sort_array(collect_list({call.value}), {'FALSE' if call.descending else 'TRUE'})"
        return f"CASE WHEN COUNT({call.value}) > 0 THEN element_at({ordered}, {place(call)}) END"

    return text


def discrete_place(call: Written) -> str:
    """The places of percentiles are counted from 1."""
    return f"GREATEST(CAST(CEIL({call.fraction} * COUNT({call.value})) AS INT), 1)"


def low_place(call: Written) -> str:
    return f"CAST(FLOOR({call.fraction} * (COUNT({call.value}) - 1)) AS INT) + 1"


def high_place(call: Written) -> str:
    return f"CAST(CEIL({call.fraction} * (COUNT({call.value}) - 1)) AS INT) + 1"


def duckdb_mode(call: Written) -> str:
    """Of values that are there equally often DuckDB takes the one that it saw first."""
    return f"mode({call.value} ORDER BY {call.value} {call.direction})"


def spark_mode(call: Written) -> str:
    return f"mode() WITHIN GROUP (ORDER BY {call.value} {call.direction})"


def duckdb_single(call: Written) -> str:
    return f"CASE WHEN {call.rows} > 1 THEN error('{MORE_THAN_ONE}') ELSE MAX({call.value}) END"


def spark_single(call: Written) -> str:
    return f"CASE WHEN {call.rows} > 1 THEN raise_error('{MORE_THAN_ONE}') ELSE MAX({call.value}) END"
