"""What a program must satisfy before its types are looked at, and the order in which its predicates can be computed.

Names are known and have one arity. *Safety* (range restriction, section 2.1): every variable of the head, of a negated
atom and of a comparison is bound. A variable is bound by an atom that is not negated, or by ``=`` with a term all of
whose variables are bound. A wildcard stands in atoms only: elsewhere there is nothing that it could be.

A predicate depends on those in the bodies of its clauses: *positively*, or *strictly* through negation or an aggregate,
which need the whole of what they look at. Predicates that depend on each other form one stratum, a recursive one. The
program is stratified if no strict dependency lies inside a stratum; each stratum is then a fixpoint over those below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemark.algebra.types import Schema
from tidemark.datalog.syntax import (
    AggregateTerm,
    Atom,
    Clause,
    Comparison,
    Negated,
    Operation,
    ProgramSource,
    ProgramText,
    Term,
    Variable,
    Wildcard,
    variables_of,
)

ARGUMENTS = "give each occurrence of a predicate the same number of arguments"


def check_names(program: ProgramText, base: Mapping[str, Schema]) -> None:
    """A predicate has clauses or is a relation of the database, never both."""
    source, defined = program.source, program.predicates
    for clause in program.clauses:
        name = clause.head.predicate
        if name in base:
            hint = "a program defines its own predicates; choose another name"
            raise source.error(
                "exists", f"{name!r} is a relation already, and {clause} defines it", clause.head.span, hint
            )
        for atom in (*clause.atoms, *clause.negated):
            if atom.predicate not in base and atom.predicate not in defined:
                known = ", ".join(sorted({*base, *defined}))
                message = f"{clause} uses {atom.predicate!r}, which is neither a relation nor defined in the program"
                raise source.error("unknown_relation", message, atom.span, hint=f"there are: {known}")


def check_arity(program: ProgramText, base: Mapping[str, Schema]) -> None:
    """Every occurrence of a predicate has as many arguments as its relation has columns, or as its first head."""
    arity = {name: (len(schema), f"the relation has {len(schema)} columns") for name, schema in base.items()}
    for clause in program.clauses:
        count = len(clause.head.terms)
        arity.setdefault(clause.head.predicate, (count, f"clause {clause.number} gives it {count}"))
    for clause in program.clauses:
        for atom in (clause.head, *clause.atoms, *clause.negated):
            wanted, reason = arity[atom.predicate]
            if len(atom.terms) != wanted:
                message = f"{clause}: {atom.predicate!r} has {_arguments(len(atom.terms))} here, but {reason}"
                raise program.source.error("arity", message, atom.span, hint=ARGUMENTS)


def _arguments(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"


def check_safety(program: ProgramText) -> None:
    for clause in program.clauses:
        bound = bound_variables(clause)
        _check_wildcards(clause, program.source)
        places: list[tuple[str, Atom | Comparison]] = [("in the head", clause.head)]
        places += [(f"under not {atom.predicate}", atom) for atom in clause.negated]
        places += [("in a comparison", comparison) for comparison in clause.comparisons]
        for where, part in places:
            for variable in variables_of(part):
                if variable.name not in bound:
                    message = f"the variable {variable.name!r} {where} of {clause} is not bound"
                    hint = f"use {variable.name} in an atom that is not negated, or set it by {variable.name} = …"
                    raise program.source.error("unsafe", message, variable.span, hint=hint)
        # A variable inside arithmetic of an atom is tested there, not bound.
        for atom in clause.atoms:
            for variable in variables_of(atom):
                if variable.name not in bound:
                    message = f"the variable {variable.name!r} stands only inside arithmetic in {clause}"
                    raise program.source.error("unsafe", message, variable.span, hint="bind it in another atom")


def bound_variables(clause: Clause) -> frozenset[str]:
    """The variables that the body binds."""
    bound = {term.name for atom in clause.atoms for term in atom.terms if isinstance(term, Variable)}
    while True:
        more = {name for comparison in clause.comparisons for name in _set_by(comparison, bound)} - bound
        if not more:
            return frozenset(bound)
        bound |= more


def _set_by(comparison: Comparison, bound: set[str]) -> Iterator[str]:
    if comparison.function != "eq":
        return
    for target, value in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
        if isinstance(target, Variable) and all(v.name in bound for v in variables_of(value)):
            yield target.name


def _check_wildcards(clause: Clause, source: ProgramSource) -> None:
    for term in clause.head.terms:
        _refuse_wildcard(term, "the head", clause, source)
    for part in clause.body:
        match part:
            case Comparison(left=left, right=right):
                _refuse_wildcard(left, "a comparison", clause, source)
                _refuse_wildcard(right, "a comparison", clause, source)
            case Atom(terms=terms) | Negated(atom=Atom(terms=terms)):
                for term in terms:
                    if not isinstance(term, Wildcard):
                        _refuse_wildcard(term, "arithmetic", clause, source)


def _refuse_wildcard(term: Term | None, where: str, clause: Clause, source: ProgramSource) -> None:
    match term:
        case Wildcard():
            raise source.error("unsafe", f"_ cannot stand in {where} of {clause}", term.span, hint="use a variable")
        case Operation(arguments=arguments):
            for argument in arguments:
                _refuse_wildcard(argument, where, clause, source)
        case AggregateTerm(argument=argument):
            _refuse_wildcard(argument, where, clause, source)
        case _:
            return


@dataclass(frozen=True)
class Dependency:
    """``head`` needs ``body``, by the given clause of the text; ``strict`` is "not" or "aggregate", or empty."""

    head: str
    body: str
    strict: str = ""
    clause: Clause | None = None


@dataclass(frozen=True)
class Stratum:
    """Predicates that are computed together, in the order of the program."""

    predicates: tuple[str, ...]
    recursive: bool


def dependencies_of(program: ProgramText) -> tuple[Dependency, ...]:
    """Those between predicates of the program and all that they read."""
    found = []
    for clause in program.clauses:
        head = clause.head.predicate
        strict = "aggregate" if clause.aggregates else ""
        found += [Dependency(head, atom.predicate, strict, clause) for atom in clause.atoms]
        found += [Dependency(head, atom.predicate, "not", clause) for atom in clause.negated]
    return tuple(found)


def check_stratified(program: ProgramText) -> None:
    """Refuse negation and aggregation through recursion, naming the cycle."""
    dependencies = [d for d in dependencies_of(program) if d.body in program.predicates]
    edges = _edges(dependencies)
    for dependency in dependencies:
        back = _path(edges, dependency.body, dependency.head)
        if dependency.strict and back is not None:
            assert dependency.clause is not None
            arrow = "negates" if dependency.strict == "not" else "aggregates"
            cycle = f"{dependency.head} {arrow} {dependency.body}"
            cycle += "".join(f", which needs {name}" for name in back[1:])
            what = "negation" if dependency.strict == "not" else "an aggregate"
            message = f"{dependency.clause} has {what} inside a recursion: {cycle}"
            hint = "the program is not stratified: negate or aggregate only what is defined without the head"
            raise program.source.error("not_stratified", message, dependency.clause.span, hint=hint)


def strata_of(predicates: Sequence[str], dependencies: Iterable[Dependency]) -> tuple[Stratum, ...]:
    """The strata, each after those that it needs; otherwise in the order of the predicates.

    >>> needs = [Dependency("p", "q"), Dependency("q", "p"), Dependency("top", "p", "not")]
    >>> strata_of(["top", "p", "q"], needs)
    (Stratum(predicates=('p', 'q'), recursive=True), Stratum(predicates=('top',), recursive=False))
    """
    edges = _edges(d for d in dependencies if d.head in predicates and d.body in predicates)
    below = {name: _reachable(edges, name) for name in predicates}
    strata: list[Stratum] = []
    done: set[str] = set()
    while len(done) < len(predicates):
        for name in predicates:
            if name not in done and all(n in done or name in below[n] for n in below[name]):
                together = tuple(n for n in predicates if n == name or (n in below[name] and name in below[n]))
                strata.append(Stratum(together, recursive=name in below[name]))
                done.update(together)
                break
    return tuple(strata)


def _edges(dependencies: Iterable[Dependency]) -> dict[str, list[str]]:
    edges: dict[str, list[str]] = {}
    for dependency in dependencies:
        edges.setdefault(dependency.head, []).append(dependency.body)
    return edges


def _reachable(edges: Mapping[str, list[str]], start: str) -> set[str]:
    """What can be reached in one step or more."""
    found: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += edges.get(name, ())
    return found


def _path(edges: Mapping[str, list[str]], start: str, goal: str) -> list[str] | None:
    """A shortest way from one predicate to another, both included."""
    came: dict[str, str | None] = {start: None}
    waiting = [start]
    for name in waiting:
        if name == goal:
            path: list[str] = []
            step: str | None = name
            while step is not None:
                path.append(step)
                step = came[step]
            return path[::-1]
        for other in edges.get(name, ()):
            if other not in came:
                came[other] = name
                waiting.append(other)
    return None
