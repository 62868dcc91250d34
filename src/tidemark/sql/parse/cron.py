"""Times of a calendar, written as cron writes them: minute, hour, day of the month, month, day of the week.

Each field is ``*``, a number, a range ``a-b``, a list ``a,b``, or any of these with a step ``/n``; months and
weekdays may be named by three letters, and Sunday is 0 or 7. If both days are restricted, either of them serves, as
cron has it. All times are UTC.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: Final = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day", 1, 31, ()),
    ("month", 1, 12, tuple(_MONTHS)),
    ("weekday", 0, 7, tuple(_DAYS)),
)
_MOST_DAYS: Final = 366 * 8 + 2
"""So many days are searched at most: the 29th of February comes within eight years."""
NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


@dataclass(frozen=True)
class Cron:
    """The minutes, hours, days, months and weekdays at which something is due; ``text`` is how it was written."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    text: str

    def has_day(self, day: dt.date) -> bool:
        in_month, in_week = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        chosen = (in_month or in_week) if self.either_day else (in_month and in_week)
        return day.month in self.months and chosen

    def after(self, moment: dt.datetime) -> dt.datetime | None:
        """The first time after a moment; None if it never comes.

        >>> cron_of("0 9 * * mon").after(dt.datetime(2026, 1, 1, 12))
        datetime.datetime(2026, 1, 5, 9, 0)
        """
        day = moment.date()
        for _ in range(_MOST_DAYS):
            if self.has_day(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        time = dt.datetime.combine(day, dt.time(hour, minute))
                        if time > moment:
                            return time
            if day == dt.date.max:
                return None
            day += dt.timedelta(days=1)
        return None


def cron_of(text: str) -> Cron:
    """The times that a text says, or ValueError.

    >>> cron_of("*/30 8-9 * * *").minutes, cron_of("0 0 1 jan,jul *").months == {1, 7}
    ((0, 30), True)
    """
    parts = NAMED.get(text.strip().lower(), text).lower().split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"{text!r} has {len(parts)} fields; five are expected")
    values = [_values(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
    weekdays = frozenset(value % 7 for value in values[4])
    either = not parts[2].startswith("*") and not parts[4].startswith("*")
    return Cron(
        tuple(sorted(values[0])),
        tuple(sorted(values[1])),
        frozenset(values[2]),
        frozenset(values[3]),
        weekdays,
        either,
        text,
    )


def _values(text: str, what: str, least: int, most: int, names: tuple[str, ...]) -> set[int]:
    found: set[int] = set()
    for entry in text.split(","):
        span, slash, step_text = entry.partition("/")
        step = _number(step_text, what, 1, most, ()) if slash else 1
        if span == "*":
            first, last = least, most if what != "weekday" else 6
        else:
            start, dash, end = span.partition("-")
            first = _number(start, what, least, most, names)
            last = _number(end, what, least, most, names) if dash else (most if slash else first)
        if last < first:
            raise ValueError(f"{entry!r} is not a range of the {what}")
        found.update(range(first, last + 1, step))
    return found


def _number(text: str, what: str, least: int, most: int, names: tuple[str, ...]) -> int:
    if text in names:
        return names.index(text) + least
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"{text!r} is not a {what}: {least} to {most}")
    return int(text)
