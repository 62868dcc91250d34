"""Net changes of sets: how they are made from what a transaction did, and how groups follow them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.algebra.rules import Grouping
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import Schema
from tidemark.datalog.grouping import grouped
from tidemark.datalog.relations import Lookup, Relation


@dataclass(frozen=True)
class Change:
    """What comes and what goes, disjoint."""

    plus: frozenset[Row] = frozenset()
    minus: frozenset[Row] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.plus or self.minus)


def net(old: Lookup, relation: str, plus: Iterable[Row], minus: Iterable[Row], width: int) -> Change:
    """The change that is left of insertions and deletions, the insertions coming last: what is there is not inserted,
    what is not there is not deleted."""
    wanted, unwanted = set(plus), set(minus)
    there = set(old.matching(relation, tuple(range(width)), wanted | unwanted))
    return Change(frozenset(wanted - there), frozenset((unwanted & there) - wanted))


def regrouped(grouping: Grouping, source: Schema, old: Relation, change: Change) -> Change:
    """The change of a grouping: the groups of changed rows, computed in the old state and in the new."""
    positions = tuple(range(grouping.keys))
    touched = {row[: grouping.keys] for row in change.plus | change.minus}
    if not touched:
        return Change()
    before = set(old.matching(positions, touched))
    after = (before - change.minus) | change.plus
    was, becomes = grouped(grouping, source, before), grouped(grouping, source, after)
    return Change(frozenset(becomes - was), frozenset(was - becomes))
