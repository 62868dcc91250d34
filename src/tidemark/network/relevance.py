"""What of a change matters to a node: entries that do not cancel in the columns that it reads, and pass its filter.

    Δ' = Δ without the entries whose weights add up to zero for each combination of those columns

A node's rows are a function of those columns (``columns_read``), and in them Δ' is as good as Δ. An update of a
comment, say, is nothing to a view that does not show it: if nothing remains, the node is not affected at all.

Rows that cannot reach the node have no effect on it either: for these there is a filter over the changed relation's own
columns (``analysis.relevance``, Algorithm 3.1).

A delta of which nearly everything matters is left as it is, so that all who read it ask the same of what is stored.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.plans import Filter
from tidemark.algebra.reading import Columns
from tidemark.engines import arrow_filters
from tidemark.engines.base import Engine
from tidemark.log import deltas as delta_tables
from tidemark.log.codes import with_codes

ROWS: Final = "rows"
WORTHWHILE: Final = 0.25
"""The share of a delta's entries that must cancel for leaving them out to be worth while."""


def relevant(delta: pa.Table, columns: Columns) -> pa.Table:
    """The entries that matter to who reads these columns; the same table if nearly all do.

    >>> delta = pa.table({"k": [1, 1, 2], "note": ["a", "b", "c"], "_weight": pa.array([-1, 1, 1], pa.int64())})
    >>> relevant(delta, frozenset({0})).to_pylist()
    [{'k': 2, 'note': 'c', '_weight': 1}]
    >>> relevant(delta, frozenset({0, 1})).num_rows
    3
    """
    width = delta.num_columns - 1
    if len(columns) >= width or delta.num_rows < 2:
        return delta
    if delta.num_rows <= delta_tables.FEW and not any(
        delta_tables.has_forms(delta.schema.types[index]) for index in columns
    ):
        return _relevant_of_few(delta, columns)
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


def _relevant_of_few(delta: pa.Table, columns: Columns) -> pa.Table:
    """The same entry by entry, which for a few takes less than calling Arrow."""
    listed = delta_tables.weights(delta)
    read = [delta.column(index).to_pylist() for index in sorted(columns)]
    rows = list(zip(*read, strict=True)) if read else [()] * len(listed)
    totals: dict[tuple[object, ...], int] = {}
    for row, weight in zip(rows, listed, strict=True):
        totals[row] = totals.get(row, 0) + weight
    kept = [place for place, row in enumerate(rows) if totals[row]]
    if len(listed) - len(kept) < len(listed) * WORTHWHILE:
        return delta
    return delta.take(pa.array(kept, pa.int64()))


def passing(delta: pa.Table, filter: Filter, engine: Engine) -> pa.Table:
    """The entries that a filter (over the given ``ROWS``) lets pass; the same table if it does all."""
    if not delta.num_rows:
        return delta
    # What is chosen of net entries is net, so plain conditions, which most are, need no engine.
    passed = arrow_filters.passing(delta, filter.predicate)
    if passed is None:
        passed = engine.evaluate(filter, {ROWS: delta})
    return delta if passed.num_rows == delta.num_rows else passed
