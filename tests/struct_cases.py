"""What functions and casts of structs must give; see ``function_cases``."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal as D

from tests.function_case import INVALID, OVERFLOW, Case, calls, casts, day
from tidemark.algebra.functions import NAN
from tidemark.algebra.types import BIGINT, DATE, DOUBLE, INT, NULL, SMALLINT, VARCHAR, decimal, row_of, struct_of

PAIR = struct_of(("a", INT), ("b", VARCHAR))
OTHER = struct_of(("p", BIGINT), ("q", VARCHAR))
NUMBERS = struct_of(("n", INT), ("m", SMALLINT))


def structs() -> Iterator[Case]:
    money, floats = row_of(decimal(4, 1), VARCHAR), row_of(DOUBLE)
    yield from calls(
        "struct", INT, VARCHAR, rows=[(1, "x", (1, "x")), (None, "", (None, "")), (None, None, (None, None))]
    )
    yield from calls("struct", NULL, DATE, rows=[(None, day("2024-02-29"), (None, day("2024-02-29")))])
    same = [((1, "x"), (1, "x"), True), ((1, None), (1, None), True), ((1, None), (1, "x"), False)]
    unknown = [((1, "x"), None, None), (None, None, None), ((None, None), (None, None), True)]
    yield from calls("eq", PAIR, PAIR, rows=[*same, *unknown])
    yield from calls("eq", PAIR, money, rows=[((1, "x"), (D("1.0"), "x"), True), ((1, "x"), (D("1.1"), "x"), False)])
    yield from calls("eq", floats, floats, rows=[((NAN,), (NAN,), True), ((0.0,), (None,), False)])
    yield from calls("ne", PAIR, PAIR, rows=[((1, None), (1, None), False), ((1, "x"), (2, "x"), True)])
    yield from calls("is_distinct", PAIR, PAIR, rows=[((None, None), None, True), (None, None, False)])
    yield from calls("is_not_distinct", PAIR, PAIR, rows=[((None, None), None, False), ((1, None), (1, None), True)])
    yield from calls("is_null", PAIR, rows=[(None, True), ((None, None), False)])
    yield from calls("coalesce", PAIR, PAIR, rows=[(None, (1, "x"), (1, "x")), ((None, None), (1, "x"), (None, None))])
    yield from calls("nullif", PAIR, PAIR, rows=[((1, None), (1, None), None), ((1, None), None, (1, None))])


def struct_casts() -> Iterator[Case]:
    texts = row_of(VARCHAR, DOUBLE)
    yield from casts(PAIR, OTHER, [((1, "x"), (1, "x")), (None, None), ((None, None), (None, None))])
    yield from casts(texts, NUMBERS, [(("7", 2.5), (7, 2)), ((None, 1.0), (None, 1)), (None, None)])
    yield from casts(texts, NUMBERS, [(("x", 2.5), INVALID), (("7", 1e300), OVERFLOW)])


STRUCT: tuple[Case, ...] = tuple(structs())
STRUCT_CASTS: tuple[Case, ...] = tuple(struct_casts())
