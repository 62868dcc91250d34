"""What passes need to know about plans before they may change them, and the two steps that they are made of.

A pass keeps the rows, and the errors too: it never evaluates an expression that can fail on rows on which the plan
would not have, and never spares it rows that would have made it fail. Otherwise a view and its audit would disagree
about which transactions are refused. So an expression that can fail is not moved, and nothing is moved past it.
Of a differential that holds if the definition did not fail before the block, which is when a differential is derived.

Nested joins as what they are up to order: relations, and conditions over all their columns.

R ⋈ S = S ⋈ R                    up to the order of columns, which a projection restores
R ⋈ (S ⋈ T) = (R ⋈ S) ⋈ T        with each condition at the first join that has all its columns
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate

from tidemark.algebra.cache import PerPlan
from tidemark.algebra.expressions import (
    TRUE,
    Column,
    Expression,
    columns_of,
    conjunction,
    conjuncts,
    shift,
    transform,
)
from tidemark.algebra.plans import Aggregate, Given, Join, Plan, Project, Scan, State, Window
from tidemark.algebra.scalar import node_can_fail as expressions_can_fail


@PerPlan
def node_can_fail(plan: Plan) -> bool:
    """Whether the node itself can raise, apart from its inputs. A sum can be out of range."""
    calls = plan.aggregates if isinstance(plan, Aggregate) else plan.calls if isinstance(plan, Window) else ()
    return any(call.can_fail for call in calls) or expressions_can_fail(plan)


@PerPlan
def plan_can_fail(plan: Plan) -> bool:
    """Whether the plan or anything below it can raise."""
    return any(map(plan_can_fail, plan.inputs())) or node_can_fail(plan)


@PerPlan
def reads_delta(plan: Plan) -> bool:
    """Whether a delta stands in the plan, so that it is taken to give few rows."""
    is_delta = isinstance(plan, Given) or (isinstance(plan, Scan) and plan.state not in (State.NEW, State.OLD))
    return is_delta or any(map(reads_delta, plan.inputs()))


def bottom_up(plan: Plan, rule: Callable[[Plan], Plan]) -> Plan:
    """The plan with the rule applied to every node, inputs first; to one that stands in several places once."""
    known: dict[int, Plan] = {}

    def rewritten(part: Plan) -> Plan:
        found = known.get(id(part))
        if found is None:
            inputs = part.inputs()
            changed = tuple([rewritten(child) for child in inputs])
            same = all(new is old for new, old in zip(changed, inputs, strict=True))
            found = known[id(part)] = rule(part if same else part.with_inputs(changed))
        return found

    return rewritten(plan)


def named(plan: Plan, names: tuple[str, ...]) -> Plan:
    """The same rows under the given names."""
    if plan.schema.names == names:
        return plan
    if isinstance(plan, Project):
        return replace(plan, names=names)
    return Project(plan, names, plan.columns())


@dataclass(frozen=True)
class Joins:
    """The relations of nested joins, left to right, and the conditions over all their columns."""

    leaves: tuple[Plan, ...]
    conditions: tuple[Expression, ...]

    @staticmethod
    def of(plan: Plan, offset: int = 0) -> Joins:
        """Those of a plan whose columns stand behind so many others. What is no join is one relation."""
        leaves, conditions = list[Plan](), list[Expression]()
        _collect(plan, offset, leaves, conditions)
        return Joins(tuple(leaves), tuple(conditions))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the columns of each leaf begin."""
        widths = (len(leaf.schema) for leaf in self.leaves[:-1])
        return tuple(accumulate(widths, initial=0))

    @cached_property
    def links(self) -> tuple[frozenset[int], ...]:
        """For each condition the leaves that it reads."""
        return tuple(frozenset(map(self._leaf_of, columns_of(condition))) for condition in self.conditions)

    def columns_of(self, leaf: int) -> range:
        return range(self.starts[leaf], self.starts[leaf] + len(self.leaves[leaf].schema))

    def _leaf_of(self, column: int) -> int:
        return bisect_right(self.starts, column) - 1

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
        linked: dict[int, set[int]] = {}
        for link in self.links:
            for leaf in link:
                linked.setdefault(leaf, set()).update(link)
        order = dict.fromkeys([start])
        reached = sorted(linked.get(start, ()))
        others = deque(range(len(self.leaves)))
        while len(order) < len(self.leaves):
            while others[0] in order:
                others.popleft()
            if not reached and not through_products:
                return []
            found = heappop(reached) if reached else others[0]
            if found not in order:
                order[found] = None
                for leaf in linked.get(found, ()):
                    if leaf not in order:
                        heappush(reached, leaf)
        return list(order)

    def joined(self, order: Sequence[int]) -> tuple[Plan, tuple[Column, ...]]:
        """The leaves joined in that order, and where the columns of the original row stand in theirs."""
        places: dict[int, Column] = {}
        width, ready = 0, self._by_last_leaf(order)
        result: Plan | None = None
        for step, position in enumerate(order):
            leaf = self.leaves[position]
            for i, (old, field) in enumerate(zip(self.columns_of(position), leaf.schema.fields, strict=True)):
                places[old] = Column(width + i, field.name, field.type, field.nullable)
            width += len(leaf.schema)
            if result is None:
                result = leaf
                continue
            moved = tuple(renumbered(condition, places) for condition in ready.get(step, ()))
            result = Join(result, leaf, conjunction(tuple(part for part in moved if part != TRUE)))
        assert result is not None
        return result, tuple(places[index] for index in range(width))

    def _by_last_leaf(self, order: Sequence[int]) -> dict[int, list[Expression]]:
        """The conditions by the step, from the first join on, at which all that they read is there."""
        steps = {leaf: step for step, leaf in enumerate(order)}
        found: dict[int, list[Expression]] = {}
        for condition, link in zip(self.conditions, self.links, strict=True):
            if link <= steps.keys():
                found.setdefault(max((1, *(steps[leaf] for leaf in link))), []).append(condition)
        return found


def renumbered(condition: Expression, columns: Mapping[int, Column]) -> Expression:
    """A condition over other columns: for each that it reads, the one that is meant."""
    return transform(condition, lambda part: columns[part.index] if isinstance(part, Column) else None)


def _collect(plan: Plan, offset: int, leaves: list[Plan], conditions: list[Expression]) -> None:
    """Add the relations of nested joins and their conditions, those of a side before its join's own."""
    if not isinstance(plan, Join):
        leaves.append(plan)
        return
    _collect(plan.left, offset, leaves, conditions)
    _collect(plan.right, offset + len(plan.left.schema), leaves, conditions)
    conditions.extend(shift(part, offset) for part in conjuncts(plan.predicate))
