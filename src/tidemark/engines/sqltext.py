"""From a resolved plan to SQL text, for engines that speak SQL.

Selections, projections and inner joins above the same leaves become *one* SELECT block with a flat list of sources,
because optimizers reorder joins within a block and not across nested projections. A union, a grouping or a
restriction to touched keys is a source of its own.

Weights are carried apart from the values: each source either has a weight column or counts each row once, and the
weight of a block's row is the product of its sources' weights. Decimals are never multiplied by weights: sums over
weighted rows repeat each row as often as its weight says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from tidemark.algebra.counting import by_counts
from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, FieldOf, Literal, conjuncts
from tidemark.algebra.failing import can_fail
from tidemark.algebra.frames import Span
from tidemark.algebra.functions import FUNCTIONS, Signature
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Difference,
    Distinct,
    Filter,
    Given,
    Intersection,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Sort,
    SortKey,
    Stored,
    Touched,
    Union,
    Unnest,
    Values,
    Window,
)
from tidemark.algebra.types import WEIGHT, Schema, Type
from tidemark.engines.guarding import Condition as Condition
from tidemark.engines.guarding import guarded
from tidemark.engines.sqlaggregates import SortText, counts_copies, is_additive, unit_aggregate
from tidemark.engines.sqlwindows import WindowText, with_order_columns

LONG_TEXT = 20_000


@dataclass(frozen=True)
class Source:
    """Something that can stand in FROM: a table's name or a query in parentheses, with its columns' SQL names.

    ``weight`` is the name of the weight column, or None when each row counts once. ``small`` sources are given
    deltas, from which a join is best started.
    """

    text: str
    columns: tuple[str, ...]
    weight: str | None = None
    small: bool = False


@dataclass(frozen=True)
class Item:
    """A source in the FROM list of one block, under its alias."""

    alias: str
    source: Source


@dataclass(frozen=True)
class Output:
    text: str
    aliases: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Select:
    """One SELECT block: sources, conditions, outputs; the weight is the product of ``weights`` times ``sign``."""

    items: tuple[Item, ...]
    conditions: tuple[Condition, ...]
    outputs: tuple[Output, ...]
    weights: tuple[str, ...] = ()
    sign: int = 1

    @property
    def is_unit(self) -> bool:
        """Whether each row counts exactly once."""
        return not self.weights and self.sign == 1

    @property
    def weight(self) -> str:
        product = " * ".join(self.weights) or "CAST(1 AS BIGINT)"
        return product if self.sign == 1 else f"-({product})"


class Dialect(Protocol):
    """What differs between the engines' SQL."""

    def quote(self, name: str) -> str: ...
    def type_name(self, type: Type) -> str: ...
    def literal(self, literal: Literal) -> str: ...
    def cast(self, text: str, source: Type, target: Type) -> str: ...
    def call(self, function: str, arguments: tuple[str, ...], signature: Signature) -> str: ...
    def stored(self, plan: Stored) -> Source: ...
    def given(self, plan: Given) -> Source: ...
    def all_equal(self, pairs: tuple[tuple[str, str, bool], ...]) -> str: ...
    def semi_join(self) -> str: ...
    def from_clause(self, items: tuple[Item, ...], conditions: tuple[Condition, ...]) -> str: ...
    def repeated(self, query: str, alias: str, weight: str) -> str: ...
    def string_agg(self, value: str, separator: str, order: str, *, distinct: bool) -> str: ...
    def array_agg(self, value: str, order: tuple[SortText, ...], condition: str | None, *, distinct: bool) -> str: ...
    def single(self, value: str, rows: str) -> str: ...
    def mode(self, value: str, direction: str) -> str: ...
    def element_in_order(self, value: str, place: str, *, descending: bool) -> str: ...
    def ignoring_nulls(self, function: str, arguments: str) -> str: ...
    def numbered(self, number: str, value: str) -> str: ...
    def moment(self, text: str) -> str: ...
    def span(self, span: Span, moment: str, sign: int) -> str: ...
    def field(self, text: str, name: str, type: Type) -> str: ...
    def place(self, text: str, type: Type) -> str: ...
    def unnested(self, query: str, alias: str, array: str) -> str: ...


