r"""LIKE, ILIKE and regular expressions.

The binder makes each literal LIKE pattern one with backslashes only before ``%``, ``_`` and ``\``. A pattern that is
not a literal is brought to that form when the query runs.

Of a regular expression it makes a literal of a form that RE2 (DuckDB), Java (Spark) and Python read alike (see
``sql/functions/regexes.py``); the one thing that Python writes differently is ``\z``, the end of the text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.letters import LOWER_ON_DUCKDB, LOWER_ON_SPARK, lower
from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import Engine, Function, Signature, Template, guard, infix, pattern, plain
from tidemark.algebra.types import BOOLEAN, INT, VARCHAR, array_of
from tidemark.errors import TidemarkError

_ENDS: Final = "invalid_value: the pattern ends with its escape character"


@lru_cache(maxsize=1000)
def _as_regex(shape: str) -> re.Pattern[str]:
    parts = re.findall(r"\\.|.", shape, re.DOTALL)
    if parts and parts[-1] == "\\":
        raise TidemarkError("invalid_value", "the pattern ends with a backslash")
    wild = {"%": ".*", "_": "."}
    expression = "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
    return re.compile(expression, re.DOTALL)


def like(text: str, shape: str) -> bool:
    r"""``%`` is any text and ``_`` any one character, line breaks included; ``\`` takes the next one literally.

    >>> like("50%", r"__\%"), like("50", "5%0_")
    (True, False)
    """
    return _as_regex(shape).fullmatch(text) is not None


def _ilike(text: str, shape: str) -> bool:
    return like(lower(text), lower(shape))


_DUCKDB_LIKE: Final = pattern(
    r"({0} LIKE {1} ESCAPE '\')"
)  # backslash is Spark's escape already, and no one's in DuckDB
_SPARK_LIKE: Final = infix("LIKE")


def _lowered(inner: Template, lowering: Template) -> Template:
    def template(arguments: tuple[str, ...], signature: Signature) -> str:
        return inner(tuple(lowering((argument,), signature) for argument in arguments), signature)

    return template


def _any_pattern(inner: Template, engine: Engine) -> Template:
    r"""A pattern with backslashes only where they are needed; one that ends with a lone backslash is an error.

    Pairs of a backslash and a character are found from left to right: those that are needed are the first group.
    """
    slash = "\\" if engine is Engine.DUCKDB else "\\\\"  # within a literal of Spark's
    pairs = f"(?s)({slash * 2}[%_{slash * 2}])|{slash * 2}(.)"
    lone = f"(?s)^([^{slash * 2}]|{slash * 2}.)*{slash * 2}$"

    def template(arguments: tuple[str, ...], signature: Signature) -> str:
        text, shape = arguments
        if engine is Engine.DUCKDB:
            plain_shape, ends = (
                f"regexp_replace({shape}, '{pairs}', '\\1\\2', 'g')",
                f"regexp_matches({shape}, '{lone}')",
            )
        else:
            plain_shape, ends = f"regexp_replace({shape}, '{pairs}', '$1$2')", f"{shape} RLIKE '{lone}(?!.)'"
        matched = inner((text, plain_shape), signature)
        return guard(engine.raising, f"{text} IS NOT NULL AND {ends}", _ENDS, matched)

    return template


_TAKES: Final = fixed(takes(VARCHAR, VARCHAR, gives=BOOLEAN))
_DUCKDB_ILIKE: Final = _lowered(_DUCKDB_LIKE, LOWER_ON_DUCKDB)
_SPARK_ILIKE: Final = _lowered(_SPARK_LIKE, LOWER_ON_SPARK)

PATTERNS: Final = (
    Function("like", "text LIKE pattern", _TAKES, plain(like), _DUCKDB_LIKE, _SPARK_LIKE, infix="LIKE"),
    Function("ilike", "text ILIKE pattern", _TAKES, plain(_ilike), _DUCKDB_ILIKE, _SPARK_ILIKE, infix="ILIKE"),
    Function(
        "like_any_pattern",
        "text LIKE expression",
        _TAKES,
        plain(like),
        _any_pattern(_DUCKDB_LIKE, Engine.DUCKDB),
        _any_pattern(_SPARK_LIKE, Engine.SPARK),
        fails=_ENDS,
        infix="LIKE",
    ),
    Function(
        "ilike_any_pattern",
        "text ILIKE expression",
        _TAKES,
        plain(_ilike),
        _any_pattern(_DUCKDB_ILIKE, Engine.DUCKDB),
        _any_pattern(_SPARK_ILIKE, Engine.SPARK),
        fails=_ENDS,
        infix="ILIKE",
    ),
)


@lru_cache(maxsize=1000)
def _compiled(shape: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\(.)", lambda pair: r"\Z" if pair[1] == "z" else pair[0], shape, flags=re.DOTALL))


def _like(text: str, shape: str) -> bool:
    return _compiled(shape).search(text) is not None


def _filled(match: re.Match[str], replacement: str) -> str:
    r"""The replacement with ``\1`` … for what the groups matched, ``\0`` for all of it and ``\\`` for a backslash."""
    return re.sub(
        r"\\(.)",
        lambda part: (match[int(part[1])] or "") if part[1].isdigit() else part[1],
        replacement,
        flags=re.DOTALL,
    )


def _replace(text: str, shape: str, replacement: str, count: int) -> str:
    return _compiled(shape).sub(lambda match: _filled(match, replacement), text, count=count)


def _split(text: str, shape: str) -> Value:
    """What stands between the matches.

    >>> _split("a, b,c", ", *"), _split("", ",")
    (('a', 'b', 'c'), ('',))
    """
    pieces, start = [], 0
    for match in _compiled(shape).finditer(text):
        pieces.append(text[start : match.start()])
        start = match.end()
    return (*pieces, text[start:])


MOST_GROUPS: Final = 9
"""How many groups of a pattern can be read."""
_TEXTS: Final = (VARCHAR,) * 5


def _substr(name: str, usage: str, group: int) -> Function:
    """What a group matched, or all for group 0; NULL if nothing matches, where the engines give empty text."""

    def meaning(text: str, shape: str) -> str | None:
        found = _compiled(shape).search(text)
        return None if found is None else found[group]

    return Function(
        name,
        usage,
        fixed(takes(VARCHAR, VARCHAR, gives=VARCHAR)),
        plain(meaning),
        pattern(f"(CASE WHEN regexp_matches({{0}}, {{1}}) THEN regexp_extract({{0}}, {{1}}, {group}) END)"),
        pattern(f"(CASE WHEN {{0}} RLIKE {{1}} THEN regexp_extract({{0}}, {{1}}, {group}) END)"),
        nullable=lambda _: True,
    )


REGEXES: Final = (
    Function(
        "regexp_like",
        "text ~ pattern",
        fixed(takes(VARCHAR, VARCHAR, gives=BOOLEAN)),
        plain(_like),
        pattern("regexp_matches({0}, {1})"),
        pattern("({0} RLIKE {1})"),
    ),
    _substr("regexp_substr", "regexp_substr(text, pattern)", 0),
    _substr("regexp_substr_group", "substring(text FROM pattern)", 1),
    *(_substr(f"regexp_substr_group_{n}", f"(regexp_match(text, pattern))[{n}]", n) for n in range(2, MOST_GROUPS + 1)),
    Function(
        "regexp_split_to_array",
        "regexp_split_to_array(text, pattern)",
        fixed(takes(VARCHAR, VARCHAR, gives=array_of(VARCHAR))),
        plain(_split),
        pattern("string_split_regex({0}, {1})"),
        pattern("split({0}, {1}, -1)"),
    ),
    Function(
        "regexp_count",
        "regexp_count(text, pattern)",
        fixed(takes(VARCHAR, VARCHAR, gives=INT)),
        plain(lambda text, shape: sum(1 for _ in _compiled(shape).finditer(text))),
        pattern("CAST(len(regexp_extract_all({0}, {1})) AS INTEGER)"),
        pattern("regexp_count({0}, {1})"),
    ),
    Function(
        "regexp_replace_all",
        "regexp_replace(text, pattern, replacement, 'g')",
        fixed(takes(*_TEXTS[:4], gives=VARCHAR)),  # the replacement in RE2's words and in Java's
        plain(lambda text, shape, replacement, _java: _replace(text, shape, replacement, 0)),
        pattern("regexp_replace({0}, {1}, {2}, 'g')"),
        pattern("regexp_replace({0}, {1}, {3})"),
    ),
    Function(
        "regexp_replace_first",
        "regexp_replace(text, pattern, replacement)",
        fixed(
            takes(*_TEXTS, gives=VARCHAR)
        ),  # pattern and replacement in RE2's words, then for Java, which replaces all
        plain(lambda text, shape, replacement, _shape, _java: _replace(text, shape, replacement, 1)),
        pattern("regexp_replace({0}, {1}, {2})"),
        pattern("regexp_replace({0}, {3}, {4})"),
    ),
)
