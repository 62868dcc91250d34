"""The definitions that a view stands on, as they are shipped, and the catalog that they are at the other side.

Of tables, the columns are shipped that the views above have seen: ALTER TABLE … ADD COLUMN changes nothing there.

What of the tables below matters to a view: that is all that is shipped of them, and all that is held elsewhere.

    held = the rows that pass the filter, with NULL in columns that nobody reads

A row for which the filter is not true has no effect on the view (``analysis.relevance``), and neither have those
columns (``algebra.columns``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tidemark.algebra.columns import Columns
from tidemark.algebra.expressions import Expression
from tidemark.algebra.expressions import columns_of as columns_in
from tidemark.algebra.plans import Filter, Given
from tidemark.algebra.schemas import schema_from_json, schema_to_json
from tidemark.algebra.types import WEIGHT, Schema
from tidemark.analysis.rendering import plain
from tidemark.engines.engine import Engine
from tidemark.sql.catalog.catalog import Catalog, Table, View
from tidemark.state import records
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows
from tidemark.strategy.irrelevant import ROWS, passing


@dataclass(frozen=True)
class Below:
    """What a view stands on, in the end: for each table how many columns are seen; and the views between, each after
    what it stands on, itself last. A lagging relation counts as a table."""

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


@dataclass(frozen=True)
class Part:
    """What of a table matters: some of its columns, and only rows that pass the filter, if there is one.

    ``schema`` has the columns of the table that are seen at all.
    """

    schema: Schema
    columns: Columns
    filter: Expression | None

    @property
    def filtered_by(self) -> Columns:
        """The columns that the filter reads."""
        return frozenset() if self.filter is None else columns_in(self.filter)

    @property
    def words(self) -> str:
        return "" if self.filter is None else plain(self.filter)

    def of(self, entries: pa.Table, engine: Engine) -> pa.Table:
        """The entries of a table that matter, net, as they are shipped: the columns that are held, and the weight."""
        entries = entries.select([*range(len(self.schema)), entries.num_columns - 1])
        if self.filter is not None:
            entries = passing(Rows.of(entries), Filter(Given(ROWS, self.schema), self.filter)).table
        held = shipped(self.schema, self.columns)
        return delta_tables.net(nulled(entries, self.columns)).select(held.names).cast(held)


def nulled(entries: pa.Table, columns: Columns) -> pa.Table:
    """The entries with NULL in the other columns."""
    for position in range(entries.num_columns - 1):
        if position not in columns:
            field = entries.schema.field(position)
            empty = pa.nulls(entries.num_rows, field.type)
            entries = entries.set_column(position, pa.field(field.name, field.type), empty)
    return entries


def shipped(schema: Schema, columns: Columns) -> pa.Schema:
    """The columns in which what is held is shipped."""
    return pa.schema([*(schema.arrow.field(position) for position in sorted(columns)), schema.weighted.field(WEIGHT)])


def restored(entries: pa.Table, schema: Schema, columns: Columns) -> pa.Table:
    """Entries that were shipped, as entries of the whole table."""
    for position, field in enumerate(schema.fields):
        if position not in columns:
            entries = entries.add_column(position, field.name, pa.nulls(entries.num_rows, field.type.arrow))
    return entries.cast(schema.weighted)
