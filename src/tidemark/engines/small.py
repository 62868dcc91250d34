"""Plans over a handful of given rows, evaluated right here.

A statement of an engine costs about a millisecond before it reads its first row, and most steps of a small transaction
look at a few rows. The reference engine's interpreter answers those at once, with the meanings that every engine is
tested against; only joins are done here, because theirs is a loop over all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from tidemark.algebra.derived import PerPlan
from tidemark.algebra.expressions import Call, Column, conjuncts
from tidemark.algebra.plans import Given, Join, Plan, Stored, Values, walk
from tidemark.algebra.scalar import Row, value_of
from tidemark.engines.reference.evaluate import Bag, evaluate
from tidemark.engines.rows import Rows, table_of

MOST_ROWS: Final = 150
"""How many rows are a handful, and how many a relation may have to be read as a whole for this."""
MOST_UNJOINED: Final = 400
"""Without joins so many are a handful: even grouping them takes less time here than planning a statement."""


def evaluate_small(plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table | None:
    """The plan's net rows, or None if it reads something stored or more than a handful of rows."""
    schemas = {part.name: part.schema for part in walk(plan) if isinstance(part, Given)}
    return evaluate_few(plan, {name: Rows(schema, table=given[name]) for name, schema in schemas.items()})


def evaluate_few(plan: Plan, given: Mapping[str, Rows]) -> pa.Table | None:
    """The same for rows that may be at hand as bags already."""
    kinds = _kinds(plan)
    if Stored in kinds or _effort(plan, given) > (MOST_ROWS if Join in kinds else MOST_UNJOINED):
        return None
    return table_of(_bag(plan, given), plan.schema)


def _bag(plan: Plan, given: Mapping[str, Rows]) -> Bag:
    match plan:
        case Given(name=name):
            return given[name].bag
        case Join(left=left, right=right):
            return _joined(plan, _bag(left, given), _bag(right, given))
    if not plan.inputs():
        return evaluate(plan, {}, {})
    inputs = {str(number): _bag(child, given) for number, child in enumerate(plan.inputs())}
    return evaluate(_over_given(plan), {}, inputs)


def _joined(plan: Join, left: Bag, right: Bag) -> Bag:
    """Rows on the right are found by the columns that must be equal; the predicate decides about each pair."""
    left_keys, right_keys = _equal_columns(plan)
    by_key: dict[Row, list[tuple[Row, int]]] = {}
    for row, weight in right.items():
        by_key.setdefault(tuple(row[key] for key in right_keys), []).append((row, weight))
    joined: Bag = {}
    for row, weight in left.items():
        for other, times in by_key.get(tuple(row[key] for key in left_keys), ()):
            pair = row + other
            if value_of(plan.predicate, pair) is True:
                joined[pair] = weight * times
    return joined


def _columns_to_equal(plan: Plan) -> tuple[tuple[int, ...], tuple[int, ...]]:
    assert isinstance(plan, Join)
    width, pairs = len(plan.left.schema), set[tuple[int, int]]()
    for condition in conjuncts(plan.predicate):
        match condition:
            case Call(function="eq", arguments=(Column(index=a, type=one), Column(index=b, type=other))):
                if one == other and min(a, b) < width <= max(a, b):
                    pairs.add((min(a, b), max(a, b) - width))
    listed = sorted(pairs)
    return tuple(a for a, _ in listed), tuple(b for _, b in listed)


_kinds = PerPlan(lambda plan: frozenset(type(part) for part in walk(plan)))
_equal_columns = PerPlan(_columns_to_equal)
_over_given = PerPlan(
    lambda plan: plan.with_inputs(tuple(Given(str(i), child.schema) for i, child in enumerate(plan.inputs())))
)


def _effort(plan: Plan, given: Mapping[str, Rows]) -> int:
    """About how many rows the operators of the plan see."""
    match plan:
        case Given(name=name):
            return given[name].count
        case Values(rows=rows):
            return len(rows)
        case Join(left=left, right=right) if not _equal_columns(plan)[0]:
            return max(1, _effort(left, given)) * max(1, _effort(right, given))
    return sum(_effort(child, given) for child in plan.inputs())
