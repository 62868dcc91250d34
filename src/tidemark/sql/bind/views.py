"""Binding definitions of views, in SQL and in Datalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from tidemark.algebra.approximate import approximate_columns, approximate_key
from tidemark.algebra.plans import Plan, relations_of
from tidemark.datalog.grammar import parse
from tidemark.datalog.plans import Bounds, lowered
from tidemark.datalog.program import Program, bind_program
from tidemark.datalog.syntax import ProgramSource as ProgramSource
from tidemark.errors import TidemarkError
from tidemark.sql.bind.queries import QueryBinder, check_output, rename
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.sql.catalog.columns import narrowed, widened
from tidemark.sql.parse.lagging import LAG_POLICIES, ON_READ, QUERY, Lag
from tidemark.sql.parse.statements import CreateProgram, CreateView
from tidemark.sql.parse.text import Source, fold

REFRESHES = ("on read",)


def lag_of(statement: CreateView) -> Lag | None:
    """How the relation that a statement defines lags, if it does."""
    if statement.lag is None and statement.options.get("refresh") == "on read":
        return Lag(ON_READ)
    return statement.lag


def is_lag_option(key: str, value: str, statement: CreateView, source: Source) -> bool:
    """Whether an option is one of a lagging relation; its value must be known.

    A continual query that was told to be refreshed by an earlier Tidemark, when its definition is read again, is kept.
    """
    if key == "refresh" and statement.lag is None:
        known: tuple[str, ...] = REFRESHES
    elif key == "lag" and lag_of(statement) is not None:
        lag = lag_of(statement)
        is_query = lag is not None and lag.kind == QUERY
        if is_query and value == "refresh" and source.now is not None:
            raise source.error(
                "unsupported",
                f"{statement.name!r} cannot be refreshed when the log is cut: it would answer before its trigger holds",
                hint="lag = 'keep', which is the default: the log keeps the net effect of what it waits for",
            )
        known = ("keep", "refresh") if is_query else LAG_POLICIES
    else:
        return False
    if value not in known:
        raise source.error("unsupported", f"{key} = {value!r} is not known", hint=f"{key}: {', '.join(known)}")
    return True


def check_below(plan: Plan, statement: CreateView, catalog: Catalog, source: Source) -> None:
    """Refuse what would stand on a view that is only true once it was read, and never learns of its changes in time."""
    if not statement.materialized:
        return
    for name in sorted(relations_of(plan)):
        below = catalog.get(name)
        if isinstance(below, View) and below.lag is not None and below.lag.is_read_through:
            raise source.error(
                "unsupported",
                f"{statement.name!r} cannot stand on {name!r}, which is refreshed on read",
                statement.query,
                hint=f"name the relations below {name}, or leave its refresh out",
            )


STRATEGIES = ("auto", "incremental", "complete")
LIMITS = ("max_rounds", "max_rows")


def bind_view(statement: CreateView, catalog: Catalog, source: Source, seen: Mapping[str, int] | None = None) -> View:
    """The view that a CREATE VIEW statement defines. A view can only name what exists, so there are no cycles.

    ``seen`` has the numbers of columns that it saw when it was first defined; by default it sees all there are.
    """
    written, source = source, replace(source, now=None)
    check_options(_own_options(statement, written), source, external=statement.external)
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
    check_output(plan.schema, written)
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


Definition: TypeAlias = CreateView | CreateProgram


def bind_definition(
    statement: Definition, catalog: Catalog, source: Source, seen: Mapping[str, int] | None = None
) -> tuple[View, ...]:
    """The views that a statement defines, each after those that it reads."""
    if isinstance(statement, CreateView):
        return (bind_view(statement, catalog, source, seen),)
    return _bind_program(statement, catalog, source, seen or {})


def bind_named(
    statement: Definition, name: str, catalog: Catalog, source: Source, seen: Mapping[str, int] | None = None
) -> View:
    """The one view of that name that a statement defines. Of a program only what it needs is bound: what other views of
    it stood on may be gone."""
    if isinstance(statement, CreateProgram):
        views = _bind_program(statement, catalog, source, seen or {}, name)
    else:
        views = bind_definition(statement, catalog, source, seen)
    return next(view for view in views if view.name == name)


def _bind_program(
    statement: CreateProgram, catalog: Catalog, source: Source, seen: Mapping[str, int], wanted: str | None = None
) -> tuple[View, ...]:
    check_options(statement.options, source, external=statement.external)
    text = parse(ProgramSource(source.text, statement.start, statement.end))
    names = statement.names
    if wanted is not None:
        text = text.needed_by(wanted)
        names = tuple(name for name in names if name in text.predicates)
    below = narrowed(catalog, seen)
    # A view that is bound anew reads what it read: relations that came later are not meant by it.
    known = ((name, relation) for name, relation in below.relations.items() if name in seen or not seen)
    relations = {name: relation.schema for name, relation in known if name not in statement.names}
    program = bind_program(text, relations, {name: columns for name, columns in statement.heads if columns})
    for name in names:
        if name not in program.predicates:
            raise source.error("unknown_relation", f"the program has no clause for {name!r}", hint=_predicates(program))
    if len(set(names)) < len(names):
        raise TidemarkError("exists", "a view is named twice")
    scans = {name: below.scan(name) for name in program.base}
    bounds = bounds_of(statement.options)
    plans = lowered(program, names, scans, bounds, are_stored=statement.materialized)
    views = []
    for name, bound in plans.items():
        plan = widened(bound, catalog)
        check_output(plan.schema, source)
        named = frozenset(_named(program, name, names if statement.materialized else ()))
        read = frozenset(_named(program, name, ()))  # also by way of other views of the program
        checked = statement.materialized or statement.external
        view = View(
            name,
            plan,
            statement.text,
            source.dialect,
            statement.materialized,
            statement.options,
            named,
            {other: len(relations[other]) for other in sorted(read)},
            approximate_of(plan, catalog, source, checked=checked),
            statement.external,
            program,
        )
        views.append(view)
    return tuple(views)


def _predicates(program: Program) -> str:
    own = (name for name in program.predicates if "^" not in name)
    return f"its predicates: {', '.join(own)}"


def _named(program: Program, view: str, views: tuple[str, ...]) -> Iterator[str]:
    """The relations and other views that the plan of a view reads."""
    stratum_of = {name: stratum for stratum in program.strata for name in stratum.predicates}
    seen, waiting = {view}, [view]
    while waiting:
        name = waiting.pop()
        reads = {source for rule in program.rules_of([name]) for source in rule.reads}
        reads |= {grouping.source for grouping in program.groupings_of([name])}
        for read in reads - seen:
            seen.add(read)
            within = read in stratum_of and stratum_of[read] == stratum_of[name]
            if read in program.base or (read in views and not within):
                yield read
            else:
                waiting.append(read)
