"""What fields, periods and shifts of moments must give, beside those in ``function_cases``."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal as D

from tests.function_case import LARGEST, OVERFLOW, SMALLEST, Case, at, calls, day
from tidemark.algebra.types import BIGINT, DATE, INT, TIMESTAMP

LATE, FIRST, LAST = at("1969-12-31 23:59:59.999999"), at("0001-01-01"), at("9999-12-31 23:59:59.999999")


def fields() -> Iterator[Case]:
    yield from calls("extract_isoyear", DATE, rows=[(day("2021-01-03"), 2020), (day("2024-12-30"), 2025), (None, None)])
    yield from calls("extract_decade", DATE, rows=[(day("1969-12-31"), 196), (day("0009-01-01"), 0), (None, None)])
    yield from calls(
        "extract_century", DATE, rows=[(day("2000-12-31"), 20), (day("2001-01-01"), 21), (day("0001-01-01"), 1)]
    )
    yield from calls("extract_century", TIMESTAMP, rows=[(LAST, 100), (None, None)])
    yield from calls("extract_millennium", DATE, rows=[(day("2000-12-31"), 2), (day("2001-01-01"), 3), (None, None)])
    yield from calls("extract_milliseconds", TIMESTAMP, rows=[(LATE, D("59999.999")), (FIRST, D(0)), (None, None)])
    yield from calls("extract_microseconds", TIMESTAMP, rows=[(LATE, 59999999), (FIRST, 0), (None, None)])
    yield from calls("extract_epoch", TIMESTAMP, rows=[(LATE, D("-0.000001")), (LAST, D("253402300799.999999"))])
    yield from calls(
        "extract_epoch", DATE, rows=[(day("1970-01-02"), D(86400)), (day("0001-01-01"), D("-62135596800"))]
    )
    yield from calls("extract_epoch", TIMESTAMP, rows=[(None, None)])


def periods() -> Iterator[Case]:
    moment = at("2024-05-16 13:14:15.123456")
    for name, start, of_late, of_first in (
        ("second", "2024-05-16 13:14:15", "1969-12-31 23:59:59", "0001-01-01"),
        ("milliseconds", "2024-05-16 13:14:15.123", "1969-12-31 23:59:59.999", "0001-01-01"),
        ("microseconds", "2024-05-16 13:14:15.123456", "1969-12-31 23:59:59.999999", "0001-01-01"),
        ("century", "2001-01-01", "1901-01-01", "0001-01-01"),
        ("millennium", "2001-01-01", "1001-01-01", "0001-01-01"),
    ):
        rows = [(moment, at(start)), (LATE, at(of_late)), (FIRST, at(of_first)), (None, None)]
        yield from calls(f"date_trunc_{name}", TIMESTAMP, rows=rows)
    yield from calls("date_trunc_century", DATE, rows=[(day("2000-12-31"), at("1901-01-01"))])
    yield from calls("date_trunc_decade", TIMESTAMP, rows=[(moment, at("2020-01-01")), (FIRST, OVERFLOW), (None, None)])
    yield from calls(
        "date_trunc_decade", DATE, rows=[(day("0010-01-01"), at("0010-01-01")), (day("0009-12-31"), OVERFLOW)]
    )


def shifts() -> Iterator[Case]:
    ends = [
        ("2024-01-31 12:00", 1, "2024-02-29 12:00"),
        ("2023-01-31", 1, "2023-02-28"),
        ("2024-03-31", -1, "2024-02-29"),
    ]
    rows = [(at(before), months, at(after)) for before, months, after in ends]
    far = [(LAST, 1, OVERFLOW), (FIRST, -1, OVERFLOW), (FIRST, LARGEST, OVERFLOW), (FIRST, SMALLEST, OVERFLOW)]
    yield from calls("add_months", TIMESTAMP, INT, rows=[*rows, *far, (None, 1, None), (FIRST, None, None)])
    yield from calls("add_months", TIMESTAMP, INT, rows=[(FIRST, 9999 * 12 - 1, at("9999-12-01")), (LATE, 0, LATE)])
    yield from calls("add_months", DATE, INT, rows=[(day("2024-02-29"), 12, at("2025-02-28"))])
    yield from calls(
        "add_days", TIMESTAMP, INT, rows=[(LATE, 1, at("1970-01-01 23:59:59.999999")), (FIRST, -1, OVERFLOW)]
    )
    yield from calls(
        "add_days",
        TIMESTAMP,
        INT,
        rows=[(LAST, 1, OVERFLOW), (LAST, SMALLEST, OVERFLOW), (FIRST, 3652058, at("9999-12-31"))],
    )
    yield from calls(
        "add_days",
        DATE,
        INT,
        rows=[(day("2024-02-29"), 1, at("2024-03-01")), (None, 1, None), (day("2024-02-29"), None, None)],
    )
    yield from calls("add_microseconds", TIMESTAMP, BIGINT, rows=[(LATE, 1, at("1970-01-01")), (LAST, 1, OVERFLOW)])
    yield from calls("add_microseconds", TIMESTAMP, BIGINT, rows=[(FIRST, -1, OVERFLOW), (FIRST, 2**63 - 1, OVERFLOW)])
    yield from calls(
        "add_microseconds", TIMESTAMP, BIGINT, rows=[(LAST, -(2**63), OVERFLOW), (None, 1, None), (LAST, None, None)]
    )
    yield from calls(
        "microseconds_between", TIMESTAMP, TIMESTAMP, rows=[(LAST, FIRST, 315537897599999999), (LATE, LATE, 0)]
    )
    yield from calls(
        "microseconds_between", TIMESTAMP, DATE, rows=[(LATE, day("1970-01-01"), -1), (None, day("1970-01-01"), None)]
    )


TIME: tuple[Case, ...] = (*fields(), *periods(), *shifts())
