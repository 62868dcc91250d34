"""Dates and timestamps: their fields, and the starts of the periods that they lie in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import Function, Resolver, Template
from tidemark.algebra.functions.templates import DUCKDB_ERROR, SPARK_ERROR, guarded, pattern, plain, to_result
from tidemark.algebra.types import DATE, INT, TIMESTAMP, Type, decimal
from tidemark.errors import TidemarkError

_INVALID: Final = "invalid_value: there is no such day within the years 0001 to 9999"

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
    _extract("hour", lambda moment: moment.hour, "hour({0})", "hour({0})", _of_timestamp(INT)),
    _extract("minute", lambda moment: moment.minute, "minute({0})", "minute({0})", _of_timestamp(INT)),
    _extract(
        "second",
        lambda moment: Decimal(moment.second * 1_000_000 + moment.microsecond).scaleb(-6),
        "CAST(microsecond({0}) AS DECIMAL(8,0)) * CAST('0.000001' AS DECIMAL(7,6))",
        "extract(SECOND FROM {0})",
        _of_timestamp(decimal(8, 6)),
    ),
)


def _midnight(year: int, month: int, day: int) -> dt.datetime:
    return dt.datetime(year, month, day)


def _monday(moment: dt.datetime) -> dt.datetime:
    return _midnight(moment.year, moment.month, moment.day) - dt.timedelta(days=moment.weekday())


def _truncate(period: str, meaning: Callable[[dt.datetime], dt.datetime]) -> Function:
    """Spark truncates in its session's time zone, which is UTC, so nothing shifts on the way."""
    return Function(
        f"date_trunc_{period}",
        f"date_trunc('{period}', moment)",
        fixed(takes(TIMESTAMP, gives=TIMESTAMP)),
        plain(meaning),
        pattern(f"CAST(date_trunc('{period}', {{0}}) AS TIMESTAMP)"),
        pattern(f"CAST(date_trunc('{period.upper()}', {{0}}) AS TIMESTAMP_NTZ)"),
    )


_PERIODS: Final = (
    _truncate("year", lambda moment: _midnight(moment.year, 1, 1)),
    _truncate("quarter", lambda moment: _midnight(moment.year, (moment.month - 1) // 3 * 3 + 1, 1)),
    _truncate("month", lambda moment: _midnight(moment.year, moment.month, 1)),
    _truncate("week", _monday),
    _truncate("day", lambda moment: _midnight(moment.year, moment.month, moment.day)),
    _truncate("hour", lambda moment: moment.replace(minute=0, second=0, microsecond=0)),
    _truncate("minute", lambda moment: moment.replace(second=0, microsecond=0)),
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


DATES: Final = (
    *_FIELDS,
    *_PERIODS,
    Function(
        "make_date",
        "make_date(year, month, day)",
        fixed(takes(INT, INT, INT, gives=DATE)),
        plain(_make_date),
        _make_date_template(DUCKDB_ERROR),
        _make_date_template(SPARK_ERROR),
        fails=_INVALID,
    ),
)
