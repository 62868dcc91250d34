"""Schemas as JSON, for engines that keep them beside the data.

Expressions as JSON, for what is stored of definitions beside their texts.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import cache
from typing import Any, Final

from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, FieldOf, Literal, Value
from tidemark.algebra.functions import canonical
from tidemark.algebra.types import Field, Kind, Schema, Type


def schema_to_json(schema: Schema) -> list[dict[str, Any]]:
    return [{"name": f.name, **type_to_json(f.type), "nullable": f.nullable} for f in schema.fields]


def type_to_json(type: Type) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": type.kind.value, "precision": type.precision, "scale": type.scale}
    if type.fields:
        record["fields"] = [{"name": name, **type_to_json(part)} for name, part in type.fields]
    return record if type.element is None else {**record, "element": type_to_json(type.element)}


def type_from_json(record: Any) -> Type:
    if "element" not in record and "fields" not in record:
        return _simple(record["kind"], record["precision"], record["scale"])
    element = type_from_json(record["element"]) if "element" in record else None
    fields = tuple((part["name"], type_from_json(part)) for part in record.get("fields", ()))
    return Type(Kind(record["kind"]), record["precision"], record["scale"], element, fields)


@cache
def _simple(kind: str, precision: int, scale: int) -> Type:
    return Type(Kind(kind), precision, scale)


def values_to_json(values: tuple[Value, ...]) -> list[Any]:
    """Values of columns as texts, arrays and structs as lists of texts; their types are in the schema."""
    return [value_to_json(value) for value in values]


def value_to_json(value: Value) -> Any:
    return values_to_json(value) if isinstance(value, tuple) else _text(value)


def values_from_json(texts: Any, schema: Schema) -> tuple[Value, ...]:
    """The values of a schema's last columns.

    >>> values_from_json(["1.50", None], Schema((Field("a", Type(Kind.DECIMAL, 5, 2)), Field("b", Type(Kind.INT)))))
    (Decimal('1.50'), None)
    """
    types = schema.types[len(schema) - len(texts) :]
    return tuple(value_from_json(text, type) for text, type in zip(texts, types, strict=True))


def _text(value: Value) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def value_from_json(text: Any, type: Type) -> Value:
    if text is None:
        return None
    if type.element is not None:
        return tuple(value_from_json(element, type.element) for element in text)
    if type.fields:
        return tuple(map(value_from_json, text, type.parts))
    match type.kind:
        case Kind.BOOLEAN:
            return bool(text == "True")
        case Kind.SMALLINT | Kind.INT | Kind.BIGINT:
            return int(text)
        case Kind.DECIMAL:
            return Decimal(text)
        case Kind.REAL | Kind.DOUBLE:
            return canonical(float(text))
        case Kind.DATE:
            return dt.date.fromisoformat(text)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return dt.datetime.fromisoformat(text)
        case Kind.BYTEA:
            return bytes.fromhex(text)
    return str(text)


def schema_from_json(records: Any) -> Schema:
    return Schema(tuple(Field(r["name"], type_from_json(r), r["nullable"]) for r in records))


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
