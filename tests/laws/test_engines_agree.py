"""DuckDB against the reference engine: the same plans over the same stored relations and signed deltas."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.strategies import TABLES, plans, transitions
from tests.laws.test_calculus import block_of
from tidemark.algebra.plans import Plan
from tidemark.calculus.as_of import new, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.terms import distribute
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.limits import PROCESS
from tidemark.engines.local import columns, steps
from tidemark.engines.reference.evaluate import evaluate
from tidemark.storage.commit import Commit, Creation
from tidemark.storage.delta import from_bag, to_bag


@pytest.fixture(scope="module", params=["by steps", "by columns", "by look-ups", "by statements"])
def duckdb_engine(request: pytest.FixtureRequest) -> Iterator[DuckDBEngine]:
    """One connection for all examples: opening one costs more than an example. Its ways are for deltas of different
    sizes, so those for larger ones are taken by leaving out the others."""
    engine = DuckDBEngine(by_statements=request.param == "by statements")
    engine.load()
    with pytest.MonkeyPatch.context() as patch:
        if request.param in ("by columns", "by look-ups"):
            patch.setattr(steps, "PROCESS", replace(PROCESS, few_changed=-1))
        if request.param == "by look-ups":
            patch.setattr(columns, "PROCESS", replace(PROCESS, many_changed=-1))
        yield engine
    engine.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(plans(), transitions(), st.booleans())
def test_duckdb_evaluates_differentials_as_the_reference_does(
    duckdb_engine: DuckDBEngine, plan: Plan, states: tuple[Any, Any], flat: bool
) -> None:
    block, stored, given_ = block_of(*states)
    fill(duckdb_engine, stored)
    tables = {name: from_bag(bag, TABLES[name.lstrip("Δ+-")]) for name, bag in given_.items()}
    for shape in (differentiate(plan, block.changed), new(plan)):
        resolved = resolve(shape, block)
        resolved = distribute(resolved) if flat else resolved
        expected = evaluate(resolved, stored, given_)
        assert to_bag(duckdb_engine.evaluate(resolved, tables)) == expected


def fill(engine: DuckDBEngine, stored: dict[str, Any]) -> None:
    """Make the engine hold exactly these relations."""
    engine.commit(
        Commit(
            1,
            dt.datetime(2024, 1, 1),
            dropped=tuple(engine._relations),
            created=tuple(Creation(name, TABLES[name]) for name in stored),
            deltas={name: from_bag(bag, TABLES[name]) for name, bag in stored.items()},
        )
    )
