"""CREATE, ALTER and DROP of tables and views: from one catalog to the next. Nothing is stored, and what an open
transaction has changed is not looked at.

A statement that has nothing to do, as IF EXISTS and IF NOT EXISTS allow, gives the same catalog back.
"""

from __future__ import annotations

from tidemark.database.clock import with_clock
from tidemark.database.declared import must_be_as_declared
from tidemark.database.ruling import bound_anew, without_rule, without_rules_on
from tidemark.database.standing import dropped_as, must_mean_the_same
from tidemark.errors import TidemarkError
from tidemark.sql import statements as st
from tidemark.sql.catalog import RULE_TABLES, Catalog, Relation, View, kind_of
from tidemark.sql.changes import table_for_change
from tidemark.sql.programs import Definition, bind_definition
from tidemark.sql.redefine import bind_alter, with_altered, with_replaced
from tidemark.sql.tables import bind_table
from tidemark.sql.text import Source
from tidemark.sql.trigger_conditions import check_lag


def with_table(statement: st.CreateTable, catalog: Catalog, source: Source) -> Catalog:
    """The catalog with a new table."""
    table = bind_table(statement, source)
    if statement.tree.args.get("exists") and catalog.get(table.name) is not None:
        return catalog
    return _with_new(table, catalog)


def with_views(statement: Definition, catalog: Catalog, source: Source) -> Catalog:
    """The catalog with the views of a definition, new or instead of those that are to be replaced."""
    known = [name for name in statement.names if catalog.get(name) is not None]
    if statement.if_not_exists and len(known) == len(statement.names):
        return catalog
    if statement.or_replace and known and len(statement.names) > 1:
        raise TidemarkError(
            "unsupported", "several views of one program cannot be replaced at once", hint="drop them first"
        )
    defined: list[View] = []
    for view in bind_definition(statement, catalog, source):
        defined.append(view)
        if statement.or_replace and view.name in known:
            catalog = _with_other(view, catalog, source)
            defined += catalog.above(view.name)
        else:
            catalog = _with_new(view, catalog)
        catalog = with_clock(catalog, view)
        check_lag(view, catalog, source)
    must_be_as_declared(catalog, defined)
    return catalog


def with_more_columns(statement: st.AlterTable, catalog: Catalog, source: Source) -> Catalog:
    """The catalog with a table as ALTER TABLE leaves it."""
    if statement.tree.args.get("exists") and catalog.get(statement.name) is None:
        return catalog
    table = table_for_change(statement.name, catalog, source, statement.tree.this)
    altered = bind_alter(statement, table, source)
    if altered is table:
        return catalog
    after = with_altered(catalog, altered)
    must_mean_the_same(catalog, after, table.name)
    return bound_anew(after, altered.name)


def without(statement: st.Drop, catalog: Catalog) -> Catalog:
    """The catalog without what is dropped; with CASCADE, also without the views and rules that stand on it."""
    if statement.kind == "RULE":
        return without_rule(statement, catalog)
    if statement.name in RULE_TABLES:
        raise TidemarkError("reserved_name", f"{statement.name!r} is kept for rules and cannot be dropped")
    relation = catalog.get(statement.name)
    if relation is None:
        if statement.if_exists:
            return catalog
        raise TidemarkError(
            "unknown_relation",
            f"there is no {statement.name!r}",
            hint=catalog.suggestions(statement.name),
        )
    kind = "TABLE" if not isinstance(relation, View) else _dropped_as(relation)
    if kind != statement.kind:
        raise TidemarkError("wrong_kind", f"{statement.name!r} is a {kind.lower()}", hint=f"DROP {kind}")
    dependents = catalog.dependents(statement.name)
    if dependents and not statement.cascade:
        names = ", ".join(view.name for view in catalog.above(statement.name))
        raise TidemarkError(
            "dependents",
            f"{statement.name!r} is needed by {names}",
            hint="drop them first, or use CASCADE",
        )
    catalog = without_rules_on(statement, catalog)
    for view in dependents:
        catalog = without(st.Drop(_dropped_as(view), view.name, if_exists=True, cascade=True), catalog)
    return catalog.without(statement.name)


def _with_new(relation: Relation, catalog: Catalog) -> Catalog:
    catalog.must_be_new(relation.name)
    if relation.name.startswith("_") or not relation.name:
        raise TidemarkError("reserved_name", "names that begin with _ are reserved, and a name cannot be empty")
    return catalog.with_relation(relation)


def _with_other(view: View, catalog: Catalog, source: Source) -> Catalog:
    """The catalog with another definition of a view."""
    before = catalog.relations[view.name]
    if not isinstance(before, View) or kind_of(before) != kind_of(view):
        raise TidemarkError(
            "wrong_kind",
            f"{view.name!r} is of another kind ({kind_of(before)}) than what is to replace it ({kind_of(view)})",
            hint=f"DROP {kind_of(before).upper()} {view.name} first",
        )
    after = with_replaced(catalog, view, source)
    must_mean_the_same(catalog, after, view.name)
    return bound_anew(after, view.name)


def _dropped_as(view: View) -> str:
    """What stands behind DROP for a view."""
    return "ASSERTION" if view.options.get("assertion") else dropped_as(view)
