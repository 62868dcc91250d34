"""CREATE, ALTER and DROP of tables and views: from one catalog to the next. Nothing is stored, and what an open
transaction has changed is not looked at.

A statement that has nothing to do, as IF EXISTS and IF NOT EXISTS allow, gives the same catalog back.

CREATE RULE, ACTIVATE, DEACTIVATE and DROP inside a transaction: what they do to rules that are at work in it.

``strategy = 'incremental'``: such a view is never evaluated as a whole, or it is refused where it is defined.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from tidemark.errors import TidemarkError
from tidemark.rules.catalog import (
    bound_anew,
    must_see_updates,
    rules_meant,
    warnings,
    with_activation,
    with_rule_tables,
    without_rule,
    without_rules_on,
)
from tidemark.rules.coupling import Reactions
from tidemark.rules.detached import DETACHED_TABLE
from tidemark.rules.firings import dropped, timers, unwatched
from tidemark.session.options import path_of
from tidemark.sources.follow import MustAllow, opened, stops
from tidemark.sources.protocol import Source as Connection
from tidemark.sql.bind.changes import table_for_change
from tidemark.sql.bind.rules import bind_rule
from tidemark.sql.bind.sources import (
    addition,
    bind_listed,
    bind_source_table,
    missing_columns,
    origin_of,
    taken_columns,
)
from tidemark.sql.bind.tables import bind_table
from tidemark.sql.bind.triggers import check_lag
from tidemark.sql.bind.views import Definition, bind_definition
from tidemark.sql.catalog.catalog import RULE_TABLES, Catalog, Relation, Table, View, kind_of
from tidemark.sql.catalog.redefine import bind_alter, with_altered, with_replaced
from tidemark.sql.catalog.sources import SourceDefinition
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.rules import CreateRule, SetActive
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.sources import ADD, NEW_COLUMNS, CreateSource, CreateSourceTable
from tidemark.sql.parse.statements import Drop
from tidemark.sql.parse.text import Source
from tidemark.state.host import Host
from tidemark.state.records import source_of, source_text
from tidemark.state.tidemarks import dropped_as, must_mean_the_same
from tidemark.state.times import with_clock
from tidemark.state.transition import network_of
from tidemark.strategy.maintenance import maintenance


def must_be_as_declared(catalog: Catalog, defined: Iterable[View]) -> None:
    """Refuse a catalog if one of the views that were defined in it was declared incremental and cannot be kept so."""
    declared = [view for view in defined if view.materialized and view.options.get("strategy") == "incremental"]
    if not declared:
        return
    network = network_of(catalog)
    for view in declared:
        for part in maintenance(network, view.name):
            if part.reads_all_because is not None:
                raise TidemarkError(
                    "not_incremental",
                    f"the view {view.name!r} cannot be kept with strategy = 'incremental', because "
                    f"{part.reads_all_because} ({part.node.label})",
                    hint="leave the strategy out: the view is then kept by the cheapest way that is exact",
                )


def with_table(statement: st.CreateTable, catalog: Catalog, source: Source) -> Catalog:
    """The catalog with a new table."""
    table = bind_table(statement, source)
    if statement.tree.args.get("exists") and catalog.get(table.name) is not None:
        return catalog
    return _with_new(table, catalog)


def with_source(statement: CreateSource, catalog: Catalog, source: Source, must_allow: MustAllow) -> Catalog:
    """The catalog with a source. One that is replaced by its equal is the same."""
    made, known = source_of(statement, source.dialect), catalog.sources.get(statement.name)
    if known is not None and statement.if_not_exists:
        return catalog
    if known is not None and not statement.or_replace:
        raise TidemarkError("exists", f"there is already a source {known.name!r}", hint="CREATE OR REPLACE SOURCE")
    made = _with_whole_path(made)
    must_allow(made.options["path"])
    return catalog if known is not None and known.is_same(made) else catalog.with_source(made)


def _with_whole_path(definition: SourceDefinition) -> SourceDefinition:
    """The same with a path that means the same folder wherever the database is opened."""
    given = path_of(definition.options["path"], "option")
    if os.path.isabs(given):
        return definition
    options = {**definition.options, "path": os.path.abspath(os.path.expanduser(given))}
    return replace(definition, options=options, text=source_text(definition, options), dialect="postgres")


def with_source_table(statement: CreateSourceTable, catalog: Catalog, source: Source, must_allow: MustAllow) -> Catalog:
    """The catalog with a table that follows a relation of a source. One that is replaced by its equal goes on."""
    known = catalog.get(statement.name)
    if known is not None and statement.if_not_exists:
        return catalog
    definition = _source_named(statement.source, catalog)
    is_same = statement.or_replace and isinstance(known, Table) and _is_same_table(known, statement, source)
    if is_same and isinstance(known, Table) and _still_fits(known, definition, must_allow):
        return catalog
    table = bind_source_table(statement, opened(definition, must_allow).columns(statement.relation), source)
    if known is None or not statement.or_replace:
        return _with_new(table, catalog)
    if not isinstance(known, Table) or known.origin is None:
        raise TidemarkError("wrong_kind", f"{known.name!r} is no table that follows a source", hint="DROP it first")
    try:
        return _with_new(table, without(st.Drop("TABLE", known.name, if_exists=False, cascade=False), catalog))
    except TidemarkError as error:
        if error.code != "dependents":
            raise
        hint = f"DROP TABLE {known.name} CASCADE drops it with them; then create all anew"
        raise error.restated(hint=hint) from error


def _still_fits(table: Table, definition: SourceDefinition, must_allow: MustAllow) -> bool:
    """Whether the columns of a table are as they were in its source. If that cannot be read, the next pull tells it."""
    assert table.origin is not None
    try:
        found = opened(definition, must_allow).columns(table.origin.relation)
    except TidemarkError as error:
        if not stops(error):
            raise
        return True
    try:
        taken_columns(table, found)
    except TidemarkError:
        return False
    return True


def _is_same_table(known: Table, statement: CreateSourceTable, source: Source) -> bool:
    """Whether a table is what a statement asks for, which is told without a look at the source. All columns are the
    same ones, as long as they fit."""
    if known.origin != origin_of(statement):
        return False
    if known.origin.whole:
        return tuple(known.schema[position].name for position in known.primary_key) == statement.key
    made = bind_listed(statement, replace(source, now=None))  # names that were reserved later are kept
    return (known.schema, known.checks, known.primary_key) == (made.schema, made.checks, made.primary_key)


def _source_named(name: str, catalog: Catalog) -> SourceDefinition:
    found = catalog.sources.get(name)
    if found is None:
        known = ", ".join(sorted(catalog.sources))
        hint = f"sources: {known}" if known else "there are no sources yet: CREATE SOURCE first"
        raise TidemarkError("unknown_source", f"there is no source {name!r}", hint=hint)
    return found


def with_new_columns(
    definition: SourceDefinition, found: Connection, catalog: Catalog, must_allow: MustAllow, now: dt.datetime
) -> Catalog:
    """The catalog with the columns that relations of a source have got, if that is what is to be done with them."""
    if definition.options.get(NEW_COLUMNS) != ADD:
        return catalog
    for table in catalog.tables_from(definition.name):
        assert table.origin is not None
        for column in missing_columns(table, found.columns(table.origin.relation)):
            if column.type is not None:
                [(statement, source)] = parse_script(Source(addition(table, column), "postgres", now))
                assert isinstance(statement, st.AlterTable)
                catalog = with_more_columns(statement, catalog, source, must_allow)
    return catalog


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


def with_more_columns(statement: st.AlterTable, catalog: Catalog, source: Source, must_allow: MustAllow) -> Catalog:
    """The catalog with a table as ALTER TABLE leaves it. One that follows a source has columns that are there, too."""
    known = catalog.get(statement.name)
    if statement.tree.args.get("exists") and known is None:
        return catalog
    table = known if isinstance(known, Table) and known.origin is not None else None
    if table is None:
        table = table_for_change(statement.name, catalog, source, statement.tree.this)
    altered = bind_alter(statement, table, source)
    if altered is table:
        return catalog
    if table.origin is not None:
        definition = _source_named(table.origin.source, catalog)
        taken_columns(altered, opened(definition, must_allow).columns(table.origin.relation))
        if any(value is not None for value in altered.defaults):
            raise TidemarkError("unsupported", "a column that comes from a source has no DEFAULT")
    after = with_altered(catalog, altered)
    must_mean_the_same(catalog, after, table.name)
    return bound_anew(after, altered.name)


def without(statement: st.Drop, catalog: Catalog) -> Catalog:
    """The catalog without what is dropped; with CASCADE, also without the views and rules that stand on it."""
    if statement.kind == "RULE":
        return without_rule(statement, catalog)
    if statement.kind == "SOURCE":
        return _without_source(statement, catalog)
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


def _without_source(statement: st.Drop, catalog: Catalog) -> Catalog:
    """The catalog without a source; with CASCADE, also without the tables that follow it."""
    if statement.if_exists and statement.name not in catalog.sources:
        return catalog
    name = _source_named(statement.name, catalog).name
    tables = catalog.tables_from(name)
    if tables and not statement.cascade:
        raise TidemarkError(
            "dependents",
            f"the source {name!r} is needed by {', '.join(table.name for table in tables)}",
            hint="drop them first, or use CASCADE",
        )
    for table in tables:
        catalog = without(st.Drop("TABLE", table.name, if_exists=True, cascade=True), catalog)
    return catalog.without_source(name)


def _with_new(relation: Relation, catalog: Catalog) -> Catalog:
    catalog.must_be_new(relation.name)
    if relation.name.startswith("_") or not relation.name:
        raise TidemarkError("reserved_name", "names that begin with _ are reserved, and a name cannot be empty")
    return catalog.with_relation(relation)


def _with_other(view: View, catalog: Catalog, source: Source) -> Catalog:
    """The catalog with another definition of a view."""
    before = catalog.relations[view.name]
    if isinstance(before, View) and _is_same_view(before, view):
        return catalog
    if not isinstance(before, View) or kind_of(before) != kind_of(view):
        raise TidemarkError(
            "wrong_kind",
            f"{view.name!r} is of another kind ({kind_of(before)}) than what is to replace it ({kind_of(view)})",
            hint=f"DROP {kind_of(before).upper()} {view.name} first",
        )
    after = with_replaced(catalog, view, source)
    must_mean_the_same(catalog, after, view.name)
    return bound_anew(after, view.name)


def _is_same_view(before: View, view: View) -> bool:
    """Whether a view means what it meant, so that nothing of it is to be done again."""
    same_kind = kind_of(before) == kind_of(view) and before.lag == view.lag
    same_options = dict(before.options) == dict(view.options)
    return same_kind and same_options and before.program == view.program and before.plan == view.plan


def _dropped_as(view: View) -> str:
    """What stands behind DROP for a view."""
    return "ASSERTION" if view.options.get("assertion") else dropped_as(view)


class Defining(Host, Protocol):
    """A transaction in which definitions change."""

    @property
    def reactions(self) -> Reactions: ...
    def redefine(self, catalog: Catalog) -> None: ...


def create_rule(statement: CreateRule, transaction: Defining, source: Source) -> pa.Table | None:
    """Define a rule; the warnings about it, if there are any."""
    if statement.name in transaction.catalog.rules:
        raise TidemarkError("exists", f"there is already a rule {statement.name!r}", hint="DROP RULE it first")
    rule = bind_rule(statement, transaction.catalog, source)
    must_see_updates(rule, transaction.catalog)
    transaction.redefine(with_rule_tables(transaction.catalog, rule).with_rule(rule))
    found = warnings(rule, transaction.catalog)
    return pa.table({"warning": pa.array(found, pa.string())}) if found else None


def set_active(statement: SetActive, transaction: Defining, source: Source) -> None:
    """Activate or deactivate a rule, or those of a group."""
    for rule in rules_meant(statement, transaction.catalog):
        reactions = transaction.reactions
        changed = with_activation(rule, statement, transaction.catalog, source)
        transaction.redefine(transaction.catalog.with_rule(changed))
        before, after = ({one.arguments for one in active} for active in (rule.active, changed.active))
        fresh = [activation for activation in changed.active if activation.arguments not in before]
        for activation in rule.active:
            if activation.arguments not in after:
                reactions.deactivated(activation)
        if transaction.course.place:
            for activation in fresh:
                reactions.activated(activation)
        _queue(transaction, unwatched(changed, transaction.store, transaction.pending.get(DETACHED_TABLE)))
        _queue(transaction, timers(changed, fresh, transaction.store, source))


def drop(statement: Drop, transaction: Defining, source: Source) -> None:
    """Drop a relation or a rule, and with it what its rules were to do."""
    before = transaction.catalog.rules
    transaction.redefine(without(statement, transaction.catalog))
    for rule in [rule for name, rule in before.items() if name not in transaction.catalog.rules]:
        reactions = transaction.reactions
        for activation in rule.active:
            reactions.deactivated(activation)
        _queue(transaction, dropped(rule, transaction.store, transaction.pending.get(DETACHED_TABLE)))
        reactions.detached = [entry for entry in reactions.detached if entry.rule_name != rule.name]


def _queue(transaction: Defining, deltas: Iterable[pa.Table]) -> None:
    for delta in deltas:
        transaction.keep(DETACHED_TABLE, delta)
