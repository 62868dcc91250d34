"""What of a change matters to a node: entries that do not cancel in the columns that it reads, and pass its filter.

    Δ' = Δ without the entries whose weights add up to zero for each combination of those columns

A node's rows are a function of those columns (``columns_read``), and in them Δ' is as good as Δ. An update of a
comment, say, is nothing to a view that does not show it: if nothing remains, the node is not affected at all.

Rows that cannot reach the node have no effect on it either: for these there is a filter over the changed relation's own
columns (``analysis.relevance``, Algorithm 3.1).

What has no row, as the violations of an assertion, cannot lose one: of a change that can only take rows from it nothing
is followed.

A delta of which nearly everything matters is left as it is, so that all who read it ask the same of what is stored, and
so is one whose rows lie in files: no row of it is looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.cache import PerPlan
from tidemark.algebra.columns import Columns
from tidemark.algebra.compiled import Of, holds, key_of
from tidemark.algebra.plans import Distinct, Filter, Join, Negate, Plan, Project, Scan, Union, Unnest, relations_of
from tidemark.algebra.scalar import Row
from tidemark.engines.local import vectors
from tidemark.storage.batches import Batch
from tidemark.storage.delta import Rows, entries_of, with_codes

ROWS: Final = "rows"
WORTHWHILE: Final = 0.25
"""The share of a delta's entries that must cancel for leaving them out to be worth while."""


def relevant(delta: Rows, columns: Columns) -> Rows:
    """The entries that matter to who reads these columns; the same rows if nearly all do."""
    if delta.count < 2 or delta.is_by_reference:
        return delta
    if not delta.is_few:
        return _same(delta, relevant_of_many(delta.table, columns))
    entries = entries_of(delta.net)
    weights = [weight for _, weight in entries]
    rows = [row for row, _ in entries]
    if len(columns) >= len(rows[0]) or min(weights) > 0 or max(weights) < 0:
        return delta
    keys = list(map(_read_by(columns), rows))
    totals: dict[Row, int] = {}
    for key, weight in zip(keys, weights, strict=True):
        totals[key] = totals.get(key, 0) + weight
    if len(totals) == len(entries):
        return delta
    kept = [entry for key, entry in zip(keys, entries, strict=True) if totals[key]]
    return delta if delta.count - len(kept) < delta.count * WORTHWHILE else delta.chosen(kept)


@lru_cache(maxsize=1_024)
def _read_by(columns: Columns) -> Callable[[Row], Row]:
    return key_of(sorted(columns))


def _same(before: Rows, after: pa.Table) -> Rows:
    return before if after is before.table else Rows.of(after)


def relevant_of_many(delta: pa.Table, columns: Columns) -> pa.Table:
    """The same with Arrow.

    >>> delta = pa.table({"k": [1, 1, 2], "note": ["a", "b", "c"], "_weight": pa.array([-1, 1, 1], pa.int64())})
    >>> relevant_of_many(delta, frozenset({0})).to_pylist()
    [{'k': 2, 'note': 'c', '_weight': 1}]
    >>> relevant_of_many(delta, frozenset({0, 1})).num_rows
    3
    """
    width = delta.num_columns - 1
    if len(columns) >= width or delta.num_rows < 2:
        return delta
    weights = delta.column(width)
    signs = pc.min_max(weights).as_py()
    if signs["min"] > 0 or signs["max"] < 0:
        return delta
    if not columns:
        return delta if pc.sum(weights).as_py() else delta.slice(0, 0)
    names = [f"c{index}" for index in sorted(columns)]
    parts = [delta.column(index) for index in sorted(columns)]
    rows = pa.arange(0, delta.num_rows, 1)
    numbered = with_codes(pa.table([*parts, weights, rows], [*names, "weight", "row"]).combine_chunks())
    summed = numbered.group_by(names, use_threads=False).aggregate([("weight", "sum"), ("row", "count")])
    cancelled = pc.sum(summed.filter(pc.equal(summed["weight_sum"], 0))["row_count"]).as_py() or 0
    if cancelled < delta.num_rows * WORTHWHILE:
        return delta
    listed = numbered.group_by(names, use_threads=False).aggregate([("weight", "sum"), ("row", "list")])
    kept = listed.filter(pc.not_equal(listed["weight_sum"], 0))
    places = pc.list_flatten(kept["row_list"].combine_chunks())
    return delta.take(places.take(pc.sort_indices(places)))


Signs = Mapping[str, frozenset[int]]
"""For each relation below a plan, which entries of a change of it can add rows to the plan: those that come (1), those
that leave (-1), or both."""
_BOTH: Final = frozenset({1, -1})


def can_add(plan: Plan, changes: Mapping[str, Rows]) -> bool:
    """Whether these changes can add rows to the plan."""
    signs = _signs(plan)
    return any(not signs.get(name, _BOTH).isdisjoint(_signs_in(rows)) for name, rows in changes.items())


def _signs_in(rows: Rows) -> frozenset[int]:
    if rows.is_by_reference:
        return _BOTH
    if rows.is_few:
        return frozenset([-1 if weight < 0 else 1 for _, weight in entries_of(rows.net)])
    table = rows.table
    found = pc.min_max(table.column(table.num_columns - 1)).as_py()
    return frozenset(sign for sign, is_there in ((-1, found["min"] < 0), (1, found["max"] > 0)) if is_there)


def _signs_of(plan: Plan) -> Signs:
    match plan:
        case Scan(relation=relation):
            return {relation: frozenset({1})}
        case Filter() | Project() | Join() | Union() | Unnest() | Distinct():
            return _either(*map(_signs, plan.inputs()))
        case Negate(input=source):
            return {name: frozenset(-sign for sign in signs) for name, signs in _signs(source).items()}
    return dict.fromkeys(relations_of(plan), _BOTH)


def _either(*found: Signs) -> Signs:
    names = dict.fromkeys(name for signs in found for name in signs)
    return {name: frozenset().union(*(signs.get(name, frozenset()) for signs in found)) for name in names}


_signs: Final[PerPlan[Signs]] = PerPlan(_signs_of)


def passing(delta: Rows, filter: Filter) -> Rows:
    """The entries that a filter (over the given ``ROWS``) lets pass; the same rows if it does all."""
    if not delta.count or delta.is_by_reference:
        return delta
    if delta.is_few:
        test = _test(filter)
        kept = [entry for entry in entries_of(delta.net) if test(entry[0])]
        return delta if len(kept) == delta.count else delta.chosen(kept)
    passed = _chosen(filter)(delta.batch)
    return delta if len(passed) == delta.count else Rows(delta.arrow, batch=passed)


def _chosen_of(plan: Plan) -> Callable[[Batch], Batch]:
    assert isinstance(plan, Filter)
    return vectors.passing(plan.predicate)


_chosen: Final = PerPlan(_chosen_of)


def _holds(plan: Plan) -> Of:
    assert isinstance(plan, Filter)
    return holds(plan.predicate)


_test: Final = PerPlan(_holds)
