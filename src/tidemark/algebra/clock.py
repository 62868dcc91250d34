"""The clock: a relation of one row, which holds the time up to which views that name NOW() are true.

A view reads it like any relation, so a step of the clock is a change like any other.
"""

from __future__ import annotations

from typing import Final

from tidemark.algebra.plans import Scan
from tidemark.algebra.types import TIMESTAMP, Field, Schema

CLOCK: Final = "_clock"
CLOCK_SCHEMA: Final = Schema((Field("now", TIMESTAMP, nullable=False),))
CLOCK_TEXT: Final = f"CREATE TABLE {CLOCK} (now TIMESTAMP NOT NULL)"
STEP: Final = f"step {CLOCK}"
"""The name under which a step is given to the engine: one row, the time before and the time after."""
STEP_SCHEMA: Final = Schema((Field("before", TIMESTAMP, nullable=False), Field("after", TIMESTAMP, nullable=False)))


def clock_scan() -> Scan:
    return Scan(CLOCK, CLOCK_SCHEMA)
