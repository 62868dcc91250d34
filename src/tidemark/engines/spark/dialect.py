"""Spark's SQL.

Spark does not know how many rows a join gives, so left alone it shuffles the stored relations of a differential to
meet a handful of rows. Here a join starts at a small source and goes outward step by step, each step a query of its
own that sends what was gathered so far (a few rows) to where the next relation lies:

    (SELECT /*+ BROADCAST(b1) */ * FROM (delta) AS b1 JOIN (stored) AS t2 ON …)

That nests queries, so columns cannot be named by the alias of their source. ``SparkCompiler`` gives every column of
every source a name of its own within the statement (``t2_c0``), which is valid at any depth.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from tidemark.algebra.aggregate_table import Aggregation
from tidemark.algebra.aggregate_texts import Text
from tidemark.algebra.expressions import Literal
from tidemark.algebra.functions import Signature, spark_cast, spark_type
from tidemark.algebra.functions.cast_sql import spark_field, spark_struct
from tidemark.algebra.plans import Given, Plan, Sort, Stored
from tidemark.algebra.types import WEIGHT, Kind, Schema, Type
from tidemark.algebra.windows import Span
from tidemark.engines.spark.routing import Sizes, drives_joins, is_small
from tidemark.engines.sqltext.blocks import FromItem, Item, Select, join_in_order, names_of, next_position
from tidemark.engines.sqltext.compiler import Compiler
from tidemark.engines.sqltext.expressions import Condition, Output, function_call


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A string between quotes; Spark reads backslashes as escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True)
class StoredViews:
    """The temporary views that together hold a stored relation: base files, and entries since with weights."""

    base: str | None
    tail: tuple[str, ...] = ()


class SparkDialect:
    """Compiles for one statement: knows the temporary views of the stored and the given relations."""

    def __init__(self, stored: Mapping[str, StoredViews], given: Mapping[str, str], sizes: Sizes) -> None:
        self._stored = stored
        self._given = given
        self.sizes = sizes

    def type_name(self, type: Type) -> str:
        return spark_type(type)

    def literal(self, literal: Literal) -> str:
        value, name = literal.value, spark_type(literal.type)
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
                return f"X'{value.hex()}'"
            case dt.datetime():
                zone = "NTZ" if value.tzinfo is None else "LTZ"
                return f"TIMESTAMP_{zone} '{value.isoformat(sep=' ')}'"
            case dt.date():
                return f"DATE '{value.isoformat()}'"
            case int() if literal.type.kind is Kind.INT:
                return str(value) if value >= 0 else f"({value})"
            case Decimal():
                return f"CAST('{value:f}' AS {name})"
            case tuple() if literal.type.element is not None:
                elements = (self.literal(Literal(element, literal.type.element)) for element in value)
                return f"CAST(array({', '.join(elements)}) AS {name})"
            case tuple():
                parts = (self.literal(Literal(p, type)) for p, type in zip(value, literal.type.parts, strict=True))
                return f"CAST({spark_struct(tuple(parts), literal.type)} AS {name})"
        return f"CAST('{value!r}' AS {name})"

    def cast(self, text: str, source: Type, target: Type) -> str:
        return spark_cast(text, source, target)

    def call(self, function: str, arguments: tuple[str, ...], signature: Signature) -> str:
        return function_call(function, arguments, signature, "spark")

    def stored(self, plan: Stored) -> FromItem:
        views = self._stored[plan.relation]
        names = names_of(len(plan.schema))
        listed = ", ".join(names)
        if views.base is not None and not views.tail:
            return FromItem(views.base, names)
        parts = [f"SELECT {listed}, {WEIGHT} FROM {view}" for view in views.tail]
        if views.base is not None:
            parts.insert(0, f"SELECT {listed}, CAST(1 AS BIGINT) AS {WEIGHT} FROM {views.base}")
        if not parts:
            return self._nothing(plan.schema)
        return FromItem(f"({' UNION ALL '.join(parts)})", names, WEIGHT)

    def _nothing(self, schema: Schema) -> FromItem:
        names = names_of(len(schema))
        columns = zip(names, schema.types, strict=True)
        shown = ", ".join(f"CAST(NULL AS {spark_type(type)}) AS {name}" for name, type in columns)
        return FromItem(f"(SELECT {shown} WHERE FALSE)", names)

    def given(self, plan: Given) -> FromItem:
        return FromItem(self._given[plan.name], names_of(len(plan.schema)), WEIGHT)

    def all_equal(self, pairs: tuple[tuple[str, str, bool], ...]) -> str:
        return " AND ".join(f"{left} {'<=>' if nulls else '='} {right}" for left, right, nulls in pairs)

    def semi_join(self) -> str:
        return "LEFT SEMI JOIN"

    def from_clause(self, items: tuple[Item, ...], conditions: tuple[Condition, ...]) -> str:
        if len(items) == 1 or not any(item.source.small for item in items):
            return join_in_order(items, conditions)
        return _outward(items, conditions, far=self.sizes.are_few)

    def field(self, text: str, name: str, type: Type) -> str:
        return spark_field(text, name)

    def place(self, text: str, type: Type) -> str:
        """What a value is ordered by. Spark has NULL below all other parts of a value, so that is said apart."""
        if type.fields:
            fields = (spark_field(text, name) for name, _ in type.fields)
            parts = ", ".join(f"{field} IS NULL, {field}" for field in fields)
            return f"CASE WHEN {text} IS NOT NULL THEN struct({parts}) END"
        return text if type.element is None else f"transform({text}, e -> struct(e IS NULL, e))"

    def kept_part(self) -> str:
        """Before a part of a statement that is named in many places. Spark decides itself what it evaluates once."""
        return ""

    def unnested(self, query: str, alias: str, array: str) -> str:
        columns = f"{alias}_place, {alias}_element"
        return f"({query}) AS {alias} LATERAL VIEW posexplode({array}) {alias}_elements AS {columns}"

    def repeated(self, query: str, alias: str, weight: str) -> str:
        copies = f"array_repeat(0, CAST(abs({alias}.{weight}) AS INT))"
        return f"({query}) AS {alias} LATERAL VIEW explode({copies}) {alias}_copies AS {alias}_copy"

    def aggregate(self, row: Aggregation) -> Text:
        return row.spark

    def ignoring_nulls(self, function: str, arguments: str) -> str:
        return f"{function}({arguments}) IGNORE NULLS"

    def moment(self, text: str) -> str:
        return text

    def span(self, span: Span, moment: str, sign: int) -> str:
        return f"CAST('{span}' AS INTERVAL)"

    def numbered(self, number: str, value: str) -> str:
        return f"named_struct('n', {number}, 'v', {value})"


class SparkCompiler(Compiler):
    """The compiler of ``sqltext`` with columns that are named once for the whole statement, and broadcast hints."""

    dialect: SparkDialect

    def _from(self, source: FromItem) -> Select:
        alias = self._alias()
        columns = tuple(f"{alias}_{column}" for column in source.columns)
        shown = [f"{old} AS {new}" for old, new in zip(source.columns, columns, strict=True)]
        weight = None
        if source.weight is not None:
            weight = f"{alias}{WEIGHT}"
            shown.append(f"{source.weight} AS {weight}")
        text = f"(SELECT {', '.join(shown) or '1 AS nothing'} FROM {source.text})"
        outputs = tuple(Output(column, frozenset({alias})) for column in columns)
        item = Item(alias, replace(source, text=text, columns=columns, weight=weight))
        return Select((item,), (), outputs, () if weight is None else (weight,))

    def _source(self, plan: Plan) -> FromItem:
        source = super()._source(plan)
        return replace(source, small=drives_joins(plan, self.dialect.sizes))

    def rows(self, plan: Plan) -> str:
        if isinstance(plan, Sort) and not _counts_are_int(plan):
            plan = replace(plan, input=replace(plan, visible=None), limit=None, offset=0)
        return super().rows(plan)

    def _first_of(self, shown: str, rows: str, keys: str, plan: Sort) -> str:
        """Spark counts with INT in LIMIT and OFFSET. With more than fits, rows are numbered."""
        if _counts_are_int(plan):
            return super()._first_of(shown, rows, keys, plan)
        numbered = f"SELECT {shown}, ROW_NUMBER() OVER (ORDER BY {keys}) AS number FROM {rows}"
        listed = ", ".join(names_of(len(plan.schema))) or "nothing"
        last = "" if plan.limit is None else f" AND number <= {plan.offset + plan.limit}"
        return f"SELECT {listed} FROM ({numbered}) WHERE number > {plan.offset}{last}"

    def _touching(self, touched: Plan) -> str:
        """The touched keys are sent to the input, whatever size Spark thinks they have."""
        query = super()._touching(touched)
        if not is_small(touched, self.dialect.sizes):
            return query
        hinted = self._alias()
        return f"SELECT /*+ BROADCAST({hinted}) */ * FROM ({query}) AS {hinted}"


def _counts_are_int(plan: Sort) -> bool:
    return max(plan.limit or 0, plan.offset) < 2**31


def _outward(items: tuple[Item, ...], conditions: tuple[Condition, ...], *, far: bool) -> str:
    """FROM with one nested query per join, from the first small source outward.

    Each row may meet many in the first join, so only with few rows to begin with is the result sent ``far``, to the
    relations of the later joins too.
    """
    waiting = list(conditions)
    pending = sorted(items, key=lambda item: not item.source.small)
    first = pending.pop(0)
    text, present, gathered = first.source.text, {first.alias}, f"b_{first.alias}"
    while pending:
        item = pending.pop(next_position(pending, present, waiting))
        present.add(item.alias)
        ready = [condition for condition in waiting if condition.aliases and condition.aliases <= present]
        waiting = [condition for condition in waiting if condition not in ready]
        on = " AND ".join(condition.text for condition in ready)
        joined = f"JOIN {item.source.text} AS {item.alias} ON {on}" if on else f"CROSS JOIN {item.source.text}"
        hint = f"/*+ BROADCAST({gathered}) */ " if far or len(present) == 2 else ""
        text = f"(SELECT {hint}* FROM {text} AS {gathered} {joined})"
        gathered = f"b_{item.alias}"
    where = " AND ".join(condition.text for condition in waiting)
    return f"FROM {text} AS {gathered}" + (f" WHERE {where}" if where else "")
