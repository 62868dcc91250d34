"""A whole program: checked, typed, in strata.

Types are inferred from the relations upward: a column of a predicate has the common type of what its clauses give it.
Since types only widen, going round until nothing changes ends; a column that no clause ever gives a type is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.algebra.clauses import Argument, Const, DatalogRule, Grouping, Var, listing
from tidemark.algebra.coerce import common_of
from tidemark.algebra.types import Field, Schema
from tidemark.datalog.binder import BoundClause, NotKnown, bind_clause
from tidemark.datalog.grammar import parse
from tidemark.datalog.heads import head_fields, rules_of
from tidemark.datalog.strata import (
    Dependency,
    Stratum,
    check_arity,
    check_names,
    check_safety,
    check_stratified,
    strata_of,
)
from tidemark.datalog.syntax import Clause, ProgramSource, ProgramText


@dataclass(frozen=True)
class Program:
    """``base`` are the relations that the rules read; ``schemas`` has them and every predicate, helpers included.

    Strata are in order; each predicate that is not a base relation is in one.
    """

    base: tuple[str, ...]
    schemas: Mapping[str, Schema]
    rules: tuple[DatalogRule, ...]
    groupings: tuple[Grouping, ...]
    strata: tuple[Stratum, ...]
    text: ProgramText | None = field(default=None, compare=False)

    @property
    def predicates(self) -> tuple[str, ...]:
        """All that is derived, in the order of the strata."""
        return tuple(name for stratum in self.strata for name in stratum.predicates)

    def rules_of(self, predicates: Iterable[str]) -> tuple[DatalogRule, ...]:
        wanted = frozenset(predicates)
        return tuple(rule for rule in self.rules if rule.head.predicate in wanted)

    def groupings_of(self, predicates: Iterable[str]) -> tuple[Grouping, ...]:
        wanted = frozenset(predicates)
        return tuple(grouping for grouping in self.groupings if grouping.predicate in wanted)

    def __str__(self) -> str:
        return "\n".join([listing(self.rules), *map(str, self.groupings)])


def bind_program(
    text: ProgramText | ProgramSource | str,
    relations: Mapping[str, Schema],
    names: Mapping[str, Sequence[str]] | None = None,
) -> Program:
    """The program over the relations of a database. ``names`` gives predicates names of columns.

    >>> from tidemark.algebra.types import INT
    >>> edge = Schema((Field("a", INT, nullable=False), Field("b", INT, nullable=False)))
    >>> text = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."
    >>> program = bind_program(text, {"edge": edge})
    >>> print(program.schemas["closure"])
    x INT NOT NULL, y INT NOT NULL
    >>> program.strata
    (Stratum(predicates=('closure',), recursive=True),)
    """
    program = text if isinstance(text, ProgramText) else parse(text)
    check_names(program, relations)
    check_arity(program, relations)
    check_safety(program)
    check_stratified(program)
    used = {atom.predicate for clause in program.clauses for atom in (*clause.atoms, *clause.negated)}
    base = {name: schema for name, schema in relations.items() if name in used}
    schemas = _inferred(program, base, names or {})
    known = {name: list(schema.fields) for name, schema in schemas.items()}
    bound = [bind_clause(clause, known, program.source) for clause in program.clauses]
    return _assembled(program, base, schemas, bound)


def _assembled(
    text: ProgramText, base: Mapping[str, Schema], schemas: dict[str, Schema], bound: list[BoundClause]
) -> Program:
    rules: list[DatalogRule] = []
    groupings: list[Grouping] = []
    for one in bound:
        made, grouped = rules_of(one, schemas[one.clause.head.predicate])
        rules += made
        groupings += grouped
        for grouping in grouped:
            inner, outer = made
            schemas[grouping.source] = _schema_of(inner.head.arguments, inner.variables)
            schemas[grouping.predicate] = _schema_of(outer.atoms[0].arguments, outer.variables)
    order = tuple(dict.fromkeys([*(rule.head.predicate for rule in rules), *(g.predicate for g in groupings)]))
    strata = strata_of(order, dependencies_between(rules, groupings))
    return Program(tuple(base), schemas, tuple(rules), tuple(groupings), strata, text)


def dependencies_between(rules: Iterable[DatalogRule], groupings: Iterable[Grouping] = ()) -> tuple[Dependency, ...]:
    """Who needs whom among rules and groupings."""
    found = []
    for rule in rules:
        found += [Dependency(rule.head.predicate, atom.predicate) for atom in rule.atoms]
        found += [Dependency(rule.head.predicate, n.atom.predicate, "not") for n in rule.negations]
    found += [Dependency(grouping.predicate, grouping.source, "aggregate") for grouping in groupings]
    return tuple(found)


def _schema_of(arguments: tuple[Argument, ...], variables: Schema) -> Schema:
    fields = []
    for position, argument in enumerate(arguments, 1):
        match argument:
            case Var(index=index):
                fields.append(Field(f"c{position}", variables[index].type, variables[index].nullable))
            case Const(literal=literal):
                fields.append(Field(f"c{position}", literal.type, literal.nullable))
    return Schema(tuple(fields))


# Inference


def _inferred(
    program: ProgramText, base: Mapping[str, Schema], names: Mapping[str, Sequence[str]]
) -> dict[str, Schema]:
    known: dict[str, list[Field | None]] = {name: list(schema.fields) for name, schema in base.items()}
    first: dict[tuple[str, int], Clause] = {}
    for clause in program.clauses:
        known.setdefault(clause.head.predicate, [None] * len(clause.head.terms))
    changed = True
    while changed:
        changed = False
        for clause in program.clauses:
            try:
                fields = head_fields(bind_clause(clause, known, program.source))
            except NotKnown:
                continue
            changed = _merge(known[clause.head.predicate], fields, clause, first, program.source) or changed
    schemas = dict(base)
    for predicate in program.predicates:
        schemas[predicate] = _settled(predicate, known[predicate], program, names.get(predicate))
    return schemas


def _merge(
    columns: list[Field | None],
    fields: tuple[Field, ...],
    clause: Clause,
    first: dict[tuple[str, int], Clause],
    source: ProgramSource,
) -> bool:
    """Widen the columns by what one clause gives them; whether anything changed."""
    before = list(columns)
    for position, given in enumerate(fields):
        key = (clause.head.predicate, position)
        column = columns[position]
        if column is None:
            columns[position] = given
            first[key] = clause
            continue
        shared = common_of([column.type, given.type])
        if shared is None:
            message = (
                f"column {position + 1} of {clause.head.predicate!r} is {column.type} by clause {first[key].number} "
                f"and {given.type} by {clause}"
            )
            raise source.error(
                "type", message, clause.head.terms[position].span, hint="give it one type in all clauses"
            )
        columns[position] = Field(column.name, shared, column.nullable or given.nullable)
    return columns != before


def _settled(
    predicate: str, columns: Sequence[Field | None], program: ProgramText, names: Sequence[str] | None
) -> Schema:
    clause = program.clauses_of(predicate)[0]
    fields = []
    for position, column in enumerate(columns):
        if column is None:
            message = (
                f"column {position + 1} of {predicate!r} has no type: every clause that gives it one needs it first"
            )
            hint = "add a clause that does not lead back to the predicate"
            raise program.source.error("type", message, clause.head.terms[position].span, hint=hint)
        fields.append(column)
    if names is not None and len(names) != len(fields):
        message = f"{predicate!r} has {len(fields)} columns, but {len(names)} names are given"
        raise program.source.error("arity", message, clause.head.span)
    given = tuple(names) if names is not None else tuple(column.name for column in fields)
    if len(set(given)) < len(given):
        given = tuple(f"c{position}" for position in range(1, len(fields) + 1))
    return Schema(tuple(Field(name, f.type, f.nullable) for name, f in zip(given, fields, strict=True)))
