"""DuckDB's SQL.

DuckDB's errors in Tidemark's words.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Final

import duckdb

from tidemark.algebra.aggregate_table import Aggregation
from tidemark.algebra.aggregate_texts import Text
from tidemark.algebra.expressions import Literal
from tidemark.algebra.functions import Signature, duckdb_cast, duckdb_type, failure_code
from tidemark.algebra.functions.cast_sql import duckdb_field, duckdb_struct
from tidemark.algebra.plans import Given, Stored
from tidemark.algebra.types import WEIGHT, Kind, Type
from tidemark.algebra.windows import MICROSECONDS_PER_DAY, Span
from tidemark.engines.sqltext.blocks import FromItem, Item, join_in_order, names_of
from tidemark.engines.sqltext.expressions import Condition, function_call
from tidemark.errors import TidemarkError, was_pressed
from tidemark.storage.disk import storage_trouble


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
            return f"CAST('{value}' AS {name})"
        case bytes():
            return f"unhex('{value.hex()}')"
        case dt.datetime():
            return f"CAST('{value.isoformat(sep=' ')}' AS {name})"
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

    def stored(self, plan: Stored) -> FromItem:
        return FromItem(self._table_of(plan.relation), tuple(quote(name) for name in plan.schema.names))

    def given(self, plan: Given) -> FromItem:
        columns = names_of(len(plan.schema))
        return FromItem(self._given_names[plan.name], columns, WEIGHT, small=True)

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

    def kept_part(self) -> str:
        """Before a part of a statement that is named in many places: it is evaluated once, not wherever it is named."""
        return "MATERIALIZED "

    def unnested(self, query: str, alias: str, array: str) -> str:
        elements = f"unnest({array}) AS {alias}_element, unnest(range(len({array}))) AS {alias}_place"
        return f"({query}) AS {alias}, LATERAL (SELECT {elements}) AS {alias}_elements"

    def repeated(self, query: str, alias: str, weight: str) -> str:
        # Not LATERAL: over a union of joins with large deltas such a statement of DuckDB's has been seen not to end.
        return f"(SELECT *, unnest(range(abs({weight}))) AS {alias}_copy FROM ({query}) AS {alias}_each) AS {alias}"

    def aggregate(self, row: Aggregation) -> Text:
        return row.duckdb

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


@contextmanager
def hearing_interrupts() -> Iterator[None]:
    """Around whatever DuckDB is asked: Ctrl-C is what it is everywhere in Python, also if something else failed in
    consequence of it."""
    known = sys.exception()
    try:
        yield
    except Exception as error:
        if was_pressed(error, known):
            raise KeyboardInterrupt from error
        raise


_DAMAGE: Final = re.compile(
    r"Corrupt|checksum \S+ does not match|Failed to load metadata pointer|replaying WAL|Could not read enough bytes",
    re.I,
)
"""What DuckDB says of files that are not what it wrote. Each of its blocks has a checksum, compared when it is read."""


def is_damage(error: duckdb.Error) -> bool:
    return _DAMAGE.search(str(error)) is not None


def damaged(error: duckdb.Error) -> TidemarkError:
    return TidemarkError(
        "damaged",
        f"the database file is damaged: {_short(str(error).splitlines()[0])}",
        hint="restore it from a backup; tidemark check lists everything that is damaged",
    )


@contextmanager
def translating() -> Iterator[None]:
    """Around what DuckDB is asked."""
    try:
        yield
    except duckdb.Error as error:
        raise translated(error) from error


def translated(error: duckdb.Error) -> TidemarkError:
    """An error that evaluating a plan raised: overflow, division by zero, a value that cannot be cast."""
    if isinstance(error, duckdb.InterruptException):
        return TidemarkError("interrupted", "the statement was interrupted", hint="run it again if it is needed")
    if is_damage(error):
        return damaged(error)
    text = str(error).split("\n")[0]
    code = failure_code(text)
    if code is not None:
        # Guards raise "code: words"; DuckDB's own messages begin with their kind.
        _, guard, words = text.partition(f"{code}: ")
        return TidemarkError(code, words if guard else _short(text))
    trouble = storage_trouble(error)
    if trouble is not None:
        return trouble
    short = _short(text)
    if isinstance(error, duckdb.OutOfMemoryException):
        return TidemarkError("out_of_memory", short, hint="make the transaction smaller or give DuckDB more memory")
    return TidemarkError("evaluation_failed", short)


def _short(text: str) -> str:
    """The message without its kind and without the names of generated columns."""
    return re.sub(r"^[A-Za-z ]*Error: | when casting from source column \S+", "", text)
