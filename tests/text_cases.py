"""What functions of text must give, beside those in ``function_cases``: letters, pieces, shapes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.function_case import ACCENT, FAMILY, INVALID, LARGEST, Case, calls
from tidemark.algebra.types import BYTEA, INT, NULL, VARCHAR

TEXTS = (VARCHAR,) * 5


def letters() -> Iterator[Case]:
    yield from calls(
        "upper", VARCHAR, rows=[("straße", "STRAßE"), ("ŉﬁ", "ŉﬁ"), ("ᾳ", "ᾼ"), ("\u0131", "I"), ("\u019b", "\u019b")]
    )
    yield from calls("upper", VARCHAR, rows=[("ßß", "ßß"), ("aßbßc", "AßBßC"), ("ǆ", "Ǆ"), (ACCENT, "AE\u0301")])
    yield from calls(
        "lower",
        VARCHAR,
        rows=[("ΑΣ", "\u03b1σ"), ("İI", "ii"), ("ẞ", "ß"), ("ΣΑΣ", "σ\u03b1σ"), ("\u1c89A", "\u1c89a")],
    )
    yield from calls("initcap", VARCHAR, rows=[("hello wORLD", "Hello World"), ("o'neil-smith", "O'Neil-Smith")])
    yield from calls(
        "initcap", VARCHAR, rows=[("", ""), ("1st été", "1st Été"), (FAMILY, FAMILY[:2] + "X"), (None, None)]
    )
    yield from calls("initcap", VARCHAR, rows=[("ßa σΑΣ", "ßa Σ\u03b1ς".replace("ς", "σ")), (" a  b", " A  B")])
    yield from calls("ilike", VARCHAR, VARCHAR, rows=[("STRASSE", "straße", False), ("STRAßE", "straße", True)])
    yield from calls("ilike", VARCHAR, VARCHAR, rows=[("ΑΣ", "\u03b1ς", False), ("ΑΣ", "\u03b1σ", True)])


def pieces() -> Iterator[Case]:
    two, three = TEXTS[:2], TEXTS[:3]
    for name, rows in (
        ("trim", [("xyaxby", "yx", "axb"), ("abc", "", "abc"), ("aaa", "a", ""), ("]a]", "]", "a"), ("é-é", "é", "-")]),
        ("ltrim", [("xyaxby", "yx", "axby"), ("abc", "", "abc"), ("", "a", "")]),
        ("rtrim", [("xyaxby", "yx", "xyaxb"), ("abc", "", "abc"), ("a.b..", ".", "a.b")]),
    ):
        yield from calls(name, *two, rows=[*rows, (None, "a", None), ("a", None, None), (FAMILY, FAMILY[0], "")][:-1])
    split = [
        ("a,b,c", ",", 2, "b"),
        ("a,b,c", ",", -1, "c"),
        ("a,b,c", ",", 4, ""),
        ("a,b", ",", -3, ""),
        ("abc", ";", 1, "abc"),
    ]
    odd = [
        ("a,b", "", 1, "a,b"),
        ("a,b", "", 2, ""),
        ("a,b", "", -1, "a,b"),
        ("", ",", 1, ""),
        ("a~@~b", "~@~", 2, "b"),
    ]
    wrong = [
        ("a", ",", 0, INVALID),
        (None, ",", 0, None),
        ("a", None, 0, None),
        ("a", ",", None, None),
        ("a", "", None, None),
    ]
    yield from calls(
        "split_part", *two, INT, rows=[*split, *odd, *wrong, ("a.b", ".", LARGEST, ""), ("..", ".", 3, "")]
    )
    yield from calls("concat_ws", *three, rows=[(",", "a", None, "a"), (",", "a", "b", "a,b"), (None, "a", "b", None)])
    yield from calls("concat_ws", *three, rows=[(",", None, None, ""), ("", "a", "b", "ab"), (",", "", "", ",")])
    yield from calls("concat_ws", VARCHAR, NULL, rows=[(",", None, "")])
    yield from calls(
        "translate", *three, rows=[("12345", "143", "ax", "a2x5"), ("abc", "", "x", "abc"), ("aa", "aa", "xy", "xx")]
    )
    yield from calls(
        "translate", *three, rows=[("héé", "é", "e", "hee"), ("a", "a", None, None), (None, "a", "b", None)]
    )
    yield from calls("chr", INT, rows=[(65, "A"), (233, "é"), (0x1F926, FAMILY[0]), (0, INVALID), (55296, INVALID)])
    yield from calls("chr", INT, rows=[(-1, INVALID), (1114112, INVALID), (None, None), (10, "\n")])
    yield from calls(
        "ascii", VARCHAR, rows=[("A", 65), ("é", 233), (FAMILY, 0x1F926), ("", 0), (None, None), (ACCENT, 97)]
    )
    yield from calls("octet_length", BYTEA, rows=[(b"\x00\xff", 2), (b"", 0), (None, None)])
    yield from calls("length", BYTEA, rows=[(b"\x00\xff", 2), (b"", 0), (None, None)])
    yield from calls(
        "concat", BYTEA, BYTEA, rows=[(b"\x00", b"\xff", b"\x00\xff"), (b"", b"", b""), (None, b"a", None)]
    )
    yield from calls("octet_length", VARCHAR, rows=[("é", 2), (FAMILY, 9), ("", 0), (None, None)])
    yield from calls("bit_length", VARCHAR, rows=[("é", 16), ("", 0), (None, None)])
    yield from calls(
        "md5", VARCHAR, rows=[("", "d41d8cd98f00b204e9800998ecf8427e"), ("é", "66ddcd97cfdeabb2f6fb8a999b4bc76f")]
    )
    yield from calls("md5", VARCHAR, rows=[(None, None)])
    yield from calls(
        "ends_with", *two, rows=[("abc", "bc", True), ("abc", "b", False), ("", "", True), (None, "", None)]
    )


def shapes() -> Iterator[Case]:
    two = TEXTS[:2]
    rows = [("50%", r"50\%", True), ("50x", r"50\%", False), ("abc", r"a\bc", True), ("a\\c", r"a\\c", True)]
    more = [("a\\b", r"a\\\b", True), ("a\nb", "a_b", True), ("x", "", False), ("", "%", True), ("a", "a\\", INVALID)]
    nulls = [(None, "a\\", None), ("a", None, None), (FAMILY, "__x", True), ("é", r"\é", True), ("a\\", r"a\\", True)]
    yield from calls("like_any_pattern", *two, rows=[*rows, *more, *nulls, ("A", "a", False)])
    yield from calls("ilike_any_pattern", *two, rows=[("ABC", r"a\B%", True), ("A", "b", False), ("a", "A\\", INVALID)])
    yield from calls("ilike_any_pattern", *two, rows=[(None, "a", None), ("a", None, None)])


def regular_expressions() -> Iterator[Case]:
    two = TEXTS[:2]
    found = [
        ("abc", "b", True),
        ("abc", "^b", False),
        ("ab\n", r"b\z", False),
        ("a\nb", "a(?s:.)b", True),
        ("", "^\\z", True),
    ]
    classes = [("é", "[é-ü]", True), (FAMILY, "^(?s:.){3}\\z", True), ("a]b", r"[\]]", True), ("x^", r"[\^]", True)]
    yield from calls("regexp_like", *two, rows=[*found, *classes, (None, "a", None), ("a", None, None)])
    yield from calls("regexp_substr", *two, rows=[("foobar", "o(b.)", "oba"), ("foo", "x", None), ("foo", "x*", "")])
    yield from calls("regexp_substr", *two, rows=[(None, "x", None)])
    yield from calls(
        "regexp_substr_group", *two, rows=[("foobar", "o(b.)", "ba"), ("foo", "(x)", None), (None, "(x)", None)]
    )
    yield from calls(
        "regexp_count", *two, rows=[("banana", "an", 2), ("", "a", 0), ("aaa", "aa", 1), (None, "a", None)]
    )
    replaced = [
        ("banana", "a(n)", r"<\1>", "<$1>", "b<n><n>a"),
        ("a.b", r"\.", r"\\", r"\\", "a\\b"),
        ("a", "x", "y", "y", "a"),
    ]
    yield from calls("regexp_replace_all", *TEXTS[:4], rows=[*replaced, ("ab", "[ab]", r"\0$", r"$0\$", "a$b$")])
    yield from calls("regexp_replace_all", *TEXTS[:4], rows=[(None, "a", "b", "b", None)])
    first = "^((?s:.)*?)(a(n))"
    yield from calls("regexp_replace_first", *TEXTS, rows=[("ba\nana", "a(n)", r"<\1>", first, "$1<$3>", "ba\n<n>a")])
    yield from calls(
        "regexp_replace_first", *TEXTS, rows=[("x", "a(n)", r"<\1>", first, "$1<$3>", "x"), (None,) * 5 + (None,)]
    )


TEXT: tuple[Case, ...] = (*letters(), *pieces(), *shapes(), *regular_expressions())
