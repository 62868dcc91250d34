"""Binding the conditions of triggers.

A condition that aggregates, or names ``old`` or ``new``, is over what has changed since the last time: one row for each
row that came, went or was modified, with its values before and after, of the query's own result or of a relation. There
a sum of no rows is 0. Any other condition is over the state of the database, which it asks by subqueries.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.expressions import Column
from tidemark.algebra.plans import Given, Plan, Project
from tidemark.algebra.types import BOOLEAN, Field, Schema
from tidemark.errors import TidemarkError
from tidemark.sql.aggregates import find_aggregate
from tidemark.sql.catalog import Catalog, Relation, View
from tidemark.sql.grouping import bind_grouped
from tidemark.sql.lowering import attached
from tidemark.sql.queries import QueryBinder
from tidemark.sql.scope import Scope, Visible
from tidemark.sql.text import Source
from tidemark.sql.triggers import OnChange, Until, When, leaves

CHANGES = "changes"
"""The name under which the changes are given."""


def is_of_changes(when: When) -> bool:
    """Whether a condition is over what has changed, rather than over the state."""
    return when.relation is not None or _aggregates(when.condition) or any(_sides(when.condition))


def changes_schema(schema: Schema) -> Schema:
    """Rows before and after, side by side."""
    sides = [Field(f"{side}{i}", field.type, True) for side in ("old", "new") for i, field in enumerate(schema.fields)]
    return Schema(tuple(sides))


def bind_when(when: When, schema: Schema, catalog: Catalog, source: Source) -> Plan:
    """The plan of one row with the condition's value. ``schema`` is that of the relation whose changes it is over."""
    select = exp.Select(expressions=[when.condition.copy()])
    binder = QueryBinder(source, catalog)
    if not is_of_changes(when):
        plan = binder.bind(select)
    else:
        if not _aggregates(when.condition):
            raise source.error(
                "grouping", "a condition over changes aggregates them, as in COUNT(*) > 50", when.condition
            )
        for total in list(select.find_all(exp.Sum)):
            total.replace(exp.Coalesce(this=total.copy(), expressions=[exp.Literal.number(0)]))
        rows: Plan = Given(CHANGES, changes_schema(schema))
        names = [(side, field.name) for side in ("old", "new") for field in schema.fields]
        visible = tuple(Visible(side, name, _column(rows, i)) for i, (side, name) in enumerate(names))
        grouped, items, _ = bind_grouped(select, rows, binder.binder(Scope(visible, ())))
        grouped, cells = attached(grouped, tuple(item.expression for item in items))
        plan = Project(grouped, ("fires",), cells)
    if plan.schema.types != (BOOLEAN,):
        raise source.error("type", f"a condition is BOOLEAN, not {plan.schema.types[0]}", when.condition)
    return plan


def check_lag(view: View, catalog: Catalog, source: Source) -> None:
    """Refuse triggers and ends whose conditions cannot be evaluated."""
    if view.lag is None:
        return
    source = replace(source, now=None)
    for leaf in leaves(view.lag.trigger):
        if isinstance(leaf, When | OnChange):
            changed_by(leaf, view, catalog)
        if isinstance(leaf, When):
            bind_when(leaf, changed_by(leaf, view, catalog).schema, catalog, _timed(source))
    _check_until(view.lag.until, view, catalog, source)


def _check_until(until: Until, view: View, catalog: Catalog, source: Source) -> None:
    if until.condition is None:
        return
    if is_of_changes(until.condition):
        raise source.error("unsupported", "UNTIL WHEN asks about the state, by subqueries", until.condition.condition)
    bind_when(until.condition, view.schema, catalog, _timed(source))


def changed_by(leaf: OnChange | When, view: View, catalog: Catalog) -> Relation:
    """The relation whose changes a trigger looks at: the query itself, or one that it names."""
    if leaf.relation is None:
        return view
    found = catalog.get(leaf.relation)
    if found is None:
        raise TidemarkError(
            "unknown_relation", f"there is no relation {leaf.relation!r}", hint=catalog.suggestions(leaf.relation)
        )
    if isinstance(found, View) and not found.is_logged:
        raise TidemarkError("not_materialized", f"{leaf.relation!r} is a plain view: its changes are not kept")
    return found


def _timed(source: Source) -> Source:
    """The source with some time, so that NOW() can be bound: conditions are asked at one moment."""
    return replace(source, now=dt.datetime(2000, 1, 1))


def _column(plan: Plan, index: int) -> Column:
    return plan.column(index)


def _aggregates(node: exp.Expr) -> bool:
    return find_aggregate(node) is not None


def _sides(node: exp.Expr) -> list[exp.Column]:
    """The columns of old and new rows outside subqueries."""
    found = []
    for column in node.find_all(exp.Column):
        table = column.args.get("table")
        inside = column.find_ancestor(exp.Query)
        if table is not None and str(table.this).lower() in ("old", "new") and inside is None:
            found.append(column)
    return found
