"""Filters are ordinary conditions: engines run them on any row, also at the ends of types, and they never fail."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from tests.analysis.world import World
from tidemark.algebra.plans import Filter, Given
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import Kind, Type
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.reference.arrow import from_bag, to_bag

WORLD = World(
    (
        "CREATE TABLE r (i INT, k SMALLINT, n BIGINT, d DATE, x DECIMAL(38,2), t VARCHAR, u TIMESTAMP, e DATE)",
        "CREATE TABLE s (i INT, k SMALLINT, n BIGINT, d DATE, x DECIMAL(38,2), t VARCHAR, u TIMESTAMP, e DATE)",
    )
)
ENDS: dict[Kind, list[Any]] = {
    Kind.SMALLINT: [-(2**15), 0, 7, 2**15 - 1],
    Kind.INT: [-(2**31), 0, 7, 2**31 - 1],
    Kind.BIGINT: [-(2**63), 0, 7, 2**63 - 1],
    Kind.DATE: [dt.date.min, dt.date(2024, 2, 29), dt.date.max],
    Kind.TIMESTAMP: [dt.datetime.min, dt.datetime(2024, 2, 29, 12), dt.datetime.max],
    Kind.DECIMAL: [Decimal("-" + 36 * "9" + ".99"), Decimal("0.00"), Decimal("7.25"), Decimal(30 * "9" + ".98")],
    Kind.VARCHAR: ["", "a", "m'm", "n", "z"],
}
CONDITIONS = [
    ("i", "r.i + 5 <= s.i AND s.i < 100", ["i"]),
    ("distance of integers", "r.i < s.i AND s.i < r.k", ["i", "k"]),
    ("distance of big integers", "r.n < s.n AND s.n < s.i AND s.i < r.i", ["n", "i"]),
    ("a distance with a constant", "r.i + 3 < s.i AND s.i < r.k + 9 AND r.k > 0", ["i", "k"]),
    ("distance of days", "r.d < s.d AND s.d < r.e", ["d", "e"]),
    ("days", "r.d + 1 = s.d AND s.d >= DATE '2024-03-01'", ["d"]),
    ("decimals", "r.x = s.x AND s.x BETWEEN 1 AND 9.5", ["x"]),
    ("long decimals", f"r.x <= s.x AND s.x < {30 * '9'}.99", ["x"]),
    ("texts", "r.t > s.t AND s.t >= 'm''m' AND r.t <> 'z'", ["t"]),
    (
        "alternatives",
        "(r.i = s.i AND s.k = 3 AND r.t = 'a') OR (r.i > s.k AND s.k > 5 AND r.k IS NULL)",
        ["i", "k", "t"],
    ),
    ("what can fail", "r.i > 0 AND 10 / s.k > r.k AND r.i * 2 = s.i AND r.n > 3", ["i", "k", "n"]),
    ("moments", "r.u < s.u AND s.u < TIMESTAMP '2024-02-29 12:00:00'", ["u"]),
]


def values_of(type: Type) -> list[Any]:
    return [*ENDS[type.kind], None]


@pytest.fixture(scope="module", params=["in process", "by statements"])
def engine(request: pytest.FixtureRequest) -> Iterator[DuckDBEngine]:
    engine = DuckDBEngine(by_statements=request.param == "by statements")
    engine.load()
    yield engine
    engine.close()


@pytest.mark.parametrize(("condition", "read"), [case[1:] for case in CONDITIONS], ids=[case[0] for case in CONDITIONS])
def test_a_filter_runs_alike_on_rows_at_the_ends_of_types(
    engine: DuckDBEngine, condition: str, read: list[str]
) -> None:
    schema = WORLD.table("r").schema
    found = WORLD.influence(f"SELECT r.i FROM r, s WHERE {condition}", "r")
    assert found.filter is not None, "this view should have a filter"
    cells = [values_of(field.type) if field.name in read else [None] for field in schema]
    bag = dict.fromkeys(product(*cells), 1)
    expected = {row: 1 for row in bag if value_of(found.filter, row) is True}
    assert 0 < len(expected) < len(bag)
    filtered = engine.evaluate(Filter(Given("delta", schema), found.filter), {"delta": from_bag(bag, schema)})
    assert to_bag(filtered) == expected
