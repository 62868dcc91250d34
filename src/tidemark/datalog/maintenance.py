"""Algorithm 1: from the rules of a program to the rules that maintain it (section 3.1, with negation as in 4.2).

For a rule ``p :- r1, …, rn`` of which ri may be negated:

    Di   p^del :- ri^del, the others        if ri is negated: ri^ins instead, positive     (old state)
    R    p^red :- p^del, r1^new, …, rn^new                                                 (new state)
    Ii   p^ins :- ri^ins, the others ^new   if ri is negated: ri^del instead, positive     (new state)
    N1   p^new :- p, not p^del         N2  p^new :- p^red         N3  p^new :- p^ins
    N'   r^new :- r, not r^del         N''  r^new :- r^ins        for every r below the stratum
    E1   p^plus :- p^ins, not p        E2  p^minus :- p^del, not p^ins, not p^red

The change stands first in its rule, so that evaluation is one chain from there (footnote 8). R has all of its body:
Figure 3 prints one without ``edge^new(x, y)``, which would rederive whatever was deleted. In I all that is not the
change is read in the new state, also on the right of a negated one. Where a wildcard stands under negation, one row
that comes or goes need not decide, so the negation itself stays in Di and Ii beside the change.

A grouping has no rules: the groups that a changed row belongs to are computed again, in the old state and in the new.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidemark.algebra.clauses import (
    Anything,
    Argument,
    Atom,
    Condition,
    DatalogRule,
    Grouping,
    Not,
    Part,
    Var,
    is_present,
    listing,
)
from tidemark.algebra.types import Field, Schema
from tidemark.datalog.program import Program
from tidemark.datalog.strata import Stratum

DELETED, REDERIVED, INSERTED, NEW, PLUS, MINUS = "del", "red", "ins", "new", "plus", "minus"


def variant(predicate: str, kind: str) -> str:
    """``closure^del``: a name that no program can write."""
    return f"{predicate}^{kind}"


@dataclass(frozen=True)
class StratumRules:
    """The maintenance rules of one stratum. ``below`` are the changed relations and predicates that it reads."""

    stratum: Stratum
    below: tuple[str, ...]
    deletions: tuple[DatalogRule, ...]
    rederivations: tuple[DatalogRule, ...]
    insertions: tuple[DatalogRule, ...]
    survivors: tuple[DatalogRule, ...]
    additions: tuple[DatalogRule, ...]
    effects: tuple[DatalogRule, ...]
    groupings: tuple[Grouping, ...]

    @property
    def rules(self) -> tuple[DatalogRule, ...]:
        return (
            *self.deletions,
            *self.survivors,
            *self.rederivations,
            *self.insertions,
            *self.additions,
            *self.effects,
        )

    def __str__(self) -> str:
        return "\n".join(filter(None, [listing(self.rules), *map(str, self.groupings)]))


def maintenance_rules(program: Program) -> tuple[StratumRules, ...]:
    """The rules of all strata, in order."""
    return tuple(_of_stratum(program, stratum) for stratum in program.strata)


def _of_stratum(program: Program, stratum: Stratum) -> StratumRules:
    rules = program.rules_of(stratum.predicates)
    groupings = program.groupings_of(stratum.predicates)
    read = {name for rule in rules for name in rule.reads} | {grouping.source for grouping in groupings}
    below = tuple(name for name in (*program.base, *program.predicates) if name in read - set(stratum.predicates))
    own = stratum.predicates if rules else ()
    return StratumRules(
        stratum,
        below,
        tuple(found for rule in rules for found in deletions(rule, program)),
        tuple(rederivation(rule) for rule in rules),
        tuple(found for rule in rules for found in insertions(rule, program)),
        tuple(survivor(name, program) for name in (*below, *own)),
        tuple(
            found
            for name in (*below, *own)
            for found in additions(name, program, (INSERTED,) if name in below else (REDERIVED, INSERTED))
        ),
        tuple(found for name in own for found in effects(name, program)),
        groupings,
    )


def deletions(rule: DatalogRule, program: Program) -> Iterator[DatalogRule]:
    """The rules D of one rule."""
    for number, change, others, variables in _changes(rule, program, positive=DELETED, negative=INSERTED):
        head = rule.head.renamed(variant(rule.head.predicate, DELETED))
        yield DatalogRule(head, (change, *others), variables, f"{rule.label}.D{number}")


def insertions(rule: DatalogRule, program: Program) -> Iterator[DatalogRule]:
    """The rules I of one rule."""
    for number, change, others, variables in _changes(rule, program, positive=INSERTED, negative=DELETED):
        head = rule.head.renamed(variant(rule.head.predicate, INSERTED))
        yield DatalogRule(head, (change, *map(in_new_state, others)), variables, f"{rule.label}.I{number}")


def rederivation(rule: DatalogRule) -> DatalogRule:
    """The rule R of one rule."""
    deleted = rule.head.renamed(variant(rule.head.predicate, DELETED))
    head = rule.head.renamed(variant(rule.head.predicate, REDERIVED))
    return replace(rule, head=head, body=(deleted, *map(in_new_state, rule.body)), label=f"{rule.label}.R")


def survivor(predicate: str, program: Program) -> DatalogRule:
    """N1, and N' where the predicate lies below."""
    row, variables = _whole_row(predicate, program)
    gone = Not(row.renamed(variant(predicate, DELETED)))
    return DatalogRule(row.renamed(variant(predicate, NEW)), (row, gone), variables, "N1")


