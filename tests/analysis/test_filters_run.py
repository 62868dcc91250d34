"""Filters are ordinary conditions: engines run them on any row, also at the ends of types, and they never fail."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from tests.analysis.world import World
from tests.spark_support import commit, open_engine
from tidemark.algebra.expressions import Call, Expression
from tidemark.algebra.plans import Filter, Given, Project, Stored
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import BOOLEAN, Kind
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.reference.evaluate import Bag
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.session import ON_SPARK
from tidemark.storage.commit import Creation
from tidemark.storage.delta import from_bag, to_bag

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


SCHEMA = WORLD.table("r").schema
CASES = [pytest.param(condition, read, id=name) for name, condition, read in CONDITIONS]


@pytest.fixture(scope="module", params=["in process", "by statements"])
def duckdb_engine(request: pytest.FixtureRequest) -> Iterator[DuckDBEngine]:
    engine = DuckDBEngine(by_statements=request.param == "by statements")
    engine.load()
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def spark_engine(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    engine = open_engine(tmp_path_factory.mktemp("lake"), spark, **ON_SPARK)
    yield engine
    engine.close()


@pytest.mark.parametrize(("condition", "read"), CASES)
def test_duckdb_runs_a_filter_on_rows_at_the_ends_of_types(
    duckdb_engine: DuckDBEngine, condition: str, read: list[str]
) -> None:
    found, rows = filter_and_rows(condition, read)
    given = {"delta": from_bag(rows, SCHEMA)}
    assert to_bag(duckdb_engine.evaluate(Filter(Given("delta", SCHEMA), found), given)) == passing(found, rows)


@pytest.mark.spark
def test_spark_runs_filters_on_rows_at_the_ends_of_types(spark_engine: SparkEngine) -> None:
    """Rows that are stored, because what is only given never reaches Spark."""
    cases = [filter_and_rows(condition, read) for _, condition, read in CONDITIONS]
    every = {row: 1 for _, rows in cases for row in rows}
    commit(spark_engine, {"r": from_bag(every, SCHEMA)}, created=(Creation("r", SCHEMA),))
    stored = Stored("r", SCHEMA)
    answers = tuple(Call("is_true", (found,), BOOLEAN, nullable=False) for found, _ in cases)
    names = SCHEMA.names + tuple(f"answer{place}" for place in range(len(answers)))
    result = to_bag(spark_engine.evaluate(Project(stored, names, stored.columns() + answers), {}))
    assert result == {row + tuple(value_of(found, row) is True for found, _ in cases): 1 for row in every}


def filter_and_rows(condition: str, read: list[str]) -> tuple[Expression, Bag]:
    """The filter of a view, and rows with all combinations of values in the columns that it reads."""
    found = WORLD.influence(f"SELECT r.i FROM r, s WHERE {condition}", "r").filter
    assert found is not None, "this view should have a filter"
    cells = [[*ENDS[field.type.kind], None] if field.name in read else [None] for field in SCHEMA]
    rows = dict.fromkeys(product(*cells), 1)
    assert 0 < len(passing(found, rows)) < len(rows)
    return found, rows


def passing(condition: Expression, rows: Bag) -> Bag:
    return {row: weight for row, weight in rows.items() if value_of(condition, row) is True}
