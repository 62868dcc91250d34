"""Where a plan runs: on Spark, or in this process.

In this process run the plans that read no stored relation (deltas alone), point reads (selections, projections and
restrictions to touched keys of *one* stored relation), and what follows from small deltas, as long as the stored
relations under its scans are not too large for one process: milliseconds here, hundreds of them on Spark. Joins of
stored relations and groupings of stored data are Spark's. The choice is made before anything runs, from the plan and
the numbers of rows; an error is an error, and nothing is tried again on the other side.

``is_small`` estimates which parts of a plan give few rows, because Spark cannot: what is joined with or restricted
to a small delta is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemark.algebra.cache import leaves_read
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Given,
    Intersection,
    Join,
    Plan,
    Stored,
    Touched,
    Union,
    Values,
    empty,
    transform,
    walk,
)
from tidemark.engines.engine import Iteration
from tidemark.engines.limits import SPARK
from tidemark.engines.spark.relations import Relations
from tidemark.engines.spark.session import Options


@dataclass(frozen=True)
class Sizes:
    """The rows of the given relations, and up to which size one is small."""

    given: Mapping[str, int]
    limit: int
    fan_out: int = SPARK.fan_out

    @property
    def are_few(self) -> bool:
        """Whether even a join with fan-out stays small."""
        return max(self.given.values(), default=0) <= self.limit // self.fan_out


def is_small(plan: Plan, sizes: Sizes) -> bool:
    """Whether the plan gives few rows, as far as its shape tells: joins with a small delta are taken to be small."""
    match plan:
        case Values():
            return True
        case Given(name=name):
            return sizes.given[name] <= sizes.limit
        case Stored():
            # Even a short one: joined with a long one it gives as many rows as the long one has.
            return False
        case Union(parts=parts):
            return all(is_small(part, sizes) for part in parts)
        case Touched(input=source, touched=touched):
            return is_small(touched, sizes) or is_small(source, sizes)
        case Join(left=left, right=right):
            small = [side for side in (left, right) if is_small(side, sizes)]
            return len(small) == 2 or any(drives_joins(side, sizes) for side in small)
    return all(is_small(child, sizes) for child in plan.inputs())


def drives_joins(plan: Plan, sizes: Sizes) -> bool:
    """Whether a join is best started here: a small delta. VALUES are not, since most rows may meet one of them."""
    return _is_delta(plan) and is_small(plan, sizes)


def _is_delta(plan: Plan) -> bool:
    return any(isinstance(part, Given) for part in walk(plan))


def without_empty(plan: Plan, stored_rows: Mapping[str, int]) -> Plan:
    """The plan with every stored relation that has no rows replaced by the empty relation: nothing to read there."""

    def change(part: Plan) -> Plan | None:
        if isinstance(part, Stored) and stored_rows[part.relation] == 0:
            return empty(part.schema)
        return None

    return transform(plan, change)


def runs_in_process(plan: Plan, given: Mapping[str, pa.Table], relations: Relations, options: Options) -> bool:
    """Whether the plan reads only deltas, or is a point read of one stored relation, or starts at small deltas.

    A grouping of one of the network's inner states that has few rows counts as a point read too.
    """
    if reads_nothing(plan, relations, options):
        return True
    names = _stored_names(plan)
    if _is_local_differential(plan, given, relations, options):
        return True
    if len(names) > 1:
        return False
    (relation,) = (relations[name] for name in names)
    if relation.internal and relation.rows <= options.state_rows:
        return True
    return relation.rows <= options.point_rows and not any(_is_bulk_step(part) for part in walk(plan))


def iterates_in_process(iteration: Iteration, relations: Relations, options: Options) -> bool:
    """Whether the relations that a recursion reads are small enough for one process."""
    names = {name for plan in iteration.plans for name in _stored_names(plan)}
    rows = sum(relations[name].rows for name in names)
    return rows <= max(options.iteration_rows, options.in_process_rows)


def _is_local_differential(plan: Plan, given: Mapping[str, pa.Table], relations: Relations, options: Options) -> bool:
    """Whether the plan gives few rows, found among stored rows that are not too many for one process."""
    scanned = sum(
        relations[leaf.relation].rows * times for leaf, times in leaves_read(plan) if isinstance(leaf, Stored)
    )
    sizes = Sizes(rows_of(plan, given), options.broadcast_rows)
    return scanned <= options.local_rows and is_small(plan, sizes)


def rows_of(plan: Plan, given: Mapping[str, pa.Table]) -> dict[str, int]:
    """The sizes of the given relations that the plan reads."""
    return {part.name: given[part.name].num_rows for part in walk(plan) if isinstance(part, Given)}


def reads_nothing(plan: Plan, relations: Relations, options: Options) -> bool:
    """Whether the plan reads no stored relation, or none to speak of if the options say how many rows that is."""
    return sum(relations[name].rows for name in _stored_names(plan)) <= options.in_process_rows


def _stored_names(plan: Plan) -> set[str]:
    return {part.relation for part in walk(plan) if isinstance(part, Stored)}


def _is_bulk_step(plan: Plan) -> bool:
    match plan:
        case Aggregate(input=source) | Distinct(input=source):
            return _scans(source)
        case Difference(left=left, right=right) | Intersection(left=left, right=right):
            return _scans(left) or _scans(right)
        case Join(left=left, right=right):
            return _scans(left) and _scans(right)
    return False


def _scans(plan: Plan) -> bool:
    """Whether a stored relation is read in full below, that is, not restricted to touched keys or a delta's keys."""
    match plan:
        case Stored():
            return True
        case Touched(input=source, touched=touched):
            return _scans(touched) or (_scans(source) and not plan.keys)
        case Join(left=left, right=right):
            return _scans(left) and _scans(right)
    return any(_scans(child) for child in plan.inputs())
