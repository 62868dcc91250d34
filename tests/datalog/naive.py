"""The oracle: what a program means, by nested loops over whole relations until nothing is new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemark.algebra.clauses import Anything, Assign, Atom, Condition, Const, DatalogRule, Grouping, Var
from tidemark.algebra.functions import rank
from tidemark.algebra.scalar import value_of
from tidemark.datalog.program import Program

Rows = set[tuple[Any, ...]]
Relations = Mapping[str, Rows]


def evaluate(program: Program, base: Relations) -> dict[str, Rows]:
    """The content of every predicate, stratum by stratum."""
    relations: dict[str, Rows] = {name: set(base[name]) for name in program.base}
    relations.update({name: set() for name in program.predicates})
    for stratum in program.strata:
        for grouping in program.groupings_of(stratum.predicates):
            relations[grouping.predicate] = grouped(grouping, relations)
        rules = program.rules_of(stratum.predicates)
        changed = True
        while changed:
            changed = False
            for rule in rules:
                found = derive(rule, relations) - relations[rule.head.predicate]
                relations[rule.head.predicate] |= found
                changed = changed or bool(found)
    return relations


def derive(rule: DatalogRule, relations: Relations) -> Rows:
    assignments: list[dict[int, Any]] = [{}]
    for atom in rule.atoms:
        assignments = [
            more for a in assignments for row in relations[atom.predicate] if (more := match(atom, row, a)) is not None
        ]
    assignments = [done for a in assignments if (done := settled(rule, a)) is not None]
    return {
        head(rule, a) for a in assignments if not any(n_matches(n.atom, relations, a, n.strict) for n in rule.negations)
    }


def match(atom: Atom, row: tuple[Any, ...], assignment: dict[int, Any]) -> dict[int, Any] | None:
    result = dict(assignment)
    for argument, value in zip(atom.arguments, row, strict=True):
        if isinstance(argument, Const):
            if argument.literal.value != value:
                return None
        elif isinstance(argument, Var):
            if argument.index in result and result[argument.index] != value:
                return None
            result[argument.index] = value
    return result


def n_matches(atom: Atom, relations: Relations, assignment: dict[int, Any], strict: bool) -> bool:
    bound = [assignment[a.index] for a in atom.arguments if isinstance(a, Var)]
    if strict and None in bound:
        return False
    return any(
        all(isinstance(a, Anything) or value_at(a, assignment) == v for a, v in zip(atom.arguments, row, strict=True))
        for row in relations[atom.predicate]
    )


def value_at(argument: Any, assignment: dict[int, Any]) -> Any:
    return argument.literal.value if isinstance(argument, Const) else assignment[argument.index]


def settled(rule: DatalogRule, assignment: dict[int, Any]) -> dict[int, Any] | None:
    """The assignment with what the rule assigns, if all conditions hold."""
    waiting = [part for part in rule.body if isinstance(part, Assign | Condition)]
    while waiting:
        part = next(
            p
            for p in waiting
            if (p.variables - ({p.variable.index} if isinstance(p, Assign) else set())) <= assignment.keys()
        )
        waiting.remove(part)
        row = tuple(assignment.get(i) for i in range(len(rule.variables)))
        value = value_of(part.expression, row)
        if isinstance(part, Condition):
            if value is not True:
                return None
        elif part.variable.index in assignment:
            if assignment[part.variable.index] != value:
                return None
        else:
            assignment = {**assignment, part.variable.index: value}
    return assignment


def head(rule: DatalogRule, assignment: dict[int, Any]) -> tuple[Any, ...]:
    return tuple(value_at(argument, assignment) for argument in rule.head.arguments)


def grouped(grouping: Grouping, relations: Relations) -> Rows:
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in relations[grouping.source]:
        groups.setdefault(row[: grouping.keys], set()).add(row)
    return {key + tuple(of_group(c.function, c.column, rows) for c in grouping.calls) for key, rows in groups.items()}


def of_group(function: str, column: int | None, rows: Rows) -> Any:
    if column is None:
        return len(rows)
    values = [row[column] for row in rows if row[column] is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function == "sum":
        return sum(values)
    return min(values, key=rank) if function == "min" else max(values, key=rank)
