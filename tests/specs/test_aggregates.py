"""What the rows of the table of aggregates say is true of their meanings."""

from __future__ import annotations

import pytest

from tidemark.algebra.aggregate_table import AGGREGATES, Aggregation, Upkeep
from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.expressions import Column, Value
from tidemark.algebra.types import DOUBLE, INT, Type
from tidemark.engines.reference.grouping import aggregate_value

GROUP: dict[tuple[Value, ...], int] = {(3,): 2, (1,): 1, (None,): 1, (7,): 1}


def call(row: Aggregation, type: Type = INT) -> AggregateCall:
    argument = None if row.function is AggregateFunction.COUNT_ROWS else Column(0, "x", type, True)
    return AggregateCall(row.function, argument, fraction=0.5 if row.has_fraction else None)


rows = pytest.mark.parametrize("row", AGGREGATES.values(), ids=lambda row: row.function.name)


def test_every_aggregate_has_its_row() -> None:
    assert list(AGGREGATES) == list(AggregateFunction)
    assert all(function.row.function is function for function in AggregateFunction)


@rows
def test_the_value_over_no_rows_is_what_the_row_says(row: Aggregation) -> None:
    assert aggregate_value(call(row), {}) == row.empty


@rows
def test_what_does_not_see_null_has_the_same_value_without_it(row: Aggregation) -> None:
    without = {key: weight for key, weight in GROUP.items() if key != (None,)}
    is_same = row.fails is None and aggregate_value(call(row), GROUP) == aggregate_value(call(row), without)
    assert is_same == (not row.sees_nulls and row.function is not AggregateFunction.COUNT_ROWS)


@rows
def test_what_adds_up_does_so_over_two_halves_of_a_group(row: Aggregation) -> None:
    halves = [dict(list(GROUP.items())[:2]), dict(list(GROUP.items())[2:])]
    values = [aggregate_value(call(row), half) for half in halves if not row.fails]
    numbers = [value for value in values if isinstance(value, int)]
    added = row.fails is None and sum(numbers) == aggregate_value(call(row), GROUP)
    assert added == call(row).adds_up


@rows
def test_a_weight_stands_for_copies_unless_each_of_them_counts(row: Aggregation) -> None:
    """Rows that are there once may stand for all copies only of extrema; counts and exact sums weigh them."""
    if row.upkeep is Upkeep.EXTREMUM:
        once = dict.fromkeys(GROUP, 1)
        assert aggregate_value(call(row), once) == aggregate_value(call(row), GROUP)
    assert row.counts_copies == (row.upkeep in (Upkeep.SUM, Upkeep.AGAIN) and row.fails is None)


@rows
def test_an_extremum_beats_every_other_value(row: Aggregation) -> None:
    assert (row.beats is not None) == (row.upkeep is Upkeep.EXTREMUM)
    if row.beats is not None:
        best = aggregate_value(call(row), GROUP)
        assert best == {"le": 1, "ge": 7}[row.beats]


@rows
def test_only_what_adds_doubles_is_approximate(row: Aggregation) -> None:
    assert call(row, DOUBLE).is_approximate == row.adds_doubles
    assert not call(row, INT).is_approximate or row.result(INT) == DOUBLE
