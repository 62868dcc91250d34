"""Relations that got more columns since a view was defined: the view goes on seeing those that it saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemark.algebra.plans import Plan, Project, Scan, transform
from tidemark.algebra.types import Schema
from tidemark.sql.catalog import Catalog, Relation, Table


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
