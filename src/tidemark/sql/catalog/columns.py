"""Relations that got more columns since a view was defined: the view goes on seeing those that it saw.

The names that columns cannot have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.plans import Plan, Project, Scan, transform
from tidemark.algebra.types import RESERVED, RESERVED_SINCE, Schema
from tidemark.sql.catalog.catalog import Catalog, Relation, Table
from tidemark.sql.parse.text import Source


def narrowed(catalog: Catalog, seen: Mapping[str, int]) -> Catalog:
    """The catalog in which relations have only their first columns, as many as were seen."""
    for name, width in seen.items():
        relation = catalog.get(name)
        if relation is not None and width < len(relation.schema):
            catalog = catalog.with_relation(_first_columns(relation, width))
    return catalog


def widened(plan: Plan, catalog: Catalog) -> Plan:
    """The plan with each scan as wide as its relation is now; above it a projection keeps what the scan gave."""

    def whole(scan: Scan) -> Scan:
        relation = catalog.get(scan.relation)  # the clock comes with the first view that reads it
        return scan if relation is None else replace(scan, columns_=relation.schema)

    def wider(part: Plan) -> Plan | None:
        match part:
            case Project(input=Scan() as scan) if part.expressions == scan.columns()[: len(part.schema)]:
                return replace(part, input=whole(scan))
            case Scan() if len(part.schema) < len(whole(part).schema):
                return Project(whole(part), part.schema.names, part.columns())
        return None

    return transform(plan, wider)


def same_columns(left: Schema, right: Schema) -> bool:
    """Whether names and types are the same; what may be NULL may differ."""
    return left.names == right.names and left.types == right.types


def begins_with(schema: Schema, other: Schema, width: int) -> bool:
    """Whether the first columns of both are the same."""
    first, others = Schema(schema.fields[:width]), Schema(other.fields[:width])
    return len(first) == len(others) == width and same_columns(first, others)


def _first_columns(relation: Relation, width: int) -> Relation:
    if isinstance(relation, Table):
        return replace(relation, schema=Schema(relation.schema.fields[:width]))
    plan = relation.plan
    return replace(relation, plan=Project(plan, plan.schema.names[:width], plan.columns()[:width]))


def must_be_free(name: str, source: Source, node: exp.Expr | None = None) -> None:
    """Refuse a column name that is reserved. A definition that is read again, which has no time, keeps a name that has
    been reserved since it was written."""
    is_new = source.now is not None
    if not name or name.lower() in RESERVED or (is_new and name.lower() in RESERVED_SINCE):
        raise source.error("reserved_name", f"the column name {name!r} is reserved", node)
