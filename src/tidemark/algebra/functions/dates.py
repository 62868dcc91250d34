"""Dates and timestamps: their fields, and the starts of the periods that they lie in.

Dates under + and -: a number of days shifts a date, and two dates are a number of days apart.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.ages import AGES, MOMENTS, microseconds
from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import (
    DUCKDB_ERROR,
    SPARK_ERROR,
    Function,
    Meaning,
    Resolver,
    Signature,
    Template,
    guard,
    guarded,
    pattern,
    plain,
    to_result,
)
from tidemark.algebra.types import DATE, INT, TIMESTAMP, Kind, Type, decimal
from tidemark.errors import TidemarkError

_INVALID: Final = "invalid_value: there is no such day within the years 0001 to 9999"

_NO_MOMENT: Final = "invalid_value: there is no such moment within the years 0001 to 9999"

_BEFORE: Final = "the period starts before the year 0001"

_OF_EITHER: Final = fixed(takes(DATE, gives=INT), takes(TIMESTAMP, gives=INT))


def _extract(
    field: str,
    meaning: Callable[[Any], Value],
    duckdb: str,
    spark: str,
    resolve: Resolver = _OF_EITHER,
) -> Function:
    """DuckDB counts in BIGINT, hence the cast."""
    return Function(
        f"extract_{field}",
        f"extract({field} FROM moment)",
        resolve,
        plain(meaning),
        to_result(duckdb),
        pattern(spark),
    )


def _of_timestamp(gives: Type) -> Resolver:
    """A DATE has no time of day, so none is made up by widening it."""
    resolve = fixed(takes(TIMESTAMP, gives=gives))
    return lambda types: None if DATE in types else resolve(types)


_FIELDS: Final = (
    _extract("year", lambda moment: moment.year, "year({0})", "year({0})"),
    _extract("quarter", lambda moment: (moment.month + 2) // 3, "quarter({0})", "quarter({0})"),
    _extract("month", lambda moment: moment.month, "month({0})", "month({0})"),
    _extract("day", lambda moment: moment.day, "day({0})", "day({0})"),
    _extract("dow", lambda moment: moment.isoweekday() % 7, "dayofweek({0})", "(dayofweek({0}) - 1)"),
    _extract("isodow", lambda moment: moment.isoweekday(), "isodow({0})", "(weekday({0}) + 1)"),
    _extract("doy", lambda moment: moment.timetuple().tm_yday, "dayofyear({0})", "dayofyear({0})"),
    _extract("week", lambda moment: moment.isocalendar().week, "week({0})", "weekofyear({0})"),
    _extract("isoyear", lambda moment: moment.isocalendar().year, "isoyear({0})", "extract(YEAROFWEEK FROM {0})"),
    _extract("decade", lambda moment: moment.year // 10, "year({0}) // 10", "CAST(year({0}) div 10 AS INT)"),
    _extract(
        "century",
        lambda moment: (moment.year + 99) // 100,
        "(year({0}) + 99) // 100",
        "CAST((year({0}) + 99) div 100 AS INT)",
    ),
    _extract(
        "millennium",
        lambda moment: (moment.year + 999) // 1000,
        "(year({0}) + 999) // 1000",
        "CAST((year({0}) + 999) div 1000 AS INT)",
    ),
    _extract("hour", lambda moment: moment.hour, "hour({0})", "hour({0})", _of_timestamp(INT)),
    _extract("minute", lambda moment: moment.minute, "minute({0})", "minute({0})", _of_timestamp(INT)),
    _extract(
        "second",
        lambda moment: Decimal(moment.second * 1_000_000 + moment.microsecond).scaleb(-6),
        "CAST(microsecond({0}) AS DECIMAL(8,0)) * CAST('0.000001' AS DECIMAL(7,6))",
        "extract(SECOND FROM {0})",
        _of_timestamp(decimal(8, 6)),
    ),
    _extract(
        "milliseconds",
        lambda moment: Decimal(moment.second * 1_000_000 + moment.microsecond).scaleb(-3),
        "CAST(microsecond({0}) AS DECIMAL(8,0)) * CAST('0.001' AS DECIMAL(4,3))",
        "CAST(extract(SECOND FROM {0}) * CAST(1000 AS DECIMAL(4,0)) AS DECIMAL(8,3))",
        _of_timestamp(decimal(8, 3)),
    ),
    _extract(
        "microseconds",
        lambda moment: moment.second * 1_000_000 + moment.microsecond,
        "microsecond({0})",
        "CAST(extract(SECOND FROM {0}) * CAST(1000000 AS DECIMAL(7,0)) AS INT)",
        _of_timestamp(INT),
    ),
    _extract(
        "epoch",
        lambda moment: Decimal(microseconds(moment)).scaleb(-6),
        "CAST(epoch_us({0}) AS DECIMAL(19,0)) * CAST('0.000001' AS DECIMAL(7,6))",
        "CAST(CAST(unix_micros(CAST({0} AS TIMESTAMP)) AS DECIMAL(19,0)) * CAST('0.000001' AS DECIMAL(7,6)) "
        "AS DECIMAL(18,6))",
        fixed(takes(TIMESTAMP, gives=decimal(18, 6))),
    ),
)


def _midnight(year: int, month: int, day: int) -> dt.datetime:
    return dt.datetime(year, month, day)


def _monday(moment: dt.datetime) -> dt.datetime:
    return _midnight(moment.year, moment.month, moment.day) - dt.timedelta(days=moment.weekday())


def _truncate(period: str, meaning: Callable[[dt.datetime], dt.datetime], engines_say: str = "") -> Function:
    """Spark truncates in its session's time zone, which is UTC, so nothing shifts on the way."""
    unit = engines_say or period
    return Function(
        f"date_trunc_{period}",
        f"date_trunc('{period}', moment)",
        fixed(takes(TIMESTAMP, gives=TIMESTAMP)),
        plain(meaning),
        pattern(f"CAST(date_trunc('{unit}', {{0}}) AS TIMESTAMP)"),
        pattern(f"CAST(date_trunc('{unit.upper()}', {{0}}) AS TIMESTAMP_NTZ)"),
    )


