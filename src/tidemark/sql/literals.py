"""Numbers, dates and patterns as they are written in SQL."""

from __future__ import annotations

from tidemark.algebra.literals import exact_number as exact_number
from tidemark.algebra.literals import number as number
from tidemark.algebra.literals import read_text as read_text
from tidemark.errors import TidemarkError


def canonical_pattern(pattern: str, escape: str = "\\") -> str:
    """A LIKE pattern with backslash escapes only where they are needed, so that all engines read it alike.

    >>> canonical_pattern("50!%_a", escape="!")
    '50\\\\%_a'
    """
    result: list[str] = []
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == escape:
            position += 1
            if position == len(pattern):
                raise TidemarkError("invalid_value", "a LIKE pattern must not end with its escape character")
            letter = pattern[position]
            result.append("\\" + letter if letter in "%_\\" else letter)
        else:
            result.append("\\\\" if letter == "\\" else letter)
        position += 1
    return "".join(result)
