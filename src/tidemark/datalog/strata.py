"""Which predicate depends on which, and in which order they can be computed.

A predicate depends on those in the bodies of its clauses: *positively*, or *strictly* through negation or an aggregate,
which need the whole of what they look at. Predicates that depend on each other form one stratum, a recursive one. The
program is stratified if no strict dependency lies inside a stratum; each stratum is then a fixpoint over those below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidemark.datalog.syntax import Clause, ProgramText


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
