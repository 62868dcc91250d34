"""Numbers, and texts that stand for values of other types, as they are written in SQL and in Datalog."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

from tidemark.algebra.expressions import Literal, Value
from tidemark.algebra.functions import canonical, cast_value
from tidemark.algebra.types import BIGINT, DOUBLE, INT, MAX_PRECISION, VARCHAR, Type, decimal
from tidemark.errors import TidemarkError


def number(text: str) -> Literal:
    """A numeric literal: INT, BIGINT, DECIMAL by its digits, or DOUBLE when it has an exponent.

    >>> [str(number(text).type) for text in ("1", "3000000000", "1.50", "1e3")]
    ['INT', 'BIGINT', 'DECIMAL(3,2)', 'DOUBLE']
    """
    if "e" in text.lower():
        value_ = float(text)
        if math.isinf(value_):
            raise TidemarkError("overflow", f"the number {text} is out of range for DOUBLE")
        return Literal(canonical(value_), DOUBLE)
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise TidemarkError("syntax", f"{text!r} is not a number") from error
    if "." not in text and abs(value) < 2**63:
        return Literal(int(value), INT if abs(value) < 2**31 else BIGINT)
    _sign, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits), scale, 1)
    if precision > MAX_PRECISION:
        raise TidemarkError("overflow", f"the number {text} has more than {MAX_PRECISION} digits")
    return Literal(value, decimal(precision, scale))


def exact_number(text: str) -> Literal:
    """The exact number that a quoted literal stands for."""
    if re.fullmatch(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)\s*", text) is None:
        raise TidemarkError("type", f"the text {text!r} is not a number")
    return number(text.strip().removeprefix("+"))


def read_text(text: str, target: Type) -> Value:
    """The value of a quoted literal of the given type, as in DATE '2024-01-31': what CAST makes of it."""
    if target.element is not None:
        raise TidemarkError("type", f"a text is no {target}", hint="ARRAY['a', 'b'], and ARRAY[]::INT[] for none")
    if target.fields:
        raise TidemarkError("type", f"a text is no {target}", hint="ROW(1, 'a')")
    try:
        return cast_value(text, VARCHAR, target)
    except TidemarkError as error:
        raise TidemarkError("type", f"the text {text!r} is not a {target}") from error
