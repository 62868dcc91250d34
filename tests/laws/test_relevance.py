"""What matters to a plan: the columns that it reads, and of a delta what does not cancel in those."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.passes.test_fixtures import bound
from tidemark.algebra.columns import columns_read
from tidemark.storage.delta import Rows
from tidemark.strategy.irrelevant import relevant, relevant_of_many

VALUES = st.one_of(st.none(), st.integers(0, 2))
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES, st.integers(-2, 2).filter(bool)), max_size=8)


def summed(delta: pa.Table, columns: frozenset[int]) -> dict[tuple[object, ...], int]:
    found: Counter[tuple[object, ...]] = Counter()
    for *row, weight in zip(*(column.to_pylist() for column in delta.columns), strict=True):
        found[tuple(row[index] for index in sorted(columns))] += weight
    return {row: weight for row, weight in found.items() if weight}


@given(rows=ROWS, columns=st.frozensets(st.integers(0, 2)))
def test_the_columns_that_are_read_change_alike(rows: list[tuple[int | None, ...]], columns: frozenset[int]) -> None:
    cells = [pa.array([row[index] for row in rows], pa.int64()) for index in range(4)]
    delta = pa.table(cells, ["a", "b", "c", "_weight"])
    for left in (relevant(Rows.of(delta), columns).table, relevant_of_many(delta, columns)):
        assert summed(left, columns) == summed(delta, columns)
        assert left.schema == delta.schema
        if len(columns) < 3 and not summed(delta, columns):
            assert left.num_rows == 0 or delta.num_rows < 2


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("SELECT a FROM r", {"r": {0}}),
        ("SELECT a FROM r WHERE b > 1", {"r": {0, 1}}),
        ("SELECT COUNT(*) AS n FROM r", {"r": set()}),
        ("SELECT a, COUNT(*) AS n FROM r GROUP BY a", {"r": {0}}),
        ("SELECT r.a FROM r JOIN s ON s.b = r.b", {"r": {0, 1}, "s": {0}}),
        ("SELECT q.a FROM r AS q, r AS p WHERE p.a = q.a", {"r": {0}}),
        ("SELECT a FROM (SELECT a, b + c AS x FROM r JOIN s USING (b)) AS q", {"r": {0, 1}, "s": {0, 1}}),
        ("SELECT a FROM (SELECT a, b FROM r UNION ALL SELECT c, b FROM s) AS q", {"r": {0}, "s": {1}}),
        ("SELECT a FROM (SELECT DISTINCT a, b FROM r) AS q", {"r": {0, 1}}),
        ("SELECT a FROM (SELECT a, b FROM r EXCEPT SELECT b, c FROM s) AS q", {"r": {0, 1}, "s": {0, 1}}),
        (
            "WITH RECURSIVE up(b) AS (SELECT b FROM r WHERE a > 1 UNION SELECT s.b FROM s JOIN up ON up.b = s.b "
            "WHERE s.b IS NOT NULL) SELECT b FROM up",
            {"r": {0, 1}, "s": {0}},
        ),
    ],
)
def test_the_columns_that_matter(query: str, read: dict[str, set[int]]) -> None:
    """A sum matters although it is not shown: it can be out of range."""
    assert columns_read(bound(query)) == read
