"""Nested joins as what they are up to order: relations, and conditions over all their columns.

R ⋈ S = S ⋈ R                    up to the order of columns, which a projection restores
R ⋈ (S ⋈ T) = (R ⋈ S) ⋈ T        with each condition at the first join that has all its columns
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tidemark.algebra.expressions import TRUE, Column, Expression, columns_of, conjunction, conjuncts, shift, substitute
from tidemark.algebra.plans import Join, Plan


@dataclass(frozen=True)
class Joins:
    """The relations of nested joins, left to right, and the conditions over all their columns."""

    leaves: tuple[Plan, ...]
    conditions: tuple[Expression, ...]

    @staticmethod
    def of(plan: Plan, offset: int = 0) -> Joins:
        """Those of a plan whose columns stand behind so many others. What is no join is one relation."""
        if not isinstance(plan, Join):
            return Joins((plan,), ())
        left = Joins.of(plan.left, offset)
        right = Joins.of(plan.right, offset + len(plan.left.schema))
        own = tuple(shift(part, offset) for part in conjuncts(plan.predicate))
        return Joins(left.leaves + right.leaves, left.conditions + right.conditions + own)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the columns of each leaf begin."""
        widths = [len(leaf.schema) for leaf in self.leaves]
        return tuple(sum(widths[:position]) for position in range(len(widths)))

    @cached_property
    def links(self) -> tuple[frozenset[int], ...]:
        """For each condition the leaves that it reads."""
        return tuple(frozenset(map(self._leaf_of, columns_of(condition))) for condition in self.conditions)

    def columns_of(self, leaf: int) -> range:
        return range(self.starts[leaf], self.starts[leaf] + len(self.leaves[leaf].schema))

    def _leaf_of(self, column: int) -> int:
        return max(
            position for position, start in enumerate(self.starts) if start <= column < self.columns_of(position).stop
        )

    def among(self, leaves: Sequence[int]) -> Joins:
        """Some of the leaves, in that order, with the conditions over them alone."""
        chosen, own = tuple(self.leaves[leaf] for leaf in leaves), frozenset(leaves)
        columns = self.moved(leaves, Joins(chosen, ()))
        inside = (c for c, link in zip(self.conditions, self.links, strict=True) if link and link <= own)
        return Joins(chosen, tuple(renumbered(condition, columns) for condition in inside))

    def moved(self, leaves: Sequence[int], other: Joins) -> dict[int, Column]:
        """Where the columns of these leaves stand in other joins, whose leaves have the same columns in order."""
        fields = [field for leaf in other.leaves for field in leaf.schema.fields]
        old = [column for leaf in leaves for column in self.columns_of(leaf)]
        return {o: Column(new, f.name, f.type, f.nullable) for new, (o, f) in enumerate(zip(old, fields, strict=True))}

    def outward(self, start: int, *, through_products: bool = False) -> list[int]:
        """The leaves in the order in which conditions lead to them from one; empty if they do not lead to all, unless
        products do."""
        order, waiting = [start], [i for i in range(len(self.leaves)) if i != start]
        while waiting:
            present = set(order)
            found = next((i for i in waiting if any(i in link and link & present for link in self.links)), None)
            if found is None and not through_products:
                return []
            found = waiting[0] if found is None else found
            order.append(found)
            waiting.remove(found)
        return order

    def joined(self, order: Sequence[int]) -> tuple[Plan, tuple[Column, ...]]:
        """The leaves joined in that order, and where the columns of the original row stand in theirs."""
        places: dict[int, int] = {}
        width, waiting = 0, list(self.conditions)
        result: Plan | None = None
        for position in order:
            leaf = self.leaves[position]
            places |= {old: width + i for i, old in enumerate(self.columns_of(position))}
            width += len(leaf.schema)
            if result is None:
                result = leaf
                continue
            ready = [c for c in waiting if columns_of(c) <= places.keys()]
            waiting = [c for c in waiting if c not in ready]
            row = (result.schema + leaf.schema).fields
            columns = {old: Column(new, row[new].name, row[new].type, row[new].nullable) for old, new in places.items()}
            moved = tuple(renumbered(condition, columns) for condition in ready)
            result = Join(result, leaf, conjunction(tuple(part for part in moved if part != TRUE)))
        assert result is not None
        return result, tuple(result.column(places[index]) for index in range(width))


def renumbered(condition: Expression, columns: Mapping[int, Column]) -> Expression:
    """A condition over other columns: for each that it reads, the one that is meant."""
    highest = max(columns_of(condition), default=-1) + 1
    anything = next(iter(columns.values()))
    return substitute(condition, tuple(columns.get(index, anything) for index in range(highest)))
