"""Schemas as JSON, for engines that keep them beside the data."""

from __future__ import annotations

from typing import Any

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


def schema_from_json(records: Any) -> Schema:
    return Schema(
        tuple(Field(r["name"], Type(Kind(r["kind"]), r["precision"], r["scale"]), r["nullable"]) for r in records)
    )
