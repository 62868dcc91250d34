"""Binding CREATE … VIEW … AS DATALOG, and definitions of views whatever language they are written in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tidemark.datalog.grammar import parse
from tidemark.datalog.lowering import lowered
from tidemark.datalog.program import Program, bind_program
from tidemark.datalog.syntax import Source as ProgramSource
from tidemark.errors import TidemarkError
from tidemark.sql.catalog import Catalog, View
from tidemark.sql.columns import narrowed, widened
from tidemark.sql.queries import check_output
from tidemark.sql.statements import CreateProgram, CreateView
from tidemark.sql.text import Source
from tidemark.sql.views import approximate_of, bind_view, bounds_of, check_options

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
