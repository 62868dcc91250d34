"""The conformance suite runs every test on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.support import check_invariant
from tidemark.engines.duckdb import DuckDBEngine


@pytest.fixture(params=["reference", "duckdb", "duckdb by statements", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def db(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tm.Database]:
    """A fresh database; after the test the invariant of DESIGN §1 must hold for everything in it."""
    database = open_database(engine, request, tmp_path)
    yield database
    check_invariant(database)
    database.close()


def open_database(engine: str, request: pytest.FixtureRequest, path: Path) -> tm.Database:
    if engine == "spark":
        session: Any = request.getfixturevalue("spark")
        return tm.connect(session, lake=str(path / "lake"))
    if engine == "duckdb by statements":
        return tm.Database(DuckDBEngine(by_statements=True))
    return tm.connect(engine)