@dataclass
class Compiler:
    """Compiles one plan; aliases are numbered across the whole statement."""

    dialect: Dialect
    aliases: int = field(default=0)
    named: dict[str, Source] = field(default_factory=dict)
    """What the statement itself names: given relations that are not handed over."""

    # Statements

    def set_of(self, plan: Plan) -> str:
        """The query for the rows of positive net weight; a row may come more than once, for the caller needs a set."""
        names = _names(len(plan.schema))
        blocks = [self._select(part) for part in (plan.parts if isinstance(plan, Union) else (plan,))]
        if not all(block.is_unit for block in blocks):
            blocks = [self._select(Distinct(plan))]
        return " UNION ALL ".join(self._select_text(block, names, None) for block in blocks)

    def weighted(self, plan: Plan) -> str:
        """The statement for the plan's net rows with their weights."""
        names, body = self._weighted_body(plan)
        total = f"CAST(SUM({WEIGHT}) AS BIGINT)"
        listed = ", ".join(names)
        return (
            f"SELECT {listed}, {total} AS {WEIGHT} FROM ({body}) AS {self._alias()} "
            f"GROUP BY {listed} HAVING SUM({WEIGHT}) <> 0"
        )

    def entries(self, plan: Plan) -> str:
        """The statement for the plan's weighted rows as they come, perhaps several for one row."""
        return self._weighted_body(plan)[1]

    def rows(self, plan: Plan) -> str:
        """The statement for the plan's rows, equal rows repeated, in order if the plan sorts."""
        tail, visible = "", len(plan.schema)
        if isinstance(plan, Sort):
            tail, plan = self._sort_tail(plan), plan.input
        select = self._select(plan)
        names = _names(len(plan.schema))
        if select.is_unit:
            body = self._select_text(select, names, None)
            shown = ", ".join(names[:visible])
            return body if not tail else f"SELECT {shown} FROM ({body}) AS {self._alias()}{tail}"
        alias = self._alias()
        text = self.dialect.repeated(self.weighted(plan), alias, WEIGHT)
        return f"SELECT {', '.join(f'{alias}.{name}' for name in names[:visible])} FROM {text}{tail}"

    def _sort_tail(self, plan: Sort) -> str:
        outputs = tuple(Output(name) for name in _names(len(plan.input.schema)))
        shown = [str(self._sort_key(key, outputs)) for key in plan.keys]
        tail = f" ORDER BY {', '.join(shown)}" if shown else ""
        if plan.limit is not None:
            tail += f" LIMIT {plan.limit}"
        return tail + (f" OFFSET {plan.offset}" if plan.offset else "")

    # Plans

    def _weighted_body(self, plan: Plan) -> tuple[tuple[str, ...], str]:
        names = _names(len(plan.schema))
        parts = plan.parts if isinstance(plan, Union) else (plan,)
        return names, " UNION ALL ".join(self._select_text(self._select(part), names, WEIGHT) for part in parts)

    def _select(self, plan: Plan) -> Select:
        """The block of a plan."""
        match plan:
            case Filter(input=source, predicate=predicate):
                return self._with_conditions(self._select(source), predicate)
            case Project(input=source, expressions=expressions):
                return self._project(self._select(source), expressions)
            case Join(left=left, right=right, predicate=predicate):
                return self._with_conditions(_product(self._select(left), self._select(right)), predicate)
            case Negate(input=source):
                block = self._select(source)
                return Select(block.items, block.conditions, block.outputs, block.weights, -block.sign)
            case Repeat(input=source, times=times):
                block = self._select(source)
                weights = (*block.weights, f"({self.expression(times, block.outputs)})")
                return Select(block.items, block.conditions, block.outputs, weights, block.sign)
            case Difference() | Intersection():
                return self._select(by_counts(plan))
        return self._from(self._source(plan))

    def _source(self, plan: Plan) -> Source:
        match plan:
            case Stored():
                return self.dialect.stored(plan)
            case Given(name=name):
                return self.named[name] if name in self.named else self.dialect.given(plan)
            case Values():
                return self._values(plan)
            case Union():
                names, body = self._weighted_body(plan)
                return Source(f"({body})", names, WEIGHT)
            case Distinct(input=source):
                keys = tuple(source.columns())
                return self._group(self._select(source), keys, (), signed=False)
            case Aggregate(input=source, keys=keys, aggregates=aggregates, signed=signed):
                return self._group(self._select(source), keys, aggregates, signed=signed)
            case Touched():
                return self._touched(plan)
            case Window():
                return self._window(plan)
            case Sort():
                return self._first_rows(plan)
            case Unnest():
                return self._unnest(plan)
            case Net(input=source):
                return Source(f"({self.weighted(source)})", _names(len(plan.schema)), WEIGHT)
        raise TypeError(f"an engine cannot evaluate {type(plan).__name__} here")

    def _from(self, source: Source) -> Select:
        alias = self._alias()
        outputs = tuple(Output(f"{alias}.{column}", frozenset({alias})) for column in source.columns)
        weights = () if source.weight is None else (f"{alias}.{source.weight}",)
        return Select((Item(alias, source),), (), outputs, weights)

    def _with_conditions(self, block: Select, predicate: Expression) -> Select:
        added = []
        for part in conjuncts(predicate):
            if isinstance(part, Literal) and part.value is True:
                continue
            output = self._output(part, block.outputs)
            added.append(Condition(output.text, output.aliases, can_fail(part)))
        return Select(block.items, block.conditions + tuple(added), block.outputs, block.weights, block.sign)

    def _project(self, block: Select, expressions: tuple[Expression, ...]) -> Select:
        outputs = tuple(self._output(expression, block.outputs) for expression in expressions)
        if sum(len(output.text) for output in outputs) > LONG_TEXT:
            # Substituting again and again would make the text grow without bound: nest instead.
            names = _names(len(block.outputs))
            inner = self._from(Source(f"({self._select_text(block, names, WEIGHT)})", names, WEIGHT))
            outputs = tuple(self._output(expression, inner.outputs) for expression in expressions)
            block = inner
        return Select(block.items, block.conditions, outputs, block.weights, block.sign)

    def _select_text(self, block: Select, names: tuple[str, ...], weight: str | None) -> str:
        shown = [f"{output.text} AS {name}" for output, name in zip(block.outputs, names, strict=True)]
        if weight is not None:
            shown.append(f"{block.weight} AS {weight}")
        return f"SELECT {', '.join(shown)} {self._from_clause(block)}"

    def _from_clause(self, block: Select) -> str:
        conditions = guarded(block.conditions) if len(block.items) > 1 else block.conditions
        return self.dialect.from_clause(block.items, conditions)

    def _values(self, plan: Values) -> Source:
        names = _names(len(plan.schema))
        if not plan.schema.fields:
            return Source("(SELECT 1 AS nothing)" if plan.rows else "(SELECT 1 AS nothing WHERE FALSE)", ())
        if not plan.rows:
            nulls = (f"{self._typed_null(f.type)} AS {n}" for n, f in zip(names, plan.schema.fields, strict=True))
            return Source(f"(SELECT {', '.join(nulls)} WHERE FALSE)", names)
        rows = (self._values_row(row, plan.schema, names) for row in plan.rows)
        return Source(f"({' UNION ALL '.join(rows)})", names)

    def _values_row(self, row: tuple[object, ...], schema: Schema, names: tuple[str, ...]) -> str:
        cells = zip(row, schema.fields, names, strict=True)
        shown = (f"{self.dialect.literal(Literal(value, f.type))} AS {n}" for value, f, n in cells)  # type: ignore[arg-type]
        return f"SELECT {', '.join(shown)}"

    def _typed_null(self, type: Type) -> str:
        return f"CAST(NULL AS {self.dialect.type_name(type)})"

    def _group(
        self,
        block: Select,
        keys: tuple[Expression, ...],
        aggregates: tuple[AggregateCall, ...],
        *,
        signed: bool,
    ) -> Source:
        """A grouping as a query in parentheses. Rows out count once each."""
        names = _names(len(keys) + len(aggregates))
        if block.weights and not all(is_additive(call) for call in aggregates):
            block, keys, aggregates = self._netted(block, keys, aggregates)
        if block.weights and any(counts_copies(call) for call in aggregates):
            block = self._repeated(block)
        key_texts = [self._output(key, block.outputs).text for key in keys]
        texts = key_texts + [self._aggregate(call, block, signed=signed) for call in aggregates]
        shown = ", ".join(f"{text} AS {name}" for text, name in zip(texts, names, strict=True)) or "COUNT(*) AS nothing"
        query = f"SELECT {shown} {self._from_clause(block)}"
        if key_texts:
            query += f" GROUP BY {', '.join(str(i + 1) for i in range(len(key_texts)))}"
            if not signed and not block.is_unit:
                query += f" HAVING SUM({block.weight}) > 0"
        return Source(f"({query})", names)

    def _netted(
        self, block: Select, keys: tuple[Expression, ...], aggregates: tuple[AggregateCall, ...]
    ) -> tuple[Select, tuple[Expression, ...], tuple[AggregateCall, ...]]:
        """What a grouping reads, as rows of positive net weight; keys and calls in terms of them."""
        wanted = tuple(dict.fromkeys((*keys, *(part for call in aggregates for part in call.expressions()))))
        shown = tuple(self._output(expression, block.outputs) for expression in wanted)
        rows = self._from(self._present(replace(block, outputs=shown)))

        def column(expression: Expression) -> Column:
            return Column(wanted.index(expression), "", expression.type, expression.nullable)

        calls = tuple(call.with_expressions(tuple(map(column, call.expressions()))) for call in aggregates)
        return rows, tuple(map(column, keys)), calls

    def _present(self, block: Select) -> Source:
        """The rows of positive net weight, each once, with it."""
        names = _names(len(block.outputs))
        body = self._select_text(block, names, WEIGHT)
        listed = "".join(f"{name}, " for name in names)
        grouped = f" GROUP BY {', '.join(names)}" if names else ""
        query = (
            f"SELECT {listed}CAST(SUM({WEIGHT}) AS BIGINT) AS {WEIGHT} FROM ({body}) AS {self._alias()}{grouped} "
            f"HAVING SUM({WEIGHT}) > 0"
        )
        return Source(f"({query})", names, WEIGHT)

    def _repeated(self, block: Select) -> Select:
        """Each row as often as its weight says, with weight +1 or −1: something is to be summed."""
        names, alias = _names(len(block.outputs)), self._alias()
        query = self._select_text(block, names, WEIGHT)
        source = Source(self.dialect.repeated(query, alias, WEIGHT), names, WEIGHT)
        outputs = tuple(Output(f"{alias}.{name}", frozenset({alias})) for name in names)
        return Select((Item("", source),), (), outputs, (f"SIGN({alias}.{WEIGHT})",))

    def _unit_rows(self, plan: Plan) -> Source:
        """The rows of a relation, equal ones repeated, without weights."""
        block, names = self._select(plan), _names(len(plan.schema))
        if block.is_unit:
            return Source(f"({self._select_text(block, names, None)})", names)
        alias = self._alias()
        present = self._from(self._present(block))
        copies = self.dialect.repeated(self._select_text(present, names, WEIGHT), alias, WEIGHT)
        shown = ", ".join(f"{alias}.{name} AS {name}" for name in names) or "1 AS nothing"
        return Source(f"(SELECT {shown} FROM {copies})", names)

    def _aggregate(self, call: AggregateCall, block: Select, *, signed: bool) -> str:
        if is_additive(call):
            return self._additive(call, block, signed=signed)
        texts = tuple(self._output(expression, block.outputs).text for expression in call.expressions())
        return unit_aggregate(call, texts, self.dialect, None if block.is_unit else block.weight)

    def _additive(self, call: AggregateCall, block: Select, *, signed: bool) -> str:
        if call.argument is None:
            text = "COUNT(*)" if block.is_unit else f"COALESCE(SUM({block.weight}), 0)"
            return f"CAST({text} AS BIGINT)"
        value = self._output(call.argument, block.outputs).text
        if call.function is AggregateFunction.COUNT:
            counted = f"SUM(CASE WHEN {value} IS NULL THEN 0 ELSE {block.weight} END)"
            text = f"COUNT({value})" if block.is_unit else f"COALESCE({counted}, 0)"
            return f"CAST({text} AS BIGINT)"
        type_name = self.dialect.type_name(call.type)
        wide = f"CAST({value} AS {type_name})"
        if block.is_unit:
            return f"CAST(SUM({wide}) AS {type_name})"
        total = f"CAST(SUM(CASE WHEN {block.weight} > 0 THEN {wide} ELSE -{wide} END) AS {type_name})"
        if signed:
            return total
        # Values that cancel leave no value: their sum is NULL, not 0.
        values = f"SUM(CASE WHEN {value} IS NULL THEN 0 ELSE {block.weight} END)"
        return f"CASE WHEN {values} > 0 THEN {total} END"

    def _window(self, plan: Window) -> Source:
        """The rows with the window's columns behind them; what the calls need to know of each row is computed below."""
        width, names = len(plan.input.schema), _names(len(plan.schema))
        plan = with_order_columns(plan)
        rows = self._unit_rows(plan.input)
        text, outputs = self._window_text(plan, rows)
        helpers = text.helpers(plan.calls)
        if helpers:
            own = [f"{output.text} AS {column}" for output, column in zip(outputs, rows.columns, strict=True)]
            shown = own + [f"{helper} AS {name}" for name, helper in helpers.items()]
            rows = replace(rows, text=f"(SELECT {', '.join(shown)} FROM {rows.text} AS {text.rows})")
            text, outputs = self._window_text(plan, rows)
        shown = [f"{output.text} AS {name}" for output, name in zip(outputs[:width], names[:width], strict=True)]
        for call, name in zip(plan.calls, names[width:], strict=True):
            arguments = tuple(self.expression(argument, outputs) for argument in call.arguments)
            shown.append(f"{text.call(call, arguments)} AS {name}")
        return Source(f"(SELECT {', '.join(shown)} FROM {rows.text} AS {text.rows})", names)

    def _window_text(self, plan: Window, rows: Source) -> tuple[WindowText, tuple[Output, ...]]:
        """The texts of the window over the rows under an alias of their own, and those of their columns."""
        alias = self._alias()
        outputs = tuple(Output(f"{alias}.{column}") for column in rows.columns)
        return WindowText(
            self.dialect,
            tuple(self.expression(part, outputs) for part in plan.partition),
            tuple(self._sort_key(key, outputs) for key in plan.order),
            tuple(key.expression.type for key in plan.order),
            self._ties(outputs, plan.input.schema),
            alias,
        ), outputs

    def _first_rows(self, plan: Sort) -> Source:
        """The first rows as a bag; ties are broken by all columns."""
        rows, alias = self._unit_rows(plan.input), self._alias()
        outputs = tuple(Output(f"{alias}.{column}") for column in rows.columns)
        keys = [str(self._sort_key(key, outputs)) for key in plan.keys]
        keys += map(str, self._ties(outputs, plan.input.schema))
        names = _names(len(plan.schema))
        shown = ", ".join(f"{output.text} AS {name}" for output, name in zip(outputs, names, strict=False))
        limit = "" if plan.limit is None else f" LIMIT {plan.limit}"
        offset = f" OFFSET {plan.offset}" if plan.offset else ""
        query = f"SELECT {shown or '1 AS nothing'} FROM {rows.text} AS {alias} ORDER BY {', '.join(keys)}"
        return Source(f"({query}{limit}{offset})", names)

    def _ties(self, outputs: tuple[Output, ...], schema: Schema) -> tuple[SortText, ...]:
        """All columns, in ascending order: it makes any order total."""
        return tuple(SortText(self.dialect.place(o.text, f.type)) for o, f in zip(outputs, schema, strict=True))

    def _sort_key(self, key: SortKey, outputs: tuple[Output, ...]) -> SortText:
        return SortText(self.expression(key.expression, outputs), key.descending, key.nulls_first)

    def _touched(self, plan: Touched) -> Source:
        names = _names(len(plan.schema))
        block = self._select(plan.input)
        weight = None if block.is_unit else WEIGHT
        inner = self._select_text(block, names, weight)
        left, right = self._alias(), self._alias()
        equal = self.dialect.all_equal(
            tuple(
                (f"{left}.{names[key]}", f"{right}.c{position}", _both_nullable(plan, key, position))
                for position, key in enumerate(plan.keys)
            )
        )
        shown = [f"{left}.{name} AS {name}" for name in (*names, *([WEIGHT] if weight else []))]
        query = (
            f"SELECT {', '.join(shown)} FROM ({inner}) AS {left} {self.dialect.semi_join()} "
            f"({self._touching(plan.touched)}) AS {right} ON {equal or 'TRUE'}"
        )
        return Source(f"({query})", names, weight)

    def _unnest(self, plan: Unnest) -> Source:
        """The input beside the elements of its array; the dialect names them and their places, which count from 0."""
        block, names = self._select(plan.input), _names(len(plan.schema))
        weight = None if block.is_unit else WEIGHT
        width, alias = len(plan.input.schema), self._alias()
        own = tuple(Output(f"{alias}.{name}") for name in names[:width])
        # A block without columns must still select something.
        query = self._select_text(block, names[:width], weight or (None if width else WEIGHT))
        text = self.dialect.unnested(query, alias, self.expression(plan.array, own))
        added = [f"{alias}_element", f"CAST({alias}_place + 1 AS BIGINT)"][: 1 + plan.places]
        values = [*(output.text for output in own), *added]
        shown = [f"{value} AS {name}" for value, name in zip(values, names, strict=True)]
        shown += [f"{alias}.{WEIGHT} AS {WEIGHT}"] if weight else []
        return Source(f"(SELECT {', '.join(shown)} FROM {text})", names, weight)

    def _touching(self, touched: Plan) -> str:
        """The query of the touched keys."""
        return self.entries(touched)

    # Expressions

    def expression(self, expression: Expression, outputs: tuple[Output, ...]) -> str:
        return self._output(expression, outputs).text

    def _output(self, expression: Expression, outputs: tuple[Output, ...]) -> Output:
        match expression:
            case Column(index=index):
                return outputs[index]
            case Literal():
                return Output(self.dialect.literal(expression))
            case Cast(argument=argument, type=target):
                inner = self._output(argument, outputs)
                return Output(self.dialect.cast(inner.text, argument.type, target), inner.aliases)
            case FieldOf(argument=argument, name=name):
                whole = self._output(argument, outputs)
                return Output(self.dialect.field(whole.text, name, expression.type), whole.aliases)
            case Case(branches=branches, default=default):
                parts = [(self._output(c, outputs), self._output(v, outputs)) for c, v in branches]
                last = self._output(default, outputs)
                whens = " ".join(f"WHEN {c.text} THEN {v.text}" for c, v in parts)
                aliases = _together([last, *(part for pair in parts for part in pair)])
                return Output(f"CASE {whens} ELSE {last.text} END", aliases)
            case Call(function=function, arguments=arguments, type=result):
                inner_parts = [self._output(argument, outputs) for argument in arguments]
                signature = Signature(tuple(argument.type for argument in arguments), result)
                texts = tuple(part.text for part in inner_parts)
                return Output(self.dialect.call(function, texts, signature), _together(inner_parts))
        raise TypeError(f"not an expression: {expression!r}")

    def _alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"


