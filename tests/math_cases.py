"""What roots, powers, logarithms, angles, bits and the division of decimals must give; see ``function_cases``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal as D

from tests.function_case import INFINITY, INVALID, LARGEST, OVERFLOW, SMALLEST, ZERO, Case, calls
from tidemark.algebra.functions import NAN
from tidemark.algebra.types import BIGINT, DOUBLE, INT, SMALLINT, decimal


def doubles() -> Iterator[Case]:
    yield from calls("sqrt", DOUBLE, rows=[(4.0, 2.0), (2.0, 1.4142135623730951), (0.0, 0.0), (-1.0, INVALID)])
    yield from calls("sqrt", DOUBLE, rows=[(INFINITY, INFINITY), (NAN, NAN), (-INFINITY, INVALID), (None, None)])
    yield from calls("sqrt", INT, rows=[(9, 3.0)])
    yield from calls("cbrt", DOUBLE, rows=[(27.0, 3.0), (-8.0, -2.0), (0.0, 0.0), (INFINITY, INFINITY), (None, None)])
    yield from calls("exp", DOUBLE, rows=[(0.0, 1.0), (-INFINITY, 0.0), (1000.0, INFINITY), (NAN, NAN), (None, None)])
    yield from calls("exp", DOUBLE, rows=[(-1000.0, 0.0), (INFINITY, INFINITY), (0.5, 1.6487212707001282)])
    yield from calls("ln", DOUBLE, rows=[(1.0, 0.0), (0.0, INVALID), (-1.0, INVALID), (INFINITY, INFINITY), (NAN, NAN)])
    yield from calls("ln", DOUBLE, rows=[(2.0, 0.6931471805599453), (5e-324, -744.4400719213812), (None, None)])
    yield from calls("log10", DOUBLE, rows=[(1000.0, 3.0), (0.001, -3.0), (1.0, 0.0), (0.0, INVALID), (None, None)])
    yield from calls("log10", DOUBLE, rows=[(1e22, 22.0), (INFINITY, INFINITY), (NAN, NAN), (-1.0, INVALID)])
    yield from calls("log", DOUBLE, DOUBLE, rows=[(2.0, 1024.0, 10.0), (2.0, 0.125, -3.0), (3.0, 81.0, 4.0)])
    yield from calls("log", DOUBLE, DOUBLE, rows=[(1.0, 5.0, INVALID), (0.0, 5.0, INVALID), (2.0, 0.0, INVALID)])
    yield from calls("log", DOUBLE, DOUBLE, rows=[(1.0, None, None), (None, 0.0, None), (2.0, INFINITY, INFINITY)])
    yield from calls("power", DOUBLE, DOUBLE, rows=[(2.0, 10.0, 1024.0), (10.0, -2.0, 0.01), (2.0, 0.5, math.sqrt(2))])
    yield from calls("power", DOUBLE, DOUBLE, rows=[(0.0, 0.0, 1.0), (0.0, -1.0, INVALID), (0.0, 2.5, 0.0)])
    yield from calls("power", DOUBLE, DOUBLE, rows=[(-8.0, 3.0, -512.0), (-8.0, 0.5, INVALID), (-2.0, -2.0, 0.25)])
    yield from calls(
        "power", DOUBLE, DOUBLE, rows=[(NAN, 0.0, 1.0), (1.0, NAN, 1.0), (NAN, 1.0, NAN), (None, 0.0, None)]
    )
    yield from calls("power", DOUBLE, DOUBLE, rows=[(10.0, 400.0, INFINITY), (10.0, -400.0, 0.0), (1.0, None, None)])
    yield from calls("power", DOUBLE, DOUBLE, rows=[(INFINITY, -1.0, 0.0), (-INFINITY, 3.0, -INFINITY)])
    yield from calls("power", INT, INT, rows=[(7, 3, 343.0)])
    yield from calls("sin", DOUBLE, rows=[(0.0, 0.0), (math.pi / 2, 1.0), (1e7, INVALID), (NAN, NAN), (None, None)])
    yield from calls("sin", DOUBLE, rows=[(1.0, math.sin(1)), (INFINITY, INVALID), (-math.pi / 2, -1.0)])
    yield from calls("cos", DOUBLE, rows=[(0.0, 1.0), (math.pi, -1.0), (1e7, INVALID), (NAN, NAN), (None, None)])
    yield from calls("tan", DOUBLE, rows=[(0.0, 0.0), (0.25, math.tan(0.25)), (1e7, INVALID), (NAN, NAN), (None, None)])
    yield from calls("asin", DOUBLE, rows=[(1.0, math.pi / 2), (0.0, 0.0), (-1.5, INVALID), (NAN, NAN), (None, None)])
    yield from calls("acos", DOUBLE, rows=[(1.0, 0.0), (-1.0, math.pi), (1.5, INVALID), (NAN, NAN), (None, None)])
    yield from calls("atan", DOUBLE, rows=[(1.0, math.pi / 4), (INFINITY, math.pi / 2), (0.0, 0.0), (None, None)])
    yield from calls("atan2", DOUBLE, DOUBLE, rows=[(0.0, 0.0, 0.0), (1.0, 0.0, math.pi / 2), (0.0, -1.0, math.pi)])
    yield from calls("atan2", DOUBLE, DOUBLE, rows=[(-1.0, -1.0, -3 * math.pi / 4), (NAN, 1.0, NAN), (None, 1.0, None)])
    yield from calls("degrees", DOUBLE, rows=[(math.pi, 180.0), (0.0, 0.0), (NAN, NAN), (None, None)])
    yield from calls("radians", DOUBLE, rows=[(180.0, math.pi), (-INFINITY, -INFINITY), (None, None)])


def bits() -> Iterator[Case]:
    yield from calls("bit_and", INT, INT, rows=[(12, 10, 8), (-1, 7, 7), (None, 1, None)])
    yield from calls("bit_and", SMALLINT, BIGINT, rows=[(-1, 2**40, 2**40)])
    yield from calls("bit_or", INT, INT, rows=[(12, 10, 14), (-8, 1, -7), (None, 1, None)])
    yield from calls("bit_xor", INT, INT, rows=[(12, 10, 6), (-1, SMALLEST, LARGEST), (None, 1, None)])
    yield from calls("bit_xor", SMALLINT, SMALLINT, rows=[(-1, 1, -2)])
    yield from calls("bit_not", INT, rows=[(0, -1), (SMALLEST, LARGEST), (None, None)])
    yield from calls("bit_not", SMALLINT, rows=[(7, -8)])
    yield from calls("shift_left", INT, INT, rows=[(1, 4, 16), (1, 31, SMALLEST), (3, 31, SMALLEST), (1, 32, 1)])
    yield from calls("shift_left", INT, INT, rows=[(-1, 1, -2), (1, -1, SMALLEST), (None, 1, None), (1, None, None)])
    yield from calls("shift_left", BIGINT, INT, rows=[(1, 63, -(2**63)), (-1, 62, -(2**62)), (2**62, 2, 0)])
    yield from calls("shift_right", INT, INT, rows=[(16, 4, 1), (-8, 1, -4), (-1, 31, -1), (5, 33, 2), (None, 1, None)])
    yield from calls("shift_right", BIGINT, INT, rows=[(-(2**63), 63, -1), (2**62, 62, 1)])


def decimals() -> Iterator[Case]:
    money, sums = decimal(12, 2), decimal(38, 4)
    yield from calls("divide", money, money, rows=[(D(1), D(3), D("0.3333333333")), (D(2), D(-3), D("-0.6666666667"))])
    yield from calls("divide", money, money, rows=[(D(1), D(0), ZERO), (None, D(0), None), (D(1), None, None)])
    yield from calls("divide", money, INT, rows=[(D("-0.05"), 2, D("-0.025")), (D("7.50"), LARGEST, D("0.0000000035"))])
    yield from calls("divide", INT, money, rows=[(7, D("0.01"), D(700)), (SMALLEST, D("0.01"), D("-214748364800"))])
    yield from calls("divide", sums, sums, rows=[(D("123456789.1234"), D("-0.0007"), D("-176366841604.8571428571"))])
    yield from calls("divide", sums, sums, rows=[(D("1e33"), D(1), OVERFLOW), (D(1), D("9e33"), OVERFLOW)])
    yield from calls(
        "divide", sums, sums, rows=[(D("9" * 18), D("1e-1"), D("9" * 18 + "0")), (D(10**19), D(1), OVERFLOW)]
    )
    tiny, whole = decimal(38, 18), decimal(10, 0)
    third = D("333333333333333333.333333333333333333")
    yield from calls("divide", whole, tiny, rows=[(D(1), D("3e-18"), third)])
    yield from calls("divide", tiny, whole, rows=[(D("1.5"), D(100), D("0.015")), (D("1e-18"), D(2), D("1e-18"))])
    yield from calls("modulo", money, money, rows=[(D("7.50"), D("2.00"), D("1.50")), (D("-7.5"), D(2), D("-1.5"))])
    yield from calls(
        "modulo", money, money, rows=[(D("7.5"), D("-2"), D("1.5")), (D(1), D(0), ZERO), (None, D(0), None)]
    )
    yield from calls("modulo", money, decimal(5, 3), rows=[(D("1.00"), D("0.003"), D("0.001"))])
    yield from calls("modulo", sums, INT, rows=[(D("9" * 34), 7, D(int("9" * 34) % 7)), (D("-0.5"), 1, D("-0.5"))])
    yield from calls("trunc", decimal(4, 2), rows=[(D("-2.59"), D(-2)), (D("2.59"), D(2)), (D("-0.99"), D(0))])
    yield from calls("trunc", decimal(38, 10), rows=[(D("9" * 28 + ".9999999999"), D("9" * 28)), (None, None)])
    yield from calls("trunc", DOUBLE, rows=[(-2.7, -2.0), (2.7, 2.0), (-0.5, 0.0), (1e300, 1e300), (NAN, NAN)])
    yield from calls("trunc", INT, rows=[(SMALLEST, SMALLEST), (None, None)])


MATH: tuple[Case, ...] = (*doubles(), *bits(), *decimals())
