"""Whether a statement is autonomous for a stored relation, before it runs.

*Autonomous*: for every database, the new content follows from the old one, the statement and the rows that it
changes. *Conditional*: a rule holds, but decides only some changes; when the statement has run, a look at the change,
and perhaps at what is stored, tells. *Differential*: no rule holds, and the relations below are read.

What a view would have to show for a statement to be autonomous: an aid for those who define it (BLAKELEY 8.2).

Each rule that does not hold names the columns that it misses. A view that shows them, too, is classified in the same
way; what is reported makes the statement's class stronger, and nothing in it is there in vain.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tidemark.algebra.expressions import columns_of, conjunction
from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Scan, walk
from tidemark.algebra.types import Schema
from tidemark.analysis.autonomy.criteria import rules_of
from tidemark.analysis.autonomy.dml import (
    AnalysedStatement,
    Deletion,
    Insertion,
    Update,
    deleted_by_condition,
    updated_by_condition,
)
from tidemark.analysis.autonomy.stored import Criterion, Kept, Refusal
from tidemark.analysis.autonomy.terms import NotLinear
from tidemark.analysis.autonomy.visible import Checks, after
from tidemark.analysis.budget import for_plan
from tidemark.analysis.conditions import Answer, implies
from tidemark.analysis.facts import Facts


class Class(enum.IntEnum):
    """From the weakest to the strongest."""

    DIFFERENTIAL = 0
    CONDITIONAL = 1
    AUTONOMOUS = 2


@dataclass(frozen=True)
class Verdict:
    """What a statement is to a stored relation, why, and by which rules: with the first one that decides the change."""

    kind: Class
    reason: str
    rules: tuple[Criterion, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def class_of(kept: Kept, statement: AnalysedStatement, keys: RelationKeys, checks: Checks) -> Verdict:
    """The class of a statement for a stored relation.

    >>> from tidemark.algebra.expressions import TRUE, Call, Literal
    >>> from tidemark.algebra.plans import Join, Project
    >>> from tidemark.algebra.types import BOOLEAN, INT, Field
    >>> r = Scan("r", Schema((Field("a", INT), Field("b", INT))))
    >>> s = Scan("s", Schema((Field("c", INT),)))
    >>> joined = Join(r, s, Call("eq", (r.column(0), Join(r, s, TRUE).column(2)), BOOLEAN))
    >>> view = Project(joined, ("c",), (joined.column(2),))
    >>> shown = Deletion("r", Call("gt", (r.column(0), Literal(5, INT)), BOOLEAN))
    >>> class_of(Kept.of("v", view), shown, {}, {}).kind.name
    'AUTONOMOUS'
    >>> hidden = Deletion("r", Call("gt", (r.column(1), Literal(5, INT)), BOOLEAN))
    >>> class_of(Kept.of("v", view), hidden, {}, {}).refusals[0].reason
    'it does not show which rows the deletion is about: r.b'
    """
    with for_plan(kept.input):
        return _class_of(kept, statement, keys, checks)


def _class_of(kept: Kept, statement: AnalysedStatement, keys: RelationKeys, checks: Checks) -> Verdict:
    found = rules_of(kept, statement.relation, keys)
    facts = Facts.of(_schema_of(kept, statement.relation), checks.get(statement.relation, ()))
    for rule in found.rules:
        if decides(rule, statement, facts):
            return Verdict(Class.AUTONOMOUS, rule.reason, (rule,))
    whole = _by_condition(kept, statement, checks)
    if isinstance(whole, Criterion):
        return Verdict(Class.AUTONOMOUS, whole.reason, (whole,))
    refusals = found.refusals if whole is None else (whole, *found.refusals)
    if found.rules:
        why = f"for some changes only: {found.rules[0].reason}"
        return Verdict(Class.CONDITIONAL, why, found.rules, refusals)
    return Verdict(Class.DIFFERENTIAL, "; ".join(dict.fromkeys(r.reason for r in refusals)), (), refusals)


def decides(rule: Criterion, statement: AnalysedStatement, facts: Facts) -> bool:
    """Whether a rule decides whatever the statement does."""
    match statement:
        case Insertion():
            return rule.insertions
        case Deletion():
            return rule.deletions
    if rule.steady is None or rule.steady & statement.changed:
        return False
    return not any(columns_of(c) & statement.changed for c in rule.local) or _none_enters(rule, statement, facts)


def _none_enters(rule: Criterion, statement: Update, facts: Facts) -> bool:
    """Whether no updated row passes the local conditions that did not pass them before (4.3 A)."""
    passed = conjunction(rule.local)
    updated = tuple(after(condition, statement.cells, 0) for condition in rule.local)
    return implies(conjunction((statement.where, *updated)), passed, facts) is Answer.YES


def _by_condition(kept: Kept, statement: AnalysedStatement, checks: Checks) -> Criterion | Refusal | None:
    match statement:
        case Deletion():
            return deleted_by_condition(kept, statement, checks)
        case Update():
            return updated_by_condition(kept, statement, checks)
    return None


def _schema_of(kept: Kept, relation: str) -> Schema:
    scans = (part for part in walk(kept.input) if isinstance(part, Scan) and part.relation == relation)
    return next(scans).schema


MOST_ROUNDS: Final = 3


@dataclass(frozen=True)
class Advice:
    """Columns to show besides, as relation.column, and the class that the statement has then."""

    columns: tuple[str, ...]
    kind: Class
    reason: str


def advice_of(kept: Kept, statement: AnalysedStatement, keys: RelationKeys, checks: Checks) -> tuple[Advice, ...]:
    """Which columns to add to a view so that a statement becomes autonomous, or conditional: the fewest first."""
    now = class_of(kept, statement, keys, checks)
    found: dict[frozenset[str], Advice] = {}
    tried: set[frozenset[str]] = set()
    waiting = [frozenset(missing) for missing in _missing(now)]
    for _ in range(MOST_ROUNDS):
        following: list[frozenset[str]] = []
        for columns in waiting:
            if columns in tried or any(known < columns for known in found):
                continue
            tried.add(columns)
            wider = showing(kept, statement.relation, tuple(sorted(columns)))
            if wider is None:
                continue
            verdict = class_of(wider, statement, keys, checks)
            if verdict.kind > now.kind:
                found[columns] = Advice(tuple(sorted(columns)), verdict.kind, verdict.reason)
            if verdict.kind is not Class.AUTONOMOUS:
                following += [columns | frozenset(missing) for missing in _missing(verdict)]
        waiting = following
    least = (given for columns, given in found.items() if not _is_in_vain(columns, found))
    return tuple(sorted(least, key=lambda given: (-given.kind, len(given.columns), given.columns)))


def _is_in_vain(columns: frozenset[str], found: dict[frozenset[str], Advice]) -> bool:
    return any(other < columns and found[other].kind >= found[columns].kind for other in found)


def _missing(verdict: Verdict) -> Iterator[tuple[str, ...]]:
    return (refusal.missing for refusal in verdict.refusals if refusal.missing)


def showing(kept: Kept, relation: str, columns: tuple[str, ...]) -> Kept | None:
    """The stored relation as it would be if it showed these columns too; None if it is not a single join."""
    try:
        terms = kept.terms(relation)
    except NotLinear:
        return None
    if len(terms) != 1 or terms[0].negative:
        return None
    term = terms[0]
    positions = {
        f"{leaf.relation}.{field.name}": term.offset(place) + index
        for place, leaf in reversed(tuple(enumerate(term.leaves)))
        if isinstance(leaf, Scan)
        for index, field in enumerate(leaf.schema.fields)
    }
    if not all(column in positions for column in columns):
        return None
    product = term.product()
    added = tuple(product.column(positions[column]) for column in columns)
    shown = len(kept.shown)
    outputs = (*term.outputs[:shown], *added, *term.outputs[shown:])
    input_ = replace(term, outputs=outputs).plan(tuple(f"c{i}" for i in range(len(outputs))))
    places = dict(zip(kept.arguments, input_.columns()[shown + len(added) :], strict=True))
    calls = tuple(call.with_expressions(tuple(places[e] for e in call.expressions())) for call in kept.calls)
    fields = (
        *kept.schema.fields[:shown],
        *input_.schema.fields[shown : shown + len(added)],
        *kept.schema.fields[shown:],
    )
    return Kept(
        kept.name,
        replace(kept.schema, fields=fields),
        input_,
        input_.columns()[: shown + len(added)],
        calls,
        kept.is_grouped,
    )
