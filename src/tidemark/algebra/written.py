"""Expressions as JSON, for what is stored of definitions beside their texts."""

from __future__ import annotations

from typing import Any, Final

from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, FieldOf, Literal
from tidemark.algebra.schemas import type_from_json, type_to_json, value_from_json, value_to_json
from tidemark.algebra.types import Kind, Type

_COLUMN, _LITERAL, _CALL, _CASE, _CAST, _FIELD = "column", "literal", "call", "case", "cast", "field"
_PLAIN: Final = {kind.value: Type(kind) for kind in Kind if kind not in (Kind.DECIMAL, Kind.ARRAY, Kind.STRUCT)}


def expression_to_json(expression: Expression) -> list[Any]:
    match expression:
        case Column(index=index, name=name, nullable=nullable):
            return [_COLUMN, index, name, _of_type(expression.type), nullable]
        case Literal(value=value):
            return [_LITERAL, value_to_json(value), _of_type(expression.type)]
        case Call(function=function, arguments=arguments, nullable=nullable):
            written = [expression_to_json(part) for part in arguments]
            return [_CALL, function, written, _of_type(expression.type), nullable]
        case Case(branches=branches, default=default):
            pairs = [[expression_to_json(part) for part in branch] for branch in branches]
            return [_CASE, pairs, expression_to_json(default), _of_type(expression.type)]
        case Cast(argument=argument):
            return [_CAST, expression_to_json(argument), _of_type(expression.type)]
        case FieldOf(argument=argument, place=place):
            return [_FIELD, expression_to_json(argument), place]
    raise TypeError(f"{type(expression).__name__} has no form in which it is stored")


def expression_from_json(shown: Any) -> Expression:
    """The expression again.

    >>> from decimal import Decimal
    >>> from tidemark.algebra.types import BOOLEAN, decimal
    >>> price = Column(2, "price", decimal(12, 2))
    >>> above = Call("gt", (price, Literal(Decimal("1.50"), decimal(12, 2))), BOOLEAN)
    >>> expression_from_json(expression_to_json(above)) == above
    True
    """
    what, *parts = shown
    if what == _COLUMN:
        return Column(parts[0], parts[1], _type(parts[2]), parts[3])
    if what == _LITERAL:
        of_value = _type(parts[1])
        return Literal(value_from_json(parts[0], of_value), of_value)
    if what == _CALL:
        return Call(parts[0], tuple([expression_from_json(part) for part in parts[1]]), _type(parts[2]), parts[3])
    if what == _CASE:
        pairs = tuple([(expression_from_json(when), expression_from_json(then)) for when, then in parts[0]])
        return Case(pairs, expression_from_json(parts[1]), _type(parts[2]))
    if what == _CAST:
        return Cast(expression_from_json(parts[0]), _type(parts[1]))
    return FieldOf(expression_from_json(parts[0]), parts[1])


def _of_type(type: Type) -> Any:
    return type.kind.value if type.kind.value in _PLAIN else type_to_json(type)


def _type(shown: Any) -> Type:
    return _PLAIN[shown] if isinstance(shown, str) else type_from_json(shown)
