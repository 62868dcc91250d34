"""Parts of a text by position, as PostgreSQL counts: from 1, and places before the first hold no character."""

from __future__ import annotations

from typing import Final

from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import Function, Template
from tidemark.algebra.functions.templates import DUCKDB_ERROR, SPARK_ERROR, by_count, call, pattern, plain
from tidemark.algebra.types import INT, VARCHAR
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
