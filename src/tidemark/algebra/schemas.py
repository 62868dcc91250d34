"""Schemas as JSON, for engines that keep them beside the data."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import canonical
from tidemark.algebra.types import Field, Kind, Schema, Type


def schema_to_json(schema: Schema) -> list[dict[str, Any]]:
    return [{"name": f.name, **_type_to_json(f.type), "nullable": f.nullable} for f in schema.fields]


def _type_to_json(type: Type) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": type.kind.value, "precision": type.precision, "scale": type.scale}
    if type.fields:
        record["fields"] = [{"name": name, **_type_to_json(part)} for name, part in type.fields]
    return record if type.element is None else {**record, "element": _type_to_json(type.element)}


def _type_from_json(record: Any) -> Type:
    element = _type_from_json(record["element"]) if "element" in record else None
    fields = tuple((part["name"], _type_from_json(part)) for part in record.get("fields", ()))
    return Type(Kind(record["kind"]), record["precision"], record["scale"], element, fields)


def values_to_json(values: tuple[Value, ...]) -> list[Any]:
    """Values of columns as texts, arrays and structs as lists of texts; their types are in the schema."""
    return [values_to_json(value) if isinstance(value, tuple) else _text(value) for value in values]


def values_from_json(texts: Any, schema: Schema) -> tuple[Value, ...]:
    """The values of a schema's last columns.

    >>> values_from_json(["1.50", None], Schema((Field("a", Type(Kind.DECIMAL, 5, 2)), Field("b", Type(Kind.INT)))))
    (Decimal('1.50'), None)
    """
    types = schema.types[len(schema) - len(texts) :]
    return tuple(_value(text, type) for text, type in zip(texts, types, strict=True))


def _text(value: Value) -> str | None:
    if value is None:
        return None
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _value(text: Any, type: Type) -> Value:
    if text is None:
        return None
    if type.element is not None:
        return tuple(_value(element, type.element) for element in text)
    if type.fields:
        return tuple(map(_value, text, type.parts))
    match type.kind:
        case Kind.BOOLEAN:
            return bool(text == "True")
        case Kind.SMALLINT | Kind.INT | Kind.BIGINT:
            return int(text)
        case Kind.DECIMAL:
            return Decimal(text)
        case Kind.DOUBLE:
            return canonical(float(text))
        case Kind.DATE:
            return dt.date.fromisoformat(text)
        case Kind.TIMESTAMP:
            return dt.datetime.fromisoformat(text)
    return str(text)


def schema_from_json(records: Any) -> Schema:
    return Schema(tuple(Field(r["name"], _type_from_json(r), r["nullable"]) for r in records))
