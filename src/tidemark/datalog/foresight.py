"""Asking ahead: what the rules of a stratum will look up, looked up with as few questions as there are rounds.

Each question to an engine costs as much as many keys in it. The rules D follow what is deleted through the old state,
round by round, and the rules I what is inserted through the new one, mostly through the same relations by the same
columns. So before they run, the rules D are evaluated with all changed rows in the place of the deleted ones:

    p^touched :- ri^touched, the others          where r^touched = r^ins ∪ r^del

p^del ⊆ p^touched, because these rules are monotone in the changes; so all that D will ask is known afterwards. Of what
I will ask, all is known but what two insertions lead to together, and I asks for that itself. Nothing is concluded
from p^touched, so it may stop at any point: it does at ``MOST_AHEAD`` rows, for an insertion may touch much that is
there already, and I would not follow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidemark.algebra.failing import can_fail
from tidemark.algebra.rules import Assign, Atom, Condition, Rule
from tidemark.algebra.scalar import Row
from tidemark.datalog.changes import Change
from tidemark.datalog.fixpoint import Evaluation, Limits, TooFar
from tidemark.datalog.maintenance_rules import DELETED, INSERTED, StratumRules, variant
from tidemark.datalog.relations import Relation, Rows

MOST_AHEAD: Final = 1_000


def look_ahead(
    stratum: StratumRules, relations: Mapping[str, Relation], changes: Mapping[str, Change]
) -> dict[str, tuple[Row, ...]]:
    """Ask ahead for a stratum; the rows of its predicates that were touched."""
    touched = {name: Rows(changes[name].plus | changes[name].minus) for name in stratum.below if changes.get(name)}
    if sum(map(len, touched.values())) > MOST_AHEAD or any(map(_may_fail, stratum.deletions)):
        # An expression must not fail for a row that neither state has.
        return {}
    own = {name: Rows() for name in stratum.stratum.predicates}
    known = dict(relations)
    for name, rows in (touched | own).items():
        known[variant(name, DELETED)] = known[variant(name, INSERTED)] = rows
    evaluation = Evaluation(known, Limits(rounds=MOST_AHEAD, rows=MOST_AHEAD))
    evaluation.add(stratum.deletions)
    try:
        evaluation.run()
    except TooFar:
        return {}
    return {name: tuple(rows) for name, rows in own.items()}


def columns_asked_first(rule: Rule) -> int:
    """By how many columns the rule looks for the first atom after its first."""
    bound, *others = rule.atoms
    following = (atom for atom in others if atom.variables & bound.variables)
    atom = next(following, None)
    return sum(a in bound.arguments for a in atom.arguments) if isinstance(atom, Atom) else 0


def _may_fail(rule: Rule) -> bool:
    return any(isinstance(part, Condition | Assign) and can_fail(part.expression) for part in rule.body)
