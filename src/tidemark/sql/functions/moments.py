"""Binding arithmetic of moments: shifts by intervals, the time between two of them, and units of time in EXTRACT and
date_trunc, which are part of the name of a function.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Final

from sqlglot import exp

from tidemark.algebra.coerce import coerce, folded
from tidemark.algebra.expressions import Cast, Expression, Literal
from tidemark.algebra.functions import FUNCTIONS
from tidemark.algebra.types import BIGINT, DATE, INT, TIMESTAMP, TIMESTAMPTZ, decimal
from tidemark.errors import TidemarkError
from tidemark.sql.bind.scope import Binder
from tidemark.sql.bind.types import read_text
from tidemark.sql.functions.intervals import (
    Interval,
    adapt_to_timestamp,
    bind_interval,
    interval_of,
    is_interval,
    length,
    shift_moment,
)

ALONE: Final = (
    "an interval can only be added to a DATE or TIMESTAMP, multiplied by an integer, compared with another interval or "
    "a difference, or read by EXTRACT"
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


def _are_moments(pair: tuple[Expression, ...]) -> bool:
    """Whether both are times, of which one is no DATE."""
    types = [part.type for part in pair]
    return all(type.is_time for type in types) and any(type != DATE for type in types)


def refuse_difference(binder: Binder, pair: tuple[Expression, ...], node: exp.Expr) -> None:
    if _are_moments(pair):
        raise binder.source.error(
            "unsupported",
            "the difference of two timestamps is an interval, which is no type of a column",
            node,
            hint="extract(epoch FROM a - b) gives seconds; a::DATE - b::DATE gives days",
        )


def refuse_interval(binder: Binder, node: exp.Expr) -> Expression:
    """An interval by itself."""
    raise binder.source.error("unsupported", ALONE, node, hint="a + INTERVAL '1 day'")


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


def bind_extract_of_interval(binder: Binder, node: exp.Expr) -> Expression | None:
    """A field of an interval, as ``extract(YEAR FROM age(a, b))``, or of a difference. Else None."""
    if is_interval(node.expression):
        return _field(binder, bind_interval(binder, node.expression), str(node.this.name).lower(), node)
    return _extract_of_difference(binder, node)


def _field(binder: Binder, interval: Interval, unit: str, node: exp.Expr) -> Expression:
    """Fields are those of months, of days and of the time, each by itself; a year has 365.25 days for its epoch."""

    def by(name: str, value: Expression, count: int) -> Expression:
        return folded(binder.call(name, (value, Literal(count, value.type)), node))

    months, days, time = interval.parts
    match unit:
        case "year" | "years":
            return by("divide", months, 12)
        case "month" | "months":
            return by("modulo", months, 12)
        case "day" | "days":
            return days
        case "hour" | "hours":
            return folded(Cast(by("divide", time, 3_600_000_000), INT))
        case "minute" | "minutes":
            return folded(Cast(by("divide", by("modulo", time, 3_600_000_000), 60_000_000), INT))
        case "second" | "seconds":
            return folded(Cast(_in_seconds(binder, by("modulo", time, 60_000_000), node), decimal(8, 6)))
        case "epoch":
            long = coerce(months, BIGINT)
            parts = (by("divide", long, 12), by("modulo", long, 12), coerce(days, BIGINT))
            total = time
            for part, seconds in zip(parts, (31_557_600, 30 * 86_400, 86_400), strict=True):
                total = folded(binder.call("add", (total, by("multiply", part, seconds * 1_000_000)), node))
            return folded(_in_seconds(binder, total, node))
    hint = "year, month, day, hour, minute, second, epoch"
    raise binder.source.error("unsupported", f"the unit {unit} is not supported for an interval", node, hint=hint)


def _in_seconds(binder: Binder, count: Expression, node: exp.Expr) -> Expression:
    return Cast(binder.call("multiply", (coerce(count, decimal(19, 0)), _MILLIONTH), node), _SECONDS)


def bind_date_bin(binder: Binder, node: exp.Expr) -> Expression:
    """date_bin(stride, moment, origin): the start of the bin of that length that the moment is in."""
    written = node.this
    if isinstance(written, exp.Literal) and written.is_string:
        stride = interval_of(str(written.name))
    elif is_interval(written):
        stride = bind_interval(binder, written)
    else:
        raise binder.source.error("type", "date_bin takes an interval", node, hint="date_bin('15 minutes', a, b)")
    if stride.months != Literal(0, INT):
        raise binder.source.error("unsupported", "months have no one length: date_bin takes none", node)
    width = length(binder, stride, node)
    if not isinstance(width, Literal) or width.value is None:
        raise binder.source.error("unsupported", "date_bin takes a literal interval", node)
    if int(width.value) <= 0:  # type: ignore[arg-type]
        raise binder.source.error("invalid_value", "date_bin takes an interval above 0", node)
    given = (binder.bind(node.expression), _origin(binder, node))
    moment, origin = adapt_to_timestamp(given)
    into = binder.call("modulo", (binder.call("microseconds_between", (moment, origin), node), width), node)
    # The remainder has the sign of the dividend, and the bin begins before the moment.
    into = binder.call("modulo", (binder.call("add", (into, width), node), width), node)
    return binder.call("add_microseconds", (moment, binder.call("negate", (into,), node)), node)


def _origin(binder: Binder, node: exp.Expr) -> Expression:
    """sqlglot takes the origin for a unit, and of a text or a bare column there keeps a word in capitals."""
    written = node.args["unit"]
    if not isinstance(written, exp.Var):
        return binder.bind(written)
    try:
        return Literal(read_text(str(written.name), TIMESTAMP), TIMESTAMP)
    except TidemarkError as error:
        hint = "put a column in parentheses: date_bin('1 day', a, (b))"
        raise binder.source.error("type", "the origin of date_bin is no moment", node, hint=hint) from error


def bind_from_epoch(binder: Binder, node: exp.Expr) -> Expression:
    """to_timestamp(seconds since 1970), of an exact number."""
    seconds = binder.bind(node.this)
    if not seconds.type.is_exact:
        raise binder.source.error(
            "type", f"to_timestamp takes an exact number, this is a {seconds.type}", node, hint="a::DECIMAL(18,6)"
        )
    exact = coerce(seconds, decimal(18, 6))
    count = Cast(binder.call("multiply", (exact, Literal(Decimal(1_000_000), decimal(7, 0))), node), BIGINT)
    start = Literal(dt.datetime(1970, 1, 1), TIMESTAMP)
    return binder.call("add_microseconds", (start, folded(count)), node)


def _extract_of_difference(binder: Binder, node: exp.Expr) -> Expression | None:
    """``extract(epoch FROM a - b)``: seconds; days, hours and minutes are those of the interval. Else None."""
    between = _difference(binder, node.expression)
    if between is None:
        return None
    unit = str(node.this.name).lower()
    if unit == "epoch":
        return _in_seconds(binder, between, node)
    if unit == "second":
        rest = binder.call("modulo", (between, Literal(_IN_MICROSECONDS["minute"], BIGINT)), node)
        return Cast(_in_seconds(binder, rest, node), decimal(8, 6))
    if unit not in _IN_MICROSECONDS:
        raise binder.source.error(
            "unsupported",
            f"the unit {unit} is not supported for a difference",
            node,
            hint="epoch, day, hour, minute, second",
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
    if not _are_moments(pair):
        return None
    return folded(binder.call("microseconds_between", pair, node))


_UTC: Final = frozenset({"utc", "etc/utc", "z"})


def bind_at_zone(binder: Binder, node: exp.Expr) -> Expression:
    """``a AT TIME ZONE 'UTC'``: of a TIMESTAMP the moment that it is there, of a TIMESTAMPTZ the time there."""
    moment, zone = binder.bind(node.this), node.args["zone"]
    if not isinstance(zone, exp.Literal) or not zone.is_string or str(zone.this).lower() not in _UTC:
        message = "AT TIME ZONE takes 'UTC' only: what other zones are changes with the years"
        raise binder.source.error("unsupported", message, node, hint="a + INTERVAL '2 hours' for a fixed distance")
    if not moment.type.is_time:
        raise binder.source.error("type", f"AT TIME ZONE takes a TIMESTAMP or a TIMESTAMPTZ, not {moment.type}", node)
    return coerce(moment, TIMESTAMP if moment.type == TIMESTAMPTZ else TIMESTAMPTZ)


def bind_extract(binder: Binder, node: exp.Expr) -> Expression:
    found = bind_extract_of_interval(binder, node)
    if found is not None:
        return found
    return _by_unit(binder, "extract", str(node.this.name), node.expression, node)


def bind_truncate(binder: Binder, node: exp.Expr) -> Expression:
    return _by_unit(binder, "date_trunc", str(node.args["unit"].name), node.this, node)


def _by_unit(binder: Binder, family: str, unit: str, operand: exp.Expr, node: exp.Expr) -> Expression:
    name = f"{family}_{unit.lower()}"
    if name not in FUNCTIONS:
        units = ", ".join(sorted(f.removeprefix(family + "_") for f in FUNCTIONS if f.startswith(family + "_")))
        raise binder.source.error(
            "unsupported",
            f"the unit {unit} is not supported by {family.upper()}",
            node,
            hint=f"units: {units}",
        )
    return binder.call(name, (binder.bind(operand),), node)
