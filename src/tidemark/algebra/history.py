"""Reading relations as they were: what is stored, minus what was logged since.

    R as of version n  =  R − Δ(R since n)

A query that reads the past is an ordinary plan over what is stored and over the log since that version, which is given
to the engine under a name that says both.

The clock: a relation of one row, which holds the time up to which views that name NOW() are true.

A view reads it like any relation, so a step of the clock is a change like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidemark.algebra.plans import Given, Negate, Plan, Scan, Stored, transform, union, walk
from tidemark.algebra.types import TIMESTAMP, Field, Schema

_BEFORE: Final = "log since "


def logged_name(relation: str, version: int) -> str:
    """The name under which a relation's log since a version is given.

    >>> logged_name("stock", 7)
    'log since 7 of stock'
    """
    return f"{_BEFORE}{version} of {relation}"


def as_of(plan: Plan, version: int) -> Plan:
    """The plan with every relation read as it was at a version."""

    def rolled_back(part: Plan) -> Plan | None:
        if not isinstance(part, Scan):
            return None
        logged = Given(logged_name(part.relation, version), part.schema)
        return union((Stored(part.relation, part.schema), Negate(logged)), part.schema)

    return transform(plan, rolled_back)


def logs_read(plan: Plan) -> Iterator[tuple[str, int]]:
    """The relations whose past the plan reads, each with the version.

    >>> from tidemark.algebra.types import Schema
    >>> sorted(set(logs_read(as_of(Scan("stock", Schema(())), 7))))
    [('stock', 7)]
    """
    for part in walk(plan):
        if isinstance(part, Given) and part.name.startswith(_BEFORE):
            version, _, relation = part.name.removeprefix(_BEFORE).partition(" of ")
            yield relation, int(version)


CLOCK: Final = "_clock"
CLOCK_SCHEMA: Final = Schema((Field("now", TIMESTAMP, nullable=False),))
CLOCK_TEXT: Final = f"CREATE TABLE {CLOCK} (now TIMESTAMP NOT NULL)"
STEP: Final = f"step {CLOCK}"
"""The name under which a step is given to the engine: one row, the time before and the time after."""
STEP_SCHEMA: Final = Schema((Field("before", TIMESTAMP, nullable=False), Field("after", TIMESTAMP, nullable=False)))


def clock_scan() -> Scan:
    return Scan(CLOCK, CLOCK_SCHEMA)
