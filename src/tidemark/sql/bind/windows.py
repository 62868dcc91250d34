"""Binding OVER: window functions become columns of a Window below the expressions that use them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sqlglot import exp

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction, SortKey
from tidemark.algebra.coerce import coerce
from tidemark.algebra.expressions import Call, Case, Column, Expression, Literal, transform, walk
from tidemark.algebra.plans import Plan, Project, Window
from tidemark.algebra.types import BIGINT, BOOLEAN, INT, Type
from tidemark.algebra.windows import CURRENT, FROM_START, WHOLE_FRAME, Frame, Unit, WindowCall, WindowFunction
from tidemark.sql.bind.aggregates import bind_aggregate
from tidemark.sql.bind.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.bind.frames import bind_frame, whole_number
from tidemark.sql.bind.syntax import is_aggregate, refuse_windows
from tidemark.sql.functions.arrays import refuse_array
from tidemark.sql.parse.text import fold

_RANKS: Final[dict[type[exp.Expr], WindowFunction]] = {
    exp.RowNumber: WindowFunction.ROW_NUMBER,
    exp.Rank: WindowFunction.RANK,
    exp.DenseRank: WindowFunction.DENSE_RANK,
    exp.PercentRank: WindowFunction.PERCENT_RANK,
    exp.CumeDist: WindowFunction.CUME_DIST,
}
_SEES_NULLS: Final = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)


@dataclass(frozen=True)
class Over(Expression):
    """A window function inside an expression, while a query is being bound; ``attached`` turns it into a column."""

    call: WindowCall
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]

    @property
    def type(self) -> Type:  # type: ignore[override]
        return self.call.type

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        return self.call.nullable

    def children(self) -> tuple[Expression, ...]:
        return (*self.call.arguments, *self.partition, *(key.expression for key in self.order))

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        first, second = len(self.call.arguments), len(self.call.arguments) + len(self.partition)
        keys = zip(self.order, children[second:], strict=True)
        return Over(
            self.call.with_arguments(children[:first]),
            children[first:second],
            tuple(replace(key, expression=expression) for key, expression in keys),
        )


Windows: TypeAlias = tuple[exp.Expr, ...]
"""The named windows of a query's WINDOW clause."""


def windowed(binder: ExpressionBinder, named: Windows = ()) -> ExpressionBinder:
    """The binder, which also takes window functions; ``named`` are the windows of the WINDOW clause."""
    inner = binder.hook

    def hook(node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Window):
            return _WindowBinder(result, named).bind(node)
        return None if inner is None else inner(node)

    result = replace(binder, hook=hook)
    return result


def attached(plan: Plan, expressions: tuple[Expression, ...]) -> tuple[Plan, tuple[Expression, ...]]:
    """The plan with a column for each window function behind its own columns, and the expressions over it.

    What the plan's own windows compute already is taken from there.
    """
    expressions = tuple(computed(plan, expression) for expression in expressions)
    found = tuple(dict.fromkeys(part for e in expressions for part in walk(e) if isinstance(part, Over)))
    if not found:
        return plan, expressions
    plan, partitions = _with_columns(plan, tuple(part for over in found for part in over.partition))
    places: dict[Over, Column] = {}
    for partition, order in dict.fromkeys((over.partition, over.order) for over in found):
        overs = tuple(over for over in found if (over.partition, over.order) == (partition, order))
        width = len(plan.schema)
        columns = tuple(partitions[part] for part in partition)
        names = tuple(over.call.function.value for over in overs)
        plan = Window(plan, names, columns, order, tuple(over.call for over in overs))
        places |= {over: plan.column(width + i) for i, over in enumerate(overs)}
    return plan, tuple(
        transform(expression, lambda e: places[e] if isinstance(e, Over) else None) for expression in expressions
    )


def computed(plan: Plan, expression: Expression) -> Expression:
    """The expression with the window functions that the plan computes already as columns of it."""
    places: dict[Over, Column] = {}
    part, width = plan, 0
    while isinstance(part, Window):
        width = len(part.input.schema)
        for i, call in enumerate(part.calls):
            places[Over(call, part.partition, part.order)] = plan.column(width + i)
        part = part.input
    return transform(expression, lambda e: places.get(e) if isinstance(e, Over) else None)


