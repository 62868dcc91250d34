"""The SQL of aggregates: over rows that are there, and, where that is possible, over signed entries.

The SQL of window functions over rows that are there.

Spark has no frames of GROUPS, and no engine says which row of a place is its first. So rows are numbered where a call
needs it, in a query below: ``place`` counts the places in order, and GROUPS is a RANGE of it; ``number`` counts the
rows in total order, and the first row of a frame is that of the smallest number, with which its value is taken.

DuckDB takes no expression that can fail in the order of a window, so such a key is a column of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

from tidemark.algebra.aggregate_table import Aggregation
from tidemark.algebra.aggregate_texts import SortText, Text, Written
from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.expressions import Literal
from tidemark.algebra.plans import Project, Window
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import BIGINT, DOUBLE, TIMESTAMP, VARCHAR, Type
from tidemark.algebra.windows import WHOLE_FRAME, Bound, Frame, Span, Unit, WindowCall, WindowFunction


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


# Windows


PLACE: Final = "place"
NUMBER: Final = "number"


class WindowDialect(Protocol):
    """What differs between the engines' windows."""

    def type_name(self, type: Type) -> str: ...
    def literal(self, literal: Literal) -> str: ...
    def cast(self, text: str, source: Type, target: Type) -> str: ...
    def ignoring_nulls(self, function: str, arguments: str) -> str: ...
    def numbered(self, number: str, value: str) -> str: ...
    def moment(self, text: str) -> str: ...
    def span(self, span: Span, moment: str, sign: int) -> str: ...


@dataclass(frozen=True)
class WindowText:
    """The texts of a window: what it is partitioned and ordered by, all columns to break ties, and where the rows are
    numbered. ``types`` are those of the order's keys."""

    dialect: WindowDialect
    partition: tuple[str, ...]
    order: tuple[SortText, ...]
    types: tuple[Type, ...]
    ties: tuple[SortText, ...]
    rows: str

    def helpers(self, calls: tuple[WindowCall, ...]) -> dict[str, str]:
        """The columns that have to be computed below, by name."""
        result = {}
        if any(call.frame is not None and call.frame.unit is Unit.GROUPS for call in calls):
            result[PLACE] = f"CAST(DENSE_RANK() OVER ({self._over(self.order)}) AS BIGINT)"
        if any(call.is_end_of_places for call in calls):
            result[NUMBER] = f"CAST(ROW_NUMBER() OVER ({self._over(self.order + self.ties)}) AS BIGINT)"
        return result

    def call(self, call: WindowCall, texts: tuple[str, ...]) -> str:
        """The call over the texts of its arguments, cast to its type."""
        type_name = self.dialect.type_name(call.type)
        return f"CAST({self._value(call, texts, type_name)} AS {type_name})"

    def _value(self, call: WindowCall, texts: tuple[str, ...], type_name: str) -> str:
        name, over = call.function.value, self._window(call)
        if call.is_end_of_places:
            pair = self.dialect.numbered(f"{self.rows}.{NUMBER}", texts[0])
            if call.ignores_nulls:
                pair = f"CASE WHEN {texts[0]} IS NOT NULL THEN {pair} END"
            extreme = "MIN" if call.function is WindowFunction.FIRST_VALUE else "MAX"
            return f"({extreme}({pair}) OVER ({over})).v"
        if call.ignores_nulls:
            return f"{self.dialect.ignoring_nulls(name, ', '.join(texts))} OVER ({over})"
        if isinstance(call.function, AggregateFunction):
            of_window = call.function.row.over
            assert of_window is not None, f"{name} does not stand over a window"
            return of_window(Written(name, "".join(texts), type_name), over)
        return f"{name}({', '.join(texts)}) OVER ({over})"

    def _window(self, call: WindowCall) -> str:
        frame, order = call.frame, self.order
        if frame is not None and frame.unit is Unit.GROUPS:
            order, frame = (SortText(f"{self.rows}.{PLACE}"),), replace(frame, unit=Unit.RANGE, measure=BIGINT)
        elif frame is not None and frame.measure is not None:
            key = self._measured(frame.measure)
            order = (replace(key, text=self.dialect.moment(key.text)) if frame.measure == TIMESTAMP else key,)
        elif call.tells_ties_apart and not call.is_end_of_places:
            order = self.order + self.ties
        # A frame of anything but the whole partition means something only where there is an order.
        written = frame is not None and (order or frame == WHOLE_FRAME)
        return self._over(order) + (f" {self._frame(frame)}" if frame is not None and written else "")

    def _measured(self, measure: Type) -> SortText:
        """The one key of the order, in the type in which distances are taken."""
        (key,), (type,) = self.order, self.types
        return replace(key, text=self.dialect.cast(key.text, type, measure))

    def _over(self, order: tuple[SortText, ...]) -> str:
        clauses = [f"PARTITION BY {', '.join(self.partition)}"] if self.partition else []
        clauses += [f"ORDER BY {', '.join(map(str, order))}"] if order else []
        return " ".join(clauses)

    def _frame(self, frame: Frame) -> str:
        start, end = (self._bound(bound, frame.measure) for bound in (frame.start, frame.end))
        return f"{frame.unit.value} BETWEEN {start} AND {end}"

    def _bound(self, bound: Bound, measure: Type | None) -> str:
        if measure is None or bound.offset is None:
            return str(bound)
        if isinstance(bound.offset, Span):
            key = self._measured(measure)
            sign = -1 if bound.preceding != key.descending else 1
            return bound.written(self.dialect.span(bound.offset, key.text, sign))
        return bound.written(self.dialect.literal(Literal(bound.offset, measure)))


def with_order_columns(plan: Window) -> Window:
    """The window over rows that have each key of the order that can fail as a further column."""
    failing = tuple(key.expression for key in plan.order if can_fail(key.expression))
    if not failing:
        return plan
    width = len(plan.input.schema)
    names = plan.input.schema.names + tuple(f"key{i}" for i in range(len(failing)))
    rows = Project(plan.input, names, plan.input.columns() + failing)
    places = {key: rows.column(width + i) for i, key in enumerate(failing)}
    order = tuple(replace(key, expression=places.get(key.expression, key.expression)) for key in plan.order)
    return replace(plan, input=rows, order=order)
