"""Aggregates of distinct values, from groupings that are merged.

    γ[k; f(x), count(DISTINCT y)](E) = γ[k; f(x)](E) ⋈[k] γ[k; count(y)](δ π[k, y] E)

Each group of E is a group of both sides, also when y is NULL throughout, so the join loses none. Counts of δ are kept,
hence a value counts as long as any row has it, and nothing is read again.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.expressions import Call, Column, Expression, conjunction
from tidemark.algebra.plans import Aggregate, AggregateCall, Distinct, Join, Plan, Project
from tidemark.algebra.types import BOOLEAN


def split_distinct(plan: Aggregate) -> Plan | None:
    """The grouping as a join of groupings without DISTINCT; None if that does not help.

    It does not if another aggregate has to be evaluated again anyway, from all rows of its group.
    """
    distinct = tuple(dict.fromkeys(call.argument for call in plan.aggregates if _is_split(call)))
    if not distinct or not all(call.is_merged or _is_split(call) for call in plan.aggregates):
        return None
    plain = tuple(call for call in plan.aggregates if call.is_merged)
    sides: list[tuple[Plan, tuple[AggregateCall, ...]]] = []
    if plain:
        sides.append((_grouped(plan, plan.input, plan.keys, plain), plain))
    for value in distinct:
        assert value is not None
        calls = tuple(call for call in plan.aggregates if call.argument == value and _is_split(call))
        sides.append((_of_values(plan, value, calls), calls))
    return _joined(plan, sides)


def _is_split(call: AggregateCall) -> bool:
    """DISTINCT makes a difference, and without it the call would be merged."""
    return not call.is_merged and replace(call, distinct=False).is_merged


def _grouped(
    plan: Aggregate, source: Plan, keys: tuple[Expression, ...], calls: tuple[AggregateCall, ...]
) -> Aggregate:
    names = plan.names[: len(keys)] + tuple(f"a{i}" for i in range(len(calls)))
    return Aggregate(source, names, keys, calls)


def _of_values(plan: Aggregate, value: Expression, calls: tuple[AggregateCall, ...]) -> Aggregate:
    names = (*plan.names[: len(plan.keys)], "value")
    values = Distinct(Project(plan.input, names, (*plan.keys, value)))
    *keys, column = values.columns()
    plain = tuple(replace(call, argument=column, distinct=False) for call in calls)
    return _grouped(plan, values, tuple(keys), plain)


def _joined(plan: Aggregate, sides: list[tuple[Plan, tuple[AggregateCall, ...]]]) -> Plan:
    """The sides joined on the keys, NULL matching NULL, and the columns in the order of the grouping."""
    width = len(plan.keys)
    joined, _ = sides[0]
    places = {call: width + i for i, call in enumerate(sides[0][1])}
    for side, calls in sides[1:]:
        offset = len(joined.schema)
        pairs = tuple(_same(joined.column(i), side.column(i), offset + i) for i in range(width))
        joined = Join(joined, side, conjunction(pairs))
        places |= {call: offset + width + i for i, call in enumerate(calls)}
    wanted = (*range(width), *(places[call] for call in plan.aggregates))
    return Project(joined, plan.names, tuple(joined.column(place) for place in wanted))


def _same(left: Column, right: Column, position: int) -> Expression:
    moved = replace(right, index=position)
    nullable = left.nullable or right.nullable
    return Call("is_not_distinct" if nullable else "eq", (left, moved), BOOLEAN, nullable=False)
