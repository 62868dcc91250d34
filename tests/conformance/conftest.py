"""The conformance suite runs every test on every engine."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.effort import IS_QUICK, LEVEL
from tests.support import DUCKDB_ENGINES, check_invariant
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.session import IN_PROCESS, ON_SPARK
from tidemark.session.options import AllowedPaths

SPARK: dict[str, dict[str, Any]] = {"spark": {}, "spark forced": ON_SPARK, "spark in process": IN_PROCESS}
"""As users have it; with all that is stored read by Spark; with statements of this process alone."""
FORCED = "spark forced"
AHEAD = "duckdb ahead"
"""Its forced prices have small changes written ahead, and what is cheaper so evaluated anew."""
HERE = ("reference", *DUCKDB_ENGINES)
OTHER_WAYS = ("duckdb arranged", "duckdb held", "duckdb off", "duckdb starved", AHEAD)
"""The full run has two of them for each test, the long one all."""
QUICK_WAYS = (
    *("duckdb", "duckdb by statements", "duckdb held", "duckdb arranged", "duckdb"),
    *("duckdb off", "duckdb starved"),
)
"""Beside the reference the quick run has one of them for each test, the same one each time."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test runs on every engine.

    On Spark a test takes seconds, so a module whose tests look at one side of it only names the variants that can tell
    anything new, as ``SPARK_VARIANTS``: what an expression means is seen when Spark evaluates it, and what a statement
    of the facade does is seen as users have it. A test may also name its engines itself. On other
    kinds of sessions (``make test-cluster``) all variants are there; in the quick run there is one.
    """
    named = any("engine" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if named or "engine" not in metafunc.fixturenames:
        return
    is_local = os.environ.get("TIDEMARK_TEST_SPARK", "local") == "local"
    variants = getattr(metafunc.module, "SPARK_VARIANTS", tuple(SPARK)) if is_local else tuple(SPARK)
    if IS_QUICK:
        variants = variants[:1] if FORCED not in variants else (FORCED,)
    on_spark = [pytest.param(name, marks=pytest.mark.spark) for name in variants]
    number = zlib.crc32(metafunc.definition.nodeid.encode())
    here = ("reference", QUICK_WAYS[number % len(QUICK_WAYS)]) if IS_QUICK else HERE
    if LEVEL == "all":
        left = {OTHER_WAYS[(number + step) % len(OTHER_WAYS)] for step in (1, 3, 4)}
        here = tuple(name for name in HERE if name not in left)
    if metafunc.definition.get_closest_marker("small") is not None:
        here = tuple(name for name in here if name != AHEAD)
    metafunc.parametrize("engine", [*here, *on_spark], indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def db(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tm.Database]:
    """A fresh database; after the test the invariant of DESIGN §1 must hold for everything in it."""
    database = open_database(engine, request, tmp_path)
    yield database
    check_invariant(database)
    database.close()


def open_database(engine: str, request: pytest.FixtureRequest, path: Path, allowed: Sequence[Path] = ()) -> tm.Database:
    paths = AllowedPaths(allowed)
    if engine in SPARK:
        session: Any = request.getfixturevalue("spark")
        return tm.Database(SparkEngine(str(path / "lake"), session, **SPARK[engine]), allowed=paths)
    if engine in DUCKDB_ENGINES:
        return tm.Database(DUCKDB_ENGINES[engine](), allowed=paths)
    return tm.connect(engine, allow_paths=allowed)