def _truncate_years(period: str, meaning: Callable[[int], int], first: str) -> Function:
    """A period of several years; ``first`` is the SQL of its first year, from the year. Year 0 is no year here."""

    def start(moment: dt.datetime) -> dt.datetime:
        if meaning(moment.year) < 1:
            raise TidemarkError("overflow", _BEFORE)
        return _midnight(meaning(moment.year), 1, 1)

    year = first.replace("year", "CAST(year({0}) AS INT)")
    starts = [f"CAST(make_date(CAST({year} AS INT), 1, 1) AS {name})" for name in ("TIMESTAMP", "TIMESTAMP_NTZ")]
    can_fail = meaning(1) < 1
    failing = f"{year} < 1"
    return Function(
        f"date_trunc_{period}",
        f"date_trunc('{period}', moment)",
        fixed(takes(TIMESTAMP, gives=TIMESTAMP)),
        plain(start),
        guarded(DUCKDB_ERROR, failing, f"overflow: {_BEFORE}", starts[0]) if can_fail else pattern(starts[0]),
        guarded(SPARK_ERROR, failing, f"overflow: {_BEFORE}", starts[1]) if can_fail else pattern(starts[1]),
        fails=f"overflow: {_BEFORE}" if can_fail else None,
    )


_PERIODS: Final = (
    _truncate("year", lambda moment: _midnight(moment.year, 1, 1)),
    _truncate("quarter", lambda moment: _midnight(moment.year, (moment.month - 1) // 3 * 3 + 1, 1)),
    _truncate("month", lambda moment: _midnight(moment.year, moment.month, 1)),
    _truncate("week", _monday),
    _truncate("day", lambda moment: _midnight(moment.year, moment.month, moment.day)),
    _truncate("hour", lambda moment: moment.replace(minute=0, second=0, microsecond=0)),
    _truncate("minute", lambda moment: moment.replace(second=0, microsecond=0)),
    _truncate("second", lambda moment: moment.replace(microsecond=0)),
    _truncate("milliseconds", lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000), "millisecond"),
    _truncate("microseconds", lambda moment: moment, "microsecond"),
    _truncate_years("decade", lambda year: year - year % 10, "(year - year % 10)"),
    _truncate_years("century", lambda year: year - (year - 1) % 100, "(year - (year - 1) % 100)"),
    _truncate_years("millennium", lambda year: year - (year - 1) % 1000, "(year - (year - 1) % 1000)"),
)


def _make_date(year: int, month: int, day: int) -> dt.date:
    try:
        return dt.date(year, month, day)
    except (ValueError, OverflowError) as error:
        raise TidemarkError("invalid_value", f"there is no day {year}-{month}-{day}") from error


def _make_date_template(raising: str) -> Template:
    """The engines know years before 0001 and after 9999; that a month has no such day they find out themselves."""
    outside = "{0} NOT BETWEEN 1 AND 9999 AND {1} IS NOT NULL AND {2} IS NOT NULL"
    return guarded(raising, outside, _INVALID, "make_date({0}, {1}, {2})")


_SECONDS: Final = decimal(18, 6)


def _makes_timestamp(types: tuple[Type, ...]) -> Signature | None:
    """Five integers, and seconds of any exact type with their fraction."""
    if len(types) != 6 or not (types[5].is_exact or types[5].kind is Kind.NULL):
        return None
    return fixed(takes(*(INT,) * 5, _SECONDS, gives=TIMESTAMP))((*types[:5], _SECONDS))


def _make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: Decimal) -> dt.datetime:
    try:
        whole = dt.datetime(year, month, day, hour, minute)
    except (ValueError, OverflowError) as error:
        raise TidemarkError("invalid_value", _NO_MOMENT.partition(": ")[2]) from error
    if not 0 <= second < 60:
        raise TidemarkError("invalid_value", _NO_MOMENT.partition(": ")[2])
    return whole + dt.timedelta(microseconds=int(second.scaleb(6)))


