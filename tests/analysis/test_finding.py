"""Finding the filters that rows pass, against trying each filter."""

from __future__ import annotations

import time

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.conditions import NUMBERS, all_rows, call, conditions, number
from tidemark.algebra.expressions import Column, Expression, Literal, conjunction
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import INT, VARCHAR
from tidemark.analysis.relevance.index import Finder, Intervals

ROWS = all_rows(NUMBERS)
FILTERS = st.lists(st.one_of(st.none(), conditions(simple=True)), max_size=12)


@given(filters=FILTERS, rows=st.lists(st.sampled_from(ROWS), max_size=40))
def test_who_is_found_are_those_whose_filter_is_true(
    filters: list[Expression | None], rows: list[tuple[int | None, ...]]
) -> None:
    finder = Finder(enumerate(filters))
    expected = {
        owner
        for owner, condition in enumerate(filters)
        if rows and (condition is None or any(value_of(condition, row) is True for row in rows))
    }
    cells = [pa.array([row[i] for row in rows], pa.int32()) for i in range(3)]
    delta = pa.table([*cells, pa.array([1] * len(rows), pa.int64())], ["a", "b", "c", "_weight"])
    for found in (finder.matching(rows), finder.among(delta)):
        assert found >= expected
        if len(rows) <= 16:
            assert found == expected


ends = st.one_of(st.none(), st.integers(0, 9))


@given(entries=st.lists(st.tuples(ends, ends)), low=st.integers(0, 9), width=st.integers(0, 5))
def test_intervals_that_overlap(entries: list[tuple[int | None, int | None]], low: int, width: int) -> None:
    found = Intervals((*entry, place) for place, entry in enumerate(entries))
    expected = [
        place
        for place, (start, end) in enumerate(entries)
        if (start is None or start <= low + width) and (end is None or end >= low)
    ]
    assert sorted(found.overlapping(low, low + width)) == expected


def test_a_few_of_ten_thousand_are_found_in_less_than_a_millisecond() -> None:
    """Ranges, equalities and text; a row that three filters let pass."""
    a, b, t = Column(0, "a", INT), Column(1, "b", INT), Column(2, "t", VARCHAR)
    filters: list[Expression] = []
    for n in range(3333):
        filters.append(conjunction((call("ge", a, number(10 * n)), call("lt", a, number(10 * n + 10)))))
        filters.append(conjunction((call("gt", b, number(5)), call("eq", a, number(n)))))
        filters.append(call("eq", t, Literal(f"name {n}", VARCHAR)))
    finder = Finder(enumerate(filters))
    delta = pa.table(
        [pa.array([1234], pa.int32()), pa.array([7], pa.int32()), pa.array(["name 99"]), pa.array([1], pa.int64())],
        ["a", "b", "t", "_weight"],
    )
    assert finder.among(delta) == {3 * 123, 3 * 1234 + 1, 3 * 99 + 2}
    best = min(_seconds(finder, delta) for _ in range(20))
    assert best < 0.001


def _seconds(finder: Finder[int], delta: pa.Table) -> float:
    start = time.perf_counter()
    finder.among(delta)
    return time.perf_counter() - start
