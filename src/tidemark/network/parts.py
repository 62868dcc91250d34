"""What rules read of the relations below: their old state by look-ups, and their changes as changes of sets.

Rules see sets. The change of a part is what its differential says, reduced to the rows that come or go altogether.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tidemark.algebra.keys import RelationKeys, keys_of
from tidemark.algebra.plans import Plan, relations_of
from tidemark.algebra.scalar import Row
from tidemark.calculus.as_of import Block, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.states import old
from tidemark.calculus.step import with_steps
from tidemark.calculus.terms import distribute
from tidemark.datalog.changes import Change
from tidemark.network.lookups import EngineLookup, Readable
from tidemark.passes import optimize


@dataclass(frozen=True)
class Parts:
    """Plans under the names by which rules know them, for one set of changed relations."""

    plans: Mapping[str, Plan]
    block: Block
    keys: RelationKeys

    @cached_property
    def before(self) -> Mapping[str, Readable]:
        """The parts as they were."""
        return {name: Readable(distribute(resolve(old(part), self.block))) for name, part in self.plans.items()}

    @cached_property
    def differentials(self) -> Mapping[str, Plan]:
        """The differentials of the parts that can have changed."""
        return {
            name: distribute(resolve(optimize(with_steps(differentiate(part, self.block.changed))), self.block))
            for name, part in self.plans.items()
            if relations_of(part) & self.block.changed
        }

    @cached_property
    def sets(self) -> frozenset[str]:
        """The parts that are known to have no row twice."""
        return frozenset(name for name, part in self.plans.items() if keys_of(part, self.keys))

    def changes(self, lookup: EngineLookup) -> dict[str, Change]:
        """What comes to each part and what goes from it altogether."""
        return {name: self._change(name, plan, lookup) for name, plan in self.differentials.items()}

    def _change(self, name: str, differential: Plan, lookup: EngineLookup) -> Change:
        delta = lookup.rows_of(differential)
        before: Mapping[Row, int] = {}
        if delta and name not in self.sets:
            before = lookup.weights(name, tuple(range(len(self.before[name].plan.schema))), delta)
        return set_change(delta, before, is_set=name in self.sets)


def set_change(delta: Mapping[Row, int], before: Mapping[Row, int], *, is_set: bool) -> Change:
    """The rows that come or go altogether, of a change of a bag. A set needs no look at what was there before.

    >>> change = set_change({("a",): 1, ("b",): -1, ("c",): 2}, {("a",): 1, ("b",): 2}, is_set=False)
    >>> change.plus, change.minus
    (frozenset({('c',)}), frozenset())
    """
    if is_set:
        coming = (row for row, weight in delta.items() if weight > 0)
        return Change(frozenset(coming), frozenset(row for row, weight in delta.items() if weight < 0))
    coming = (row for row, weight in delta.items() if weight > 0 and not before.get(row, 0))
    going = (row for row, weight in delta.items() if weight < 0 and before.get(row, 0) + weight == 0)
    return Change(frozenset(coming), frozenset(going))


def weights_of(change: Change) -> dict[Row, int]:
    """A change of a set as a delta."""
    return {**dict.fromkeys(change.plus, 1), **dict.fromkeys(change.minus, -1)}
