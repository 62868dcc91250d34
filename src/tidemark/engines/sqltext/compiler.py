"""From a resolved plan to SQL text, for engines that speak SQL.

Selections, projections and inner joins above the same leaves become *one* SELECT block with a flat list of sources,
because optimizers reorder joins within a block and not across nested projections. A union, a grouping or a
restriction to touched keys is a source of its own.

Weights are carried apart from the values: each source either has a weight column or counts each row once, and the
weight of a block's row is the product of its sources' weights. Decimals are never multiplied by weights: sums over
weighted rows repeat each row as often as its weight says.

Recursion as one statement.

    WITH RECURSIVE part AS MATERIALIZED (…), rows(c0, …) AS (first UNION step) SELECT * FROM rows

UNION keeps a set, and gives to the next round the rows that came last, NULL the same as NULL. The parts that the step
reads are computed once, not in every round; one that is a stored relation may be read where it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from tidemark.algebra.aggregate_texts import SortText
from tidemark.algebra.cache import is_tangled, repeated_parts
from tidemark.algebra.expressions import Column, Expression, Literal
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
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
    walk,
)
from tidemark.algebra.set_operations import by_counts
from tidemark.algebra.types import WEIGHT, Schema, Type
from tidemark.engines.engine import Iteration
from tidemark.engines.sqltext.aggregates import (
    AggregateDialect,
    WindowDialect,
    WindowText,
    additive,
    counts_copies,
    unit_aggregate,
    with_order_columns,
)
from tidemark.engines.sqltext.blocks import BlockDialect, BlockWriter, FromItem, Select, names_of, product
from tidemark.engines.sqltext.expressions import Output


class Dialect(AggregateDialect, WindowDialect, BlockDialect, Protocol):
    """What differs between the engines' SQL."""

    def stored(self, plan: Stored) -> FromItem: ...
    def given(self, plan: Given) -> FromItem: ...
    def all_equal(self, pairs: tuple[tuple[str, str, bool], ...]) -> str: ...
    def semi_join(self) -> str: ...
    def place(self, text: str, type: Type) -> str: ...
    def unnested(self, query: str, alias: str, array: str) -> str: ...
    def kept_part(self) -> str: ...