def join_in_order(items: tuple[Item, ...], conditions: tuple[Condition, ...]) -> str:
    """FROM with explicit joins, small sources first, then whatever shares a condition with what is there already."""
    pending, waiting = list(items), list(conditions)
    pending.sort(key=lambda item: not item.source.small)
    first = pending.pop(0)
    text, present = f"FROM {_item_text(first)}", {first.alias}
    while pending:
        position = next((i for i, item in enumerate(pending) if _connected(item, present, waiting)), 0)
        item = pending.pop(position)
        present.add(item.alias)
        ready = [condition for condition in waiting if condition.aliases <= present and condition.aliases]
        waiting = [condition for condition in waiting if condition not in ready]
        on = " AND ".join(condition.text for condition in ready)
        text += f" JOIN {_item_text(item)} ON {on}" if on else f" CROSS JOIN {_item_text(item)}"
    if waiting:
        text += " WHERE " + " AND ".join(condition.text for condition in waiting)
    return text


def function_call(function: str, arguments: tuple[str, ...], signature: Signature, engine: str) -> str:
    """The SQL of a call, from the function table."""
    row = FUNCTIONS[function]
    template = row.duckdb if engine == "duckdb" else row.spark
    return template(arguments, signature)


def _connected(item: Item, present: set[str], waiting: Iterable[Condition]) -> bool:
    return any(
        item.alias in condition.aliases and condition.aliases - {item.alias} <= present and len(condition.aliases) > 1
        for condition in waiting
    )


def _item_text(item: Item) -> str:
    return f"{item.source.text} AS {item.alias}" if item.alias else item.source.text


def _product(left: Select, right: Select) -> Select:
    return Select(
        left.items + right.items,
        left.conditions + right.conditions,
        left.outputs + right.outputs,
        left.weights + right.weights,
        left.sign * right.sign,
    )


def _together(parts: Iterable[Output]) -> frozenset[str]:
    return frozenset(alias for part in parts for alias in part.aliases)


def _both_nullable(plan: Touched, key: int, position: int) -> bool:
    """Whether NULL has to match NULL: if one side holds none, '=' says the same."""
    return plan.input.schema[key].nullable and plan.touched.schema[position].nullable


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"c{i}" for i in range(count))
