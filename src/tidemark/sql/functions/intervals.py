"""Intervals: months, days and microseconds, which are added to dates and timestamps.

There is no type of intervals, so they occur only where they are used: added to a moment or subtracted from it,
multiplied by an integer, compared with the time between two moments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from sqlglot import exp

from tidemark.algebra.coerce import coerce, folded, is_text_literal
from tidemark.algebra.expressions import Cast, Expression, Literal
from tidemark.algebra.types import BIGINT, INT, TIMESTAMP, TIMESTAMPTZ, Type
from tidemark.errors import TidemarkError
from tidemark.sql.bind.scope import Binder
from tidemark.sql.bind.types import read_text
from tidemark.sql.parse.text import Source, tokenize

_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
_MONTHS: Final = {"year": 12, "yr": 12, "y": 12, "month": 1, "mon": 1, "decade": 120, "century": 1200}
_DAYS: Final = {"day": 1, "d": 1, "week": 7, "w": 7}
_MICROSECONDS: Final = {
    "hour": 3600 * _SECOND,
    "hr": 3600 * _SECOND,
    "h": 3600 * _SECOND,
    "minute": 60 * _SECOND,
    "min": 60 * _SECOND,
    "m": 60 * _SECOND,
    "second": _SECOND,
    "sec": _SECOND,
    "s": _SECOND,
    "millisecond": 1000,
    "ms": 1000,
    "microsecond": 1,
    "us": 1,
}
_MADE: Final = {
    "year": (0, 12),
    "month": (0, 1),
    "week": (1, 7),
    "day": (1, 1),
    "hour": (2, 3600 * _SECOND),
    "minute": (2, 60 * _SECOND),
    "second": (2, _SECOND),
}
"""Which part of an interval each argument of make_interval is, and how many of its units."""
_PART: Final = re.compile(
    r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([a-zA-Z]+)|\s*([+-]?)(\d+):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?"
)
_TYPES: Final = (INT, INT, BIGINT)


@dataclass(frozen=True)
class Interval:
    """What is added to a moment: the months first, then the days, then the microseconds."""

    months: Expression
    days: Expression
    microseconds: Expression

    @property
    def parts(self) -> tuple[Expression, Expression, Expression]:
        return self.months, self.days, self.microseconds


def is_interval(node: exp.Expr) -> bool:
    """Whether the text says that this is an interval."""
    match node:
        case exp.Interval():
            return True
        case exp.Cast(this=exp.Literal()):
            return node.args["to"].this is exp.DataType.Type.INTERVAL
        case exp.Paren() | exp.Neg():
            return is_interval(node.this)
        case exp.Mul():
            return is_interval(node.this) != is_interval(node.expression)
        case exp.Add() | exp.Sub():
            return is_interval(node.this) and is_interval(node.expression)
        case exp.MakeInterval():
            return True
    return is_age(node)


def is_age(node: exp.Expr) -> bool:
    """Whether this is age(a, b), or age(a), which is the age at the start of today."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == "age"


def bind_interval(binder: Binder, node: exp.Expr) -> Interval:
    match node:
        case exp.Interval():
            return _literal(node, binder.source)
        case exp.Cast():
            written = node.this
            return interval_of(str(written.name) if isinstance(written, exp.Literal) else written.sql("postgres"))
        case exp.Neg():
            return _scaled(binder, bind_interval(binder, node.this), Literal(-1, INT), node)
        case exp.Mul():
            first, second = (node.this, node.expression) if is_interval(node.this) else (node.expression, node.this)
            return _scaled(binder, bind_interval(binder, first), binder.bind(second), node)
        case exp.Add() | exp.Sub():
            left, right = bind_interval(binder, node.this), bind_interval(binder, node.expression)
            name = "add" if isinstance(node, exp.Add) else "subtract"
            parts = (folded(binder.call(name, pair, node)) for pair in zip(left.parts, right.parts, strict=True))
            return Interval(*parts)
        case exp.MakeInterval():
            return _made(binder, node)
        case exp.Anonymous():
            return _age(binder, node)
    return bind_interval(binder, node.this)


def _age(binder: Binder, node: exp.Anonymous) -> Interval:
    """age(a, b): the whole months from b to a, then the whole days, then the time that is left."""
    given = node.expressions
    if len(given) not in (1, 2):
        raise binder.source.error("type", "age takes one moment or two", node)
    pair = tuple(binder.bind(part) for part in ([exp.CurrentDate(), *given] if len(given) == 1 else given))
    names = ("age_months", "age_days", "age_microseconds")
    return Interval(*(folded(binder.call(name, adapt_to_timestamp(pair), node)) for name in names))


