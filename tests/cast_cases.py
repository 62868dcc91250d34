"""What every cast must give, by example; see ``function_cases``."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal as D

from tests.function_case import INFINITY, INVALID, OVERFLOW, SMALLEST, Case, at, casts, day
from tests.struct_cases import STRUCT_CASTS
from tidemark.algebra.functions import NAN
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INT,
    NULL,
    REAL,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    decimal,
)

MONEY = decimal(12, 2)


def between_numbers() -> Iterator[Case]:
    yield from casts(BIGINT, INT, [(2**31 - 1, 2**31 - 1), (2**31, OVERFLOW), (None, None)])
    yield from casts(INT, SMALLINT, [(-32768, -32768), (-32769, OVERFLOW)])
    yield from casts(SMALLINT, BIGINT, [(-5, -5)])
    yield from casts(INT, decimal(5, 2), [(999, D(999)), (1000, OVERFLOW)])
    yield from casts(BIGINT, decimal(38, 18), [(-(2**63), D(-(2**63)))])
    yield from casts(decimal(4, 1), INT, [(D("2.5"), 3), (D("-2.5"), -3), (D("-0.4"), 0), (None, None)])
    yield from casts(decimal(20, 1), INT, [(D("2147483647.4"), 2**31 - 1), (D("2147483647.5"), OVERFLOW)])
    yield from casts(decimal(38, 0), BIGINT, [(D(2**63 - 1), 2**63 - 1), (D(2**63), OVERFLOW)])
    yield from casts(MONEY, decimal(3, 1), [(D("1.25"), D("1.3")), (D("-1.25"), D("-1.3")), (D("99.94"), D("99.9"))])
    yield from casts(MONEY, decimal(3, 1), [(D("99.95"), OVERFLOW), (D("-0.04"), D(0))])
    yield from casts(MONEY, decimal(38, 20), [(D("-9999999999.99"), D("-9999999999.99"))])
    yield from casts(
        DOUBLE, INT, [(2.5, 2), (3.5, 4), (-0.5, 0), (2147483647.5, OVERFLOW), (NAN, OVERFLOW), (None, None)]
    )
    yield from casts(DOUBLE, SMALLINT, [(32767.4, 32767), (32767.5, OVERFLOW), (-INFINITY, OVERFLOW)])
    yield from casts(DOUBLE, BIGINT, [(2.0**63, OVERFLOW), (-(2.0**63), -(2**63)), (2.0**63 - 1024, 2**63 - 1024)])
    yield from casts(DOUBLE, MONEY, [(0.1 + 0.2, D("0.30")), (0.125, D("0.13")), (-0.125, D("-0.13")), (-0.001, D(0))])
    yield from casts(DOUBLE, MONEY, [(1e10, OVERFLOW), (1e19, OVERFLOW), (NAN, OVERFLOW), (-INFINITY, OVERFLOW)])
    yield from casts(DOUBLE, decimal(38, 18), [(0.1, D("0.1")), (2.0**62, D(2**62)), (-1e-18, D("-1e-18"))])
    yield from casts(INT, DOUBLE, [(SMALLEST, -2147483648.0), (0, 0.0)])
    yield from casts(BIGINT, DOUBLE, [(2**53 + 1, 2.0**53), (2**53 + 3, 2.0**53 + 4)])
    yield from casts(
        decimal(38, 20),
        DOUBLE,
        [(D("0.1"), 0.1), (D("123456789012345678.12345678901234567891"), 123456789012345678.12)],
    )
    yield from casts(decimal(2, 2), DOUBLE, [(D("-0.25"), -0.25), (D(0), 0.0)])
    yield from casts(BOOLEAN, INT, [(True, 1), (False, 0), (None, None)])
    yield from casts(INT, BOOLEAN, [(2, True), (-1, True), (0, False), (None, None)])
    yield from casts(NULL, decimal(5, 2), [(None, None)])


TENTH = 0.10000000149011612
"""What a REAL has of a tenth."""


def of_reals() -> Iterator[Case]:
    largest, least = (2.0 - 2.0**-23) * 2.0**127, 2.0**-149
    yield from casts(DOUBLE, REAL, [(0.1, TENTH), (16777217.0, 16777216.0), (NAN, NAN), (-INFINITY, -INFINITY)])
    yield from casts(DOUBLE, REAL, [(largest, largest), (3.4028235677973362e38, largest), (least, least), (0.0, 0.0)])
    yield from casts(DOUBLE, REAL, [(3.4028235677973366e38, OVERFLOW), (-1e39, OVERFLOW), (None, None)])
    yield from casts(DOUBLE, REAL, [(2.0**-150, OVERFLOW), (-1e-300, OVERFLOW), (-(2.0**-149.5), -least)])
    yield from casts(REAL, DOUBLE, [(TENTH, TENTH), (NAN, NAN), (None, None)])
    yield from casts(REAL, INT, [(2.5, 2), (-3.5, -4), (2.0**31, OVERFLOW), (NAN, OVERFLOW)])
    yield from casts(REAL, BIGINT, [(2.0**62, 2**62), (2.0**63, OVERFLOW), (INFINITY, OVERFLOW)])
    yield from casts(REAL, MONEY, [(TENTH, D("0.10")), (0.125, D("0.13")), (2.0**100, OVERFLOW)])
    yield from casts(INT, REAL, [(16777217, 16777216.0), (SMALLEST, -2147483648.0)])
    yield from casts(BIGINT, REAL, [(2**62, 2.0**62), (None, None)])
    yield from casts(MONEY, REAL, [(D("0.10"), TENTH), (D(0), 0.0)])
    yield from casts(VARCHAR, REAL, [("0.1", TENTH), (" 1e10 ", 1e10), ("-Infinity", -INFINITY), ("nan", NAN)])
    yield from casts(VARCHAR, REAL, [("1e39", OVERFLOW), ("-1e-50", OVERFLOW), ("1e999", OVERFLOW), ("one", INVALID)])


def of_bytes() -> Iterator[Case]:
    yield from casts(VARCHAR, BYTEA, [("\\x", b""), ("\\xDEad", b"\xde\xad"), ("\\x00", b"\0"), (None, None)])
    wrong = ("", "x00", "/x00", "\\x0", "\\xgg", " \\x00", "\\x00\n", "\\X00", "abc", "\\\\x00")
    yield from casts(VARCHAR, BYTEA, [(text, INVALID) for text in wrong])
    yield from casts(BYTEA, VARCHAR, [(b"", "\\x"), (b"\xde\xad\0", "\\xdead00"), (None, None)])


def of_moments() -> Iterator[Case]:
    noon = at("2026-01-01 12:00+00:00")
    yield from casts(
        VARCHAR,
        TIMESTAMPTZ,
        [
            ("2026-01-01 12:00", noon),
            ("2026-01-01T12:00:00Z", noon),
            (" 2026-01-01 14:00:00.000000+02 ", noon),
            ("2026-01-01 06:30 -0530", noon),
            ("2026-01-01 12:00:00 UTC", noon),
            ("2026-01-02 03:59+15:59", noon),
            ("2026-01-01", noon.replace(hour=0)),
            ("0001-01-01 01:00:00.000001+01", at("0001-01-01 00:00:00.000001+00:00")),
            (None, None),
        ],
    )
    wrong = ("", "now", "2026-02-30 12:00Z", "2026-01-01 24:00", "2026-01-01 12:00+16", "2026-01-01 12:00 CET")
    early, late = "0001-01-01 00:59+01", "9999-12-31 23:59:59.999999-00:01"
    yield from casts(VARCHAR, TIMESTAMPTZ, [(text, INVALID) for text in (*wrong, "2026-01-01+02", early, late)])
    yield from casts(TIMESTAMPTZ, VARCHAR, [(noon, "2026-01-01 12:00:00+00"), (None, None)])
    yield from casts(TIMESTAMPTZ, VARCHAR, [(noon.replace(microsecond=1200), "2026-01-01 12:00:00.0012+00")])
    yield from casts(TIMESTAMPTZ, TIMESTAMP, [(noon, at("2026-01-01 12:00")), (None, None)])
    yield from casts(TIMESTAMP, TIMESTAMPTZ, [(at("2026-01-01 12:00"), noon), (None, None)])
    yield from casts(TIMESTAMP, TIMESTAMPTZ, [(at("0001-01-01"), at("0001-01-01 00:00+00:00"))])
    yield from casts(TIMESTAMPTZ, DATE, [(noon, day("2026-01-01")), (at("1969-12-31 23:00+00:00"), day("1969-12-31"))])
    yield from casts(DATE, TIMESTAMPTZ, [(day("2026-01-01"), noon.replace(hour=0)), (None, None)])


def to_text() -> Iterator[Case]:
    yield from casts(INT, VARCHAR, [(SMALLEST, "-2147483648"), (0, "0"), (None, None)])
    yield from casts(
        decimal(10, 7),
        VARCHAR,
        [(D("0.0000001"), "0.0000001"), (D("-1.5"), "-1.5000000"), (D(0), "0.0000000")],
    )
    yield from casts(decimal(2, 2), VARCHAR, [(D("-0.5"), "-0.50"), (D(0), "0.00")])
    yield from casts(decimal(38, 0), VARCHAR, [(D(10**37), "1" + "0" * 37)])
    yield from casts(BOOLEAN, VARCHAR, [(True, "true"), (False, "false"), (None, None)])
    yield from casts(DATE, VARCHAR, [(day("0099-02-03"), "0099-02-03"), (day("9999-12-31"), "9999-12-31")])
    yield from casts(
        TIMESTAMP,
        VARCHAR,
        [(at("0001-01-01"), "0001-01-01 00:00:00"), (at("2024-02-29 01:02:03.5"), "2024-02-29 01:02:03.5")],
    )
    yield from casts(
        TIMESTAMP, VARCHAR, [(at("1969-12-31 23:59:59.000120"), "1969-12-31 23:59:59.00012"), (None, None)]
    )
    yield from casts(NULL, VARCHAR, [(None, None)])


def from_text() -> Iterator[Case]:
    numbers = [("12", 12), (" -5 ", -5), ("+7", 7), ("007", 7), ("-0", 0), ("0" * 60 + "3", 3), (None, None)]
    others = ["", " ", "1.0", "1e3", "12\n", "\t12", "1 2", "+", "--1", "\uff11", "0x10", "1_000", "abc"]
    yield from casts(VARCHAR, INT, [*numbers, ("2147483648", OVERFLOW), *((other, INVALID) for other in others)])
    yield from casts(VARCHAR, SMALLINT, [("-32768", -32768), ("-32769", OVERFLOW), ("", INVALID)])
    yield from casts(VARCHAR, BIGINT, [(str(2**63 - 1), 2**63 - 1), (str(2**63), OVERFLOW), ("9" * 50, OVERFLOW)])
    yield from casts(
        VARCHAR,
        MONEY,
        [("1.5", D("1.5")), (" .5", D("0.5")), ("5.", D(5)), ("-0.005", D("-0.01")), ("-0.004", D(0))],
    )
    yield from casts(
        VARCHAR,
        MONEY,
        [("0.00" + "4" + "9" * 60, D(0)), ("9999999999.994", D("9999999999.99")), (None, None)],
    )
    yield from casts(
        VARCHAR,
        MONEY,
        [("9999999999.995", OVERFLOW), ("1e3", INVALID), (".", INVALID), ("1,5", INVALID), ("NaN", INVALID)],
    )
    yield from casts(
        VARCHAR,
        decimal(38, 0),
        [("9" * 38 + ".4", D("9" * 38)), ("9" * 38 + ".5", OVERFLOW), ("9" * 39, OVERFLOW)],
    )
    yield from casts(
        VARCHAR,
        DOUBLE,
        [("0.1", 0.1), ("-0", 0.0), (" 1e3 ", 1000.0), (".5E-1", 0.05), ("1e-400", 0.0), (None, None)],
    )
    yield from casts(
        VARCHAR,
        DOUBLE,
        [
            ("1e400", OVERFLOW),
            ("-1e309", OVERFLOW),
            ("NaN", NAN),
            ("-inf", -INFINITY),
            ("1d", INVALID),
            ("0x1p3", INVALID),
            ("nane", INVALID),
        ],
    )
    yield from casts(
        VARCHAR, DATE, [("2024-02-29", day("2024-02-29")), (" 0001-01-01 ", day("0001-01-01")), (None, None)]
    )
    bad_days = [
        "2023-02-29",
        "2023-13-01",
        "0000-01-01",
        "10000-01-01",
        "2023-2-3",
        "2023-02-28 10:00",
        "",
        "epoch",
    ]
    yield from casts(VARCHAR, DATE, [(text, INVALID) for text in bad_days])
    yield from casts(
        VARCHAR, TIMESTAMP, [("2024-02-29", at("2024-02-29")), ("2024-02-29 01:02", at("2024-02-29 01:02"))]
    )
    yield from casts(
        VARCHAR, TIMESTAMP, [(" 0001-01-01T23:59:59.000001", at("0001-01-01 23:59:59.000001")), (None, None)]
    )
    bad_moments = [
        "2023-02-29 00:00",
        "2024-02-29 24:00",
        "2024-02-29 1:02",
        "2024-02-29 01:02:03.1234567",
        "2024-02-29 01:02Z",
    ]
    yield from casts(VARCHAR, TIMESTAMP, [(text, INVALID) for text in bad_moments])
    truths = [
        ("true", True),
        (" T ", True),
        ("YES", True),
        ("1", True),
        ("False", False),
        ("f", False),
        ("nO", False),
        ("0", False),
    ]
    yield from casts(VARCHAR, BOOLEAN, [*truths, (None, None), ("", INVALID), ("tru", INVALID), ("2", INVALID)])


def between_dates() -> Iterator[Case]:
    yield from casts(DATE, TIMESTAMP, [(day("0001-01-01"), at("0001-01-01")), (None, None)])
    yield from casts(
        TIMESTAMP,
        DATE,
        [(at("1969-12-31 23:59:59.999999"), day("1969-12-31")), (at("9999-12-31 12:00"), day("9999-12-31"))],
    )


CASTS: tuple[Case, ...] = (
    *between_numbers(),
    *to_text(),
    *from_text(),
    *between_dates(),
    *of_reals(),
    *of_bytes(),
    *of_moments(),
    *STRUCT_CASTS,
)
