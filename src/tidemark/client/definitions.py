"""The definitions that a view stands on, as they are shipped, and the catalog that they are at the other side.

Of tables, the columns are shipped that the views above have seen: ALTER TABLE … ADD COLUMN changes nothing there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemark.algebra.reading import Columns
from tidemark.algebra.types import Schema
from tidemark.database import records
from tidemark.engines.schema_json import schema_from_json, schema_to_json
from tidemark.sql.catalog import Catalog, Table, View


@dataclass(frozen=True)
class Below:
    """What a view stands on, in the end: for each table how many columns are seen; and the views between, each after
    what it stands on, itself last. What lags counts as a table."""

    widths: Mapping[str, int]
    views: tuple[View, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(self.widths)

    def schema(self, catalog: Catalog, table: str) -> Schema:
        """The columns of a table that are seen."""
        return Schema(catalog.relations[table].schema.fields[: self.widths[table]])

    @staticmethod
    def of(catalog: Catalog, view: View) -> Below:
        tables, views = set[str](), list[View]()
        _visit(view, catalog, tables, views, {view.name})
        seen = [(name, width) for one in views for name, width in one.seen.items()]
        whole = {name: len(catalog.relations[name].schema) for name in sorted(tables)}
        widths = {name: max((w for n, w in seen if n == name), default=width) for name, width in whole.items()}
        return Below(widths, tuple(views))


def _visit(view: View, catalog: Catalog, tables: set[str], views: list[View], visited: set[str]) -> None:
    for name in sorted(view.depends_on - visited):
        relation = catalog.relations[name]
        if isinstance(relation, View) and relation.lag is None:
            visited.add(name)
            _visit(relation, catalog, tables, views, visited)
        else:
            tables.add(name)
    views.append(view)


def shown(catalog: Catalog, below: Below) -> list[dict[str, Any]]:
    """The definitions, to be shipped."""
    listed: list[dict[str, Any]] = []
    for name in below.tables:
        relation = catalog.relations[name]
        key = list(relation.primary_key) if isinstance(relation, Table) else []
        listed.append({"table": name, "schema": schema_to_json(below.schema(catalog, name)), "key": key})
    for view in below.views:
        listed.append({"view": view.name, "sql": view.text, "dialect": view.dialect, "seen": dict(view.seen)})
    return listed


def reduced(listed: Iterable[Mapping[str, Any]], columns: Mapping[str, Columns]) -> list[dict[str, Any]]:
    """The definitions for who has only some columns of the tables: the others may be NULL, and are."""
    found: list[dict[str, Any]] = []
    for one in listed:
        if "table" not in one:
            found.append(dict(one))
            continue
        held = columns[one["table"]]
        schema = [f if i in held else {**f, "nullable": True} for i, f in enumerate(one["schema"])]
        key = one["key"] if set(one["key"]) <= held else []
        found.append({**one, "schema": schema, "key": key, "columns": sorted(held)})
    return found


def catalog_of(listed: Sequence[Mapping[str, Any]]) -> Catalog:
    """The catalog of shipped definitions. Tables have their columns and keys; what they check, and what columns become
    that an INSERT does not name, is known at the source alone. The last view is stored, whatever it is there."""
    catalog = Catalog()
    for one in listed:
        if "table" in one:
            schema = schema_from_json(one["schema"])
            defaults = tuple(None for _ in schema.fields)
            table = Table(one["table"], schema, "", primary_key=tuple(one["key"]), defaults=defaults)
            catalog = catalog.with_relation(table)
            continue
        view = records.define(one["sql"], one["dialect"], catalog, one["seen"], one["view"])
        assert isinstance(view, View)
        if one is listed[-1]:
            view = replace(view, external=False, materialized=True)
        catalog = catalog.with_relation(replace(view, lag=None))
    return catalog


def columns_of(listed: Iterable[Mapping[str, Any]]) -> dict[str, Columns]:
    """The columns that are held of each table."""
    return {one["table"]: frozenset(one["columns"]) for one in listed if "table" in one}
