"""The age of a moment at another, as PostgreSQL's age(): whole months, then whole days, then the time that is left.

From the earlier moment to the later one, field by field. Where the later one's day and time of day come before the
earlier one's, a month is borrowed, which has as many days as the earlier moment's month. If the first moment is the
earlier one, all parts are negative. There is no type of intervals, so each part is a function.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable
from typing import Final

from tidemark.algebra.functions.moments import DAY, microseconds
from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import Function, Template
from tidemark.algebra.functions.templates import Engine, let, plain
from tidemark.algebra.types import BIGINT, INT, TIMESTAMP, Type


def _age(left: dt.datetime, right: dt.datetime) -> tuple[int, int, int]:
    """
    >>> _age(dt.datetime(2024, 3, 1), dt.datetime(2024, 1, 31, 12))
    (1, 0, 43200000000)
    """
    early, late = min(left, right), max(left, right)
    time = microseconds(late) % DAY - microseconds(early) % DAY
    days = late.day - early.day
    months = (late.year - early.year) * 12 + late.month - early.month
    if time < 0:
        time, days = time + DAY, days - 1
    if days < 0:
        days, months = days + calendar.monthrange(early.year, early.month)[1], months - 1
    sign = -1 if left < right else 1
    return sign * months, sign * days, sign * time


def _template(engine: Engine, part: str) -> Template:
    """The moments in order are named, and the sign, which is NULL where a moment is.

    Names within names would take Spark minutes to resolve.
    """
    early, late = (_time(engine, moment) for moment in ("m.e", "m.l"))
    body = part.format(early=early, late=late, days=_DAYS.format(early=early, late=late))

    def text(arguments: tuple[str, ...], _: object) -> str:
        left, right = arguments
        sign = f"(CASE WHEN {left} < {right} THEN -1 WHEN {left} >= {right} THEN 1 END)"
        moments = {"e": f"least({left}, {right})", "l": f"greatest({left}, {right})", "s": sign}
        return let(engine, "m", moments, f"m.s * {body}")

    return text


def _time(engine: Engine, moment: str) -> str:
    """The microseconds since midnight; both engines count from 1970, backwards before."""
    if engine is Engine.DUCKDB:
        return f"(((epoch_us({moment}) % {DAY}) + {DAY}) % {DAY})"
    return f"pmod(unix_micros(CAST({moment} AS TIMESTAMP)), {DAY})"


_DAYS: Final = "(day(m.l) - day(m.e) - (CASE WHEN {late} < {early} THEN 1 ELSE 0 END))"
_BETWEEN: Final = "year(m.l) * 12 + month(m.l) - year(m.e) * 12 - month(m.e)"
_MONTHS: Final = f"CAST({_BETWEEN} - (CASE WHEN {{days}} < 0 THEN 1 ELSE 0 END) AS INT)"
_LENGTH: Final = "day(last_day(CAST(m.e AS DATE)))"
_REST: Final = f"CAST({{days}} + (CASE WHEN {{days}} < 0 THEN {_LENGTH} ELSE 0 END) AS INT)"
_TIME: Final = f"CAST({{late}} - {{early}} + (CASE WHEN {{late}} < {{early}} THEN {DAY} ELSE 0 END) AS BIGINT)"


def _part(name: str, usage: str, gives: Type, meaning: Callable[[tuple[int, int, int]], int], text: str) -> Function:
    return Function(
        name,
        usage,
        fixed(takes(TIMESTAMP, TIMESTAMP, gives=gives)),
        plain(lambda left, right: meaning(_age(left, right))),
        _template(Engine.DUCKDB, text),
        _template(Engine.SPARK, text),
    )


AGES: Final = (
    _part("age_months", "age(moment, moment): the months", INT, lambda age: age[0], _MONTHS),
    _part("age_days", "age(moment, moment): the days", INT, lambda age: age[1], _REST),
    _part("age_microseconds", "age(moment, moment): the time", BIGINT, lambda age: age[2], _TIME),
)
