"""The definitions that a view stands on, as they are shipped, and the catalog that they are at the other side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidemark.algebra.types import Schema
from tidemark.database import records
from tidemark.engines.schema_json import schema_from_json, schema_to_json
from tidemark.sql.catalog import Catalog, Table, View


def below(catalog: Catalog, view: View) -> tuple[tuple[str, ...], tuple[View, ...]]:
    """The tables that a view stands on, in the end, and the views between, itself last. What lags counts as a table."""
    needed = {view.name}
    for name in reversed(list(catalog.relations)):
        relation = catalog.relations[name]
        if name in needed and isinstance(relation, View) and (relation.lag is None or relation is view):
            needed |= relation.depends_on
    views = [v for v in catalog.views if v.name in needed and (v.lag is None or v is view)]
    tables = [name for name in catalog.relations if name in needed and name not in {v.name for v in views}]
    return tuple(tables), tuple(views)


def shown(catalog: Catalog, tables: Sequence[str], views: Sequence[View]) -> list[dict[str, Any]]:
    """The definitions, to be shipped."""
    listed: list[dict[str, Any]] = []
    for name in tables:
        relation = catalog.relations[name]
        key = list(relation.primary_key) if isinstance(relation, Table) else []
        listed.append({"table": name, "schema": schema_to_json(relation.schema), "key": key})
    for view in views:
        listed.append({"view": view.name, "sql": view.text, "dialect": view.dialect, "seen": dict(view.seen)})
    return listed


def catalog_of(listed: Sequence[Mapping[str, Any]]) -> Catalog:
    """The catalog of shipped definitions. Tables have their columns and keys; what they check, the source has
    checked."""
    catalog = Catalog()
    for one in listed:
        if "table" in one:
            schema = schema_from_json(one["schema"])
            defaults = tuple(None for _ in schema.fields)
            table = Table(one["table"], schema, "", primary_key=tuple(one["key"]), defaults=defaults)
            catalog = catalog.with_relation(table)
            continue
        view = records.define(one["sql"], one["dialect"], catalog, one["seen"])
        assert isinstance(view, View)
        catalog = catalog.with_relation(replace(view, lag=None))
    return catalog


def reduced(schema: Schema, columns: frozenset[int]) -> Schema:
    """A schema in which columns that nobody reads may be NULL."""
    return Schema(tuple(f if i in columns else replace(f, nullable=True) for i, f in enumerate(schema.fields)))
