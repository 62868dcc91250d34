"""Schemas as JSON, for engines that keep them beside the data."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import canonical
from tidemark.algebra.types import Field, Kind, Schema, Type


def schema_to_json(schema: Schema) -> list[dict[str, Any]]:
    return [
        {
            "name": f.name,
            "kind": f.type.kind.value,
            "precision": f.type.precision,
            "scale": f.type.scale,
            "nullable": f.nullable,
        }
        for f in schema.fields
    ]


def values_to_json(values: tuple[Value, ...]) -> list[str | None]:
    """Values of columns as texts; their types are in the schema."""
    return [None if value is None else _text(value) for value in values]


def values_from_json(texts: Any, schema: Schema) -> tuple[Value, ...]:
    """The values of a schema's last columns.

    >>> values_from_json(["1.50", None], Schema((Field("a", Type(Kind.DECIMAL, 5, 2)), Field("b", Type(Kind.INT)))))
    (Decimal('1.50'), None)
    """
    types = schema.types[len(schema) - len(texts) :]
    return tuple(None if t is None else _value(t, type.kind) for t, type in zip(texts, types, strict=True))


def _text(value: Value) -> str:
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _value(text: str, kind: Kind) -> Value:
    match kind:
        case Kind.BOOLEAN:
            return text == "True"
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
    return text


def schema_from_json(records: Any) -> Schema:
    return Schema(
        tuple(Field(r["name"], Type(Kind(r["kind"]), r["precision"], r["scale"]), r["nullable"]) for r in records)
    )
