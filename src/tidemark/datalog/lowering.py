"""A program as plans: one for each predicate that becomes a view, and back from a plan to the rules that it runs.

Strata that do not recur are ordinary plans; a recursive one is a ``Fixpoint`` over the plans below it. What is a view
is scanned by those above it, helpers are expanded where they are used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidemark.algebra.plans import Fixpoint, Plan, Scan, transform
from tidemark.datalog.plans import plans_of
from tidemark.datalog.program import Program
from tidemark.datalog.strata import Stratum


@dataclass(frozen=True)
class Bounds:
    """How far a recursion may go before it is taken for one that does not end; None is as far as usual."""

    rounds: int | None = None
    rows: int | None = None


NO_BOUNDS = Bounds()


def lowered(
    program: Program,
    views: Collection[str],
    scans: Mapping[str, Plan],
    bounds: Bounds = NO_BOUNDS,
    *,
    are_stored: bool = True,
) -> dict[str, Plan]:
    """The plans of the predicates that become views; ``scans`` says how the relations below are read.

    Views that are not stored are expanded, as helpers are.
    """
    known, plans, found = dict(scans), plans_of(program), dict[str, Plan]()
    for stratum in program.strata:
        for name in stratum.predicates:
            recursive = _fixpoint(program, stratum, name, known, bounds) if stratum.recursive else None
            found[name] = recursive or over(plans[name], known)
        scanned = views if are_stored else ()
        known.update({name: Scan(name, found[name].schema) if name in scanned else found[name] for name in found})
    return {name: plan for name, plan in found.items() if name in views}


def over(plan: Plan, known: Mapping[str, Plan]) -> Plan:
    """The plan with each scan of a name that is known replaced by what it stands for."""
    return transform(plan, lambda part: known.get(part.relation) if isinstance(part, Scan) else None)


def program_of(plan: Fixpoint) -> Program:
    """The rules of a fixpoint as a program of one stratum, which reads the fixpoint's parts as its relations."""
    schemas = {name: part.schema for name, part in zip(plan.sources, plan.parts, strict=True)} | dict(plan.members)
    stratum = Stratum(tuple(name for name, _ in plan.members), recursive=True)
    return Program(plan.sources, schemas, plan.rules, (), (stratum,))


def _fixpoint(program: Program, stratum: Stratum, name: str, known: Mapping[str, Plan], bounds: Bounds) -> Fixpoint:
    rules = program.rules_of(stratum.predicates)
    reads = frozenset(source for rule in rules for source in rule.reads)
    sources = tuple(sorted(reads - set(stratum.predicates)))
    members = tuple((member, program.schemas[member]) for member in stratum.predicates)
    given = {"max_rounds": bounds.rounds, "max_rows": bounds.rows}
    limits = {limit: value for limit, value in given.items() if value is not None}
    return Fixpoint(tuple(known[source] for source in sources), sources, rules, members, name, **limits)
