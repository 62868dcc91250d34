"""Text: characters are code points, everywhere.

Parts of a text by position, as PostgreSQL counts: from 1, and places before the first hold no character.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.letters import LETTERS
from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import (
    DUCKDB_ERROR,
    SPARK_ERROR,
    Function,
    Resolver,
    Template,
    by_bytes,
    by_count,
    call,
    guard,
    infix,
    pattern,
    plain,
)
from tidemark.algebra.types import BOOLEAN, BYTEA, INT, VARCHAR, Type
from tidemark.errors import TidemarkError

_NEGATIVE: Final = "invalid_value: negative length in substring"


def _substring(text: str, start: int, length: int | None = None) -> str:
    """The characters from ``start`` to ``start + length - 1``, of which those before the first do not exist.

    >>> _substring("tidemark", 1, 4), _substring("tidemark", -1, 4)
    ('tide', 'ti')
    """
    first = max(start - 1, 0)
    if length is None:
        return text[first:]
    if length < 0:
        raise TidemarkError("invalid_value", f"negative length in substring: {length}")
    return text[first : max(start - 1 + length, 0)]


def _right(text: str, count: int) -> str:
    """A negative count leaves out that many at the start; zero would be the whole text to Python."""
    return text[-count:] if count else ""


def _substring_template(raising: str) -> Template:
    """NULL is dealt with first: greatest and least skip it.

    The length loses what lies before the first character. It is computed in BIGINT, because start and length
    together can leave INT.
    """
    visible = "greatest({2} + least(CAST({1} AS BIGINT) - 1, 0), 0)"
    return by_count(
        {
            2: pattern("substring({0}, (CASE WHEN {1} < 1 THEN 1 ELSE {1} END))"),
            3: pattern(
                "(CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL THEN NULL "
                f"WHEN {{2}} < 0 THEN {raising}('{_NEGATIVE}') "
                f"ELSE substring({{0}}, greatest({{1}}, 1), CAST({visible} AS INT)) END)"
            ),
        }
    )


# Spark gives nothing for a negative count. Its substring counts from the end when the start is negative.
_SPARK_LEFT: Final = "substring({0}, 1, (CASE WHEN {1} < 0 THEN greatest(length({0}) + {1}, 0) ELSE {1} END))"
_SPARK_RIGHT: Final = (
    "(CASE WHEN {1} < 0 THEN substring({0}, CAST(least(1 - CAST({1} AS BIGINT), 2147483647) AS INT)) "
    "ELSE substring({0}, - {1}, {1}) END)"
)

SUBSTRINGS: Final = (
    Function(
        "substring",
        "substring(text, start [, length])",
        fixed(takes(VARCHAR, INT, gives=VARCHAR), takes(VARCHAR, INT, INT, gives=VARCHAR)),
        plain(_substring),
        _substring_template(DUCKDB_ERROR),
        _substring_template(SPARK_ERROR),
        fails=_NEGATIVE,
    ),
    Function(
        "left",
        "left(text, count)",
        fixed(takes(VARCHAR, INT, gives=VARCHAR)),
        plain(lambda text, count: text[:count]),
        call("left"),
        pattern(_SPARK_LEFT),
    ),
    Function(
        "right",
        "right(text, count)",
        fixed(takes(VARCHAR, INT, gives=VARCHAR)),
        plain(_right),
        call("right"),
        pattern(_SPARK_RIGHT),
    ),
)


LONGEST: Final = 10_000_000
"""How many characters repeat, lpad and rpad may make: a query should not be able to ask for all memory."""

_TOO_LONG: Final = f"a text of more than {LONGEST} characters"


def _takes(*arguments: Type, gives: Type = VARCHAR) -> Resolver:
    return fixed(takes(*arguments, gives=gives))


def _simple(name: str, usage: str, resolve: Resolver, meaning: Callable[..., Value]) -> Function:
    """A function that both engines have under the same name."""
    return Function(name, usage, resolve, plain(meaning), call(name), call(name))


def _replace(text: str, search: str, replacement: str) -> str:
    return text.replace(search, replacement) if search else text


def _limited(length: int) -> None:
    if length > LONGEST:
        raise TidemarkError("invalid_value", _TOO_LONG)


def _repeat(text: str, count: int) -> str:
    _limited(len(text) * count)
    return text * count


def _padding(text: str, length: int, fill: str) -> str:
    """What is missing to the length, made of the fill; without a fill, nothing."""
    if not fill:
        return ""
    _limited(length)
    missing = max(length - len(text), 0)
    return (fill * missing)[:missing]


def _lpad(text: str, length: int, fill: str = " ") -> str:
    return _padding(text, length, fill) + text[: max(length, 0)]


def _rpad(text: str, length: int, fill: str = " ") -> str:
    return text[: max(length, 0)] + _padding(text, length, fill)


def _checked_count(raising: str, too_long: str) -> str:
    """The count itself is guarded and not the result, which an engine would build for constants in any branch."""
    return guard(raising, too_long, f"invalid_value: {_TOO_LONG}", "{1}")


def _repeat_template(raising: str) -> Template:
    too_long = f"CAST(length({{0}}) AS BIGINT) * {{1}} > {LONGEST}"
    return pattern(f"repeat({{0}}, {_checked_count(raising, too_long)})")


def _pad_template(raising: str, name: str) -> Template:
    """DuckDB fails when it has nothing to pad with; PostgreSQL and Spark only cut the text to the length."""
    too_long = f"{{1}} > {LONGEST} AND {{0}} IS NOT NULL"
    two, three = (_checked_count(raising, condition) for condition in (too_long, f"{too_long} AND {{2}} IS NOT NULL"))
    cut = "substring({0}, 1, (CASE WHEN {1} < 0 THEN 0 ELSE {1} END))"
    return by_count(
        {
            2: pattern(f"{name}({{0}}, {two}, ' ')"),
            3: pattern(f"(CASE WHEN {{2}} = '' THEN {cut} ELSE {name}({{0}}, {three}, {{2}}) END)"),
        }
    )


def _pad(name: str, meaning: Callable[..., Value]) -> Function:
    return Function(
        name,
        f"{name}(text, length [, fill])",
        fixed(takes(VARCHAR, INT, gives=VARCHAR), takes(VARCHAR, INT, VARCHAR, gives=VARCHAR)),
        plain(meaning),
        _pad_template(DUCKDB_ERROR, name),
        _pad_template(SPARK_ERROR, name),
        fails=f"invalid_value: {_TOO_LONG}",
    )


def _trim(name: str, side: str, meaning: Callable[..., Value]) -> Function:
    """The space is named, because engines differ in what else they count as blank."""
    usage = (
        "trim([LEADING | TRAILING | BOTH] [characters FROM] text)" if name == "trim" else f"{name}(text [, characters])"
    )
    return Function(
        name,
        usage,
        fixed(takes(VARCHAR, gives=VARCHAR), takes(VARCHAR, VARCHAR, gives=VARCHAR)),
        plain(lambda text, characters=" ": meaning(text, characters) if characters else text),
        by_count({1: pattern(name + "({0}, ' ')"), 2: call(name)}),
        by_count({1: pattern(f"trim({side} ' ' FROM {{0}})"), 2: pattern(f"trim({side} {{1}} FROM {{0}})")}),
    )


STRINGS: Final = (
    Function(
        "concat",
        "a || b",
        fixed(takes(VARCHAR, VARCHAR, gives=VARCHAR), takes(BYTEA, BYTEA, gives=BYTEA)),
        plain(lambda left, right: left + right),
        infix("||"),
        infix("||"),
        infix="||",
    ),
    *LETTERS,
    Function(
        "length",
        "length(text)",
        fixed(takes(VARCHAR, gives=INT), takes(BYTEA, gives=INT)),
        plain(len),
        by_bytes(pattern("CAST(octet_length({0}) AS INTEGER)"), pattern("CAST(length({0}) AS INTEGER)")),
        call("length"),
    ),
    *SUBSTRINGS,
    _trim("trim", "BOTH", str.strip),
    _trim("ltrim", "LEADING", str.lstrip),
    _trim("rtrim", "TRAILING", str.rstrip),
    _simple("replace", "replace(text, search, replacement)", _takes(VARCHAR, VARCHAR, VARCHAR), _replace),
    Function(
        "position",
        "position(search IN text)",
        _takes(VARCHAR, VARCHAR, gives=INT),
        plain(lambda text, search: text.find(search) + 1),
        pattern("CAST(strpos({0}, {1}) AS INTEGER)"),
        call("instr"),
    ),
    Function(
        "starts_with",
        "starts_with(text, start)",
        _takes(VARCHAR, VARCHAR, gives=BOOLEAN),
        plain(str.startswith),
        call("starts_with"),
        call("startswith"),
    ),
    Function(
        "reverse",
        "reverse(text)",
        _takes(VARCHAR),
        plain(lambda text: text[::-1]),
        # DuckDB's own reverse keeps an accent with its letter; the others turn code points around.
        pattern("array_to_string(list_reverse(string_split({0}, '')), '')"),
        call("reverse"),
    ),
    Function(
        "repeat",
        "repeat(text, count)",
        _takes(VARCHAR, INT),
        plain(_repeat),
        _repeat_template(DUCKDB_ERROR),
        _repeat_template(SPARK_ERROR),
        fails=f"invalid_value: {_TOO_LONG}",
    ),
    _pad("lpad", _lpad),
    _pad("rpad", _rpad),
)
