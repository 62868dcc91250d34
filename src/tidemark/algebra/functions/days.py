"""Dates under + and -: a number of days shifts a date, and two dates are a number of days apart."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.resolvers import fixed
from tidemark.algebra.functions.table import Meaning, Resolver, Signature, Template
from tidemark.algebra.functions.templates import guard
from tidemark.algebra.types import DATE, INT, Type
from tidemark.errors import TidemarkError

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
