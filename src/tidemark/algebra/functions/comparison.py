"""Comparison: both sides brought to a common type, text by code point, NaN equal to itself and above all else.

Arrays are equal if they have as many elements, each equal to the other's or both NULL.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.resolvers import alike
from tidemark.algebra.functions.table import Function
from tidemark.algebra.functions.templates import infix, plain
from tidemark.algebra.functions.values import rank
from tidemark.algebra.types import BOOLEAN


def _comparison(name: str, symbol: str, holds: Callable[[Any, Any], bool]) -> Function:
    return Function(
        name,
        f"a {symbol} b",
        alike(2, 2, gives=BOOLEAN, nested=name in ("eq", "ne")),
        plain(lambda left, right: holds(rank(left), rank(right))),
        infix(symbol),
        infix(symbol),
        infix=symbol,
    )


def distinct(left: Value, right: Value) -> bool:
    """Whether two values differ, where NULL is a value like any other.

    >>> distinct(None, None), distinct(None, 0), distinct(float("nan"), float("nan"))
    (False, True, False)
    """
    if left is None or right is None:
        return left is not right
    return bool(rank(left) != rank(right))


def _null_safe(name: str, words: str, meaning: Callable[[Value, Value], bool]) -> Function:
    return Function(
        name,
        f"a {words} b",
        alike(2, 2, gives=BOOLEAN, nested=True),
        plain(meaning),
        infix(words),
        infix(words),
        strict=False,
        nullable=lambda _: False,
        infix=words,
    )


COMPARISON: Final = (
    _comparison("eq", "=", operator.eq),
    _comparison("ne", "<>", operator.ne),
    _comparison("lt", "<", operator.lt),
    _comparison("le", "<=", operator.le),
    _comparison("gt", ">", operator.gt),
    _comparison("ge", ">=", operator.ge),
    _null_safe("is_distinct", "IS DISTINCT FROM", distinct),
    _null_safe("is_not_distinct", "IS NOT DISTINCT FROM", lambda left, right: not distinct(left, right)),
)
