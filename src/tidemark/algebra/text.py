"""Values and expressions as text: as they are written in SQL and in Datalog, and as people read them."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal, InvalidOperation

from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, FieldOf, Literal, Value
from tidemark.algebra.functions import FUNCTIONS, canonical, cast_value
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


def show_value(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"'\\x{value.hex()}'::BYTEA"
        case dt.datetime():
            return f"TIMESTAMP{'TZ' if value.tzinfo else ''} '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
    return str(value)


def show_expression(expression: Expression) -> str:
    """One line of text, close to the SQL that a person would write."""
    match expression:
        case Column(name=name):
            return name
        case Literal(value=value):
            return show_value(value)
        case Cast(argument=argument, type=target):
            return f"CAST({show_expression(argument)} AS {target})"
        case Case(branches=branches, default=default):
            whens = " ".join(f"WHEN {show_expression(c)} THEN {show_expression(v)}" for c, v in branches)
            return f"CASE {whens} ELSE {show_expression(default)} END"
        case FieldOf(argument=argument):
            return f"({show_expression(argument)}).{expression.name}"
        case Call(function=name, arguments=arguments):
            texts = [show_expression(argument) for argument in arguments]
            infix = FUNCTIONS[name].infix
            if infix is not None and len(texts) == 2:
                return f"({texts[0]} {infix} {texts[1]})"
            if name.startswith("is_") and len(texts) == 1:
                return f"({texts[0]} {name.replace('_', ' ').upper()})"
            if name == "not":
                return f"(NOT {texts[0]})"
            if name == "in_list":
                return f"({texts[0]} IN ({', '.join(texts[1:])}))"
            return f"{name}({', '.join(texts)})"
    raise TypeError(f"not an expression: {expression!r}")