def _make_timestamp_template(raising: str) -> Template:
    """The day, as a moment, and the time since its midnight in microseconds."""
    known = " AND ".join(f"{{{place}}} IS NOT NULL" for place in range(6))
    unknown = " OR ".join(f"{{{place}}} IS NULL" for place in range(6))
    years = "{0} NOT BETWEEN 1 AND 9999"
    times = "{3} NOT BETWEEN 0 AND 23 OR {4} NOT BETWEEN 0 AND 59 OR {5} < 0 OR {5} >= 60"
    time = "CAST({3} AS BIGINT) * 3600000000 + {4} * CAST(60000000 AS BIGINT) + CAST({5} * 1000000 AS BIGINT)"
    if raising == DUCKDB_ERROR:
        moment = f"make_timestamp(epoch_us(CAST(make_date({{0}}, {{1}}, {{2}}) AS TIMESTAMP)) + {time})"
    else:
        day = "unix_micros(CAST(make_date({0}, {1}, {2}) AS TIMESTAMP))"
        moment = f"CAST(timestamp_micros({day} + {time}) AS TIMESTAMP_NTZ)"
    checked = guard(raising, f"({years} OR {times}) AND {known}", _NO_MOMENT, moment)
    return pattern(f"(CASE WHEN {unknown} THEN NULL ELSE {checked} END)")


DATES: Final = (
    *_FIELDS,
    *_PERIODS,
    *MOMENTS,
    *AGES,
    Function(
        "make_date",
        "make_date(year, month, day)",
        fixed(takes(INT, INT, INT, gives=DATE)),
        plain(_make_date),
        _make_date_template(DUCKDB_ERROR),
        _make_date_template(SPARK_ERROR),
        fails=_INVALID,
    ),
    Function(
        "make_timestamp",
        "make_timestamp(year, month, day, hour, minute, second)",
        _makes_timestamp,
        plain(_make_timestamp),
        _make_timestamp_template(DUCKDB_ERROR),
        _make_timestamp_template(SPARK_ERROR),
        fails=_NO_MOMENT,
    ),
)


_RANGE: Final = "the day is not within the years 0001 to 9999"
_FIRST: Final = "DATE '0001-01-01'"
_LAST: Final = "DATE '9999-12-31'"


def with_days(numbers: Resolver, *dates: Signature) -> Resolver:
    """The signatures of the dates if there is one among the arguments, else those of the numbers."""
    return lambda types: (fixed(*dates) if DATE in types else numbers)(types)


def with_day_meaning(sign: int, numbers: Meaning) -> Meaning:
    """``sign`` is 1 for addition and -1 for subtraction."""

    def meaning(values: tuple[Any, ...], signature: Signature) -> Value:
        if DATE not in signature.arguments:
            return numbers(values, signature)
        if signature.result == INT:
            return int((values[0] - values[1]).days)
        date, days = _date_first(values, signature.arguments)
        try:
            return dt.date.fromordinal(date.toordinal() + sign * days)
        except (ValueError, OverflowError) as error:
            raise TidemarkError("overflow", _RANGE) from error

    return meaning


def day_template(raising: str, sign: int, shifted: str, difference: str, numbers: Template) -> Template:
    """Both engines know days before 0001 and after 9999, which are no values here.

    Whether a day is one of them is told from how far away the first and the last are: to shift the date and then
    look at it could itself fail, and DuckDB evaluates a constant condition even in a branch that is never taken.
    """

    def template(arguments: tuple[str, ...], signature: Signature) -> str:
        if DATE not in signature.arguments:
            return numbers(arguments, signature)
        if signature.result == INT:
            return difference.format(*arguments)
        date, days = _date_first(arguments, signature.arguments)
        ends = (_FIRST, date), (_LAST, date)
        least, most = (difference.format(*end[::sign]) for end in ends[::sign])
        outside = f"{days} NOT BETWEEN {least} AND {most}"
        return guard(raising, outside, f"overflow: {_RANGE}", shifted.format(date, days))

    return template


def _date_first(pair: tuple[Any, ...], types: tuple[Type, ...]) -> tuple[Any, ...]:
    return pair if types[0] == DATE else pair[::-1]
