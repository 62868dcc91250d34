"""What ages, made timestamps, buckets, divisors, parts of arrays and of patterns must give; see ``function_cases``."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal as D

from tests.function_case import INFINITY, INVALID, LARGEST, OVERFLOW, SMALLEST, Case, at, calls, day
from tidemark.algebra.functions import NAN
from tidemark.algebra.types import BIGINT, DATE, DOUBLE, INT, NULL, SMALLINT, TIMESTAMP, VARCHAR, array_of, decimal

NUMBERS, WORDS, DOUBLES = array_of(INT), array_of(VARCHAR), array_of(DOUBLE)
_HOUR = 3_600_000_000
AGES = [
    # PostgreSQL's documentation: age('2001-04-10', '1957-06-13') is 43 years 9 mons 27 days
    ("2001-04-10", "1957-06-13", (43 * 12 + 9, 27, 0)),
    ("2024-03-01", "2024-01-31 12:00", (1, 0, 12 * _HOUR)),
    ("2024-02-29", "2023-02-28", (12, 1, 0)),
    ("2024-02-28", "2023-03-31", (10, 28, 0)),
    ("2023-03-31", "2024-02-28", (-10, -28, 0)),
    ("2024-01-01", "2024-01-01", (0, 0, 0)),
    ("2024-01-01", "2023-12-31 23:59:59.999999", (0, 0, 1)),
    ("1969-12-31 23:00", "1970-01-01 01:30", (0, 0, -int(2.5 * _HOUR))),
    ("9999-12-31 23:59:59.999999", "0001-01-01", (9998 * 12 + 11, 30, 24 * _HOUR - 1)),
]


def ages() -> Iterator[Case]:
    for place, name in enumerate(("age_months", "age_days", "age_microseconds")):
        rows = [(at(left), at(right), parts[place]) for left, right, parts in AGES]
        yield from calls(name, TIMESTAMP, TIMESTAMP, rows=[*rows, (None, at("2024-01-01"), None), (None, None, None)])
        yield from calls(name, DATE, TIMESTAMP, rows=[(day("2024-01-01"), None, None)])
    yield from calls("age_months", DATE, DATE, rows=[(day("2024-05-15"), day("2000-05-16"), 24 * 12 - 1)])


def made() -> Iterator[Case]:
    seconds = decimal(8, 6)
    fields = [2024, 2, 29, 13, 14]
    rows = [
        (*fields, D("15.123456"), at("2024-02-29 13:14:15.123456")),
        (1, 1, 1, 0, 0, D(0), at("0001-01-01")),
        (9999, 12, 31, 23, 59, D("59.999999"), at("9999-12-31 23:59:59.999999")),
        (1969, 12, 31, 23, 59, D("59.9"), at("1969-12-31 23:59:59.9")),
        (2023, 2, 29, 0, 0, D(0), INVALID),
        (0, 1, 1, 0, 0, D(0), INVALID),
        (2024, 13, 1, 0, 0, D(0), INVALID),
        (2024, 1, 1, 24, 0, D(0), INVALID),
        (2024, 1, 1, 0, 60, D(0), INVALID),
        (2024, 1, 1, 0, 0, D(60), INVALID),
        (2024, 1, 1, 0, 0, D("-0.1"), INVALID),
        (2024, None, 1, 99, 0, D(0), None),
        (2024, 1, 1, 0, 0, None, None),
    ]
    yield from calls("make_timestamp", *(INT,) * 5, seconds, rows=rows)
    yield from calls("make_timestamp", *(INT,) * 6, rows=[(*fields, 15, at("2024-02-29 13:14:15"))])


def integers() -> Iterator[Case]:
    yield from calls("gcd", INT, INT, rows=[(1071, 462, 21), (-12, 18, 6), (0, 0, 0), (0, -7, 7), (None, 1, None)])
    yield from calls(
        "gcd", INT, INT, rows=[(SMALLEST, 0, OVERFLOW), (SMALLEST, 6, 2), (1, None, None), (None, 0, None)]
    )
    yield from calls("gcd", BIGINT, INT, rows=[(7540113804746346429, 2, 1), (-(2**63), 12, 4), (2**62, LARGEST, 1)])
    yield from calls("gcd", BIGINT, BIGINT, rows=[(7540113804746346429, 4660046610375530309, 1)])  # the longest way
    yield from calls("lcm", INT, INT, rows=[(1071, 462, 23562), (-4, 6, 12), (0, 5, 0), (5, 0, 0), (None, 0, None)])
    yield from calls("lcm", INT, INT, rows=[(LARGEST, 2, OVERFLOW), (SMALLEST, 1, OVERFLOW), (0, None, None)])
    yield from calls("lcm", BIGINT, BIGINT, rows=[(2**31, 3**19, 2**31 * 3**19 if 2**31 * 3**19 < 2**63 else OVERFLOW)])
    yield from calls(
        "to_hex", INT, rows=[(255, "ff"), (0, "0"), (-1, "ffffffff"), (SMALLEST, "80000000"), (None, None)]
    )
    yield from calls("to_hex", BIGINT, rows=[(-1, "f" * 16), (2**63 - 1, "7" + "f" * 15), (-(2**63), "8" + "0" * 15)])
    yield from calls("to_hex", SMALLINT, rows=[(-1, "ffffffff")])


def buckets() -> Iterator[Case]:
    money = decimal(12, 2)
    inside = [(D("5.35"), D("0.02"), D("10.06"), 5, 3), (D("0.02"), D("0.02"), D("10.06"), 5, 1)]
    outside = [(D("0.01"), D("0.02"), D("10.06"), 5, 0), (D("10.06"), D("0.02"), D("10.06"), 5, 6)]
    turned = [(D("9"), D("10"), D("0"), 10, 2), (D("10"), D("10"), D("0"), 10, 1), (D("0"), D("10"), D("0"), 10, 11)]
    turned.append((D("10.01"), D("10"), D("0"), 10, 0))
    wrong = [(D(1), D(1), D(1), 5, INVALID), (D(1), D(0), D(2), 0, INVALID), (D(1), D(0), D(2), -1, INVALID)]
    unknown = [(None, D(1), D(1), 5, None), (D(1), None, D(1), 5, None), (D(1), D(1), D(1), None, None)]
    yield from calls("width_bucket", money, money, money, INT, rows=[*inside, *outside, *turned, *wrong, *unknown])
    yield from calls("width_bucket", money, money, money, INT, rows=[(D(9), D(0), D(9), LARGEST, OVERFLOW)])
    yield from calls("width_bucket", INT, INT, INT, INT, rows=[(3, 1, 10, 3, 1), (4, 1, 10, 3, 2), (7, 1, 10, 3, 3)])
    yield from calls("width_bucket", BIGINT, INT, INT, INT, rows=[(2**63 - 1, 0, 1, 4, 5), (-(2**63), 0, 1, 4, 0)])
    floats = [(0.5, 0.0, 1.0, 10, 6), (0.999, 0.0, 1.0, 10, 10), (1.0, 0.0, 1.0, 10, 11), (-0.1, 0.0, 1.0, 10, 0)]
    far = [(0.0, -1e308, 1e308, 2, 2), (INFINITY, 0.0, 1.0, 4, 5), (-INFINITY, 0.0, 1.0, 4, 0)]
    odd = [(NAN, 0.0, 1.0, 4, INVALID), (0.5, 0.0, INFINITY, 4, INVALID), (0.5, NAN, 1.0, 4, INVALID)]
    yield from calls("width_bucket", DOUBLE, DOUBLE, DOUBLE, INT, rows=[*floats, *far, *odd, (None, NAN, 0.0, 1, None)])
    yield from calls("width_bucket", DOUBLE, INT, INT, INT, rows=[(0.1 + 0.2, 0, 1, 10, 4), (0.3, 1, 0, 10, 8)])


def parts_of_arrays() -> Iterator[Case]:
    three = (7, 8, 9)
    rows: list[tuple[object, ...]] = [
        (three, 1, 2, (7, 8)),
        (three, -5, 2, (7, 8)),
        (three, 2, 100, (8, 9)),
        (three, 3, 2, ()),
        (three, 5, 9, ()),
        (three, -3, -1, ()),
        (three, 2, LARGEST, (8, 9)),
        (three, SMALLEST, LARGEST, three),
        ((), 1, 2, ()),
        ((None, 1), 1, 1, (None,)),
        (None, 1, 2, None),
        (three, None, 2, None),
        (three, 1, None, None),
    ]
    yield from calls("array_slice", NUMBERS, INT, INT, rows=rows)
    removed = [((1, 2, 1), 1, (2,)), ((1, None), None, (1,)), ((1, None), 1, (None,)), ((), 1, ()), (None, 1, None)]
    yield from calls("array_remove", NUMBERS, INT, rows=removed)
    yield from calls("array_remove", DOUBLES, DOUBLE, rows=[((NAN, 1.0), NAN, (1.0,))])
    replaced = [((1, 2, 1), 1, 5, (5, 2, 5)), ((1, None), None, 0, (1, 0)), ((1, 2), 2, None, (1, None))]
    yield from calls("array_replace", NUMBERS, INT, INT, rows=[*replaced, (None, 1, 2, None), ((), 1, 2, ())])
    yield from calls("array_replace", WORDS, VARCHAR, NULL, rows=[(("a", ""), "", None, ("a", None))])
    contained = [((1, 2, 3), (3, 1, 1), True), ((1, 2), (3,), False), ((1,), (), True), ((), (), True)]
    unknown = [((1, None), (None,), False), ((1, None), (1,), True), (None, (1,), None), ((1,), None, None)]
    yield from calls("array_contains_all", NUMBERS, NUMBERS, rows=[*contained, *unknown])
    yield from calls("array_contains_all", DOUBLES, NUMBERS, rows=[((1.0, NAN), (1,), True), ((1.5,), (1,), False)])
    shared = [((1, 2), (2, 3), True), ((1, 2), (3,), False), ((1,), (), False), ((None,), (None,), False)]
    yield from calls("array_overlaps", NUMBERS, NUMBERS, rows=[*shared, (None, (1,), None), ((1,), None, None)])


def parts_of_patterns() -> Iterator[Case]:
    many = "".join(f"({letter})" for letter in "abcdefghi")
    for n, letter in enumerate("abcdefghi", 1):
        if n > 1:
            rows = [("xabcdefghi", many, letter), ("abc", many, None), (None, many, None)]
            yield from calls(f"regexp_substr_group_{n}", VARCHAR, VARCHAR, rows=rows)
    split = [("a, b,c", ", *", ("a", "b", "c")), ("", ",", ("",)), ("abc", ",", ("abc",)), (",,", ",", ("", "", ""))]
    yield from calls("regexp_split_to_array", VARCHAR, VARCHAR, rows=[*split, (None, ",", None)])
    yield from calls(
        "regexp_split_to_array", VARCHAR, VARCHAR, rows=[("a1é22b", "([0-9])+", ("a", "é", "b")), ("x", "x", ("", ""))]
    )


PARTS: tuple[Case, ...] = (*ages(), *made(), *integers(), *buckets(), *parts_of_arrays(), *parts_of_patterns())
