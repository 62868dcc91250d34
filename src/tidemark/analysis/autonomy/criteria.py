"""Autonomously computable changes: which rules bring a stored relation up to date from itself and one change alone.

BLAKELEY's chapter 4 asks this of an update before it runs; a transaction knows more, namely the rows that left and
came, whole (``Criterion``). The rules, each in the module of its name with its law:

    by change    nothing else is joined, so the change alone suffices
    by key       the key of the changed relation can be seen: rows that leave, and updates of what is not joined by
    by links     what it is joined by can be seen: also rows that come, if others with the same links are there

All of them are exact for bags: weights follow, those of DISTINCT and of groups included. They hold when no other
relation that the stored one reads changes in the same block.

For which parameters a deletion is irrelevant, and for which it is autonomous: worked out once, with the definition.

``DELETE FROM r WHERE i < :p`` is a family of statements. With the conditions C of the view,

    irrelevant for p        no row of a combination that satisfies C satisfies the statement's condition autonomous
    for p        each part of that condition which the view does not show holds for all such rows, or for none

Both are conditions on the parameters alone, the columns of the relations being eliminated; elimination may say less
than could be said, and then a parameter counts as neither. Where a part is decided, its place in the condition is
taken by the condition on p that says so: what is left can be asked of the stored rows. At run time no solver is
called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemark.algebra.expressions import TRUE, Call, Expression, columns_of, conjunction
from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Plan, relations_of
from tidemark.algebra.types import BOOLEAN, Field
from tidemark.analysis.autonomy.by_key import by_change, by_key, by_keys_of_all
from tidemark.analysis.autonomy.by_links import by_links
from tidemark.analysis.autonomy.dml import one_of, stored_part
from tidemark.analysis.autonomy.stored import Criterion as Criterion
from tidemark.analysis.autonomy.stored import Kept, Seen
from tidemark.analysis.autonomy.stored import Refusal as Refusal
from tidemark.analysis.autonomy.terms import NotLinear, Term, renumbered
from tidemark.analysis.autonomy.visible import FALSE, Checks, Sight, with_values
from tidemark.analysis.budget import for_plan
from tidemark.analysis.conditions import eliminated
from tidemark.analysis.facts import Facts


@dataclass(frozen=True)
class Autonomy:
    """The rules that hold for a stored relation and one relation below it, the cheapest first, and why others do
    not."""

    rules: tuple[Criterion, ...]
    refusals: tuple[Refusal, ...] = ()

    @property
    def always(self) -> Criterion | None:
        """The rule that holds for every change, if there is one."""
        return next((rule for rule in self.rules if rule.undecided is None), None)


def autonomy(name: str, plan: Plan, relation: str, keys: RelationKeys) -> Autonomy:
    """The rules for the stored relation ``name``, which holds the rows of ``plan``, when ``relation`` changes.

    >>> from tidemark.algebra.plans import Project, Scan
    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> r = Scan("r", Schema((Field("a", INT), Field("b", INT))))
    >>> autonomy("v", Project(r, ("a",), (r.column(0),)), "r", {}).always.reason
    "every row of it that comes from 'r' comes from one row of it alone"
    """
    return rules_of(Kept.of(name, plan), relation, keys)


def rules_of(kept: Kept, relation: str, keys: RelationKeys) -> Autonomy:
    """The same for what is stored of any definition."""
    assert relation in relations_of(kept.input), f"{relation!r} is not read"
    with for_plan(kept.input):
        return _rules_of(kept, relation, keys)


def _rules_of(kept: Kept, relation: str, keys: RelationKeys) -> Autonomy:
    try:
        first = by_change(kept, relation)
    except NotLinear as refused:
        return Autonomy((), (Refusal(str(refused)),))
    if isinstance(first, Criterion):
        return Autonomy((first,))
    try:
        seen = Seen.of(kept, relation)
    except NotLinear as refused:
        return _sorted((Refusal(str(refused)), by_keys_of_all(kept, relation, keys)))
    return _sorted((first, by_key(seen, keys), by_links(seen, keys)))


def _sorted(tried: tuple[Criterion | Refusal, ...]) -> Autonomy:
    rules = tuple(result for result in tried if isinstance(result, Criterion))
    return Autonomy(rules, tuple(result for result in tried if isinstance(result, Refusal)))


@dataclass(frozen=True)
class Boundaries:
    """Conditions over the parameters; and which stored rows go for parameters for which the deletion is autonomous,
    over the stored columns with the parameters behind them."""

    irrelevant: Expression
    autonomous: Expression
    going: Expression


def boundaries(
    kept: Kept, relation: str, where: Expression, parameters: tuple[Field, ...], checks: Checks
) -> Boundaries | None:
    """The boundaries of DELETE FROM relation WHERE …, whose condition has the parameters behind the relation's columns.

    None if the definition is no single join in the relation. Types of parameters are those that the condition needs.
    """
    try:
        terms = kept.terms(relation)
    except NotLinear:
        return None
    if len(terms) != 1 or terms[0].negative or not kept.shown:
        return None
    sight = Sight.of(stored_part(terms[0], kept), kept.schema, checks)
    sight = replace(sight, facts=sight.facts.beside(Facts(parameters)))
    condition = one_of(_at_places(where, sight.term, len(parameters)))
    return _Bounds(sight, len(parameters)).of(condition)


def _at_places(where: Expression, term: Term, parameters: int) -> tuple[Expression, ...]:
    """The condition at each occurrence of the relation, the parameters behind all columns of the term."""
    found = []
    for place in term.places:
        offset, width = term.offset(place), len(term.leaves[place].schema)
        moved = {i: i + offset for i in range(width)} | {width + i: term.width + i for i in range(parameters)}
        found.append(renumbered(where, moved))
    return tuple(found)


@dataclass(frozen=True)
class _Bounds:
    sight: Sight
    count: int

    @property
    def parameters(self) -> frozenset[int]:
        return frozenset(range(self.sight.term.width, self.sight.term.width + self.count))

    def of(self, condition: Expression) -> Boundaries:
        decided, going = self._visit(condition)
        return Boundaries(self._alone(self._never(condition)), self._alone(decided), self._shown(going))

    def _visit(self, condition: Expression) -> tuple[Expression, Expression]:
        """When the condition can be asked of stored rows, and what is asked then."""
        match condition:
            case Call(function="and" | "or", arguments=arguments):
                parts = [self._visit(part) for part in arguments]
                when = conjunction(tuple(w for w, _ in parts if w != TRUE))
                return when, condition.with_children(tuple(asked for _, asked in parts))
        if columns_of(condition) <= self.sight.extended.keys() | self.parameters:
            return TRUE, condition
        always = self._never(Call("is_not_true", (condition,), BOOLEAN, nullable=False))
        never = self._never(condition)
        return Call("or", (always, never), BOOLEAN, nullable=False), always

    def _never(self, condition: Expression) -> Expression:
        """That the condition holds for no row behind the view, as a condition on the parameters."""
        both = conjunction((self.sight.premise, condition))
        possible = eliminated(both, self.parameters, self.sight.facts)
        return FALSE if possible is None else Call("is_not_true", (possible,), BOOLEAN, nullable=False)

    def _alone(self, condition: Expression) -> Expression:
        """The condition over the parameters alone."""
        return renumbered(condition, {self.sight.term.width + i: i for i in range(self.count)})

    def _shown(self, condition: Expression) -> Expression:
        """The condition over the stored columns and the parameters behind them."""
        width = len(self.sight.stored.fields)
        known = dict(self.sight.extended)
        for i in range(self.count):
            known[self.sight.term.width + i] = replace(
                self.sight.facts.column(self.sight.term.width + i), index=width + i
            )
        return with_values(condition, known)