def adapt_to_timestamp(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Quoted literals where moments are wanted, read as moments."""
    return tuple(
        Literal(read_text(str(a.value), TIMESTAMP), TIMESTAMP) if isinstance(a, Literal) and is_text_literal(a) else a
        for a in arguments
    )


def _made(binder: Binder, node: exp.MakeInterval) -> Interval:
    """make_interval(days => 3), of whole numbers."""
    totals: list[Expression] = [Literal(0, wanted) for wanted in _TYPES]
    for key, value in node.args.items():
        if value is None:
            continue
        written = value.expression if isinstance(value, exp.Kwarg) else value
        if key not in _MADE:
            raise binder.source.error("unsupported", f"{key} of make_interval is not supported", node)
        place, factor = _MADE[key]
        count = binder.bind(written)
        if not count.type.is_integer:
            raise binder.source.error("type", f"make_interval takes integers, this is a {count.type}", node)
        part = _times(binder, Literal(factor, _TYPES[place]), count, _TYPES[place], node)
        zero = totals[place] == Literal(0, _TYPES[place])
        totals[place] = part if zero else folded(binder.call("add", (totals[place], part), node))
    return Interval(*totals)


def shift_moment(binder: Binder, moment: Expression, interval: Interval, sign: int, node: exp.Expr) -> Expression:
    """The moment plus or minus the interval: a TIMESTAMP, also when it is a DATE, as in PostgreSQL.

    A TIMESTAMPTZ stays one."""
    if not moment.type.is_time:
        raise binder.source.error("type", f"an interval is added to a DATE or TIMESTAMP, this is a {moment.type}", node)
    if moment.type == TIMESTAMPTZ:  # days are those of UTC
        return _to_moment(shift_moment(binder, _to_time(moment), interval, sign, node))
    if sign < 0:
        interval = _scaled(binder, interval, Literal(-1, INT), node)
    result = coerce(moment, TIMESTAMP)
    names = ("add_months", "add_days", "add_microseconds")
    for name, part, wanted in zip(names, interval.parts, _TYPES, strict=True):
        if part != Literal(0, wanted):
            result = folded(binder.call(name, (result, part), node))
    return result


def _to_time(moment: Expression) -> Expression:
    return folded(Cast(moment, TIMESTAMP))


def _to_moment(time: Expression) -> Expression:
    return coerce(time, TIMESTAMPTZ)


def length(binder: Binder, interval: Interval, node: exp.Expr) -> Expression:
    """The microseconds of an interval, for comparisons: a month counts 30 days there, as in PostgreSQL."""
    result: Expression = interval.microseconds
    for part, unit in ((interval.months, 30 * _DAY), (interval.days, _DAY)):
        if part != Literal(0, INT):
            scaled = binder.call("multiply", (coerce(part, BIGINT), Literal(unit, BIGINT)), node)
            result = folded(binder.call("add", (result, folded(scaled)), node))
    return result


def interval_of(text: str) -> Interval:
    """
    >>> [part.value for part in interval_of("1 year 2 mons 3 days 04:05:06").parts]
    [14, 3, 14706000000]
    """
    totals: list[Decimal] = [Decimal(0)] * 3
    position = 0
    for part in _PART.finditer(text):
        if part.start() != position:
            break
        position = part.end()
        if part[2] is not None:
            _add(totals, Decimal(part[1]), part[2].lower())
        else:
            time = Decimal(int(part[4]) * 3600 + int(part[5]) * 60) + Decimal(part[6] or 0)
            totals[2] += time * _SECOND * (-1 if part[3] == "-" else 1)
    if text[position:].strip() or position == 0:
        raise TidemarkError(
            "type", f"the text {text!r} is not an interval", hint="for example '1 year 2 months 3 days'"
        )
    limits = (2**31, 2**31, 2**63)
    if any(total % 1 or abs(total) >= limit for total, limit in zip(totals, limits, strict=True)):
        raise TidemarkError("type", f"the interval {text!r} is not a whole number of months, days or microseconds")
    return Interval(*(Literal(int(total), wanted) for total, wanted in zip(totals, _TYPES, strict=True)))


def _add(totals: list[Decimal], count: Decimal, unit: str) -> None:
    singular = unit if unit in _MICROSECONDS else {"centuries": "century"}.get(unit, unit.removesuffix("s"))
    if singular in _MONTHS:
        totals[0] += count * _MONTHS[singular]
    elif singular in _DAYS:
        days = count * _DAYS[singular]
        totals[1] += int(days)
        totals[2] += (days - int(days)) * _DAY
    elif singular in _MICROSECONDS:
        totals[2] += count * _MICROSECONDS[singular]
    else:
        raise TidemarkError("type", f"{unit!r} is not a unit of intervals", hint="years, months, weeks, days, hours, …")


def _literal(node: exp.Interval, source: Source) -> Interval:
    value, unit = node.this, node.args.get("unit")
    if not isinstance(value, exp.Literal):
        raise source.error("unsupported", "INTERVAL takes a literal", node, hint="multiply: n * INTERVAL '1 day'")
    if unit is None:
        return interval_of(str(value.name))
    if isinstance(unit, exp.IntervalSpan):
        raise source.error("unsupported", "INTERVAL … TO … is not supported", node, hint="'1 year 2 months'")
    name = unit.key if isinstance(unit, exp.Day | exp.Month | exp.Year) else str(unit.name)
    written = f"{value.name} {name}"
    # sqlglot reads the number and the unit, and drops what follows in the same text.
    for token in tokenize(source):
        if re.fullmatch(rf"\s*{re.escape(value.name)}\s+{name}\s+ago\s*", token.text, re.IGNORECASE):
            raise source.error(
                "unsupported", "AGO in an interval is not supported", token, hint="subtract the interval"
            )
    return interval_of(written)


def _scaled(binder: Binder, interval: Interval, factor: Expression, node: exp.Expr) -> Interval:
    if not factor.type.is_integer:
        raise binder.source.error("type", f"an interval is multiplied by an integer, this is a {factor.type}", node)
    parts = (_times(binder, part, factor, wanted, node) for part, wanted in zip(interval.parts, _TYPES, strict=True))
    return Interval(*parts)


def _times(binder: Binder, part: Expression, factor: Expression, wanted: Type, node: exp.Expr) -> Expression:
    if part == Literal(0, wanted):
        return part
    product = folded(binder.call("multiply", (part, factor), node))
    if isinstance(product, Literal):
        return coerce(product, wanted)
    return product if product.type == wanted else Cast(product, wanted)
