"""DuckDB's SQL."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from tidemark.algebra.expressions import Literal
from tidemark.algebra.frames import MICROSECONDS_PER_DAY, Span
from tidemark.algebra.functions import Signature, duckdb_cast, duckdb_type
from tidemark.algebra.functions.cast_sql import duckdb_field, duckdb_struct
from tidemark.algebra.plans import Given, Stored
from tidemark.algebra.types import WEIGHT, Kind, Type
from tidemark.engines.guarding import Condition
from tidemark.engines.sqlaggregates import MORE_THAN_ONE, SortText
from tidemark.engines.sqlblocks import Item, Source, join_in_order, names_of
from tidemark.engines.sqlexpressions import function_call

SETTINGS: Final = "SET disabled_optimizers = 'statistics_propagation'; SET enable_progress_bar = false"
"""What takes long is shown by us, on the standard error stream; DuckDB's bar would fall into results.

DuckDB 2.0 derives wrong bounds of sums, and answers comparisons by these bounds: beside a total of an empty
relation, which has one row, it expects none, so that SUM(x) > 0 is false whatever it is. Scans are pruned all the same.
"""


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def all_equal(pairs: tuple[tuple[str, str, bool], ...]) -> str:
    """A join condition: each left side equals its right side; True marks pairs in which NULL equals NULL.

    DuckDB prunes what it scans by *one* plain equality, and reads everything when it must hash several columns or
    match NULLs (5 to 10 times slower on millions of rows). So one plain equality drives the join, the first one, and
    the others stand in a CASE, where they are checked on what is left.
    """
    driving = next((pair for pair in pairs if not pair[2]), None)
    if driving is None:
        return " AND ".join(f"{left} IS NOT DISTINCT FROM {right}" for left, right, _ in pairs)
    rest = [f"{a} {'IS NOT DISTINCT FROM' if nulls else '='} {b}" for a, b, nulls in pairs if (a, b, nulls) != driving]
    first = f"{driving[0]} = {driving[1]}"
    return first if not rest else f"{first} AND CASE WHEN {' AND '.join(rest)} THEN TRUE ELSE FALSE END"


def literal_text(literal: Literal) -> str:
    """A literal with its type."""
    value, name = literal.value, duckdb_type(literal.type)
    if value is None:
        return f"CAST(NULL AS {name})"
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return text_literal(value)
        case float() if not math.isfinite(value):
            return f"CAST('{value}' AS DOUBLE)"
        case dt.datetime():
            return f"CAST('{value.isoformat(sep=' ')}' AS TIMESTAMP)"
        case dt.date():
            return f"CAST('{value.isoformat()}' AS DATE)"
        case int() if literal.type.kind is Kind.INT:
            return str(value) if value >= 0 else f"({value})"
        case Decimal():
            return f"CAST('{value:f}' AS {name})"
        case tuple() if literal.type.element is not None:
            elements = (literal_text(Literal(element, literal.type.element)) for element in value)
            return f"CAST([{', '.join(elements)}] AS {name})"
        case tuple():
            parts = (literal_text(Literal(part, type)) for part, type in zip(value, literal.type.parts, strict=True))
            return f"CAST({duckdb_struct(tuple(parts), literal.type)} AS {name})"
    return f"CAST('{value!r}' AS {name})"


def compared_text(literal: Literal) -> str:
    """A literal beside a column of its type. A plain whole number takes the column's type, and is read in less time."""
    match literal.value:
        case bool():
            return literal_text(literal)
        case int() if literal.type.kind in (Kind.SMALLINT, Kind.BIGINT):
            return f"({literal.value})" if literal.value < 0 else str(literal.value)
    return literal_text(literal)


def assigned_text(literal: Literal) -> str:
    """A literal that becomes the value of a column of its type, which converts it: here decimals may be plain too."""
    match literal.value:
        case Decimal():
            return f"({literal.value:f})"
        case None:
            return "NULL"
    return compared_text(literal)


