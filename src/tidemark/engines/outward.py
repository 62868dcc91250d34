"""Differentials of a handful of rows, evaluated from the delta outward.

A join of a small delta with stored relations needs only the rows whose keys the delta names. Here the delta's keys are
looked up in the next relation, what is found gives the keys for the one after it, and the interpreter of the reference
engine joins the few rows. Each look-up is a point read, much cheaper than planning and running a join of everything;
look-ups that several views need are answered once.

What cannot be reached that way (no plain equality leads there, or too many rows would come) is left to a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from tidemark.algebra.expressions import Call, Column, Expression, Value, columns_of, conjuncts, shift
from tidemark.algebra.plans import (
    Filter,
    Given,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Stored,
    Touched,
    Union,
    Unnest,
    Values,
    walk,
)
from tidemark.algebra.scalar import value_of
from tidemark.engines.reference.arrow import from_bag, to_bag
from tidemark.engines.reference.evaluate import Bag, evaluate

MOST_ROWS: Final = 24
"""How many rows of deltas, and keys to look up, count as a handful."""

Keys = frozenset[Value]
Lookup = Callable[[Stored, int, Keys], Bag | None]
"""The rows of a stored relation that have one of the keys in a column, or None if those are too many."""


class Unreachable(Exception):
    """No way leads from the delta to this part of the plan."""


def evaluate_outward(plan: Plan, given: Mapping[str, pa.Table], lookup: Lookup) -> pa.Table | None:
    """The plan's net rows, or None if it is not a matter of a handful of look-ups."""
    needed = {part.name for part in walk(plan) if isinstance(part, Given)}
    if not needed or sum(given[name].num_rows for name in needed) > MOST_ROWS:
        return None
    reach = _Reach({name: to_bag(given[name]) for name in needed}, lookup)
    try:
        return from_bag(reach.bag(plan, ()), plan.schema)
    except Unreachable:
        return None


