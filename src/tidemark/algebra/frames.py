"""Frames: which rows around the current one a window function looks at."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

from tidemark.algebra.types import Type

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
