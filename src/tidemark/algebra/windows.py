"""Window functions: values that a row gets from the rows around it, within its partition."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.expressions import Expression
from tidemark.algebra.frames import WHOLE_FRAME, Frame, Unit
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
