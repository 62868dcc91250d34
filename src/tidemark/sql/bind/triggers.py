"""Binding the conditions of triggers, and what can make them hold, read from their text alone.

A condition that aggregates, or names ``old`` or ``new``, is over what has changed since the last time: one row for each
row that came, went or was modified, with its values before and after, of the query's own result or of a relation. There
a sum of no rows is 0. Any other condition is over the state of the database, which it asks by subqueries.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from tidemark.algebra.plans import Given, Plan, Project, relations_of
from tidemark.algebra.types import BOOLEAN, Field, Schema
from tidemark.errors import TidemarkError
from tidemark.sql.bind.expressions import CURRENT
from tidemark.sql.bind.grouping import bind_grouped
from tidemark.sql.bind.lowering import attached
from tidemark.sql.bind.queries import QueryBinder
from tidemark.sql.bind.scope import Scope, Visible
from tidemark.sql.bind.syntax import find_aggregate
from tidemark.sql.catalog.catalog import Catalog, Relation, View
from tidemark.sql.functions.intervals import is_age
from tidemark.sql.parse.lagging import OnChange, Until, When, leaves
from tidemark.sql.parse.text import Source, fold

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
        visible = tuple(Visible(side, name, rows.column(i)) for i, (side, name) in enumerate(names))
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


@dataclass(frozen=True)
class Watched:
    """What a trigger and an end look at, beside the clock: unless some of it changes, asking again gives the answer
    that was given.

    ``own``: what the query reads. ``relations``: those that it names, and what stands below them if they are not
    stored as of now. ``is_timed``: a condition names the time, so that every moment may have another answer.
    """

    own: bool
    relations: frozenset[str]
    is_timed: bool


def watched(view: View, catalog: Catalog) -> Watched:
    """What a trigger and an end look at. A relation that is not there is looked for by its name."""
    lag = view.lag
    assert lag is not None
    asked = [leaf for leaf in leaves(lag.trigger) if isinstance(leaf, OnChange | When)]
    conditions = [leaf.condition for leaf in asked if isinstance(leaf, When)]
    if lag.until.condition is not None:
        conditions.append(lag.until.condition.condition)
    named = {leaf.relation for leaf in asked if leaf.relation is not None}
    named |= {fold(table.this) for condition in conditions for table in condition.find_all(exp.Table)}
    # A condition over the state says when to tell what has changed: it is asked when something has, too.
    own = any(leaf.relation in (None, view.name) for leaf in asked)
    return Watched(own, _stored(named, catalog), any(names_time(condition) for condition in conditions))


def _stored(names: Iterable[str], catalog: Catalog) -> frozenset[str]:
    """The relations whose changes are changes of these: definitions that are expanded, or followed when they are read,
    stand for what is below them."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        relation = catalog.get(name)
        if isinstance(relation, View):
            is_followed = relation.materialized and (relation.lag is None or not relation.lag.is_read_through)
            waiting += () if is_followed else relations_of(relation.plan)
    return frozenset(found)


def names_time(condition: exp.Expr) -> bool:
    """Whether a condition names the time, here or in a subquery."""
    return any(isinstance(part, CURRENT) or is_age(part) for part in condition.walk())
