"""Values and expressions as readable text."""

from __future__ import annotations

import datetime as dt

from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, FieldOf, Literal, Value
from tidemark.algebra.functions import FUNCTIONS


def show_value(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
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