class _Reach:
    def __init__(self, given: Mapping[str, Bag], lookup: Lookup) -> None:
        self._given, self._lookup = given, lookup

    def bag(self, plan: Plan, above: tuple[Expression, ...]) -> Bag:
        """The rows of a plan that starts from a delta. ``above`` are conditions that hold for its rows anyway."""
        match plan:
            case Given() | Values():
                return evaluate(plan, {}, self._given)
            case Filter(input=source, predicate=predicate):
                return self._apply(plan, self.bag(source, above + conjuncts(predicate)))
            case Project(input=source) | Negate(input=source) | Repeat(input=source) | Unnest(input=source):
                return self._apply(plan, self.bag(source, ()))
            case Net(input=source):
                return self.bag(source, above)
            case Union(parts=parts):
                return _sum([self.bag(part, above) for part in parts])
            case Touched(input=source, touched=touched, keys=keys) if keys:
                return self._touched(plan, source, self.bag(touched, ()), keys)
            case Join():
                return self._join(plan, above)
        raise Unreachable

    def _touched(self, plan: Touched, source: Plan, touched: Bag, keys: tuple[int, ...]) -> Bag:
        wanted = frozenset(row[: len(keys)] for row in touched)
        if any(row[0] is None for row in wanted):
            raise Unreachable
        found = self.restricted(source, keys[0], frozenset(row[0] for row in wanted), ())
        return {row: weight for row, weight in found.items() if tuple(row[key] for key in keys) in wanted}

    def _join(self, plan: Join, above: tuple[Expression, ...]) -> Bag:
        """One side starts from a delta; the other is restricted to the keys that it names."""
        conditions = conjuncts(plan.predicate) + above
        left_starts = any(isinstance(part, Given) for part in walk(plan.left))
        near, far = (plan.left, plan.right) if left_starts else (plan.right, plan.left)
        near_conditions, far_conditions = _sides(conditions, plan, left_starts=left_starts)
        start = self.bag(near, near_conditions)
        if not start:
            return {}
        near_column, far_column = _link(conditions, plan, left_starts=left_starts)
        keys = frozenset(row[near_column] for row in start) - {None}
        other = self.restricted(far, far_column, keys, far_conditions)
        return _pairs(start, other, plan) if left_starts else _pairs(other, start, plan)

    def restricted(self, plan: Plan, column: int, keys: Keys, above: tuple[Expression, ...]) -> Bag:
        """The rows of a plan that have one of the keys in a column of its output."""
        if not keys:
            return {}
        if len(keys) > MOST_ROWS:
            raise Unreachable
        match plan:
            case Stored():
                found = self._lookup(plan, column, keys)
                if found is None:
                    raise Unreachable
                return found
            case Given() | Values():
                rows = evaluate(plan, {}, self._given)
                return {row: weight for row, weight in rows.items() if row[column] in keys}
            case Filter(input=source, predicate=predicate):
                return self._apply(plan, self.restricted(source, column, keys, above + conjuncts(predicate)))
            case Negate(input=source) | Repeat(input=source):
                return self._apply(plan, self.restricted(source, column, keys, above))
            case Project(input=source, expressions=expressions):
                origin = expressions[column]
                if isinstance(origin, Column):
                    return self._apply(plan, self.restricted(source, origin.index, keys, ()))
            case Union(parts=parts):
                return _sum([self.restricted(part, column, keys, above) for part in parts])
            case Unnest(input=source) if column < len(source.schema):
                return self._apply(plan, self.restricted(source, column, keys, ()))
            case Join():
                return self._restricted_join(plan, column, keys, above)
        raise Unreachable

    def _restricted_join(self, plan: Join, column: int, keys: Keys, above: tuple[Expression, ...]) -> Bag:
        conditions = conjuncts(plan.predicate) + above
        width = len(plan.left.schema)
        left_starts = column < width
        near, far = (plan.left, plan.right) if left_starts else (plan.right, plan.left)
        near_conditions, far_conditions = _sides(conditions, plan, left_starts=left_starts)
        start = self.restricted(near, column if left_starts else column - width, keys, near_conditions)
        if not start:
            return {}
        near_column, far_column = _link(conditions, plan, left_starts=left_starts)
        next_keys = frozenset(row[near_column] for row in start) - {None}
        other = self.restricted(far, far_column, next_keys, far_conditions)
        return _pairs(start, other, plan) if left_starts else _pairs(other, start, plan)

    def _apply(self, plan: Plan, source: Bag) -> Bag:
        """One operator on rows that are at hand."""
        child = plan.inputs()[0]
        return evaluate(plan.with_inputs((Given("here", child.schema),)), {}, {"here": source})


def _link(conditions: tuple[Expression, ...], plan: Join, *, left_starts: bool) -> tuple[int, int]:
    """Columns of the near and the far side that must be equal."""
    width = len(plan.left.schema)
    for condition in conditions:
        match condition:
            case Call(function="eq", arguments=(Column(index=a, type=first), Column(index=b, type=second))):
                low, high = min(a, b), max(a, b)
                if first == second and low < width <= high:
                    return (low, high - width) if left_starts else (high - width, low)
    raise Unreachable


def _sides(
    conditions: tuple[Expression, ...], plan: Join, *, left_starts: bool
) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """The conditions that read one side alone, in terms of that side: those of the near and of the far side."""
    width = len(plan.left.schema)
    left = tuple(c for c in conditions if all(column < width for column in columns_of(c)))
    right = tuple(shift(c, -width) for c in conditions if all(column >= width for column in columns_of(c)))
    return (left, right) if left_starts else (right, left)


def _pairs(left: Bag, right: Bag, plan: Join) -> Bag:
    joined: Bag = {}
    for a, v in left.items():
        for b, w in right.items():
            row = a + b
            if value_of(plan.predicate, row) is True:
                joined[row] = joined.get(row, 0) + v * w
    return joined


def _sum(bags: list[Bag]) -> Bag:
    result: Bag = {}
    for part in bags:
        for row, weight in part.items():
            result[row] = result.get(row, 0) + weight
    return {row: weight for row, weight in result.items() if weight}
