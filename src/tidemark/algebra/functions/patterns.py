r"""LIKE and ILIKE. The binder makes each pattern a literal with backslashes only before ``%``, ``_`` and ``\``."""

from __future__ import annotations

import re
from typing import Final

from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import Function
from tidemark.algebra.functions.templates import infix, pattern, plain
from tidemark.algebra.types import BOOLEAN, VARCHAR
from tidemark.errors import TidemarkError


def _like(text: str, shape: str) -> bool:
    r"""``%`` is any text and ``_`` any one character, line breaks included; ``\`` takes the next one literally.

    >>> _like("50%", r"__\%"), _like("50", "5%0_")
    (True, False)
    """
    parts = re.findall(r"\\.|.", shape, re.DOTALL)
    if parts and parts[-1] == "\\":
        raise TidemarkError("invalid_value", "the pattern ends with a backslash")
    wild = {"%": ".*", "_": "."}
    expression = "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
    return re.fullmatch(expression, text, re.DOTALL) is not None


_TAKES: Final = fixed(takes(VARCHAR, VARCHAR, gives=BOOLEAN))

PATTERNS: Final = (
    Function(
        "like",
        "text LIKE pattern",
        _TAKES,
        plain(_like),
        pattern(r"({0} LIKE {1} ESCAPE '\')"),  # backslash is Spark's escape already, and no one's in DuckDB
        infix("LIKE"),
        infix="LIKE",
    ),
    Function(
        "ilike",
        "text ILIKE pattern",
        _TAKES,
        plain(lambda text, shape: _like(text.lower(), shape.lower())),
        pattern(r"(lower({0}) LIKE lower({1}) ESCAPE '\')"),
        pattern("(lower({0}) LIKE lower({1}))"),
        infix="ILIKE",
    ),
)
