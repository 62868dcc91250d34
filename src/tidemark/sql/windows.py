"""Binding OVER: window functions become columns of a Window below the expressions that use them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sqlglot import exp

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction, SortKey
from tidemark.algebra.expressions import Call, Case, Column, Expression, Literal, transform, walk
from tidemark.algebra.plans import Plan, Project, Window
from tidemark.algebra.types import BIGINT, BOOLEAN, INT, Type
from tidemark.algebra.windows import (
    CURRENT,
    DEFAULT_FRAME,
    FROM_START,
    TO_END,
    WHOLE_FRAME,
    Bound,
    Frame,
    Unit,
    WindowCall,
    WindowFunction,
)
from tidemark.sql.aggregates import bind_aggregate, is_aggregate
from tidemark.sql.arrays import refuse_array
from tidemark.sql.coerce import coerce
from tidemark.sql.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.text import Source, fold

_RANKS: Final[dict[type[exp.Expr], WindowFunction]] = {
    exp.RowNumber: WindowFunction.ROW_NUMBER,
    exp.Rank: WindowFunction.RANK,
    exp.DenseRank: WindowFunction.DENSE_RANK,
    exp.PercentRank: WindowFunction.PERCENT_RANK,
    exp.CumeDist: WindowFunction.CUME_DIST,
}
_NO_ORDER_NEEDED: Final = (WindowFunction.ROW_NUMBER,)
_OVER_AGGREGATES: Final = frozenset(AggregateFunction) - {
    AggregateFunction.STRING_AGG,
    AggregateFunction.ARRAY_AGG,
    AggregateFunction.SINGLE,
}


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
    """The plan with a column for each window function behind its own columns, and the expressions over it."""
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


def refuse_windows(node: exp.Expr, where: str, source: Source) -> None:
    found = node.find(exp.Window)
    if found is not None and found.find_ancestor(exp.Query) is node.find_ancestor(exp.Query):
        raise source.error(
            "grouping",
            f"a window function cannot stand in {where}",
            found,
            hint="compute it in a subquery, and filter that",
        )


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
        frame = self._frame(spec, order)
        function = node.this
        if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
            raise self.source.error("unsupported", "IGNORE NULLS and RESPECT NULLS are not supported", node)
        if is_aggregate(function):
            return self._aggregate(function, partition, order, frame)
        return self._function(function, partition, order, frame)

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

    def _frame(self, spec: exp.Expr | None, order: tuple[SortKey, ...]) -> Frame:
        if spec is None:
            return DEFAULT_FRAME if order else WHOLE_FRAME
        refuse_other_parts(spec, ("kind", "start", "start_side", "end", "end_side"), self.source)
        kind = str(spec.args.get("kind") or "").upper()
        if kind not in (Unit.ROWS.value, Unit.RANGE.value):
            raise self.source.error(
                "unsupported", f"frames of {kind} are not supported", spec, hint="ROWS and RANGE are"
            )
        unit = Unit(kind)
        start = self._bound(spec, "start", unit)
        end = CURRENT if spec.args.get("end") is None else self._bound(spec, "end", unit)
        if start == TO_END or end == FROM_START:
            raise self.source.error("syntax", "the frame ends before it starts", spec)
        if (start, end) == (FROM_START, TO_END) or (unit is Unit.RANGE and not order):
            return WHOLE_FRAME
        return Frame(unit, start, end)

    def _bound(self, spec: exp.Expr, part: str, unit: Unit) -> Bound:
        value, side = spec.args[part], str(spec.args.get(f"{part}_side") or "").upper()
        preceding = side != "FOLLOWING"
        if value == "CURRENT ROW":
            return CURRENT
        if value == "UNBOUNDED":
            return Bound(None, preceding)
        if unit is Unit.RANGE:
            raise self.source.error(
                "unsupported", "RANGE with a distance is not supported", spec, hint="ROWS takes a number of rows"
            )
        number = self._whole(value, spec, least=0)
        return CURRENT if number == 0 else Bound(number, preceding)

    def _whole(self, value: object, node: exp.Expr, *, least: int) -> int:
        if not (isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit()):
            raise self.source.error("unsupported", "a literal whole number is needed here", node)
        if int(value.name) < least:
            raise self.source.error("type", f"the number must be {least} at least", node)
        return int(value.name)

    def _aggregate(
        self, node: exp.Expr, partition: tuple[Expression, ...], order: tuple[SortKey, ...], frame: Frame
    ) -> Expression:
        def add(call: AggregateCall) -> Expression:
            if call.distinct or call.function not in _OVER_AGGREGATES:
                what = "DISTINCT" if call.distinct else call.function.value.upper()
                raise self.source.error("unsupported", f"{what} is not supported in a window", node)
            arguments = () if call.argument is None else (call.argument,)
            return Over(WindowCall(call.function, arguments, frame), partition, order if frame != WHOLE_FRAME else ())

        return bind_aggregate(node, self.binder, add)

    def _function(
        self, node: exp.Expr, partition: tuple[Expression, ...], order: tuple[SortKey, ...], frame: Frame
    ) -> Expression:
        kind = type(node)
        if kind in _RANKS:
            refuse_other_parts(node, (), self.source)
            return Over(WindowCall(_RANKS[kind]), partition, order)
        match node:
            case exp.Ntile():
                refuse_other_parts(node, ("this",), self.source)
                tiles = Literal(self._whole(node.this, node, least=1), INT)
                return Over(WindowCall(WindowFunction.NTILE, (tiles,)), partition, order)
            case exp.Lag() | exp.Lead():
                return self._neighbour(node, partition, order)
            case exp.FirstValue() | exp.LastValue() | exp.NthValue():
                return self._framed(node, partition, order, frame)
        raise self.source.error("unsupported", f"{node.sql('postgres')[:60]!r} is not a window function", node)

    def _neighbour(self, node: exp.Expr, partition: tuple[Expression, ...], order: tuple[SortKey, ...]) -> Expression:
        refuse_other_parts(node, ("this", "offset", "default"), self.source)
        value = self.binder.bind(node.this)
        offset, default = node.args.get("offset"), node.args.get("default")
        distance = Literal(1 if offset is None else self._whole(offset, node, least=0), INT)
        other: Expression = Literal(None, value.type)
        if default is not None:
            other = coerce(self.binder.bind(default), value.type)
        function = WindowFunction.LAG if isinstance(node, exp.Lag) else WindowFunction.LEAD
        return Over(WindowCall(function, (value, distance, other)), partition, order)

    def _framed(
        self, node: exp.Expr, partition: tuple[Expression, ...], order: tuple[SortKey, ...], frame: Frame
    ) -> Expression:
        """FIRST_VALUE, LAST_VALUE and NTH_VALUE, over frames of ROWS.

        A RANGE ends with all rows of the current place. Its first row is the first of the partition, or of the place;
        its last one likewise; its n-th is the n-th of the partition if so many rows come before the frame's end.
        """
        refuse_other_parts(node, ("this", "offset"), self.source)
        value = self.binder.bind(node.this)
        first = isinstance(node, exp.FirstValue)
        if isinstance(node, exp.NthValue):
            return self._nth(node, value, partition, order, frame)
        function = WindowFunction.FIRST_VALUE if first else WindowFunction.LAST_VALUE
        if frame.unit is Unit.RANGE:
            if (frame.start if first else frame.end) == CURRENT:
                partition = tuple(dict.fromkeys((*partition, *(key.expression for key in order))))
            frame = WHOLE_FRAME
        return Over(WindowCall(function, (value,), frame), partition, order)

    def _nth(
        self,
        node: exp.Expr,
        value: Expression,
        partition: tuple[Expression, ...],
        order: tuple[SortKey, ...],
        frame: Frame,
    ) -> Expression:
        number = self._whole(node.args.get("offset"), node, least=1)
        call = WindowCall(WindowFunction.NTH_VALUE, (value, Literal(number, INT)), frame)
        if frame.unit is Unit.ROWS:
            return Over(call, partition, order)
        if frame != DEFAULT_FRAME:
            raise self.source.error("unsupported", "NTH_VALUE takes the default frame or one of ROWS", node)
        nth = Over(replace(call, frame=WHOLE_FRAME), partition, order)
        rows = Over(WindowCall(AggregateFunction.COUNT_ROWS, (), frame), partition, order)
        enough = Call("ge", (rows, Literal(number, BIGINT)), BOOLEAN, nullable=False)
        return Case(((enough, nth),), Literal(None, value.type), value.type)
