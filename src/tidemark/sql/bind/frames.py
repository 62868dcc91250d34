"""Binding frames: ROWS, GROUPS and RANGE between bounds, with PostgreSQL's rules for what a bound may be."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from sqlglot import exp

from tidemark.algebra.aggregates import SortKey
from tidemark.algebra.coerce import coerce, folded
from tidemark.algebra.expressions import Expression, Literal
from tidemark.algebra.types import BIGINT, DOUBLE, MAX_PRECISION, REAL, TIMESTAMP, TIMESTAMPTZ, Type, decimal
from tidemark.algebra.windows import (
    CURRENT,
    DEFAULT_FRAME,
    FROM_START,
    MICROSECONDS_PER_DAY,
    TO_END,
    WHOLE_FRAME,
    Bound,
    Distance,
    Frame,
    Span,
    Unit,
)
from tidemark.sql.bind.expressions import refuse_other_parts
from tidemark.sql.bind.scope import Binder
from tidemark.sql.functions.intervals import bind_interval, interval_of, is_interval

LARGEST_NUMBER: Final = 2**31 - 1
_LARGEST_DAYS: Final = 10_000 * 12 * 31
"""10,000 years, which is further than any two moments are apart."""


def bind_frame(spec: exp.Expr | None, order: tuple[SortKey, ...], binder: Binder) -> Frame:
    """The frame of a window that has this order; without a text the default one."""
    if spec is None:
        return DEFAULT_FRAME if order else WHOLE_FRAME
    source = binder.source
    if spec.args.get("exclude") is not None:
        hint = "subtract what the row adds, or filter in a subquery"
        raise source.error("unsupported", "EXCLUDE is not supported: Spark has no such frames", spec, hint=hint)
    refuse_other_parts(spec, ("kind", "start", "start_side", "end", "end_side"), source)
    unit = Unit(str(spec.args.get("kind") or "").upper())
    start, end = _side(spec, "start"), _side(spec, "end")
    if start == TO_END or end == FROM_START or _turned(start, end):
        raise source.error("syntax", "the frame ends before it starts", spec)
    if unit is Unit.GROUPS and not order:
        raise source.error("type", "GROUPS needs an ORDER BY", spec)
    frame = _Bounds(spec, order, binder).frame(unit, start, end)
    if frame.start.offset is None and frame.end.offset is None:
        return WHOLE_FRAME
    if _is_empty(frame):
        raise source.error("unsupported", "the frame has no rows: it ends before it starts", spec)
    return WHOLE_FRAME if frame.unit is Unit.RANGE and not order else frame


def whole_number(value: object, node: exp.Expr, binder: Binder, *, least: int) -> int:
    """A literal number of rows, of places or of tiles."""
    if not (isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit()):
        raise binder.source.error("unsupported", "a literal whole number is needed here", node)
    number = int(value.name)
    if not least <= number <= LARGEST_NUMBER:
        message = f"the number must be {least} at least" if number < least else "the number is too large"
        raise binder.source.error("type", message, node, hint=f"{LARGEST_NUMBER} at most")
    return number


def _side(spec: exp.Expr, part: str) -> Bound:
    """Where a bound lies, without its distance: 1 stands for any."""
    value, side = spec.args.get(part), str(spec.args.get(f"{part}_side") or "").upper()
    if value is None or value == "CURRENT ROW":
        return CURRENT
    return Bound(None if value == "UNBOUNDED" else 1, preceding=side != "FOLLOWING")


def _turned(start: Bound, end: Bound) -> bool:
    """Whether the frame goes backward whatever the distances are."""
    if start.offset is None or end.offset is None:
        return False
    return _direction(start) > _direction(end)


def _direction(bound: Bound) -> int:
    return 0 if bound == CURRENT else -1 if bound.preceding else 1


def _is_empty(frame: Frame) -> bool:
    start, end = frame.start, frame.end
    if _turned(start, end):
        return True
    if start.offset is None or end.offset is None or CURRENT in (start, end) or start.preceding != end.preceding:
        return False
    near, far = (start, end) if start.preceding else (end, start)
    return near != far and _is_shorter(near.offset, far.offset)


def _is_shorter(near: Distance | None, far: Distance | None) -> bool:
    """Whether one distance is never longer than the other; a month is neither shorter nor longer than 30 days."""
    if isinstance(near, Span) and isinstance(far, Span):
        a, b = (span.days * MICROSECONDS_PER_DAY + span.microseconds for span in (near, far))
        return near.months <= far.months and a <= b
    assert not isinstance(near, Span | None) and not isinstance(far, Span | None), "both are numbers"
    return near < far


class _Bounds:
    """The distances of one frame, in a type that is wide enough for both."""

    def __init__(self, spec: exp.Expr, order: tuple[SortKey, ...], binder: Binder) -> None:
        self.spec, self.order, self.binder, self.source = spec, order, binder, binder.source

    def frame(self, unit: Unit, start: Bound, end: Bound) -> Frame:
        if 1 not in (start.offset, end.offset):
            # Without a distance, GROUPS and RANGE mean the same.
            return Frame(Unit.ROWS if unit is Unit.ROWS else Unit.RANGE, start, end)
        if unit is not Unit.RANGE:
            return Frame(unit, self._counted(start, "start"), self._counted(end, "end"))
        key = self._key()
        if key.type.is_temporal:
            first, last = (self._moved(bound, part) for bound, part in ((start, "start"), (end, "end")))
            return self._measured(first, last, TIMESTAMP)
        distances = [self._number(bound, part, key) for bound, part in ((start, "start"), (end, "end"))]
        measure = self._measure(key.type, [distance.type for distance in distances if distance is not None])
        values = (None if distance is None else coerce(distance, measure) for distance in distances)
        first, last = (_at(bound, value) for bound, value in zip((start, end), values, strict=True))
        return self._measured(first, last, measure)

    def _measured(self, start: Bound, end: Bound, measure: Type) -> Frame:
        is_far = any(bound.offset not in (None, 0) for bound in (start, end))
        return Frame(Unit.RANGE, start, end, measure if is_far else None)

    def _key(self) -> Expression:
        if len(self.order) != 1:
            raise self.source.error("type", "RANGE with a distance needs one ORDER BY expression", self.spec)
        key = self.order[0].expression
        if key.type in (REAL, TIMESTAMPTZ):
            message = f"RANGE with a distance from a {key.type} is not supported"
            wide = DOUBLE if key.type == REAL else TIMESTAMP
            raise self.source.error("unsupported", message, self.spec, hint=f"ORDER BY a CAST to {wide}")
        if not (key.type.is_numeric or key.type.is_temporal):
            message = f"RANGE with a distance is ordered by a number or a moment, this is {key.type}"
            raise self.source.error("type", message, self.spec, hint="ROWS and GROUPS take any order")
        return key

    def _counted(self, bound: Bound, part: str) -> Bound:
        if bound.offset != 1:
            return bound
        return _zero_is_current(bound, whole_number(self.spec.args[part], self.spec, self.binder, least=0))

    def _moved(self, bound: Bound, part: str) -> Bound:
        """A bound that lies so much time away."""
        if bound.offset != 1:
            return bound
        node = self.spec.args[part]
        if isinstance(node, exp.Literal) and node.is_string:
            interval = interval_of(str(node.this))
        elif is_interval(node):
            interval = bind_interval(self.binder, node)
        else:
            message = "the distance from a DATE or TIMESTAMP is an interval"
            raise self.source.error("type", message, self.spec, hint="RANGE BETWEEN INTERVAL '7 days' PRECEDING AND …")
        months, days, microseconds = (self._integer(folded(each)) for each in interval.parts)
        if min(months, days, microseconds) < 0:
            signs = "its parts have both signs" if max(months, days, microseconds) > 0 else "it is negative"
            raise self.source.error("type", f"a distance goes one way, but {signs}", self.spec)
        if months * 31 + days + microseconds // MICROSECONDS_PER_DAY > _LARGEST_DAYS:
            raise self.source.error("type", "a distance of more than 10,000 years reaches everywhere", self.spec)
        zero = months == days == microseconds == 0
        return CURRENT if zero else Bound(Span(months, days, microseconds), bound.preceding)

    def _integer(self, part: Expression) -> int:
        if not isinstance(part, Literal) or not isinstance(part.value, int):
            raise self.source.error("unsupported", "the distance of a frame is a constant", self.spec)
        return part.value

    def _number(self, bound: Bound, part: str, key: Expression) -> Literal | None:
        if bound.offset != 1:
            return None
        node = self.spec.args[part]
        bound_value = None if is_interval(node) else folded(self.binder.bind(node))
        if not isinstance(bound_value, Literal) and bound_value is not None:
            raise self.source.error("unsupported", "the distance of a frame is a constant", self.spec)
        if bound_value is None or not _fits(bound_value, key.type):
            given = "an INTERVAL" if bound_value is None else str(bound_value.type)
            message = f"a distance from {key.type} cannot be {given}"
            raise self.source.error("type", message, self.spec, hint="CAST one of the two")
        assert isinstance(bound_value.value, int | float | Decimal)
        if bound_value.value < 0 or bound_value.value != bound_value.value:
            raise self.source.error("type", "the distance of a frame cannot be negative", self.spec)
        return bound_value

    def _measure(self, key: Type, distances: list[Type]) -> Type:
        """The type in which a distance can be added to any value of the key."""
        if key == DOUBLE:
            return DOUBLE
        parts = [type.as_decimal() for type in (key, *distances)]
        scale = max(part.scale for part in parts)
        whole = 1 + max(part.precision - part.scale for part in parts)
        if not scale and whole < 19:
            return BIGINT
        if whole + scale > MAX_PRECISION:
            message = f"a {key} with this distance added needs {whole + scale} digits, more than {MAX_PRECISION}"
            hint = f"ORDER BY a CAST to DECIMAL({MAX_PRECISION - 1},{scale})"
            raise self.source.error("unsupported", message, self.spec, hint=hint)
        return decimal(whole + scale, scale)


def _fits(distance: Literal, key: Type) -> bool:
    """PostgreSQL takes integers beside integers, exact numbers beside a DECIMAL, and any number beside a DOUBLE."""
    if distance.value is None:
        return False
    if key.is_integer:
        return distance.type.is_integer
    return distance.type.is_exact or (key == DOUBLE and distance.type == DOUBLE)


def _at(bound: Bound, distance: Expression | None) -> Bound:
    if distance is None:
        return bound
    assert isinstance(distance, Literal) and isinstance(distance.value, int | float | Decimal)
    return _zero_is_current(bound, distance.value)


def _zero_is_current(bound: Bound, distance: Distance) -> Bound:
    return CURRENT if distance == 0 else Bound(distance, bound.preceding)
