"""Conditions in words, for reasons that people read."""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.algebra.expressions import Expression, conjuncts
from tidemark.algebra.printing import show_expression
from tidemark.analysis.ways import Way

MOST_SHOWN = 3


def plain(condition: Expression) -> str:
    """A condition as one would write it.

    >>> from tidemark.algebra.expressions import Call, Column, Literal, conjunction
    >>> from tidemark.algebra.types import BOOLEAN, INT
    >>> above = Call("gt", (Column(0, "k", INT), Literal(10, INT)), BOOLEAN)
    >>> plain(conjunction((above, Call("eq", (Column(1, "j", INT), Column(0, "k", INT)), BOOLEAN))))
    'k > 10 and j = k'
    """
    return " and ".join(_without_parentheses(show_expression(part)) for part in conjuncts(condition))


def needs(ways: Iterable[Way]) -> str:
    """What the view asks of the rows, for each way in which they reach it."""
    texts = dict.fromkeys(" and ".join(map(plain, way.conditions)) or "nothing" for way in ways)
    shown = list(texts)[:MOST_SHOWN] + ["…"] * (len(texts) > MOST_SHOWN)
    return ", or ".join(shown)


def _without_parentheses(text: str) -> str:
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text
