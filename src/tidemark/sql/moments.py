"""Binding arithmetic of moments: shifted by intervals, and the time between two of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from sqlglot import exp

from tidemark.algebra.expressions import Cast, Expression, Literal
from tidemark.algebra.types import BIGINT, INT, TIMESTAMP, decimal
from tidemark.sql.binding import Binder
from tidemark.sql.coerce import coerce, folded
from tidemark.sql.intervals import bind_interval, is_interval, length, shift_moment

ALONE: Final = (
    "an interval can only be added to a DATE or TIMESTAMP, multiplied by an integer or compared with a difference"
)
_MILLIONTH: Final = Literal(Decimal("0.000001"), decimal(7, 6))
_SECONDS: Final = decimal(20, 6)
_IN_MICROSECONDS: Final = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000}
_FULL: Final = {"hour": 24, "minute": 60}


def bind_shift(binder: Binder, name: str, node: exp.Expr) -> Expression | None:
    """A moment plus or minus an interval, or None if this is other arithmetic."""
    left, right = is_interval(node.this), is_interval(node.expression)
    if not left and not right:
        return None
    if name == "multiply" or (left and right) or (left and name == "subtract"):
        raise binder.source.error("unsupported", ALONE, node, hint="a + INTERVAL '1 day'")
    moment, interval = (node.this, node.expression) if right else (node.expression, node.this)
    sign = 1 if name == "add" else -1
    return shift_moment(binder, binder.bind(moment), bind_interval(binder, interval), sign, node)


def refuse_difference(binder: Binder, pair: tuple[Expression, ...], node: exp.Expr) -> None:
    if TIMESTAMP in (pair[0].type, pair[1].type) and all(part.type.is_temporal for part in pair):
        raise binder.source.error(
            "unsupported",
            "the difference of two timestamps is an interval, which is no type of a column",
            node,
            hint="extract(epoch FROM a - b) gives seconds; a::DATE - b::DATE gives days",
        )


def bind_date_add(binder: Binder, node: exp.Expr) -> Expression:
    """date_add(moment, interval)."""
    if not is_interval(node.expression):
        raise binder.source.error(
            "unsupported", "date_add takes an interval", node, hint="date_add(a, INTERVAL '1 day')"
        )
    sign = 1 if isinstance(node, exp.DateAdd) else -1
    return shift_moment(binder, binder.bind(node.this), bind_interval(binder, node.expression), sign, node)


def bind_interval_comparison(binder: Binder, name: str, node: exp.Expr) -> Expression | None:
    """The time between two moments compared with an interval, or two intervals; None if this is another comparison."""
    sides = (node.this, node.expression)
    if not any(map(is_interval, sides)):
        return None
    return binder.call(name, tuple(_length(binder, side) for side in sides), node)


def bind_extract_of_difference(binder: Binder, node: exp.Expr) -> Expression | None:
    """``extract(epoch FROM a - b)``: seconds; days, hours and minutes are those of the interval. Else None."""
    between = _difference(binder, node.expression)
    if between is None:
        return None
    unit = str(node.this.name).lower()
    if unit == "epoch":
        seconds = binder.call("multiply", (coerce(between, decimal(19, 0)), _MILLIONTH), node)
        return Cast(seconds, _SECONDS)
    if unit not in _IN_MICROSECONDS:
        raise binder.source.error(
            "unsupported", f"the unit {unit} is not supported for a difference", node, hint="epoch, day, hour, minute"
        )
    whole = binder.call("divide", (between, Literal(_IN_MICROSECONDS[unit], BIGINT)), node)
    if unit in _FULL:
        whole = binder.call("modulo", (whole, Literal(_FULL[unit], BIGINT)), node)
    return Cast(whole, INT)


def _length(binder: Binder, node: exp.Expr) -> Expression:
    if is_interval(node):
        return length(binder, bind_interval(binder, node), node)
    between = _difference(binder, node)
    if between is None:
        raise binder.source.error(
            "type",
            "an interval is compared with the difference of two timestamps",
            node,
            hint="a - b > INTERVAL '1 day'",
        )
    return between


def _difference(binder: Binder, node: exp.Expr) -> Expression | None:
    """The microseconds between two moments of which one is a TIMESTAMP, or None if this is something else."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Sub) or is_interval(node.this) or is_interval(node.expression):
        return None
    pair = (binder.bind(node.this), binder.bind(node.expression))
    if TIMESTAMP not in (pair[0].type, pair[1].type) or not all(part.type.is_temporal for part in pair):
        return None
    return folded(binder.call("microseconds_between", pair, node))
