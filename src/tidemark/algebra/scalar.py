"""Expressions evaluated for one row, by the Python meanings of the function table, and which of them can raise."""

from __future__ import annotations

from typing import Final

from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, FieldOf, Literal, Value, walk
from tidemark.algebra.functions import FUNCTIONS, Signature, cast_fails, cast_value
from tidemark.algebra.plans import Plan, expressions_of

Row = tuple[Value, ...]


def value_of(expression: Expression, row: Row) -> Value:
    match expression:
        case Column(index=index):
            return row[index]
        case Literal(value=value):
            return value
        case Cast(argument=argument, type=target):
            value = value_of(argument, row)
            return None if value is None else cast_value(value, argument.type, target)
        case Case(branches=branches, default=default):
            for condition, result in branches:
                if value_of(condition, row) is True:
                    return value_of(result, row)
            return value_of(default, row)
        case FieldOf(argument=argument, place=place):
            whole = value_of(argument, row)
            assert whole is None or isinstance(whole, tuple)
            return None if whole is None else whole[place]
        case Call():
            return _value_of_call(expression, row)
    raise TypeError(f"not an expression: {expression!r}")


def _value_of_call(call: Call, row: Row) -> Value:
    if call.function == "coalesce":
        return next((v for v in (value_of(a, row) for a in call.arguments) if v is not None), None)
    if call.function in ("and", "or"):
        return _connective(call, row, decisive=call.function == "or")
    function = FUNCTIONS[call.function]
    values = tuple(value_of(argument, row) for argument in call.arguments)
    if function.strict and any(value is None for value in values):
        return None
    signature = Signature(tuple(argument.type for argument in call.arguments), call.type)
    return function.meaning(values, signature)


def _connective(call: Call, row: Row, *, decisive: bool) -> Value:
    """AND and OR from left to right: the first decisive value ends the evaluation."""
    unknown = False
    for argument in call.arguments:
        value = value_of(argument, row)
        if value is decisive:
            return decisive
        unknown = unknown or value is None
    return None if unknown else not decisive


def can_fail(expression: Expression, code: str = "") -> bool:
    """Whether the expression can raise an error (of the given code, if one is given)."""
    if code:
        return any(fails_itself(part, code) for part in walk(expression))
    known: bool | None = expression.__dict__.get(_FAILS)
    if known is None:
        known = any(map(can_fail, expression.children())) or fails_itself(expression)
        expression.__dict__[_FAILS] = known
    return known


_FAILS: Final = "_fails"


def fails_itself(expression: Expression, code: str = "") -> bool:
    """Whether the outermost operation of the expression can raise an error, apart from its arguments."""
    fails = None
    if isinstance(expression, Call):
        fails = FUNCTIONS[expression.function].fails
    elif isinstance(expression, Cast):
        fails = cast_fails(expression.argument.type, expression.type)
    return fails is not None and code in fails


def node_can_fail(plan: Plan) -> bool:
    """Whether an expression that stands directly in this node can raise an error."""
    return any(can_fail(expression) for expression in expressions_of(plan))
