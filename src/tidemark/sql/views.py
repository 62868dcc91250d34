"""Binding CREATE VIEW."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.approximate import approximate_columns, approximate_key
from tidemark.algebra.plans import Plan, relations_of
from tidemark.datalog.lowering import Bounds
from tidemark.sql.catalog import Catalog, View
from tidemark.sql.columns import narrowed, widened
from tidemark.sql.lagging import check_below, is_lag_option, lag_of
from tidemark.sql.queries import QueryBinder, check_output, rename
from tidemark.sql.statements import CreateView
from tidemark.sql.text import Source, fold

STRATEGIES = ("auto", "incremental", "complete")
LIMITS = ("max_rounds", "max_rows")


def bind_view(statement: CreateView, catalog: Catalog, source: Source, seen: Mapping[str, int] | None = None) -> View:
    """The view that a CREATE VIEW statement defines. A view can only name what exists, so there are no cycles.

    ``seen`` has the numbers of columns that it saw when it was first defined; by default it sees all there are.
    """
    source = replace(source, now=None)
    check_options(_own_options(statement, source), source, external=statement.external)
    binder = QueryBinder(source, narrowed(catalog, seen or {}), bounds=bounds_of(statement.options))
    itself = _named_in(statement)
    if itself is not None and catalog.get(statement.name) is None:
        raise source.error(
            "cycle", f"the view {statement.name!r} names itself", itself, hint="use WITH RECURSIVE, or AS DATALOG"
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
    check_below(plan, statement, catalog, source)
    return View(
        statement.name,
        plan,
        statement.text,
        source.dialect,
        statement.materialized,
        statement.options,
        frozenset(binder.named),
        {name: len(binder.catalog.relations[name].schema) for name in sorted(binder.named)},
        approximate_of(plan, catalog, source, statement.query, checked=statement.materialized or statement.external),
        external=statement.external,
        lag=lag_of(statement),
    )


def approximate_of(
    plan: Plan, catalog: Catalog, source: Source, place: exp.Expr | None = None, *, checked: bool
) -> frozenset[int]:
    """The approximate columns of a view, which must not serve as keys in it."""
    read = (catalog.get(name) for name in relations_of(plan))
    known = {view.name: view.approximate for view in read if isinstance(view, View)}
    found = approximate_key(plan, known)
    if found is not None and checked:
        what, name = found
        raise source.error(
            "approximate_key",
            f"{name!r} is an approximate sum and cannot be a key of {what}: equal values need not come out equal",
            place,
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


def _own_options(statement: CreateView, source: Source) -> Mapping[str, str]:
    """The options that neither say how the view lags, nor that it is an assertion."""
    given = dict(statement.options)
    if statement.text.split()[1].upper() == "ASSERTION":
        given.pop("assertion", None)
    if not statement.materialized:
        return given
    return {key: value for key, value in given.items() if not is_lag_option(key, value, statement, source)}


def bounds_of(options: Mapping[str, str]) -> Bounds:
    """How far recursion in a view may go."""
    return Bounds(*(int(options[limit]) if limit in options else None for limit in LIMITS))


def check_options(options: Mapping[str, str], source: Source, *, external: bool) -> None:
    """Refuse options that are not known, or have no such value."""
    if external and "strategy" in options:
        raise source.error("unsupported", "an external view has no strategy: nothing of it is stored")
    for key, value in options.items():
        if key in LIMITS:
            if not value.isdecimal() or not int(value):
                raise source.error("unsupported", f"{key} is a whole number above 0, not {value!r}")
        elif key != "strategy":
            known = ", ".join(("strategy", "refresh", "lag", *LIMITS))
            raise source.error("unsupported", f"the option {key!r} is not known", hint=f"options: {known}")
        elif value not in STRATEGIES:
            raise source.error(
                "unsupported",
                f"the strategy {value!r} is not known",
                hint=f"strategies: {', '.join(STRATEGIES)}",
            )
