"""Binding CREATE VIEW."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.approximate import approximate_columns, approximate_key
from tidemark.algebra.plans import Plan, relations_of
from tidemark.sql.catalog import Catalog, View
from tidemark.sql.columns import narrowed, widened
from tidemark.sql.queries import QueryBinder, check_output, rename
from tidemark.sql.statements import CreateView
from tidemark.sql.text import Source, fold

STRATEGIES = ("auto", "incremental", "complete")


def bind_view(statement: CreateView, catalog: Catalog, source: Source, seen: Mapping[str, int] | None = None) -> View:
    """The view that a CREATE VIEW statement defines. A view can only name what exists, so there are no cycles.

    ``seen`` has the numbers of columns that it saw when it was first defined; by default it sees all there are.
    """
    source = replace(source, now=None)
    _check_options(statement, source)
    binder = QueryBinder(source, narrowed(catalog, seen or {}))
    itself = _named_in(statement)
    if itself is not None and catalog.get(statement.name) is None:
        raise source.error(
            "cycle", f"the view {statement.name!r} names itself", itself, hint="recursive views are not supported yet"
        )
    plan: Plan = widened(binder.bind_view(statement.query), catalog)
    if statement.columns:
        if len(statement.columns) != len(plan.schema):
            raise source.error(
                "type",
                f"{len(statement.columns)} column names for {len(plan.schema)} columns",
                statement.query,
            )
        plan = rename(plan, list(statement.columns), source, statement.query)
    check_output(plan.schema, source)
    return View(
        statement.name,
        plan,
        statement.text,
        source.dialect,
        statement.materialized,
        statement.options,
        frozenset(binder.named),
        {name: len(binder.catalog.relations[name].schema) for name in sorted(binder.named)},
        _approximate(plan, statement, catalog, source),
    )


def _approximate(plan: Plan, statement: CreateView, catalog: Catalog, source: Source) -> frozenset[int]:
    """The approximate columns of a view, which must not serve as keys in it."""
    read = (catalog.get(name) for name in relations_of(plan))
    known = {view.name: view.approximate for view in read if isinstance(view, View)}
    found = approximate_key(plan, known)
    if found is not None and statement.materialized:
        what, name = found
        raise source.error(
            "approximate_key",
            f"{name!r} is an approximate sum and cannot be a key of {what}: equal values need not come out equal",
            statement.query,
            hint="sum a DECIMAL instead: SUM(CAST(x AS DECIMAL(18, 4)))",
        )
    return approximate_columns(plan, known)


def _named_in(statement: CreateView) -> exp.Expr | None:
    """Where the query names the view that it defines."""
    ctes = {fold(cte.args["alias"].this) for cte in statement.query.find_all(exp.CTE)}
    for table in statement.query.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and fold(table.this) == statement.name and statement.name not in ctes:
            return table
    return None


def _check_options(statement: CreateView, source: Source) -> None:
    for key, value in statement.options.items():
        if key == "assertion" and statement.text.split()[1].upper() == "ASSERTION":
            continue
        if key != "strategy":
            raise source.error("unsupported", f"the option {key!r} is not known", hint="options: strategy")
        if value not in STRATEGIES:
            raise source.error(
                "unsupported",
                f"the strategy {value!r} is not known",
                hint=f"strategies: {', '.join(STRATEGIES)}",
            )
