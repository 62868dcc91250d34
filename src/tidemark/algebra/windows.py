"""Window functions: values that a row gets from the rows around it, and the frames that say which rows those are."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, TypeAlias

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.expressions import Expression
from tidemark.algebra.types import BIGINT, DOUBLE, INT, Type

MICROSECONDS_PER_DAY: Final = 86_400_000_000


class Unit(enum.Enum):
    """What a frame counts: ROWS counts rows, GROUPS counts places, and a RANGE goes by the value rows are ordered by.

    A place is a set of rows that the order does not tell apart. RANGE and GROUPS begin and end with whole places.
    """

    ROWS = "ROWS"
    RANGE = "RANGE"
    GROUPS = "GROUPS"


@dataclass(frozen=True)
class Span:
    """A distance in time: the months first, then the days, then the microseconds; none of them is negative.

    >>> print(Span(14, 0, 5))
    14 months 5 microseconds
    """

    months: int
    days: int
    microseconds: int

    def __str__(self) -> str:
        parts = {"months": self.months, "days": self.days, "microseconds": self.microseconds}
        return " ".join(f"{count} {unit}" for unit, count in parts.items() if count)


Distance: TypeAlias = int | float | Decimal | Span


@dataclass(frozen=True)
class Bound:
    """An end of a frame: so far before or after the current row, or where its place ends (0); None has no end."""

    offset: Distance | None
    preceding: bool

    def __str__(self) -> str:
        return self.written(f"INTERVAL '{self.offset}'" if isinstance(self.offset, Span) else str(self.offset))

    def written(self, distance: str) -> str:
        """The bound with a text for its distance."""
        side = "PRECEDING" if self.preceding else "FOLLOWING"
        if self.offset is None:
            return f"UNBOUNDED {side}"
        return "CURRENT ROW" if self.offset == 0 else f"{distance} {side}"


@dataclass(frozen=True)
class Frame:
    """The rows between two bounds.

    If a RANGE has a distance, there is one key in the order, and ``measure`` is the type to which the key is cast, wide
    enough for every value with a distance added: a bound beyond all values is no error. From the row with key k, ``d
    PRECEDING`` is the place of k − d, and of k + d in descending order. From a NULL it is the place of the NULLs.
    """

    unit: Unit
    start: Bound
    end: Bound
    measure: Type | None = None

    def __str__(self) -> str:
        return f"{self.unit.value} BETWEEN {self.start} AND {self.end}"


FROM_START = Bound(None, preceding=True)
CURRENT = Bound(0, preceding=True)
TO_END = Bound(None, preceding=False)
DEFAULT_FRAME = Frame(Unit.RANGE, FROM_START, CURRENT)
WHOLE_FRAME = Frame(Unit.ROWS, FROM_START, TO_END)


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
_ENDS = (WindowFunction.FIRST_VALUE, WindowFunction.LAST_VALUE)
PEERED = (WindowFunction.RANK, WindowFunction.DENSE_RANK, *_SHARES)
"""Functions for which rows of the same place are equal; for others the order is made total."""


@dataclass(frozen=True)
class WindowCall:
    """One function over a window. ``arguments`` are its value, then for LAG and LEAD the distance (a literal) and the
    default, for NTILE and NTH_VALUE the number (a literal). ``frame`` belongs to framed functions and aggregates; that
    of NTH_VALUE is of ROWS. With ``ignores_nulls`` rows whose value is NULL are passed over."""

    function: AnyFunction
    arguments: tuple[Expression, ...] = ()
    frame: Frame | None = None
    ignores_nulls: bool = False

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
    def is_end_of_places(self) -> bool:
        """Whether it is the first or last row of a frame whose ends are places, so that rows have to be numbered."""
        return self.function in _ENDS and self.frame is not None and self.frame.unit is not Unit.ROWS

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