class DuckDBDialect:
    """Compiles for one statement: knows where stored relations are and under which names deltas were registered."""

    def __init__(self, table_of: Callable[[str], str], given_names: Mapping[str, str]) -> None:
        self._table_of = table_of
        self._given_names = given_names

    def type_name(self, type: Type) -> str:
        return duckdb_type(type)

    def literal(self, literal: Literal) -> str:
        return literal_text(literal)

    def cast(self, text: str, source: Type, target: Type) -> str:
        return duckdb_cast(text, source, target)

    def call(self, function: str, arguments: tuple[str, ...], signature: Signature) -> str:
        return function_call(function, arguments, signature, "duckdb")

    def stored(self, plan: Stored) -> Source:
        return Source(self._table_of(plan.relation), tuple(quote(name) for name in plan.schema.names))

    def given(self, plan: Given) -> Source:
        columns = names_of(len(plan.schema))
        return Source(self._given_names[plan.name], columns, WEIGHT, small=True)

    def all_equal(self, pairs: tuple[tuple[str, str, bool], ...]) -> str:
        return all_equal(pairs)

    def semi_join(self) -> str:
        return "SEMI JOIN"

    def from_clause(self, items: tuple[Item, ...], conditions: tuple[Condition, ...]) -> str:
        return join_in_order(items, conditions)

    def field(self, text: str, name: str, type: Type) -> str:
        return duckdb_field(text, name, type)

    def place(self, text: str, type: Type) -> str:
        """What a value is ordered by. Of the parts of an array or a struct, NULL is above all others here."""
        return text

    def unnested(self, query: str, alias: str, array: str) -> str:
        elements = f"unnest({array}) AS {alias}_element, unnest(range(len({array}))) AS {alias}_place"
        return f"({query}) AS {alias}, LATERAL (SELECT {elements}) AS {alias}_elements"

    def repeated(self, query: str, alias: str, weight: str) -> str:
        return f"({query}) AS {alias}, LATERAL (SELECT unnest(range(abs({alias}.{weight})))) AS {alias}_copy"

    def string_agg(self, value: str, separator: str, order: str, *, distinct: bool) -> str:
        return f"string_agg({'DISTINCT ' if distinct else ''}{value}, {separator} ORDER BY {order})"

    def array_agg(self, value: str, order: tuple[SortText, ...], condition: str | None, *, distinct: bool) -> str:
        text = f"list({'DISTINCT ' if distinct else ''}{value} ORDER BY {', '.join(map(str, order))})"
        return text if condition is None else f"{text} FILTER (WHERE {condition})"

    def single(self, value: str, rows: str) -> str:
        return f"CASE WHEN {rows} > 1 THEN error('{MORE_THAN_ONE}') ELSE MAX({value}) END"

    def mode(self, value: str, direction: str) -> str:
        """Of values that are there equally often DuckDB takes the one that it saw first."""
        return f"mode({value} ORDER BY {value} {direction})"

    def element_in_order(self, value: str, place: str, *, descending: bool) -> str:
        ordered = f"list({value} ORDER BY {value} {'DESC' if descending else 'ASC'})"
        return f"list_extract({ordered} FILTER (WHERE {value} IS NOT NULL), {place})"

    def ignoring_nulls(self, function: str, arguments: str) -> str:
        return f"{function}({arguments} IGNORE NULLS)"

    def moment(self, text: str) -> str:
        """Microseconds: DuckDB takes a month for equal to 30 days, and two frames that differ in that for one."""
        return f"epoch_us({text})"

    def span(self, span: Span, moment: str, sign: int) -> str:
        """How many microseconds there are from the moment to the one that lies so far before (-1) or after it (1)."""
        rest = span.days * MICROSECONDS_PER_DAY + span.microseconds
        if not span.months:
            return f"CAST({rest} AS BIGINT)"
        there = f"epoch_us({moment} {'+' if sign > 0 else '-'} to_months({span.months}))"
        return f"COALESCE(abs({there} - epoch_us({moment})), 0) + CAST({rest} AS BIGINT)"

    def numbered(self, number: str, value: str) -> str:
        return f"struct_pack(n := {number}, v := {value})"
