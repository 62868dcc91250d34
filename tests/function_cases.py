"""What every function and cast must give, by example: one table for the reference, DuckDB and Spark.

The expected values are PostgreSQL's, written by hand. Where PostgreSQL has no answer (a type that it does not have,
a limit of ours), the reference page says what holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal as D

from tests.array_cases import ARRAY
from tests.function_case import (
    ACCENT,
    FAMILY,
    INFINITY,
    INVALID,
    LARGEST,
    OVERFLOW,
    SMALLEST,
    ZERO,
    Case,
    at,
    calls,
    day,
)
from tests.math_cases import MATH
from tests.part_cases import PARTS
from tests.struct_cases import STRUCT
from tests.text_cases import TEXT
from tests.time_cases import TIME
from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import NAN
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Type,
    decimal,
)


def numbers() -> Iterator[Case]:
    small, money, wide, widest = (SMALLINT, decimal(12, 2), decimal(38, 10), decimal(38, 0))
    nines = D(10**38 - 1)
    yield from calls("add", INT, INT, rows=[(1, 2, 3), (None, 2, None), (LARGEST, 1, OVERFLOW)])
    yield from calls("add", small, small, rows=[(32767, -1, 32766), (32767, 1, OVERFLOW)])
    yield from calls("add", small, BIGINT, rows=[(32767, 1, 32768), (1, 2**63 - 1, OVERFLOW)])
    yield from calls("add", NULL, INT, rows=[(None, 1, None)])
    yield from calls("add", INT, money, rows=[(LARGEST, D("0.50"), D("2147483647.50"))])
    yield from calls("add", decimal(18, 2), decimal(18, 4), rows=[(D("9" * 16 + ".99"), D("0.0100"), D(10**16))])
    yield from calls("add", widest, widest, rows=[(nines, D(0), nines), (nines, D(1), OVERFLOW)])
    yield from calls("add", widest, wide, rows=[(D(1), D("0.5"), D("1.5")), (D(10**28), D("-1"), OVERFLOW)])
    yield from calls("add", DOUBLE, DOUBLE, rows=[(0.1, 0.2, 0.1 + 0.2), (1e308, 1e308, INFINITY)])
    yield from calls("add", DOUBLE, DOUBLE, rows=[(INFINITY, -INFINITY, NAN), (NAN, 1.0, NAN)])
    yield from calls("add", DOUBLE, money, rows=[(0.5, D("0.10"), 0.6)])
    yield from calls("subtract", INT, INT, rows=[(1, 2, -1), (1, None, None), (SMALLEST, 1, OVERFLOW)])
    yield from calls("subtract", money, money, rows=[(D("1.10"), D("1.10"), D(0)), (D("0.1"), D(1), D("-0.9"))])
    yield from calls("subtract", DOUBLE, DOUBLE, rows=[(1.5, 1.5, 0.0), (-1e308, 1e308, -INFINITY)])
    yield from calls("multiply", INT, INT, rows=[(-3, 4, -12), (65536, 32768, OVERFLOW), (None, 0, None)])
    yield from calls("multiply", small, small, rows=[(181, 181, 32761), (256, 128, OVERFLOW)])
    yield from calls("multiply", BIGINT, INT, rows=[(2**62, 2, OVERFLOW), (-(2**62), 2, -(2**63))])
    yield from calls("multiply", money, money, rows=[(D("9" * 10 + ".99"),) * 2 + (D("99999999999800000000.0001"),)])
    yield from calls("multiply", widest, widest, rows=[(D(10**19), D(10**19), OVERFLOW), (nines, D(-1), D(1 - 10**38))])
    yield from calls("multiply", wide, money, rows=[(D("0.5"), D("-0.5"), D("-0.25")), (D(10**27), D(10), OVERFLOW)])
    yield from calls("multiply", DOUBLE, DOUBLE, rows=[(0.0, -1.0, 0.0), (1e308, -10.0, -INFINITY)])
    yield from calls("multiply", DOUBLE, DOUBLE, rows=[(INFINITY, 0.0, NAN), (5e-324, -0.5, 0.0)])
    yield from calls("divide", INT, INT, rows=[(7, 2, 3), (-7, 2, -3), (7, -2, -3), (1, 0, ZERO), (None, 0, None)])
    yield from calls("divide", INT, INT, rows=[(SMALLEST, -1, OVERFLOW), (SMALLEST, 1, SMALLEST), (0, None, None)])
    yield from calls("divide", small, small, rows=[(-32768, -1, OVERFLOW), (-32768, 2, -16384)])
    yield from calls("divide", BIGINT, BIGINT, rows=[(-(2**63), -1, OVERFLOW), (2**63 - 1, 2, 2**62 - 1)])
    yield from calls("divide", DOUBLE, DOUBLE, rows=[(1.0, 4.0, 0.25), (0.0, -1.0, 0.0), (1.0, 0.0, ZERO)])
    yield from calls("divide", DOUBLE, DOUBLE, rows=[(None, 0.0, None), (NAN, 0.0, ZERO), (1e308, 1e-308, INFINITY)])
    yield from calls("divide", DOUBLE, INT, rows=[(1.0, 3, 1 / 3), (INFINITY, -2, -INFINITY)])
    yield from calls("modulo", INT, INT, rows=[(7, 3, 1), (-7, 3, -1), (7, -3, 1), (1, 0, ZERO), (None, 0, None)])
    yield from calls("modulo", INT, INT, rows=[(SMALLEST, -1, 0), (5, -1, 0), (5, None, None)])
    yield from calls("modulo", BIGINT, small, rows=[(-(2**63), -1, 0), (-(2**63), 10, -8)])
    yield from calls("modulo", DOUBLE, DOUBLE, rows=[(-7.5, 2.0, -1.5), (-4.0, 2.0, 0.0), (1.0, 0.0, ZERO)])
    yield from calls("modulo", DOUBLE, DOUBLE, rows=[(INFINITY, 2.0, NAN), (5.5, INFINITY, 5.5)])


def single_numbers() -> Iterator[Case]:
    tenths = decimal(2, 1)
    yield from calls("negate", INT, rows=[(5, -5), (0, 0), (None, None), (SMALLEST, OVERFLOW)])
    yield from calls("negate", SMALLINT, rows=[(-32767, 32767), (-32768, OVERFLOW)])
    yield from calls("negate", decimal(4, 2), rows=[(D("-1.50"), D("1.50")), (D(0), D(0))])
    yield from calls("negate", DOUBLE, rows=[(0.0, 0.0), (1.5, -1.5), (NAN, NAN), (INFINITY, -INFINITY)])
    yield from calls("average", BIGINT, BIGINT, rows=[(7, 2, 3.5), (None, 0, None), (7, 0, None), (-1, 3, -1 / 3)])
    yield from calls("average", decimal(38, 2), BIGINT, rows=[(D("0.30"), 3, 0.3 / 3), (D("10.10"), 4, 10.1 / 4)])
    yield from calls("average", DOUBLE, BIGINT, rows=[(1.5, 2, 0.75), (INFINITY, 3, INFINITY), (NAN, 1, NAN)])
    yield from calls("abs", INT, rows=[(-5, 5), (None, None), (SMALLEST, OVERFLOW)])
    yield from calls("abs", BIGINT, rows=[(-(2**63) + 1, 2**63 - 1), (-(2**63), OVERFLOW)])
    yield from calls("abs", decimal(4, 2), rows=[(D("-1.50"), D("1.50"))])
    yield from calls("abs", DOUBLE, rows=[(-1.5, 1.5), (-INFINITY, INFINITY), (NAN, NAN)])
    yield from calls("round", INT, rows=[(7, 7), (None, None)])
    yield from calls("round", tenths, rows=[(D("2.5"), D(3)), (D("-2.5"), D(-3)), (D("9.9"), D(10)), (None, None)])
    yield from calls("round", decimal(38, 3), rows=[(D("9" * 35 + ".999"), D(10**35)), (D("-0.499"), D(0))])
    yield from calls("round", DOUBLE, rows=[(2.5, 2.0), (3.5, 4.0), (-0.5, 0.0), (0.49999999999999994, 0.0)])
    yield from calls("round", DOUBLE, rows=[(1e300, 1e300), (NAN, NAN), (-INFINITY, -INFINITY), (None, None)])
    yield from calls("floor", BIGINT, rows=[(2**63 - 1, 2**63 - 1)])
    yield from calls("floor", tenths, rows=[(D("-0.5"), D(-1)), (D("9.9"), D(9)), (None, None)])
    yield from calls("floor", DOUBLE, rows=[(-0.5, -1.0), (0.5, 0.0), (1e300, 1e300), (NAN, NAN)])
    yield from calls("floor", DOUBLE, rows=[(-4503599627370495.5, -4503599627370496.0), (-INFINITY, -INFINITY)])
    yield from calls("ceil", BIGINT, rows=[(-(2**63), -(2**63))])
    yield from calls("ceil", tenths, rows=[(D("-0.5"), D(0)), (D("9.1"), D(10)), (None, None)])
    yield from calls("ceil", DOUBLE, rows=[(-0.5, 0.0), (0.5, 1.0), (-1e300, -1e300), (INFINITY, INFINITY)])
    yield from calls("sign", INT, rows=[(-7, -1), (0, 0), (7, 1), (None, None)])
    yield from calls("sign", decimal(38, 38), rows=[(D("-1e-38"), -1), (D(0), 0)])
    yield from calls("sign", DOUBLE, rows=[(-5e-324, -1.0), (0.0, 0.0), (INFINITY, 1.0), (NAN, 0.0)])


def comparisons() -> Iterator[Case]:
    ordered: list[tuple[Type, Value, Value]] = [
        (INT, -1, 0),
        (BOOLEAN, False, True),
        (VARCHAR, "", " "),
        (VARCHAR, "B", "a"),
        (VARCHAR, "a", "a "),
        (VARCHAR, "\uffff", "\U00010000"),  # by code point; in UTF-16 the order would be the other way round
        (decimal(4, 2), D("-0.01"), D("0.00")),
        (DOUBLE, INFINITY, NAN),
        (DOUBLE, -INFINITY, 0.0),
        (DATE, day("0001-01-01"), day("1969-12-31")),
        (TIMESTAMP, at("1969-12-31 23:59:59.999999"), at("1970-01-01")),
    ]
    answers = {
        "eq": (False, True, False),
        "ne": (True, False, True),
        "lt": (True, False, False),
        "le": (True, True, False),
        "gt": (False, False, True),
        "ge": (False, True, True),
    }
    for name, (below, equal, above) in answers.items():
        for type, low, high in ordered:
            yield Case(name, (type, type), (low, high), below)
            yield Case(name, (type, type), (high, high), equal)
            yield Case(name, (type, type), (high, low), above)
        yield Case(name, (INT, INT), (None, 1), None)
        yield Case(name, (NULL, NULL), (None, None), None)
        yield Case(name, (SMALLINT, BIGINT), (-1, 2**40), below)
        yield Case(name, (INT, decimal(3, 1)), (2, D("2.0")), equal)
        yield Case(name, (decimal(20, 1), DOUBLE), (D("9007199254740993.0"), 9007199254740992.0), equal)
        yield Case(name, (DATE, TIMESTAMP), (day("2024-02-29"), at("2024-02-29 00:00:01")), below)
    for type, low, high in [*ordered, (DOUBLE, None, NAN), (VARCHAR, None, "")]:
        for left, right in ((low, high), (high, high), (high, low), (None, None)):
            different = (left, right) in ((low, high), (high, low))
            yield Case("is_distinct", (type, type), (left, right), different)
            yield Case("is_not_distinct", (type, type), (left, right), not different)


def logic() -> Iterator[Case]:
    both = (BOOLEAN, BOOLEAN)
    yield from calls("and", *both, rows=[(True, True, True), (True, False, False), (False, True, False)])
    yield from calls("and", *both, rows=[(None, True, None), (False, None, False), (None, None, None)])
    yield from calls("or", *both, rows=[(False, False, False), (True, False, True), (False, True, True)])
    yield from calls("or", *both, rows=[(None, True, True), (False, None, None), (None, None, None)])
    yield from calls("and", NULL, BOOLEAN, rows=[(None, False, False), (None, True, None)])
    yield from calls("not", BOOLEAN, rows=[(True, False), (False, True), (None, None)])
    yield from calls("is_null", INT, rows=[(None, True), (0, False)])
    yield from calls("is_null", NULL, rows=[(None, True)])
    yield from calls("is_null", DOUBLE, rows=[(NAN, False)])
    yield from calls("is_not_null", VARCHAR, rows=[(None, False), ("", True)])
    yield from calls("is_true", BOOLEAN, rows=[(True, True), (False, False), (None, False)])
    yield from calls("is_not_true", BOOLEAN, rows=[(True, False), (False, True), (None, True)])
    yield from calls("is_false", BOOLEAN, rows=[(True, False), (False, True), (None, False)])
    yield from calls("is_not_false", BOOLEAN, rows=[(True, True), (False, False), (None, True)])
    yield from calls("coalesce", INT, rows=[(None, None), (1, 1)])
    yield from calls(
        "coalesce", NULL, INT, decimal(3, 1), rows=[(None, None, D("1.5"), D("1.5")), (None, 2, None, D(2))]
    )
    yield from calls("coalesce", NULL, NULL, rows=[(None, None, None)])
    yield from calls("nullif", INT, INT, rows=[(1, 1, None), (1, 2, 1), (None, 1, None), (1, None, 1)])
    yield from calls("nullif", INT, decimal(3, 1), rows=[(1, D("1.0"), None), (1, D("1.1"), D(1))])
    yield from calls("nullif", DOUBLE, DOUBLE, rows=[(NAN, NAN, None), (NAN, 1.0, NAN)])
    yield from calls("greatest", INT, rows=[(1, 1), (None, None)])
    yield from calls("greatest", INT, INT, INT, rows=[(1, None, 3, 3), (None, None, None, None)])
    yield from calls("greatest", DOUBLE, INT, rows=[(NAN, 1, NAN), (None, 1, 1.0)])
    yield from calls("greatest", VARCHAR, VARCHAR, rows=[("B", "a", "a"), ("", None, "")])
    yield from calls("greatest", BOOLEAN, BOOLEAN, rows=[(False, True, True)])
    yield from calls("least", INT, INT, INT, rows=[(1, None, -3, -3), (None, None, None, None)])
    yield from calls("least", DOUBLE, DOUBLE, rows=[(NAN, INFINITY, INFINITY), (-INFINITY, 1.0, -INFINITY)])
    yield from calls(
        "least", DATE, TIMESTAMP, rows=[(day("2024-03-01"), at("2024-02-29 12:00"), at("2024-02-29 12:00"))]
    )
    yield from calls("in_list", INT, INT, INT, rows=[(1, 2, 1, True), (1, 2, 3, False), (1, 2, None, None)])
    yield from calls("in_list", INT, INT, NULL, rows=[(None, 1, None, None), (1, 1, None, True)])
    yield from calls("in_list", INT, decimal(3, 1), rows=[(1, D("1.0"), True), (1, D("1.1"), False)])
    many: tuple[Value, ...] = tuple(float(n) for n in range(12))  # engines look long lists up in a hash table
    yield Case("in_list", (DOUBLE,) * 14, (NAN, *many, NAN), True)
    yield Case("in_list", (DOUBLE,) * 14, (0.5, *many, None), None)
    yield Case("in_list", (DOUBLE,) * 13, (0.5, *many), False)


def text() -> Iterator[Case]:
    yield from calls("concat", VARCHAR, VARCHAR, rows=[("a", "é", "aé"), ("", "", ""), ("a", None, None)])
    yield from calls("lower", VARCHAR, rows=[("AbÇÖ1", "abçö1"), ("", ""), (None, None)])
    yield from calls("upper", VARCHAR, rows=[("aBçöÿ", "ABÇÖŸ"), ("", ""), (None, None)])
    yield from calls("length", VARCHAR, rows=[("", 0), ("é", 1), (FAMILY, 3), (ACCENT, 3), (None, None), (" a ", 3)])
    yield from calls(
        "substring", VARCHAR, INT, rows=[("hello", 2, "ello"), ("hello", 0, "hello"), ("hello", -3, "hello")]
    )
    yield from calls(
        "substring",
        VARCHAR,
        INT,
        rows=[("hello", 9, ""), (FAMILY, 3, "x"), ("a", LARGEST, ""), ("a", None, None)],
    )
    pieces = [("hello", 2, 3, "ell"), ("hello", 0, 3, "he"), ("hello", -2, 3, ""), ("hello", -1, 3, "h")]
    edges = [
        ("hello", 1, 0, ""),
        ("hello", 6, 1, ""),
        ("hello", 2, LARGEST, "ello"),
        ("hello", SMALLEST, LARGEST, ""),
    ]
    strange = [
        ("a", 1, -1, INVALID),
        (None, 1, -1, None),
        ("a", None, -1, None),
        ("a", 1, None, None),
        (FAMILY, 2, 2, FAMILY[1:]),
    ]
    yield from calls("substring", VARCHAR, INT, INT, rows=[*pieces, *edges, *strange])
    yield from calls(
        "left", VARCHAR, INT, rows=[("abc", 2, "ab"), ("abc", 0, ""), ("abc", 9, "abc"), ("abc", -1, "ab")]
    )
    yield from calls(
        "left",
        VARCHAR,
        INT,
        rows=[("abc", -9, ""), ("abc", SMALLEST, ""), (FAMILY, 1, FAMILY[0]), ("a", None, None)],
    )
    yield from calls("left", VARCHAR, INT, rows=[(None, -1, None), (None, 1, None), ("", -1, "")])
    yield from calls(
        "right", VARCHAR, INT, rows=[("abc", 2, "bc"), ("abc", 0, ""), ("abc", 9, "abc"), ("abc", -1, "bc")]
    )
    yield from calls(
        "right",
        VARCHAR,
        INT,
        rows=[("abc", -9, ""), ("abc", SMALLEST, ""), (FAMILY, 2, FAMILY[1:]), ("a", None, None)],
    )
    yield from calls("right", VARCHAR, INT, rows=[(None, -1, None), (None, 1, None), ("abc", LARGEST, "abc")])
    blank = "  \t\u00a0a b\u3000\n  "
    yield from calls("trim", VARCHAR, rows=[(blank, "\t\u00a0a b\u3000\n"), ("  ", ""), ("", ""), (None, None)])
    yield from calls("ltrim", VARCHAR, rows=[(" \n a ", "\n a "), ("", ""), (None, None)])
    yield from calls("rtrim", VARCHAR, rows=[(" a\t ", " a\t"), ("", ""), (None, None)])
    three = (VARCHAR,) * 3
    yield from calls(
        "replace",
        *three,
        rows=[("abab", "b", "xy", "axyaxy"), ("ab", "", "x", "ab"), ("aaa", "aa", "b", "ba")],
    )
    yield from calls("replace", *three, rows=[("a.b", ".", "", "ab"), ("a", "a", None, None), (None, "", "", None)])
    yield from calls(
        "position",
        VARCHAR,
        VARCHAR,
        rows=[("abc", "c", 3), ("abc", "x", 0), ("abc", "", 1), ("", "", 1), ("", "a", 0)],
    )
    yield from calls("position", VARCHAR, VARCHAR, rows=[(FAMILY, "x", 3), (None, "a", None), ("a", None, None)])
    yield from calls("starts_with", VARCHAR, VARCHAR, rows=[("abc", "ab", True), ("abc", "b", False), ("", "", True)])
    yield from calls(
        "starts_with", VARCHAR, VARCHAR, rows=[("a%c", "a%", True), ("abc", "a%", False), (None, "", None)]
    )
    yield from calls(
        "reverse",
        VARCHAR,
        rows=[("abc", "cba"), ("", ""), (ACCENT, "\u0301ea"), (FAMILY, FAMILY[::-1]), (None, None)],
    )
    yield from calls(
        "repeat",
        VARCHAR,
        INT,
        rows=[("ab", 3, "ababab"), ("ab", 0, ""), ("ab", -1, ""), ("ab", SMALLEST, "")],
    )
    yield from calls(
        "repeat",
        VARCHAR,
        INT,
        rows=[("ab", LARGEST, INVALID), (None, LARGEST, None), ("a", None, None), ("", 5, "")],
    )
    pads = [("hi", 5, "   hi", "hi   "), ("hello", 3, "hel", "hel"), ("hi", -1, "", ""), ("", 2, "  ", "  ")]
    filled = [
        ("hi", 5, "xy", "xyxhi", "hixyx"),
        ("hi", 5, "", "hi", "hi"),
        ("hi", 1, "", "h", "h"),
        ("hi", -1, "", "", ""),
    ]
    unicode = [
        ("é", 4, FAMILY[:2], FAMILY[:2] + FAMILY[0] + "é", "é" + FAMILY[:2] + FAMILY[0]),
        ("hi", None, "", None, None),
    ]
    for pick, name in ((-2, "lpad"), (-1, "rpad")):
        yield from calls(name, VARCHAR, INT, rows=[(*row[:-2], row[pick]) for row in pads])
        yield from calls(name, VARCHAR, INT, rows=[("a", LARGEST, INVALID), (None, LARGEST, None), ("a", None, None)])
        yield from calls(name, VARCHAR, INT, VARCHAR, rows=[(*row[:-2], row[pick]) for row in filled + unicode])
        yield from calls(
            name,
            VARCHAR,
            INT,
            VARCHAR,
            rows=[("a", LARGEST, "b", INVALID), ("a", LARGEST, "", "a"), ("a", LARGEST, None, None)],
        )


def patterns() -> Iterator[Case]:
    plain = [
        ("abc", "abc", True),
        ("abc", "ab", False),
        ("abc", "a%", True),
        ("abc", "_b_", True),
        ("abc", "__", False),
    ]
    empty = [
        ("", "", True),
        ("", "%", True),
        ("a", "", False),
        (None, "%", None),
        ("a", None, None),
        ("", "_", False),
    ]
    breaks = [("a\nb", "a_b", True), ("a\r\nb", "a%b", True), ("ab\n", "ab", False), ("\n", "_", True)]
    escapes = [
        ("50%", r"50\%", True),
        ("50x", r"50\%", False),
        ("a_b", r"a\_b", True),
        ("axb", r"a\_b", False),
    ]
    literal = [("a\\b", r"a\\b", True), ("a.b", "a.b", True), ("axb", "a.b", False), ("(a]*", "(_]*", True)]
    wide = [
        (FAMILY, "__x", True),
        (FAMILY, "_x", False),
        ("aXbXc", "%X%X%", True),
        ("mississippi", "%iss%ippi", True),
    ]
    yield from calls(
        "like",
        VARCHAR,
        VARCHAR,
        rows=[*plain, *empty, *breaks, *escapes, *literal, *wide, ("ABC", "abc", False)],
    )
    yield from calls(
        "ilike", VARCHAR, VARCHAR, rows=[("ABC", "abc", True), ("äbc", "Ä%", True), ("A_b", r"a\_B", True)]
    )
    yield from calls("ilike", VARCHAR, VARCHAR, rows=[("abc", "B%", False), (None, "a", None), ("x", None, None)])


def dates() -> Iterator[Case]:
    leap, first, last = day("2024-02-29"), day("0001-01-01"), day("9999-12-31")
    yield from calls("add", DATE, INT, rows=[(leap, 366, day("2025-03-01")), (last, 1, OVERFLOW), (None, 1, None)])
    yield from calls("add", DATE, INT, rows=[(leap, LARGEST, OVERFLOW), (first, 3652058, last), (leap, None, None)])
    yield from calls("add", SMALLINT, DATE, rows=[(-1, day("1970-01-01"), day("1969-12-31"))])
    yield from calls("add", DATE, NULL, rows=[(leap, None, None)])
    yield from calls(
        "subtract",
        DATE,
        INT,
        rows=[(leap, 60, day("2023-12-31")), (first, 1, OVERFLOW), (leap, SMALLEST, OVERFLOW)],
    )
    yield from calls("subtract", DATE, DATE, rows=[(last, first, 3652058), (first, leap, -738944), (leap, None, None)])
    for name, of_last, of_first, of_day in (
        ("extract_year", 9999, 1, 1969),
        ("extract_quarter", 4, 1, 4),
        ("extract_month", 12, 1, 12),
        ("extract_day", 31, 1, 28),
        ("extract_dow", 5, 1, 0),
        ("extract_isodow", 5, 1, 7),
        ("extract_doy", 365, 1, 362),
        ("extract_week", 52, 1, 52),
    ):
        yield from calls(
            name, DATE, rows=[(last, of_last), (first, of_first), (day("1969-12-28"), of_day), (None, None)]
        )
        yield from calls(
            name,
            TIMESTAMP,
            rows=[(at("9999-12-31 23:59:59.999999"), of_last), (at("1969-12-28 23:00"), of_day)],
        )
    yield from calls(
        "extract_week", DATE, rows=[(day("2021-01-03"), 53), (day("2024-12-30"), 1), (day("0400-02-29"), 9)]
    )
    yield from calls("extract_doy", DATE, rows=[(leap, 60), (day("2024-12-31"), 366), (day("1900-03-01"), 60)])
    late, early = at("1969-12-31 23:59:59.999999"), at("0001-01-01 00:00:00")
    yield from calls("extract_hour", TIMESTAMP, rows=[(late, 23), (early, 0), (None, None)])
    yield from calls("extract_minute", TIMESTAMP, rows=[(late, 59), (early, 0), (None, None)])
    yield from calls(
        "extract_second",
        TIMESTAMP,
        rows=[(late, D("59.999999")), (early, D(0)), (at("2024-02-29 01:02:03.5"), D("3.5"))],
    )
    yield from calls("extract_second", TIMESTAMP, rows=[(None, None)])
    for name, truncated, truncated_late, truncated_early in (
        ("year", "2024-01-01", "1969-01-01", "0001-01-01"),
        ("quarter", "2024-04-01", "1969-10-01", "0001-01-01"),
        ("month", "2024-05-01", "1969-12-01", "0001-01-01"),
        ("week", "2024-05-13", "1969-12-29", "0001-01-01"),
        ("day", "2024-05-16", "1969-12-31", "0001-01-01"),
        ("hour", "2024-05-16 13:00", "1969-12-31 23:00", "0001-01-01"),
        ("minute", "2024-05-16 13:14", "1969-12-31 23:59", "0001-01-01"),
    ):
        rows = [
            ("2024-05-16 13:14:15.000001", truncated),
            (str(late), truncated_late),
            (str(early), truncated_early),
        ]
        yield from calls(f"date_trunc_{name}", TIMESTAMP, rows=[(at(moment), at(start)) for moment, start in rows])
        yield from calls(f"date_trunc_{name}", DATE, rows=[(first, at("0001-01-01")), (None, None)])
    yield from calls("make_date", INT, INT, INT, rows=[(2024, 2, 29, leap), (1, 1, 1, first), (9999, 12, 31, last)])
    yield from calls(
        "make_date", INT, INT, INT, rows=[(2023, 2, 29, INVALID), (0, 1, 1, INVALID), (10000, 1, 1, INVALID)]
    )
    yield from calls(
        "make_date",
        INT,
        INT,
        INT,
        rows=[(2023, 13, 1, INVALID), (2023, 1, 0, INVALID), (LARGEST, None, 1, None)],
    )


CALLS: tuple[Case, ...] = (
    *numbers(),
    *single_numbers(),
    *comparisons(),
    *logic(),
    *text(),
    *patterns(),
    *dates(),
    *MATH,
    *TEXT,
    *TIME,
    *PARTS,
    *STRUCT,
    *ARRAY,
)
