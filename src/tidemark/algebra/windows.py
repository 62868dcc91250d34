"""Window functions: values that a row gets from the rows around it, within its partition."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.expressions import Expression
from tidemark.algebra.types import BIGINT, DOUBLE, INT, Type


class WindowFunction(enum.Enum):
    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"
    PERCENT_RANK = "percent_rank"
    CUME_DIST = "cume_dist"
    NTILE = "ntile"
    LAG = "lag"
    LEAD = "lead"
    FIRST_VALUE = "first_value"
    LAST_VALUE = "last_value"
    NTH_VALUE = "nth_value"


AnyFunction: TypeAlias = WindowFunction | AggregateFunction

_NUMBERS = (WindowFunction.ROW_NUMBER, WindowFunction.RANK, WindowFunction.DENSE_RANK)
_SHARES = (WindowFunction.PERCENT_RANK, WindowFunction.CUME_DIST)
PEERED = (WindowFunction.RANK, WindowFunction.DENSE_RANK, *_SHARES)
"""Functions for which rows of the same place are equal; for others the order is made total."""


class Unit(enum.Enum):
    """What a frame counts: ROWS counts rows; a RANGE ends with the rows of the current place, all of them."""

    ROWS = "ROWS"
    RANGE = "RANGE"


@dataclass(frozen=True)
class Bound:
    """An end of a frame: so many rows before or after the current one; None has no end."""

    offset: int | None
    preceding: bool

    def __str__(self) -> str:
        side = "PRECEDING" if self.preceding else "FOLLOWING"
        if self.offset is None:
            return f"UNBOUNDED {side}"
        return "CURRENT ROW" if self.offset == 0 else f"{self.offset} {side}"


@dataclass(frozen=True)
class Frame:
    unit: Unit
    start: Bound
    end: Bound

    def __str__(self) -> str:
        return f"{self.unit.value} BETWEEN {self.start} AND {self.end}"


FROM_START = Bound(None, preceding=True)
CURRENT = Bound(0, preceding=True)
TO_END = Bound(None, preceding=False)
DEFAULT_FRAME = Frame(Unit.RANGE, FROM_START, CURRENT)
WHOLE_FRAME = Frame(Unit.ROWS, FROM_START, TO_END)


@dataclass(frozen=True)
class WindowCall:
    """One function over a window. ``arguments`` are its value, then for LAG and LEAD the distance (a literal) and the
    default, for NTILE and NTH_VALUE the number (a literal). ``frame`` belongs to framed functions and aggregates;
    FIRST_VALUE, LAST_VALUE and NTH_VALUE have frames of ROWS, in which there is one first row."""

    function: AnyFunction
    arguments: tuple[Expression, ...] = ()
    frame: Frame | None = None

    @property
    def type(self) -> Type:
        if isinstance(self.function, AggregateFunction):
            return self.aggregate.type
        if self.function in _NUMBERS:
            return BIGINT
        if self.function in _SHARES:
            return DOUBLE
        return INT if self.function is WindowFunction.NTILE else self.arguments[0].type

    @property
    def nullable(self) -> bool:
        if isinstance(self.function, AggregateFunction):
            return self.aggregate.nullable
        return self.function not in (*_NUMBERS, *_SHARES, WindowFunction.NTILE)

    @property
    def tells_ties_apart(self) -> bool:
        """Whether rows of the same place may get different values, so that the order has to be total."""
        if isinstance(self.function, AggregateFunction):
            return self.frame is not None and self.frame.unit is Unit.ROWS and self.frame != WHOLE_FRAME
        return self.function not in PEERED

    @property
    def is_approximate(self) -> bool:
        return isinstance(self.function, AggregateFunction) and self.aggregate.is_approximate

    @property
    def can_fail(self) -> bool:
        return isinstance(self.function, AggregateFunction) and self.aggregate.can_fail

    @property
    def aggregate(self) -> AggregateCall:
        """The call as an aggregate over the frame, if it is one."""
        assert isinstance(self.function, AggregateFunction)
        return AggregateCall(self.function, self.arguments[0] if self.arguments else None)

    def with_arguments(self, arguments: tuple[Expression, ...]) -> WindowCall:
        return replace(self, arguments=arguments)
