"""Binding aggregates: each becomes one or more calls of the algebra, and an expression over their values.

Ordered-set aggregates: percentiles and the mode, as PostgreSQL defines them.

The continuous percentile at f of n values lies between the values at 1 + ⌊f(n − 1)⌋ and 1 + ⌈f(n − 1)⌉:

    low + p · (high − low),   p = f(n − 1) − ⌊f(n − 1)⌋

Both are taken as they are, and the rest is arithmetic of DOUBLE in one order, so that all engines give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction, SortKey
from tidemark.algebra.coerce import coerce, folded, settle_null
from tidemark.algebra.expressions import TRUE, Call, Case, Cast, Expression, Literal
from tidemark.algebra.types import BIGINT, BOOLEAN, DOUBLE, VARCHAR, Kind
from tidemark.sql.bind.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.bind.scope import Binder
from tidemark.sql.bind.syntax import find_aggregate
from tidemark.sql.functions.arrays import refuse_array


def fraction_of(node: exp.Expr | None, binder: Binder, around: exp.Expr) -> float:
    """A constant between 0 and 1."""
    bound = None if node is None or isinstance(node, exp.Array) else folded(binder.bind(node))
    if not isinstance(bound, Literal) or not bound.type.is_numeric or bound.value is None:
        hint = "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)"
        raise binder.source.error("unsupported", "a percentile takes one constant fraction", around, hint=hint)
    fraction = coerce(bound, DOUBLE)
    assert isinstance(fraction, Literal) and isinstance(fraction.value, float)
    if not 0 <= fraction.value <= 1:
        raise binder.source.error("type", f"the fraction {bound.value!s} is not between 0 and 1", around)
    return fraction.value


def continuous(
    low: Expression, high: Expression, count: Expression, fraction: float, binder: Binder, node: exp.Expr
) -> Expression:
    """The value between the two, from the number of all values."""
    last = Cast(binder.call("subtract", (count, Literal(1, BIGINT)), node), DOUBLE)
    place = binder.call("multiply", (Literal(fraction, DOUBLE), last), node)
    part = binder.call("subtract", (place, binder.call("floor", (place,), node)), node)
    step = binder.call("multiply", (part, binder.call("subtract", (high, low), node)), node)
    between = binder.call("add", (low, step), node)
    return Case(((binder.call("eq", (part, Literal(0.0, DOUBLE)), node), low),), between, DOUBLE)


def percentile(
    function: AggregateFunction, argument: Expression, fraction: float, *, descending: bool
) -> AggregateCall:
    return AggregateCall(function, argument, fraction=fraction, descending=descending)


Add = Callable[[AggregateCall], Expression]
"""Takes a call into the grouping, or over a window, and gives its value."""

_EXTREMA: Final[dict[type[exp.Expr], AggregateFunction]] = {
    exp.Min: AggregateFunction.MIN,
    exp.Max: AggregateFunction.MAX,
    # Any value will do, so it is one that is easily kept.
    exp.AnyValue: AggregateFunction.MIN,
}
_DEVIATIONS: Final[dict[type[exp.Expr], AggregateFunction]] = {
    exp.Stddev: AggregateFunction.STDDEV_SAMP,
    exp.StddevSamp: AggregateFunction.STDDEV_SAMP,
    exp.StddevPop: AggregateFunction.STDDEV_POP,
    exp.Variance: AggregateFunction.VAR_SAMP,
    exp.VariancePop: AggregateFunction.VAR_POP,
}
_NAMES: Final = (
    "COUNT, SUM, AVG, MIN, MAX, BOOL_AND, BOOL_OR, EVERY, STDDEV, STDDEV_POP, VARIANCE, VAR_POP, STRING_AGG, ARRAY_AGG,"
    " ANY_VALUE, MEDIAN, PERCENTILE_CONT, PERCENTILE_DISC, MODE"
)
ORDERED_SETS: Final = (exp.PercentileCont, exp.PercentileDisc, exp.Mode)


def bind_aggregate(node: exp.Expr, inner: ExpressionBinder, add: Add, *, over: bool = False) -> Expression:
    """The value of an aggregate, in terms of the grouping's columns.

    One that is computed ``over`` a window may read aggregates: AVG(SUM(x)) OVER (…) averages the sums of groups.
    """
    condition = None
    if isinstance(node, exp.Filter):
        refuse_other_parts(node, ("this", "expression"), inner.source)
        if not over:
            refuse_nested(node.expression, inner)
        condition = inner.condition(node.expression.this, "FILTER")
        node = node.this
    return _Aggregate(node, inner, condition, add, over=over).bind()


def refuse_nested(node: exp.Expr, inner: ExpressionBinder) -> None:
    found = find_aggregate(node)
    if found is not None:
        raise inner.source.error("grouping", "aggregates cannot be nested", found)


class _Aggregate:
    def __init__(
        self, node: exp.Expr, inner: ExpressionBinder, condition: Expression | None, add: Add, *, over: bool
    ) -> None:
        self.node, self.inner, self.condition, self.add, self.over = node, inner, condition, add, over
        self.distinct = isinstance(node.this, exp.Distinct)

    def bind(self) -> Expression:
        node, kind = self.node, type(self.node)
        if isinstance(node, exp.GroupConcat):
            return self._string_agg(node)
        if isinstance(node, exp.ArrayAgg):
            return self._array_agg(node)
        if isinstance(node, exp.WithinGroup):
            return self._ordered_set(node)
        if kind is exp.Median:
            if self.distinct:
                raise self.inner.source.error("unsupported", "MEDIAN(DISTINCT x) is not supported", node)
            return self._continuous(self._number(), 0.5, descending=False)
        if kind is exp.Count and isinstance(node.this, exp.Star):
            self._only(("this", "big_int"))
            return self._count_rows()
        if kind in _EXTREMA:
            argument = self._argument()
            return self.add(AggregateCall(_EXTREMA[kind], argument))
        if kind in _DEVIATIONS:
            return self._deviation(_DEVIATIONS[kind])
        match node:
            case exp.Count():
                return self.add(AggregateCall(AggregateFunction.COUNT, self._argument(arrays=True), self.distinct))
            case exp.Sum():
                return self._sum(self._number())
            case exp.Avg():
                return self._average(self._number())
            case exp.LogicalAnd() | exp.Anonymous():
                return self._all(self._condition(), decisive=False)
            case exp.LogicalOr():
                return self._all(self._condition(), decisive=True)
        raise self._refused(node)

    def _refused(self, node: exp.Expr) -> Exception:
        shown = node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
        if isinstance(node, ORDERED_SETS) and node is self.node:
            message, hint = f"{shown} needs its values", f"{shown}(…) WITHIN GROUP (ORDER BY x)"
        else:
            message, hint = f"the aggregate {shown} is not supported", f"aggregates: {_NAMES}"
        return self.inner.source.error("unsupported", message, self.node, hint=hint)

    def _count_rows(self) -> Expression:
        if self.condition is None:
            return self.add(AggregateCall(AggregateFunction.COUNT_ROWS))
        return self.add(AggregateCall(AggregateFunction.COUNT, self._filtered(TRUE)))

    def _sum(self, argument: Expression) -> Expression:
        call = AggregateCall(AggregateFunction.SUM, argument, self.distinct)
        total = self.add(call)
        return Cast(total, BIGINT) if argument.type == BIGINT else total

    def _average(self, argument: Expression) -> Expression:
        total = self.add(AggregateCall(AggregateFunction.SUM, argument, self.distinct))
        count = self.add(AggregateCall(AggregateFunction.COUNT, argument, self.distinct))
        return Call("average", (total, count), DOUBLE, nullable=True)

    def _all(self, argument: Expression, *, decisive: bool) -> Expression:
        """BOOL_AND and BOOL_OR from counts: of all values, and of those that decide."""
        test = argument if decisive else Call("not", (argument,), BOOLEAN, argument.nullable)
        decided = Case(((test, TRUE),), Literal(None, BOOLEAN), BOOLEAN)
        values = self.add(AggregateCall(AggregateFunction.COUNT, argument))
        deciding = self.add(AggregateCall(AggregateFunction.COUNT, decided))
        zero = Literal(0, BIGINT)
        nothing = Call("eq", (values, zero), BOOLEAN, nullable=False)
        found = Call("gt" if decisive else "eq", (deciding, zero), BOOLEAN, nullable=False)
        return Case(((nothing, Literal(None, BOOLEAN)),), found, BOOLEAN)

    def _deviation(self, function: AggregateFunction) -> Expression:
        argument = self._number()
        wide = argument if argument.type == DOUBLE else Cast(argument, DOUBLE)
        return self.add(AggregateCall(function, wide, self.distinct))

    def _ordered_set(self, node: exp.WithinGroup) -> Expression:
        """PERCENTILE_CONT, PERCENTILE_DISC and MODE with the values in WITHIN GROUP (ORDER BY …)."""
        self._only(("this", "expression"))
        function, keys = node.this, node.expression.expressions
        if not isinstance(function, ORDERED_SETS):
            raise self._refused(function)
        if len(keys) != 1:
            raise self.inner.source.error("type", "WITHIN GROUP takes one ORDER BY expression", node)
        key = self._sort_key(keys[0])
        argument = self._filtered(settle_null(key.expression))
        if isinstance(function, exp.Mode):
            refuse_other_parts(function, (), self.inner.source)
            return self.add(AggregateCall(AggregateFunction.MODE, argument, descending=key.descending))
        refuse_other_parts(function, ("this",), self.inner.source)
        fraction = fraction_of(function.this, self.inner, node)
        if isinstance(function, exp.PercentileCont):
            return self._continuous(argument, fraction, descending=key.descending)
        return self.add(percentile(AggregateFunction.PERCENTILE_DISC, argument, fraction, descending=key.descending))

    def _continuous(self, argument: Expression, fraction: float, *, descending: bool) -> Expression:
        if not argument.type.is_numeric:
            message = f"PERCENTILE_CONT needs numbers, this is {argument.type}"
            raise self.inner.source.error("type", message, self.node, hint="PERCENTILE_DISC takes any values")
        wide = argument if argument.type == DOUBLE else Cast(argument, DOUBLE)
        low, high = (
            self.add(percentile(function, wide, fraction, descending=descending))
            for function in (AggregateFunction.PERCENTILE_LOW, AggregateFunction.PERCENTILE_HIGH)
        )
        count = self.add(AggregateCall(AggregateFunction.COUNT, wide))
        return continuous(low, high, count, fraction, self.inner, self.node)

    def _string_agg(self, node: exp.GroupConcat) -> Expression:
        self._only(("this", "separator"))
        separator = node.args.get("separator")
        if not (isinstance(separator, exp.Literal) and separator.is_string):
            raise self.inner.source.error("unsupported", "STRING_AGG takes a literal separator", node)
        value, keys = self._ordered(node.this)
        bound = self._bound(value)
        if bound.type != VARCHAR:
            raise self.inner.source.error("type", f"STRING_AGG takes text, this is {bound.type}", value, hint="CAST it")
        order = self._order(keys, bound, "STRING_AGG")
        filtered = self._filtered(bound)
        order = tuple(SortKey(filtered, k.descending, k.nulls_first) if k.expression == bound else k for k in order)
        return self.add(
            AggregateCall(AggregateFunction.STRING_AGG, filtered, self.distinct, order, str(separator.this))
        )

    def _array_agg(self, node: exp.ArrayAgg) -> Expression:
        """The condition stays apart: NULL is a value like any other here."""
        self._only(("this",))
        value, keys = self._ordered(node.this)
        bound = self._bound(value)
        if not bound.type.can_be_part:
            message = f"an array has no elements of type {bound.type}"
            raise self.inner.source.error("unsupported", message, node, hint="CAST converts")
        order = self._order(keys, bound, "ARRAY_AGG")
        return self.add(
            AggregateCall(AggregateFunction.ARRAY_AGG, bound, self.distinct, order, condition=self.condition)
        )

    def _ordered(self, value: exp.Expr) -> tuple[exp.Expr, list[exp.Expr]]:
        """The argument, and the keys of its order. The parser puts DISTINCT inside ORDER BY or around it."""
        keys: list[exp.Expr] = []
        if isinstance(value, exp.Order):
            refuse_other_parts(value, ("this", "expressions"), self.inner.source)
            value, keys = value.this, value.expressions
        if isinstance(value, exp.Distinct):
            refuse_other_parts(value, ("expressions",), self.inner.source)
            self.distinct = True
            value = self._single(value.expressions)
            if isinstance(value, exp.Order):
                value, keys = value.this, value.expressions
        return value, keys

    def _order(self, keys: list[exp.Expr], argument: Expression, name: str) -> tuple[SortKey, ...]:
        order = tuple(self._sort_key(key) for key in keys)
        if self.distinct and any(key.expression != argument for key in order):
            message = f"{name}(DISTINCT x …) can be ordered by x only"
            raise self.inner.source.error("ordering", message, self.node, hint="ORDER BY the same expression")
        return order

    def _sort_key(self, node: exp.Expr) -> SortKey:
        if not isinstance(node, exp.Ordered):
            raise self.inner.source.error("unsupported", "this ORDER BY is not supported", node)
        refuse_other_parts(node, ("this", "desc", "nulls_first"), self.inner.source)
        if not self.over:
            refuse_nested(node.this, self.inner)
        bound = self.inner.bind(node.this)
        refuse_array(bound, node.this, self.inner.source)
        return SortKey(bound, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))

    def _number(self) -> Expression:
        argument = self._argument()
        if not argument.type.is_numeric:
            name = self.node.sql_name() if isinstance(self.node, exp.Func) else "it"
            raise self.inner.source.error("type", f"{name} needs a number, this is {argument.type}", self.node)
        return argument

    def _condition(self) -> Expression:
        argument = self._argument()
        if argument.type != BOOLEAN:
            raise self.inner.source.error("type", f"a condition is needed here, this is {argument.type}", self.node)
        return argument

    def _argument(self, *, arrays: bool = False) -> Expression:
        """The one argument, as far as FILTER lets it through."""
        node = self.node
        if isinstance(node, exp.Anonymous):
            return self._filtered(self._bound(self._single(node.expressions)))
        self._only(("this", "expressions", "big_int"))
        if node.this is None or node.expressions:
            raise self._arguments_error()
        value = self._single(node.this.expressions) if isinstance(node.this, exp.Distinct) else node.this
        return self._filtered(self._bound(value, arrays=arrays))

    def _bound(self, value: exp.Expr, *, arrays: bool = False) -> Expression:
        if not self.over:
            refuse_nested(value, self.inner)
        bound = self.inner.bind(value)
        if bound.type.is_nested and not arrays:
            message = "of the aggregates only COUNT takes an array or a struct"
            raise self.inner.source.error("type", message, value)
        return coerce(bound, VARCHAR) if bound.type.kind is Kind.NULL else bound

    def _filtered(self, value: Expression) -> Expression:
        if self.condition is None:
            return value
        return Case(((self.condition, value),), Literal(None, value.type), value.type)

    def _single(self, values: list[exp.Expr]) -> exp.Expr:
        if len(values) != 1:
            raise self._arguments_error()
        return values[0]

    def _arguments_error(self) -> Exception:
        name = self.node.sql_name() if isinstance(self.node, exp.Func) else "an aggregate"
        return self.inner.source.error("type", f"{name} takes one argument", self.node)

    def _only(self, parts: tuple[str, ...]) -> None:
        refuse_other_parts(self.node, parts, self.inner.source)