def additions(predicate: str, program: Program, kinds: tuple[str, ...]) -> Iterator[DatalogRule]:
    """N2 and N3, of which N'' is the second."""
    row, variables = _whole_row(predicate, program)
    for kind in kinds:
        label = "N2" if kind == REDERIVED else "N3"
        yield DatalogRule(
            row.renamed(variant(predicate, NEW)), (row.renamed(variant(predicate, kind)),), variables, label
        )


def effects(predicate: str, program: Program) -> Iterator[DatalogRule]:
    """E1 and E2."""
    row, variables = _whole_row(predicate, program)
    deleted, inserted, rederived = (row.renamed(variant(predicate, k)) for k in (DELETED, INSERTED, REDERIVED))
    yield DatalogRule(row.renamed(variant(predicate, PLUS)), (inserted, Not(row)), variables, "E1")
    yield DatalogRule(row.renamed(variant(predicate, MINUS)), (deleted, Not(inserted), Not(rederived)), variables, "E2")


def in_new_state(part: Part) -> Part:
    match part:
        case Atom():
            return part.renamed(variant(part.predicate, NEW))
        case Not(atom=atom):
            return replace(part, atom=atom.renamed(variant(atom.predicate, NEW)))
    return part


def _changes(
    rule: DatalogRule, program: Program, *, positive: str, negative: str
) -> Iterator[tuple[int, Atom, tuple[Part, ...], Schema]]:
    """For each atom of the body, negated or not: its number, the atom of its change, all others, and the variables."""
    number = 0
    for place, part in enumerate(rule.body):
        others = rule.body[:place] + rule.body[place + 1 :]
        match part:
            case Atom():
                number += 1
                yield number, part.renamed(variant(part.predicate, positive)), others, rule.variables
            case Not(atom=atom):
                number += 1
                yield number, *_of_negated(part, variant(atom.predicate, negative), others, rule, program)


def _of_negated(
    part: Not, changed: str, others: tuple[Part, ...], rule: DatalogRule, program: Program
) -> tuple[Atom, tuple[Part, ...], Schema]:
    """A negated atom as the positive atom of its change: NULL finds nothing there either, wildcards are variables."""
    fields = list(rule.variables.fields)
    arguments: list[Argument] = []
    present: list[Condition] = []
    for argument, column in zip(part.atom.arguments, program.schemas[part.atom.predicate], strict=True):
        match argument:
            case Anything():
                fields.append(Field(f"?n{len(fields)}", column.type, column.nullable))
                arguments.append(Var(len(fields) - 1, fields[-1].name))
            case Var(index=index) if part.strict and fields[index].nullable and column.nullable:
                present.append(is_present(rule.variables, index))
                arguments.append(argument)
            case _:
                arguments.append(argument)
    has_wildcard = any(isinstance(argument, Anything) for argument in part.atom.arguments)
    kept = (part,) if has_wildcard else ()
    return Atom(changed, tuple(arguments)), (*present, *others, *kept), Schema(tuple(fields))


def _whole_row(predicate: str, program: Program) -> tuple[Atom, Schema]:
    schema = program.schemas[predicate]
    names = schema.names if len(set(schema.names)) == len(schema) else tuple(f"c{i}" for i in range(1, len(schema) + 1))
    return Atom(predicate, tuple(Var(i, name) for i, name in enumerate(names))), schema
