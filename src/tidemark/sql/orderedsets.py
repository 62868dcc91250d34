"""Ordered-set aggregates: percentiles and the mode, as PostgreSQL defines them.

The continuous percentile at f of n values lies between the values at 1 + ⌊f(n − 1)⌋ and 1 + ⌈f(n − 1)⌉:

    low + p · (high − low),   p = f(n − 1) − ⌊f(n − 1)⌋

Both are taken as they are, and the rest is arithmetic of DOUBLE in one order, so that all engines give the same bits.
"""

from __future__ import annotations

from sqlglot import exp

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.expressions import Case, Cast, Expression, Literal
from tidemark.algebra.types import BIGINT, DOUBLE
from tidemark.sql.binding import Binder
from tidemark.sql.coerce import coerce, folded


def fraction_of(node: exp.Expr | None, binder: Binder, around: exp.Expr) -> float:
    """A constant between 0 and 1."""
    bound = None if node is None or isinstance(node, exp.Array) else folded(binder.bind(node))
    if not isinstance(bound, Literal) or not bound.type.is_numeric or bound.value is None:
        hint = "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)"
        raise binder.source.error("unsupported", "a percentile takes one constant fraction", around, hint=hint)
    fraction = coerce(bound, DOUBLE)
    assert isinstance(fraction, Literal) and isinstance(fraction.value, float)
    if not 0 <= fraction.value <= 1:
        raise binder.source.error("type", f"the fraction {bound.value} is not between 0 and 1", around)
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
