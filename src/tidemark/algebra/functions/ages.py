"""The age of a moment at another, as PostgreSQL's age(): whole months, then whole days, then the time that is left.

From the earlier moment to the later one, field by field. Where the later one's day and time of day come before the
earlier one's, a month is borrowed, which has as many days as the earlier moment's month. If the first moment is the
earlier one, all parts are negative. There is no type of intervals, so each part is a function.

Moments shifted by intervals, and the time between two moments.

An interval has months, days and microseconds, as in PostgreSQL. There is no type of intervals: the binder adds the
months, then the days, then the microseconds to the moment. A month later is the same day of the month, or the last
day of a month that has none such.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable
from typing import Final

from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import Engine, Function, Template, guarded, let, pattern, plain
from tidemark.algebra.types import BIGINT, INT, TIMESTAMP, Type
from tidemark.errors import TidemarkError

DAY: Final = 86_400_000_000
"""Microseconds in a day."""
_EPOCH: Final = dt.datetime(1970, 1, 1)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_FIRST: Final = (dt.datetime.min - _EPOCH) // _MICROSECOND
_LAST: Final = (dt.datetime.max - _EPOCH) // _MICROSECOND
_RANGE: Final = "the moment is not within the years 0001 to 9999"
_FAILS: Final = f"overflow: {_RANGE}"
_DUCKDB_MICROSECONDS: Final = "epoch_us({0})"
_SPARK_MICROSECONDS: Final = "unix_micros(CAST({0} AS TIMESTAMP))"
"""The session's zone is UTC, so a moment without a zone keeps its numbers."""


def microseconds(moment: dt.datetime) -> int:
    """Since the start of 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def add_months(moment: dt.datetime, months: int) -> dt.datetime:
    """
    >>> add_months(dt.datetime(2024, 1, 31, 12), 1)
    datetime.datetime(2024, 2, 29, 12, 0)
    """
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        raise TidemarkError("overflow", _RANGE)
    last = calendar.monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


def _add_microseconds(moment: dt.datetime, count: int) -> dt.datetime:
    total = microseconds(moment) + count
    if not _FIRST <= total <= _LAST:
        raise TidemarkError("overflow", _RANGE)
    return _EPOCH + total * _MICROSECOND


def _add_days(moment: dt.datetime, days: int) -> dt.datetime:
    return _add_microseconds(moment, days * DAY)


def _months(engine: Engine) -> Template:
    """The months since year 0 tell whether the moment is in range before it is shifted."""
    outside = "CAST(year({0}) AS BIGINT) * 12 + month({0}) - 1 + {1} NOT BETWEEN 12 AND 119999"
    shifted = "({0} + to_months({1}))" if engine is Engine.DUCKDB else "({0} + make_ym_interval(0, {1}))"
    return guarded(engine.raising, outside, _FAILS, shifted)


def _shifted(engine: Engine, factor: int) -> Template:
    if engine is Engine.DUCKDB:
        total = f"CAST({_DUCKDB_MICROSECONDS} AS HUGEINT) + CAST({{1}} AS HUGEINT) * {factor}"
        moment = f"make_timestamp(CAST({total} AS BIGINT))"
    else:
        total = f"CAST({_SPARK_MICROSECONDS} AS DECIMAL(19,0)) + CAST({{1}} AS DECIMAL(19,0)) * {factor}"
        moment = f"CAST(timestamp_micros(CAST({total} AS BIGINT)) AS TIMESTAMP_NTZ)"
    return guarded(engine.raising, f"{total} NOT BETWEEN {_FIRST} AND {_LAST}", _FAILS, moment)


MOMENTS: Final = (
    Function(
        "add_months",
        "moment + INTERVAL 'n months'",
        fixed(takes(TIMESTAMP, INT, gives=TIMESTAMP)),
        plain(add_months),
        _months(Engine.DUCKDB),
        _months(Engine.SPARK),
        fails=_FAILS,
    ),
    Function(
        "add_days",
        "moment + INTERVAL 'n days'",
        fixed(takes(TIMESTAMP, INT, gives=TIMESTAMP)),
        plain(_add_days),
        _shifted(Engine.DUCKDB, DAY),
        _shifted(Engine.SPARK, DAY),
        fails=_FAILS,
    ),
    Function(
        "add_microseconds",
        "moment + INTERVAL 'n microseconds'",
        fixed(takes(TIMESTAMP, BIGINT, gives=TIMESTAMP)),
        plain(_add_microseconds),
        _shifted(Engine.DUCKDB, 1),
        _shifted(Engine.SPARK, 1),
        fails=_FAILS,
    ),
    Function(
        "microseconds_between",
        "moment - moment",
        fixed(takes(TIMESTAMP, TIMESTAMP, gives=BIGINT)),
        plain(lambda left, right: microseconds(left) - microseconds(right)),
        pattern("(epoch_us({0}) - epoch_us({1}))"),
        pattern("(unix_micros(CAST({0} AS TIMESTAMP)) - unix_micros(CAST({1} AS TIMESTAMP)))"),
    ),
)


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
