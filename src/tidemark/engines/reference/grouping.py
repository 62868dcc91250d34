"""Groups and their aggregates, as the definitions say.

Rows in order, as the definitions say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, cmp_to_key
from typing import Any

from tidemark.algebra.aggregate_meanings import Weighted
from tidemark.algebra.aggregates import AggregateCall, SortKey
from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import rank
from tidemark.algebra.plans import Aggregate, Sort
from tidemark.algebra.plans import SortKey as PlanSortKey
from tidemark.algebra.scalar import Row, value_of
from tidemark.algebra.types import Type


def repeated(bag: Mapping[Row, int]) -> list[Row]:
    """The rows of positive weight, each as often as its weight says."""
    return [row for row, weight in bag.items() for _ in range(weight)]


def first_rows(plan: Sort, rows: list[Row]) -> list[Row]:
    """The rows in order, from the offset on, as many as the limit allows; ties do not leave open which ones."""
    ordered = sorted(rows, key=in_order(plan.total.keys if plan.leaves_out else plan.keys))
    return ordered[plan.offset : None if plan.limit is None else plan.offset + plan.limit]


def in_order(keys: tuple[PlanSortKey, ...]) -> Callable[[Row], Any]:
    return cmp_to_key(lambda left, right: compare(left, right, keys))


def compare(left: Row, right: Row, keys: tuple[PlanSortKey, ...]) -> int:
    for key in keys:
        a, b = value_of(key.expression, left), value_of(key.expression, right)
        if rank(a) == rank(b):  # which NaN is, too
            continue
        if a is None or b is None:
            return -1 if (a is None) == key.nulls_first else 1
        smaller = rank(a) < rank(b)
        return -1 if smaller != key.descending else 1
    return 0


Bag = dict[Row, int]


def aggregated(plan: Aggregate, source: Bag) -> Bag:
    groups: dict[Row, Bag] = {} if plan.keys else {(): {}}
    for row, weight in source.items():
        groups.setdefault(tuple(value_of(key, row) for key in plan.keys), {})[row] = weight
    result: Bag = {}
    for key, group in groups.items():
        if plan.keys and not plan.signed and sum(group.values()) <= 0:
            continue
        result[key + tuple(aggregate_value(call, group) for call in plan.aggregates)] = 1
    return result


def aggregate_value(call: AggregateCall, group: Bag) -> Value:
    """The value of one aggregate over the rows of a group."""
    return call.row.meaning(_Group(call, group))


@dataclass
class _Group:
    """The rows of a group as one call sees them (``aggregate_meanings.Group``)."""

    call: AggregateCall
    bag: Bag

    @property
    def rows(self) -> int:
        return sum(self.bag.values())

    @cached_property
    def values(self) -> Weighted:
        assert self.call.argument is not None
        return [(value_of(self.call.argument, row), weight) for row, weight in self.bag.items()]

    @cached_property
    def present(self) -> Weighted:
        found = [(value, weight) for value, weight in self.values if value is not None]
        if self.call.distinct:
            return [(value, 1) for value in {value: weight for value, weight in found if weight > 0}]
        return found

    @property
    def each(self) -> list[Value]:
        return [value for value, weight in self.present for _ in range(weight)]

    @property
    def in_order(self) -> list[Value]:
        """Values in the order of the call's keys; equal places are filled by value."""
        call, condition = self.call, self.call.condition
        assert call.argument is not None
        chosen = {r: w for r, w in self.bag.items() if condition is None or value_of(condition, r) is True}
        rows = [row for row in sorted(chosen, key=in_order((*call.order, SortKey(call.argument)))) if chosen[row] > 0]
        values = [value_of(call.argument, row) for row in rows for _ in range(chosen[row])]
        return list(dict.fromkeys(values)) if call.distinct else values

    @property
    def type(self) -> Type:
        return self.call.type

    @property
    def separator(self) -> str:
        return self.call.separator

    @property
    def fraction(self) -> float | None:
        return self.call.fraction

    @property
    def descending(self) -> bool:
        return self.call.descending