def _with_columns(plan: Plan, expressions: tuple[Expression, ...]) -> tuple[Plan, dict[Expression, Column]]:
    """The plan with a column for each expression that is not a column already."""
    added = tuple(dict.fromkeys(e for e in expressions if not isinstance(e, Column)))
    places: dict[Expression, Column] = {e: e for e in expressions if isinstance(e, Column)}
    if added:
        names = plan.schema.names + tuple(f"partition{i}" for i in range(len(added)))
        width = len(plan.schema)
        plan = Project(plan, names, plan.columns() + added)
        places |= {e: plan.column(width + i) for i, e in enumerate(added)}
    return plan, places


class _WindowBinder:
    def __init__(self, binder: ExpressionBinder, named: tuple[exp.Expr, ...]) -> None:
        self.binder, self.source = binder, binder.source
        self.named = {fold(window.this): window for window in named}

    def bind(self, node: exp.Window) -> Expression:
        refuse_other_parts(node, ("this", "partition_by", "order", "spec", "alias", "over"), self.source)
        partition, order, spec = self._window(node)
        frame = bind_frame(spec, order, self.binder)
        function, ignoring = node.this, False
        if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
            refuse_other_parts(function, ("this",), self.source)
            function, ignoring = function.this, isinstance(function, exp.IgnoreNulls)
            if not isinstance(function, _SEES_NULLS):
                message = "IGNORE NULLS belongs to LAG, LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE"
                raise self.source.error("syntax", message, node)
        for part in function.iter_expressions():
            self._refuse_nested(part)
        if is_aggregate(function):
            return self._aggregate(function, partition, order, frame)
        return self._function(function, partition, order, frame, ignoring=ignoring)

    def _refuse_nested(self, node: exp.Expr) -> None:
        refuse_windows(node, "a window function", self.source)

    def _window(self, node: exp.Expr) -> tuple[tuple[Expression, ...], tuple[SortKey, ...], exp.Expr | None]:
        """The partition, the order and the frame, with what the named window has of them."""
        partition: tuple[Expression, ...] = ()
        order: tuple[SortKey, ...] = ()
        name = node.args.get("alias")
        if name is not None:
            base = self.named.get(fold(name))
            if base is None:
                raise self.source.error("unknown_relation", f"there is no window {fold(name)!r}", node)
            partition, order, spec = self._window(base)
            if spec is not None and node.args.get("spec") is not None:
                raise self.source.error("unsupported", "the named window has a frame already", node)
        else:
            spec = None
        for part in (*(node.args.get("partition_by") or ()), node.args.get("order")):
            if part is not None:
                self._refuse_nested(part)
        if node.args.get("partition_by"):
            parts = (self.binder.bind(part) for part in node.args["partition_by"])
            partition = tuple(dict.fromkeys(part for part in parts if not isinstance(part, Literal)))
        if node.args.get("order") is not None:
            order = tuple(self._sort_key(key) for key in node.args["order"].expressions)
        return partition, order, node.args.get("spec") or spec

    def _sort_key(self, node: exp.Expr) -> SortKey:
        if not isinstance(node, exp.Ordered):
            raise self.source.error("unsupported", "this ORDER BY is not supported", node)
        refuse_other_parts(node, ("this", "desc", "nulls_first"), self.source)
        bound = self.binder.bind(node.this)
        refuse_array(bound, node.this, self.source)
        return SortKey(bound, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))

    def _aggregate(
        self, node: exp.Expr, partition: tuple[Expression, ...], order: tuple[SortKey, ...], frame: Frame
    ) -> Expression:
        if isinstance(node.this if isinstance(node, exp.Filter) else node, exp.WithinGroup | exp.Median):
            raise self.source.error("unsupported", "ordered-set aggregates are not supported in a window", node)

        def add(call: AggregateCall) -> Expression:
            if call.distinct or call.row.over is None:
                what = "DISTINCT" if call.distinct else call.function.value.upper()
                raise self.source.error("unsupported", f"{what} is not supported in a window", node)
            arguments = () if call.argument is None else (call.argument,)
            return Over(WindowCall(call.function, arguments, frame), partition, order if frame != WHOLE_FRAME else ())

        return bind_aggregate(node, self.binder, add, over=True)

    def _function(
        self,
        node: exp.Expr,
        partition: tuple[Expression, ...],
        order: tuple[SortKey, ...],
        frame: Frame,
        *,
        ignoring: bool,
    ) -> Expression:
        kind = type(node)
        if kind in _RANKS:
            refuse_other_parts(node, (), self.source)
            return Over(WindowCall(_RANKS[kind]), partition, order)
        match node:
            case exp.Ntile():
                refuse_other_parts(node, ("this",), self.source)
                tiles = Literal(whole_number(node.this, node, self.binder, least=1), INT)
                return Over(WindowCall(WindowFunction.NTILE, (tiles,)), partition, order)
            case exp.Lag() | exp.Lead():
                return self._neighbour(node, partition, order, ignoring=ignoring)
            case exp.FirstValue() | exp.LastValue() | exp.NthValue():
                return self._framed(node, partition, order, frame, ignoring=ignoring)
        raise self.source.error("unsupported", f"{node.sql('postgres')[:60]!r} is not a window function", node)

    def _neighbour(
        self, node: exp.Expr, partition: tuple[Expression, ...], order: tuple[SortKey, ...], *, ignoring: bool
    ) -> Expression:
        refuse_other_parts(node, ("this", "offset", "default"), self.source)
        value = self.binder.bind(node.this)
        offset, default = node.args.get("offset"), node.args.get("default")
        # Engines do not agree on what IGNORE NULLS means for the row itself.
        least = 1 if ignoring else 0
        distance = Literal(1 if offset is None else whole_number(offset, node, self.binder, least=least), INT)
        other: Expression = Literal(None, value.type)
        if default is not None:
            other = coerce(self.binder.bind(default), value.type)
        function = WindowFunction.LAG if isinstance(node, exp.Lag) else WindowFunction.LEAD
        return Over(WindowCall(function, (value, distance, other), None, ignoring), partition, order)

    def _framed(
        self,
        node: exp.Expr,
        partition: tuple[Expression, ...],
        order: tuple[SortKey, ...],
        frame: Frame,
        *,
        ignoring: bool,
    ) -> Expression:
        """FIRST_VALUE, LAST_VALUE and NTH_VALUE, over frames of ROWS where that is the same.

        A RANGE without distances ends with all rows of the current place. Its first row is the first of the partition,
        or of the place; its last one likewise.
        """
        refuse_other_parts(node, ("this", "offset"), self.source)
        value = self.binder.bind(node.this)
        first = isinstance(node, exp.FirstValue)
        if isinstance(node, exp.NthValue):
            return self._nth(node, value, partition, order, frame, ignoring=ignoring)
        function = WindowFunction.FIRST_VALUE if first else WindowFunction.LAST_VALUE
        if frame.unit is Unit.RANGE and frame.measure is None and not ignoring:
            if (frame.start if first else frame.end) == CURRENT:
                partition = tuple(dict.fromkeys((*partition, *(key.expression for key in order))))
            frame = WHOLE_FRAME
        return Over(WindowCall(function, (value,), frame, ignoring), partition, order)

    def _nth(
        self,
        node: exp.Expr,
        value: Expression,
        partition: tuple[Expression, ...],
        order: tuple[SortKey, ...],
        frame: Frame,
        *,
        ignoring: bool,
    ) -> Expression:
        """Of a frame that begins with the partition, the n-th of the partition, if the frame has so many rows."""
        number = whole_number(node.args.get("offset"), node, self.binder, least=1)
        call = WindowCall(WindowFunction.NTH_VALUE, (value, Literal(number, INT)), frame, ignoring)
        if frame.unit is Unit.ROWS:
            return Over(call, partition, order)
        if frame.start != FROM_START:
            message = "NTH_VALUE takes a frame of ROWS, or one from UNBOUNDED PRECEDING"
            raise self.source.error("unsupported", message, node)
        nth = Over(replace(call, frame=WHOLE_FRAME), partition, order)
        counted = WindowCall(AggregateFunction.COUNT_ROWS, (), frame)
        if ignoring:
            counted = WindowCall(AggregateFunction.COUNT, (value,), frame)
        rows = Over(counted, partition, order)
        enough = Call("ge", (rows, Literal(number, BIGINT)), BOOLEAN, nullable=False)
        return Case(((enough, nth),), Literal(None, value.type), value.type)
