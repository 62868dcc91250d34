"""Whether a statement is autonomous for a stored relation, before it runs.

*Autonomous*: for every database, the new content follows from the old one, the statement and the rows that it
changes. *Conditional*: a rule holds, but decides only some changes; when the statement has run, a look at the change,
and perhaps at what is stored, tells. *Differential*: no rule holds, and the relations below are read.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tidemark.algebra.expressions import columns_of, conjunction
from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Plan, Scan, walk
from tidemark.algebra.types import Schema
from tidemark.analysis.autonomy import rules_of
from tidemark.analysis.autonomy_kept import Kept
from tidemark.analysis.autonomy_rule import Refusal, Rule
from tidemark.analysis.autonomy_sight import Checks, after
from tidemark.analysis.autonomy_statements import deleted_by_condition, updated_by_condition
from tidemark.analysis.autonomy_updates import Deletion, Insertion, Statement, Update
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
    rules: tuple[Rule, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def classified(name: str, plan: Plan, statement: Statement, keys: RelationKeys, checks: Checks) -> Verdict:
    """The class of a statement for the stored relation ``name``, which holds the rows of ``plan``.

    >>> from tidemark.algebra.expressions import TRUE, Call, Literal
    >>> from tidemark.algebra.plans import Join, Project
    >>> from tidemark.algebra.types import BOOLEAN, INT, Field
    >>> r = Scan("r", Schema((Field("a", INT), Field("b", INT))))
    >>> s = Scan("s", Schema((Field("c", INT),)))
    >>> joined = Join(r, s, Call("eq", (r.column(0), Join(r, s, TRUE).column(2)), BOOLEAN))
    >>> view = Project(joined, ("c",), (joined.column(2),))
    >>> classified("v", view, Deletion("r", Call("gt", (r.column(0), Literal(5, INT)), BOOLEAN)), {}, {}).kind.name
    'AUTONOMOUS'
    >>> hidden = Deletion("r", Call("gt", (r.column(1), Literal(5, INT)), BOOLEAN))
    >>> classified("v", view, hidden, {}, {}).refusals[0].reason
    'it does not show which rows the deletion is about: r.b'
    """
    return class_of(Kept.of(name, plan), statement, keys, checks)


def class_of(kept: Kept, statement: Statement, keys: RelationKeys, checks: Checks) -> Verdict:
    found = rules_of(kept, statement.relation, keys)
    facts = Facts.of(_schema_of(kept, statement.relation), checks.get(statement.relation, ()))
    for rule in found.rules:
        if decides(rule, statement, facts):
            return Verdict(Class.AUTONOMOUS, rule.reason, (rule,))
    whole = _by_condition(kept, statement, checks)
    if isinstance(whole, Rule):
        return Verdict(Class.AUTONOMOUS, whole.reason, (whole,))
    refusals = found.refusals if whole is None else (whole, *found.refusals)
    if found.rules:
        why = f"for some changes only: {found.rules[0].reason}"
        return Verdict(Class.CONDITIONAL, why, found.rules, refusals)
    return Verdict(Class.DIFFERENTIAL, "; ".join(dict.fromkeys(r.reason for r in refusals)), (), refusals)


def decides(rule: Rule, statement: Statement, facts: Facts) -> bool:
    """Whether a rule decides whatever the statement does."""
    match statement:
        case Insertion():
            return rule.insertions
        case Deletion():
            return rule.deletions
    if rule.steady is None or rule.steady & statement.changed:
        return False
    return not any(columns_of(c) & statement.changed for c in rule.local) or _none_enters(rule, statement, facts)


def _none_enters(rule: Rule, statement: Update, facts: Facts) -> bool:
    """Whether no updated row passes the local conditions that did not pass them before (4.3 A)."""
    passed = conjunction(rule.local)
    updated = tuple(after(condition, statement.cells, 0) for condition in rule.local)
    return implies(conjunction((statement.where, *updated)), passed, facts) is Answer.YES


def _by_condition(kept: Kept, statement: Statement, checks: Checks) -> Rule | Refusal | None:
    match statement:
        case Deletion():
            return deleted_by_condition(kept, statement, checks)
        case Update():
            return updated_by_condition(kept, statement, checks)
    return None


def _schema_of(kept: Kept, relation: str) -> Schema:
    scans = (part for part in walk(kept.input) if isinstance(part, Scan) and part.relation == relation)
    return next(scans).schema
