"""What a program must satisfy before its types are looked at: known names, one arity, safe variables.

*Safety* (range restriction, section 2.1): every variable of the head, of a negated atom and of a comparison is bound. A
variable is bound by an atom that is not negated, or by ``=`` with a term all of whose variables are bound. A wildcard
stands in atoms only: elsewhere there is nothing that it could be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemark.algebra.types import Schema
from tidemark.datalog.syntax import (
    AggregateTerm,
    Atom,
    Clause,
    Comparison,
    Negated,
    Operation,
    ProgramText,
    Source,
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


def _check_wildcards(clause: Clause, source: Source) -> None:
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


def _refuse_wildcard(term: Term | None, where: str, clause: Clause, source: Source) -> None:
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
