"""Conditions in words, for reasons that people read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tidemark.algebra.expressions import Column, Expression, columns_of, conjuncts, transform
from tidemark.algebra.printing import show_expression
from tidemark.analysis.rendering import disjuncts
from tidemark.analysis.ways import Way, is_computed

MOST_SHOWN = 3


def plain(condition: Expression) -> str:
    """A condition as one would write it.

    >>> from tidemark.algebra.expressions import Call, Column, Literal, conjunction
    >>> from tidemark.algebra.types import BOOLEAN, INT
    >>> above = Call("gt", (Column(0, "k", INT), Literal(10, INT)), BOOLEAN)
    >>> plain(conjunction((above, Call("eq", (Column(1, "j", INT), Column(0, "k", INT)), BOOLEAN))))
    'k > 10 and j = k'
    """
    parts = conjuncts(condition)
    texts = ((show_expression(part), len(disjuncts(part)) > 1 < len(parts)) for part in parts)
    return " and ".join(text if grouped else _without_parentheses(text) for text, grouped in texts)


def needs(ways: Iterable[Way]) -> str:
    """What the view asks of the rows, for each way in which they reach it."""
    texts = dict.fromkeys(_asked(way) for way in ways)
    shown = list(texts)[:MOST_SHOWN] + ["…"] * (len(texts) > MOST_SHOWN)
    return ", or ".join(shown) or "nothing"


def _asked(way: Way) -> str:
    """What a way asks, with the names of relations where columns of the same name are asked about."""
    conditions = [condition for condition in way.conditions if not is_computed(condition)]
    read = sorted({index for condition in conditions for index in columns_of(condition)})
    names = Counter(way.facts.columns[index].name for index in read)

    def named(part: Expression) -> Expression | None:
        if isinstance(part, Column) and names[part.name] > 1 and way.origins[part.index]:
            return replace(part, name=f"{way.origins[part.index]}.{part.name}")
        return None

    return " and ".join(plain(transform(condition, named)) for condition in conditions) or "nothing"


def _without_parentheses(text: str) -> str:
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text
