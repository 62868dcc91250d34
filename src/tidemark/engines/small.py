"""Plans over a handful of given rows, evaluated right here.

A statement of an engine costs about a millisecond before it reads its first row, and most steps of a small transaction
look at a few rows of deltas and at nothing stored. The reference engine's interpreter answers those at once, with the
meanings that every engine is tested against.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from tidemark.algebra.plans import Given, Join, Plan, Stored, Values, walk
from tidemark.engines.reference.arrow import from_bag, to_bag
from tidemark.engines.reference.evaluate import evaluate

MOST_ROWS: Final = 150


def evaluate_small(plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table | None:
    """The plan's net rows, or None if it reads something stored or more than a handful of rows."""
    if any(isinstance(part, Stored) for part in walk(plan)) or _effort(plan, given) > MOST_ROWS:
        return None
    needed = {part.name for part in walk(plan) if isinstance(part, Given)}
    return from_bag(evaluate(plan, {}, {name: to_bag(given[name]) for name in needed}), plan.schema)


def _effort(plan: Plan, given: Mapping[str, pa.Table]) -> int:
    """At most how many rows any operator of the plan sees."""
    match plan:
        case Given(name=name):
            return int(given[name].num_rows)
        case Values(rows=rows):
            return len(rows)
        case Join(left=left, right=right):
            return max(1, _effort(left, given)) * max(1, _effort(right, given))
    return sum(_effort(child, given) for child in plan.inputs())
