"""Logic in three values, and the functions that choose among their arguments.

Comparison: both sides brought to a common type, text by code point, NaN equal to itself and above all else.

Arrays are equal if they have as many elements, each equal to the other's or both NULL.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.resolvers import alike, fixed, takes
from tidemark.algebra.functions.table import Function, Signature, Template, call, infix, pattern, plain
from tidemark.algebra.functions.values import rank
from tidemark.algebra.types import BOOLEAN, Type


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


def _and(*values: Value) -> Value:
    return False if False in values else None if None in values else True


def _or(*values: Value) -> Value:
    return True if True in values else None if None in values else False


def _in_list(value: Value, *others: Value) -> Value:
    """NULL, not FALSE, when the value is not found but something unknown is in play."""
    if value is None:
        return None
    if any(other is not None and not distinct(value, other) for other in others):
        return True
    return None if None in others else False


def _first(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def _extremum(choose: Callable[..., Value]) -> Callable[..., Value]:
    def meaning(*values: Value) -> Value:
        return choose((value for value in values if value is not None), key=rank, default=None)

    return meaning


def _booleans(types: tuple[Type, ...]) -> Signature | None:
    resolve = fixed(takes(*(BOOLEAN,) * len(types), gives=BOOLEAN))
    return resolve(types) if len(types) >= 2 else None


def _connective(name: str, meaning: Callable[..., Value]) -> Function:
    symbol = name.upper()
    return Function(
        name,
        f"a {symbol} b",
        _booleans,
        plain(meaning),
        infix(symbol),
        infix(symbol),
        strict=False,
        infix=symbol,
    )


def _test(name: str, words: str, meaning: Callable[[Value], bool], of_booleans: bool) -> Function:
    """A question that always has an answer, also about NULL."""
    template = pattern("({0} " + words + ")")
    return Function(
        name,
        f"a {words}",
        fixed(takes(BOOLEAN, gives=BOOLEAN)) if of_booleans else alike(1, 1, gives=BOOLEAN, nested=True),
        plain(meaning),
        template,
        template,
        strict=False,
        nullable=lambda _: False,
    )


def _choice(name: str, meaning: Callable[..., Value]) -> Function:
    """NULL only if all arguments are."""
    return Function(
        name,
        f"{name}(a, …)",
        alike(1, nested=name == "coalesce"),
        plain(meaning),
        _itself_if_alone(call(name)),
        _itself_if_alone(call(name)),
        strict=False,
        nullable=all,
    )


def _itself_if_alone(template: Template) -> Template:
    """Spark's greatest and least want two arguments at least."""
    return lambda arguments, signature: arguments[0] if len(arguments) == 1 else template(arguments, signature)


LOGIC: Final = (
    _connective("and", _and),
    _connective("or", _or),
    Function(
        "not",
        "NOT a",
        fixed(takes(BOOLEAN, gives=BOOLEAN)),
        plain(lambda value: not value),
        pattern("(NOT {0})"),
        pattern("(NOT {0})"),
    ),
    _test("is_null", "IS NULL", lambda value: value is None, of_booleans=False),
    _test("is_not_null", "IS NOT NULL", lambda value: value is not None, of_booleans=False),
    _test("is_true", "IS TRUE", lambda value: value is True, of_booleans=True),
    _test("is_not_true", "IS NOT TRUE", lambda value: value is not True, of_booleans=True),
    _test("is_false", "IS FALSE", lambda value: value is False, of_booleans=True),
    _test("is_not_false", "IS NOT FALSE", lambda value: value is not False, of_booleans=True),
    _choice("coalesce", _first),
    Function(
        "nullif",
        "nullif(a, b)",
        alike(2, 2, nested=True),
        plain(lambda left, right: left if distinct(left, right) else None),
        call("nullif"),
        call("nullif"),
        strict=False,
        nullable=lambda _: True,
    ),
    _choice("greatest", _extremum(max)),
    _choice("least", _extremum(min)),
    Function(
        "in_list",
        "a IN (b, …)",
        alike(2, gives=BOOLEAN),
        plain(_in_list),
        lambda arguments, _: f"({arguments[0]} IN ({', '.join(arguments[1:])}))",
        lambda arguments, _: f"({arguments[0]} IN ({', '.join(arguments[1:])}))",
        strict=False,
    ),
)