@dataclass
class Compiler(BlockWriter):
    """Compiles one plan."""

    dialect: Dialect
    named: dict[str, FromItem] = field(default_factory=dict)
    """What the statement itself names: given relations that are not handed over."""
    _parts: dict[Plan, FromItem] = field(default_factory=dict)
    """What is written once in front of a statement, because it stands in many places."""
    _is_begun: bool = False

    # Statements

    def _stated(self, plan: Plan, write: Callable[[Plan], str]) -> str:
        """A statement; parts of its plan that stand in many places are written once and then named."""
        is_begun, self._is_begun = self._is_begun, True
        if is_begun or not is_tangled(plan):
            return write(plan)
        queries = []
        for number, part in enumerate(repeated_parts(plan)):
            source, query = self._part(part, f"part{number}")
            queries.append(f"{source.text} AS {self.dialect.kept_part()}({query})")
            self._parts[part] = source
        return f"WITH {', '.join(queries)} {write(plan)}"

    def _part(self, plan: Plan, name: str) -> tuple[FromItem, str]:
        names = names_of(len(plan.schema))
        if isinstance(plan, Union):
            return FromItem(name, names, WEIGHT), self._weighted_body(plan)[1]
        block = self._select(plan)
        weight = None if block.is_unit and names else WEIGHT
        return FromItem(name, names, weight), self._select_text(block, names, weight)

    def set_of(self, plan: Plan) -> str:
        """The query for the rows of positive net weight; a row may come more than once, for the caller needs a set."""
        self._is_begun = True  # what is named here would have to be named outside
        names = names_of(len(plan.schema))
        blocks = [self._select(part) for part in (plan.parts if isinstance(plan, Union) else (plan,))]
        if not all(block.is_unit for block in blocks):
            blocks = [self._select(Distinct(plan))]
        return " UNION ALL ".join(self._select_text(block, names, None) for block in blocks)

    def weighted(self, plan: Plan) -> str:
        """The statement for the plan's net rows with their weights."""
        return self._stated(plan, self._weighted)

    def _weighted(self, plan: Plan) -> str:
        names, body = self._weighted_body(plan)
        total = f"CAST(SUM({WEIGHT}) AS BIGINT)"
        listed = ", ".join(names)
        return (
            f"SELECT {listed}, {total} AS {WEIGHT} FROM ({body}) AS {self._alias()} "
            f"GROUP BY {listed} HAVING SUM({WEIGHT}) <> 0"
        )

    def entries(self, plan: Plan) -> str:
        """The statement for the plan's weighted rows as they come, perhaps several for one row."""
        return self._stated(plan, lambda whole: self._weighted_body(whole)[1])

    def rows(self, plan: Plan) -> str:
        """The statement for the plan's rows, equal rows repeated, in order if the plan sorts."""
        return self._stated(plan, self._rows)

    def _rows(self, plan: Plan) -> str:
        tail, visible = "", len(plan.schema)
        if isinstance(plan, Sort):
            tail, plan = self._sort_tail(plan), plan.input
        select = self._select(plan)
        names = names_of(len(plan.schema))
        if select.is_unit:
            body = self._select_text(select, names, None)
            shown = ", ".join(names[:visible])
            return body if not tail else f"SELECT {shown} FROM ({body}) AS {self._alias()}{tail}"
        alias = self._alias()
        text = self.dialect.repeated(self.weighted(plan), alias, WEIGHT)
        return f"SELECT {', '.join(f'{alias}.{name}' for name in names[:visible])} FROM {text}{tail}"

    def _sort_tail(self, plan: Sort) -> str:
        outputs = tuple(Output(name) for name in names_of(len(plan.input.schema)))
        shown = self._order_of(plan, outputs)
        tail = f" ORDER BY {', '.join(shown)}" if shown else ""
        if plan.limit is not None:
            tail += f" LIMIT {plan.limit}"
        return tail + (f" OFFSET {plan.offset}" if plan.offset else "")

    # Plans

    def _weighted_body(self, plan: Plan) -> tuple[tuple[str, ...], str]:
        names = names_of(len(plan.schema))
        parts = plan.parts if isinstance(plan, Union) else (plan,)
        return names, " UNION ALL ".join(self._select_text(self._select(part), names, WEIGHT) for part in parts)

    def _select(self, plan: Plan) -> Select:
        """The block of a plan."""
        if plan in self._parts:
            return self._from(self._parts[plan])
        match plan:
            case Filter(input=source, predicate=predicate):
                return self._with_conditions(self._select(source), predicate)
            case Project(input=source, expressions=expressions):
                return self._project(self._select(source), expressions)
            case Join(left=left, right=right, predicate=predicate):
                return self._with_conditions(product(self._select(left), self._select(right)), predicate)
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

    def _source(self, plan: Plan) -> FromItem:
        match plan:
            case Stored():
                return self.dialect.stored(plan)
            case Given(name=name):
                return self.named[name] if name in self.named else self.dialect.given(plan)
            case Values():
                return self._values(plan)
            case Union():
                names, body = self._weighted_body(plan)
                return FromItem(f"({body})", names, WEIGHT)
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
                return FromItem(f"({self.weighted(source)})", names_of(len(plan.schema)), WEIGHT)
        raise TypeError(f"an engine cannot evaluate {type(plan).__name__} here")

    def _values(self, plan: Values) -> FromItem:
        names = names_of(len(plan.schema))
        if not plan.schema.fields:
            return FromItem("(SELECT 1 AS nothing)" if plan.rows else "(SELECT 1 AS nothing WHERE FALSE)", ())
        if not plan.rows:
            nulls = (f"{self._typed_null(f.type)} AS {n}" for n, f in zip(names, plan.schema.fields, strict=True))
            return FromItem(f"(SELECT {', '.join(nulls)} WHERE FALSE)", names)
        rows = (self._values_row(row, plan.schema, names) for row in plan.rows)
        return FromItem(f"({' UNION ALL '.join(rows)})", names)

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
    ) -> FromItem:
        """A grouping as a query in parentheses. Rows out count once each."""
        names = names_of(len(keys) + len(aggregates))
        if block.weights and not all(call.adds_up for call in aggregates):
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
        return FromItem(f"({query})", names)

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

    def _unit_rows(self, plan: Plan) -> FromItem:
        """The rows of a relation, equal ones repeated, without weights."""
        block, names = self._select(plan), names_of(len(plan.schema))
        if block.is_unit:
            return FromItem(f"({self._select_text(block, names, None)})", names)
        alias = self._alias()
        present = self._from(self._present(block))
        copies = self.dialect.repeated(self._select_text(present, names, WEIGHT), alias, WEIGHT)
        shown = ", ".join(f"{alias}.{name} AS {name}" for name in names) or "1 AS nothing"
        return FromItem(f"(SELECT {shown} FROM {copies})", names)

    def _aggregate(self, call: AggregateCall, block: Select, *, signed: bool) -> str:
        texts = tuple(self._output(expression, block.outputs).text for expression in call.expressions())
        weight = None if block.is_unit else block.weight
        if call.adds_up:
            return additive(call, texts, self.dialect, weight, signed=signed)
        return unit_aggregate(call, texts, self.dialect, weight)

    def _window(self, plan: Window) -> FromItem:
        """The rows with the window's columns behind them; what the calls need to know of each row is computed below."""
        width, names = len(plan.input.schema), names_of(len(plan.schema))
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
        return FromItem(f"(SELECT {', '.join(shown)} FROM {rows.text} AS {text.rows})", names)

    def _window_text(self, plan: Window, rows: FromItem) -> tuple[WindowText, tuple[Output, ...]]:
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

    def _first_rows(self, plan: Sort) -> FromItem:
        """The first rows as a bag."""
        if not plan.leaves_out:
            return self._unit_rows(Project(plan.input, plan.schema.names, plan.input.columns()[: len(plan.schema)]))
        rows, alias = self._unit_rows(plan.input), self._alias()
        outputs = tuple(Output(f"{alias}.{column}") for column in rows.columns)
        keys = ", ".join(self._order_of(plan, outputs)) or "1"
        names = names_of(len(plan.schema))
        shown = ", ".join(f"{output.text} AS {name}" for output, name in zip(outputs, names, strict=False))
        query = self._first_of(shown or "1 AS nothing", f"{rows.text} AS {alias}", keys, plan)
        return FromItem(f"({query})", names)

    def _order_of(self, plan: Sort, outputs: tuple[Output, ...]) -> list[str]:
        """The keys of the order that a plan asks for; a total one if it leaves rows out."""
        asked = [str(self._sort_key(key, outputs)) for key in plan.keys]
        if not plan.leaves_out:
            return asked
        ties = (key.expression for key in plan.total.keys[len(plan.keys) :])
        return asked + [str(SortText(self.dialect.place(self.expression(tie, outputs), tie.type))) for tie in ties]

    def _first_of(self, shown: str, rows: str, keys: str, plan: Sort) -> str:
        """The query for the plan's rows among those given, in the order of the keys."""
        limit = "" if plan.limit is None else f" LIMIT {plan.limit}"
        offset = f" OFFSET {plan.offset}" if plan.offset else ""
        return f"SELECT {shown} FROM {rows} ORDER BY {keys}{limit}{offset}"

    def _ties(self, outputs: tuple[Output, ...], schema: Schema) -> tuple[SortText, ...]:
        """All columns, in ascending order: it makes any order total."""
        return tuple(SortText(self.dialect.place(o.text, f.type)) for o, f in zip(outputs, schema, strict=True))

    def _sort_key(self, key: SortKey, outputs: tuple[Output, ...]) -> SortText:
        return SortText(self.expression(key.expression, outputs), key.descending, key.nulls_first)

    def _touched(self, plan: Touched) -> FromItem:
        names = names_of(len(plan.schema))
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
        return FromItem(f"({query})", names, weight)

    def _unnest(self, plan: Unnest) -> FromItem:
        """The input beside the elements of its array; the dialect names them and their places, which count from 0."""
        block, names = self._select(plan.input), names_of(len(plan.schema))
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
        return FromItem(f"(SELECT {', '.join(shown)} FROM {text})", names, weight)

    def _touching(self, touched: Plan) -> str:
        """The query of the touched keys."""
        return self.entries(touched)


