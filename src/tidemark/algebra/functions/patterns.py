r"""LIKE, ILIKE and regular expressions.

The binder makes each literal LIKE pattern one with backslashes only before ``%``, ``_`` and ``\``. A pattern that is
not a literal is brought to that form when the query runs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tidemark.algebra.functions.letters import LOWER_ON_DUCKDB, LOWER_ON_SPARK, lower
from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import Function, Signature, Template
from tidemark.algebra.functions.templates import Engine, guard, infix, pattern, plain
from tidemark.algebra.types import BOOLEAN, VARCHAR
from tidemark.errors import TidemarkError

_ENDS: Final = "invalid_value: the pattern ends with its escape character"


@lru_cache(maxsize=1000)
def _compiled(shape: str) -> re.Pattern[str]:
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
    return _compiled(shape).fullmatch(text) is not None


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
