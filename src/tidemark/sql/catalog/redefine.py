"""Definitions that change under views: ALTER TABLE … ADD COLUMN and CREATE OR REPLACE VIEW.

What stands on a definition that changes is kept or the change is refused; nothing is dropped silently.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.types import Schema
from tidemark.errors import TidemarkError
from tidemark.sql.bind.expressions import refuse_other_parts
from tidemark.sql.bind.tables import bind_checks, bind_columns, bind_defaults, bind_fields
from tidemark.sql.bind.views import Definition, bind_named
from tidemark.sql.catalog.catalog import Catalog, Table, Token, View
from tidemark.sql.catalog.columns import begins_with, same_columns, widened
from tidemark.sql.parse.script import ALTER_HINT, parse_script
from tidemark.sql.parse.statements import AlterTable
from tidemark.sql.parse.text import Source, fold


def bind_alter(statement: AlterTable, table: Table, source: Source) -> Table:
    """The table with the columns that ALTER TABLE adds, after those it has; the same table if it has them already."""
    tree = statement.tree
    refuse_other_parts(tree, ("this", "kind", "exists", "only", "actions"), source)
    refuse_other_parts(tree.this, ("this",), source)
    columns: list[exp.ColumnDef] = []
    for action in tree.args["actions"]:
        if not isinstance(action, exp.ColumnDef):
            raise source.error(
                "unsupported", f"ALTER TABLE … {action.sql('postgres')} is not supported", action, hint=ALTER_HINT
            )
        refuse_other_parts(action, ("this", "kind", "constraints", "exists"), source)
        if not (action.args.get("exists") and fold(action.this) in table.schema.names):
            columns.append(action)
    if not columns:
        return table
    required, conditions = bind_columns(columns, source)
    schema = Schema(bind_fields(table.schema.fields, columns, required, source))
    return replace(
        table,
        schema=schema,
        checks=table.checks + bind_checks(columns, conditions, schema, source),
        defaults=table.defaults + bind_defaults(columns, schema, source),
        alterations=(*table.alterations, (statement.text, source.dialect)),
    )


def with_altered(catalog: Catalog, table: Table) -> Catalog:
    """The catalog with a table that got more columns. Views keep their columns and their meaning."""
    catalog = catalog.with_relation(table)
    for view in catalog.above(table.name):
        catalog = catalog.with_relation(replace(view, plan=widened(view.plan, catalog), known=None))
    return catalog


def with_replaced(catalog: Catalog, view: View, source: Source) -> Catalog:
    """The catalog with another view under a name that is taken, and all that stands on it bound anew.

    If the columns stay the same, the view goes on: it is the same relation with another meaning. Otherwise it begins
    anew. What stands on it must come out with the columns that it has, or the replacement is refused.
    """
    before = catalog.relations[view.name]
    assert isinstance(before, View)
    above = catalog.above(view.name)
    if view.depends_on & {view.name, *(other.name for other in above)}:
        raise source.error(
            "cycle",
            f"the view {view.name!r} would stand on itself",
            hint="it can name neither itself nor a view that stands on it",
        )
    if same_columns(before.schema, view.schema):
        view = replace(view, identity=before.identity)
    result = catalog.without(view.name, *(other.name for other in above)).with_relation(view)
    for other in above:
        bound = _bound_anew(other, before, view, result)
        # A plan names the columns of what it reads, so it is another one if the view begins anew with others.
        meaning = other.meaning if bound.plan == other.plan else Token()
        result = result.with_relation(replace(bound, identity=other.identity, meaning=meaning))
    return result


def _bound_anew(other: View, before: View, after: View, catalog: Catalog) -> View:
    """A view that stands on a replaced one, from its text. It sees as many columns as ever while those are the same."""
    seen = dict(other.seen)
    if after.name in seen and not begins_with(after.schema, before.schema, seen[after.name]):
        seen[after.name] = len(after.schema)
    [(statement, source)] = parse_script(Source(other.text, other.dialect))
    assert isinstance(statement, Definition)
    try:
        bound = bind_named(statement, other.name, catalog, source, seen)
    except TidemarkError as error:
        raise _refused(other, after, f"would no longer be valid: {error.message}") from error
    if not same_columns(bound.schema, other.schema):
        raise _refused(other, after, f"would change its columns from ({other.schema}) to ({bound.schema})")
    return bound


def _refused(other: View, replaced: View, why: str) -> TidemarkError:
    kind = "MATERIALIZED VIEW" if replaced.materialized else "VIEW"
    return TidemarkError(
        "dependents",
        f"{replaced.name!r} cannot be replaced, because {other.name!r} stands on it and {why}",
        hint=f"DROP {kind} {replaced.name} CASCADE drops both; then create them anew",
    )