def _both_nullable(plan: Touched, key: int, position: int) -> bool:
    """Whether NULL has to match NULL: if one side holds none, '=' says the same."""
    return plan.input.schema[key].nullable and plan.touched.schema[position].nullable


_ROWS = "iterated"


def iteration_text(compiler: Compiler, iteration: Iteration, *, in_place: bool) -> str:
    """The statement for the rows of the set, each with weight one. ``in_place``: stored relations are not copied."""
    queries = []
    again = {part.name for part in walk(iteration.step) if isinstance(part, Given)}
    for number, (name, part) in enumerate(iteration.parts):
        if in_place and isinstance(part, Stored):
            compiler.named[name] = compiler.dialect.stored(part)
            continue
        source = FromItem(f"part{number}", names_of(len(part.schema)))
        kept = "MATERIALIZED " if name in again else ""
        queries.append(f"{source.text}({', '.join(source.columns)}) AS {kept}({compiler.set_of(part)})")
        compiler.named[name] = source
    columns = names_of(len(iteration.first.schema))
    first = compiler.set_of(iteration.first)
    compiler.named[iteration.last] = FromItem(_ROWS, columns, small=True)
    listed = ", ".join(columns)
    queries.append(f"{_ROWS}({listed}) AS (({first}) UNION ({compiler.set_of(iteration.step)}))")
    shown = f"SELECT {listed}, CAST(1 AS BIGINT) AS {WEIGHT} FROM {_ROWS} LIMIT {iteration.most_rows + 1}"
    return f"WITH RECURSIVE {', '.join(queries)} {shown}"


def given_to(iteration: Iteration, given: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Of the given relations those that the plans read, as far as they are there."""
    return {name: given[name] for name in iteration.given if name in given}
