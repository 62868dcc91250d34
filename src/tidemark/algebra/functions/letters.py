"""Upper and lower case: one code point for one, as PostgreSQL maps letters, whatever stands beside them.

Python and Java write ``ß`` as two letters and ``Σ`` at the end of a word as ``ς``, DuckDB knows a capital ``ẞ``. Here a
letter without a partner of one code point stays as it is, and so do the letters that got their partner after
version 14 of Unicode, which some engines know and others do not.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Final

from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import Engine, Function, Template, let, pattern, plain
from tidemark.algebra.types import VARCHAR


def _range(first: int, last: int) -> str:
    return "".join(map(chr, range(first, last + 1)))


_NEW_CAPITALS: Final = (
    "\u1c89\ua7cb\ua7cc\ua7ce\ua7d2\ua7d4\ua7da\ua7dc" + _range(0x10D50, 0x10D65) + _range(0x16EA0, 0x16EB8)
)
_NEW_SMALLS: Final = (
    "\u019b\u0264\u1c8a\ua7cd\ua7cf\ua7d3\ua7d5\ua7db" + _range(0x10D70, 0x10D85) + _range(0x16EBB, 0x16ED3)
)


def _capital(letter: str) -> str:
    """
    >>> _capital("a"), _capital("ß"), _capital("ᾳ")
    ('A', 'ß', 'ᾼ')
    """
    if letter in _NEW_SMALLS:
        return letter
    upper = letter.upper()
    if len(upper) > 1:  # some of these have a capital of one code point, which Unicode calls the title case
        upper = letter.title()
    return upper if len(upper) == 1 else letter


def _small(letter: str) -> str:
    return letter if letter in _NEW_CAPITALS else letter.lower()[0]


def upper(text: str) -> str:
    """
    >>> upper("straße")
    'STRAßE'
    """
    return text.upper() if text.isascii() else "".join(map(_capital, text))


def lower(text: str) -> str:
    r"""
    >>> lower("\u0391\u03a3") == "\u03b1\u03c3"
    True
    """
    return text.lower() if text.isascii() else "".join(map(_small, text))


_LONG: Final = "ßŉǰΐΰև" + _range(0x1E96, 0x1E9A) + _range(0x1F50, 0x1FFC) + _range(0xFB00, 0xFB17)
"""Among these are all letters whose capital has several code points."""


def _spark(name: str, exceptions: str, meaning: Callable[[str], str]) -> Template:
    """Letter by letter, if the text has one of the exceptions; one letter has no neighbours."""
    partners = "".join(map(meaning, exceptions))
    letter = f"(CASE WHEN x RLIKE '[{exceptions}]' THEN translate(x, '{exceptions}', '{partners}') ELSE {name}(x) END)"
    one_by_one = f"array_join(transform(split({{0}}, ''), x -> {letter}), '')"
    return pattern(f"(CASE WHEN {{0}} RLIKE '[{exceptions}]' THEN {one_by_one} ELSE {name}({{0}}) END)")


_JAVA_UPPER: Final = "".join(letter for letter in _LONG if len(letter.upper()) > 1) + _NEW_SMALLS
_JAVA_LOWER: Final = "İΣ" + _NEW_CAPITALS
_DUCKDB_UPPER: Final = pattern(
    "(CASE WHEN contains({0}, 'ß') "
    "THEN array_to_string(list_transform(string_split({0}, 'ß'), lambda x: upper(x)), 'ß') ELSE upper({0}) END)"
)
LOWER_ON_DUCKDB: Final = pattern("lower({0})")
LOWER_ON_SPARK: Final = _spark("lower", _JAVA_LOWER, _small)
_UPPER_ON_SPARK: Final = _spark("upper", _JAVA_UPPER, _capital)


def _in_word(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "LN"


def _initcap(text: str) -> str:
    """The first letter of each word is a capital, the others are small; a word is of letters and digits."""
    pairs = zip(" " + text, text, strict=False)
    return "".join(_small(letter) if _in_word(before) else _capital(letter) for before, letter in pairs)


def _initcap_template(engine: Engine) -> Template:
    """Word by word would need a function of words; place by place, the letter before tells where a word starts."""

    def template(arguments: tuple[str, ...], signature: object) -> str:
        duckdb = engine is Engine.DUCKDB
        before = "substring(v.t, p - 1, 1)"
        letter = "substring(v.t, p, 1)"
        inside = (
            f"regexp_matches({before}, '[\\p{{L}}\\p{{N}}]')" if duckdb else f"{before} RLIKE '[\\\\p{{L}}\\\\p{{N}}]'"
        )
        capital = (_DUCKDB_UPPER if duckdb else _UPPER_ON_SPARK)((letter,), signature)  # type: ignore[arg-type]
        small = (LOWER_ON_DUCKDB if duckdb else LOWER_ON_SPARK)((letter,), signature)  # type: ignore[arg-type]
        chosen = f"(CASE WHEN p > 1 AND {inside} THEN {small} ELSE {capital} END)"
        if duckdb:
            body = f"array_to_string(list_transform(range(1, length(v.t) + 1), lambda p: {chosen}), '')"
        else:
            joined = f"array_join(transform(sequence(1, length(v.t)), p -> {chosen}), '')"
            body = f"(CASE WHEN v.t = '' THEN '' ELSE {joined} END)"
        return let(engine, "v", {"t": arguments[0]}, body)

    return template


_TAKES: Final = fixed(takes(VARCHAR, gives=VARCHAR))

LETTERS: Final = (
    Function("lower", "lower(text)", _TAKES, plain(lower), LOWER_ON_DUCKDB, LOWER_ON_SPARK),
    Function("upper", "upper(text)", _TAKES, plain(upper), _DUCKDB_UPPER, _UPPER_ON_SPARK),
    Function(
        "initcap",
        "initcap(text)",
        _TAKES,
        plain(_initcap),
        _initcap_template(Engine.DUCKDB),
        _initcap_template(Engine.SPARK),
    ),
)
