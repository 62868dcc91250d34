"""Autonomously computable changes: which rules bring a stored relation up to date from itself and one change alone.

BLAKELEY's chapter 4 asks this of an update before it runs; a transaction knows more, namely the rows that left and
came, whole (``Criterion``). The rules, each in the module of its name with its law:

    by change    nothing else is joined, so the change alone suffices
    by key       the key of the changed relation can be seen: rows that leave, and updates of what is not joined by
    by links     what it is joined by can be seen: also rows that come, if others with the same links are there

All of them are exact for bags: weights follow, those of DISTINCT and of groups included. They hold when no other
relation that the stored one reads changes in the same block.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Plan, relations_of
from tidemark.analysis.autonomy.by_key import by_change, by_key, by_keys_of_all
from tidemark.analysis.autonomy.by_links import by_links
from tidemark.analysis.autonomy.stored import Criterion as Criterion
from tidemark.analysis.autonomy.stored import Kept, Seen
from tidemark.analysis.autonomy.stored import Refusal as Refusal
from tidemark.analysis.autonomy.terms import NotLinear
from tidemark.analysis.budget import for_plan


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
