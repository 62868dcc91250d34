"""What functions of arrays must give; see ``function_cases``."""

from __future__ import annotations

from collections.abc import Iterator

from tests.function_case import FAMILY, LARGEST, SMALLEST, Case, calls
from tidemark.algebra.functions import NAN
from tidemark.algebra.types import DOUBLE, INT, VARCHAR, array_of

NUMBERS, WORDS, DOUBLES = array_of(INT), array_of(VARCHAR), array_of(DOUBLE)


def arrays() -> Iterator[Case]:
    yield from calls("array", INT, INT, rows=[(1, 2, (1, 2)), (None, 2, (None, 2)), (None, None, (None, None))])
    yield from calls("array", VARCHAR, rows=[("", ("",)), (FAMILY, (FAMILY,))])
    places = [((7, 8), 1, 7), ((7, 8), 2, 8), ((7, 8), 3, None), ((7, 8), 0, None), ((7, 8), -1, None), ((), 1, None)]
    ends = [((7,), LARGEST, None), ((7,), SMALLEST, None), ((None,), 1, None), (None, 1, None), ((7,), None, None)]
    yield from calls("element", NUMBERS, INT, rows=[*places, *ends])
    yield from calls("cardinality", NUMBERS, rows=[((1, None), 2), ((), 0), (None, None)])
    joined = [
        (("a", "b"), ",", "a,b"),
        (("a", None, "b"), ",", "a,b"),
        ((), ",", ""),
        ((None,), ",", ""),
        (("a",), None, None),
    ]
    yield from calls("array_to_string", WORDS, VARCHAR, rows=[*joined, (None, ",", None), (("a", "b"), "", "ab")])
    split = [("a,b", ",", ("a", "b")), ("", ",", ()), ("ab", "", ("ab",)), (",", ",", ("", "")), ("a", ",", ("a",))]
    odd = [
        ("a.b|c", ".", ("a", "b|c")),
        (r"a\b", "\\", ("a", "b")),
        ("a[]b", "[]", ("a", "b")),
        ("aéb", "é", ("a", "b")),
    ]
    yield from calls("string_to_array", VARCHAR, VARCHAR, rows=[*split, *odd, (None, ",", None), ("a", None, None)])
    yield from calls("string_to_array", VARCHAR, VARCHAR, rows=[("a^b$c", "^", ("a", "b$c")), (None, "", None)])
    found = [(1, (1, 2), True), (3, (1, 2), False), (3, (1, None), None), (1, (1, None), True), (None, (1,), None)]
    yield from calls("any_equal", INT, NUMBERS, rows=[*found, (None, (), False), (1, None, None), (1, (), False)])
    yield from calls("any_equal", DOUBLE, DOUBLES, rows=[(NAN, (1.0, NAN), True)])
    yield from calls("array_position", NUMBERS, INT, rows=[((5, 6, 6), 6, 2), ((5,), 6, None), ((), 6, None)])
    yield from calls("array_position", NUMBERS, INT, rows=[(None, 6, None), ((5, None), None, None), ((None, 5), 5, 2)])
    longer = [((1,), 2, (1, 2)), ((1,), None, (1, None)), ((), 2, (2,)), (None, 2, (2,)), (None, None, (None,))]
    yield from calls("array_append", NUMBERS, INT, rows=longer)
    yield from calls("array_append", DOUBLES, DOUBLE, rows=[((1.5,), NAN, (1.5, NAN))])
    yield from calls("array_prepend", VARCHAR, WORDS, rows=[("a", ("b", None), ("a", "b", None)), (None, (), (None,))])
    yield from calls("array_prepend", VARCHAR, WORDS, rows=[("a", None, ("a",)), (None, None, (None,))])
    both = [((1,), (2, None), (1, 2, None)), ((), (), ()), ((1,), None, (1,)), (None, (1,), (1,)), (None, None, None)]
    yield from calls("array_cat", NUMBERS, NUMBERS, rows=both)
    same = [((1, None), (1, None), True), ((1, None), (1, 2), False), ((None,), (), False), ((), (), True)]
    yield from calls(
        "eq", NUMBERS, NUMBERS, rows=[*same, ((1,), None, None), (None, None, None), ((1, 2), (2, 1), False)]
    )
    yield from calls("eq", DOUBLES, DOUBLES, rows=[((NAN, None), (NAN, None), True), ((0.0,), (1.0,), False)])
    yield from calls("ne", WORDS, WORDS, rows=[(("a", None), ("a", None), False), (("a",), ("A",), True)])
    yield from calls(
        "is_distinct", NUMBERS, NUMBERS, rows=[((1,), None, True), (None, None, False), ((1,), (1,), False)]
    )
    yield from calls("is_not_distinct", NUMBERS, NUMBERS, rows=[((None,), (None,), True), ((), None, False)])
    yield from calls("coalesce", NUMBERS, NUMBERS, rows=[(None, (1,), (1,)), ((), (1,), ())])
    yield from calls("nullif", NUMBERS, NUMBERS, rows=[((1, None), (1, None), None), ((1,), None, (1,))])
    yield from calls("is_null", NUMBERS, rows=[(None, True), ((None,), False), ((), False)])


ARRAY: tuple[Case, ...] = tuple(arrays())
