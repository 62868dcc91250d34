"""A trigger answers when it holds and not before, however little of the log is kept; what results are cut is told."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidemark as tm
from tests.conformance.conftest import SPARK
from tests.conformance.test_continual_queries import Clock
from tests.support import rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.engine import Engine
from tidemark.engines.reference import ReferenceEngine
from tidemark.engines.spark import SparkEngine

SPARK_VARIANTS = ("spark",)
SETUP = """
CREATE TABLE t (a INT PRIMARY KEY, b INT);
CREATE TABLE other (x INT);
CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
CREATE MATERIALIZED VIEW lazy WITH (refresh = 'on read') AS SELECT a FROM t;
CREATE EXTERNAL VIEW outside AS SELECT a FROM t WHERE b = 2;
"""
Reopen = Callable[[], tm.Database]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reopen(engine: str, request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Reopen]:
    """Opens the database, and opens it again as another process would; the reference lives on."""
    opened: list[tm.Database] = []

    def open_again() -> tm.Database:
        if opened and engine == "reference":
            return opened[0]
        if opened:
            opened[-1].close()
        opened.append(tm.Database(made(), clock=clock))
        return opened[-1]

    def made() -> Engine:
        if engine in SPARK:
            session = request.getfixturevalue("spark")
            return SparkEngine(str(tmp_path / "lake"), session, **SPARK[engine])
        if engine == "reference":
            return ReferenceEngine()
        return DuckDBEngine(str(tmp_path / "file"), by_statements=engine != "duckdb", gather_at=3)

    yield open_again
    opened[-1].close()


def fill(db: tm.Database, first: int, count: int) -> None:
    for a in range(first, first + count):
        db.insert("t", [(a, a % 3)])


def numbers(reader: tm.Results) -> list[int]:
    """The numbers of the results that it reads now."""
    return [one.number for one in iter(reader.poll, None)]


def results(db: tm.Database, query: str = "q") -> int:
    shown = db.execute("SHOW CONTINUAL QUERIES")
    assert shown is not None
    return {row["name"]: row["results"] for row in shown.to_pylist()}[query]  # type: ignore[no-any-return]


def test_a_trigger_that_needs_more_than_the_log_keeps_waits_until_it_holds(reopen: Reopen) -> None:
    db = reopen()
    db.execute(SETUP)
    db.execute("CREATE CONTINUAL QUERY q AS SELECT a, b FROM t TRIGGER ON CHANGE OF 30 ROWS")
    db.execute("ALTER LOG SET (versions = 2)")
    fill(db, 0, 20)
    db.execute("DELETE FROM t WHERE a < 5")
    fill(db, 20, 10)
    assert results(db) == 0, "15 rows are there that were not, and 10 more: 25 have changed"
    db = reopen()
    fill(db, 30, 4)
    assert results(db) == 0
    fill(db, 34, 1)
    assert results(db) == 1
    found = db.results("q").poll()
    assert found is not None and rows(found.inserted) == [(a, a % 3) for a in range(5, 35)]
    assert db.audit("q").num_rows == 0


@pytest.mark.parametrize(
    "trigger",
    [
        "ON CHANGE OF 9 ROWS IN t",
        "ON CHANGE OF 9 ROWS IN lazy",
        "ON CHANGE OF 3 ROWS IN outside",
        "ON CHANGE OF 1 ROWS IN v AND ON CHANGE OF 9 ROWS",
        "WHEN COUNT(*) >= 9",
        "WHEN SUM(new.b) - SUM(old.b) >= 9 IN t",
        "WHEN (SELECT COUNT(*) FROM t) >= 9",
        "AT '0 12 * * *' AND ON CHANGE OF 9 ROWS OR ON CHANGE OF 9 ROWS IN t",
    ],
)
@pytest.mark.parametrize(
    "engine", ["reference", "duckdb", pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)
def test_whatever_it_looks_at(reopen: Reopen, trigger: str) -> None:
    db = reopen()
    db.execute(SETUP)
    db.execute(f"CREATE CONTINUAL QUERY q AS SELECT a, b FROM t TRIGGER {trigger}")
    db.execute("ALTER LOG SET (versions = 1)")
    for a in range(8):
        fill(db, a, 1)
        db.execute(f"INSERT INTO other VALUES ({a})")
        if a == 4:
            db = reopen()
    assert results(db) == 0
    fill(db, 8, 1)
    assert results(db) == 1
    found = db.results("q").poll()
    assert found is not None and len(rows(found.inserted)) == 9


def test_times_are_waited_for_though_the_log_is_cut(reopen: Reopen, clock: Clock) -> None:
    db = reopen()
    db.execute(SETUP)
    db.execute("CREATE CONTINUAL QUERY daily AS SELECT a, b FROM t TRIGGER EVERY '1 day' DELIVER COMPLETE")
    db.execute("CREATE CONTINUAL QUERY nightly AS SELECT b FROM v TRIGGER AT '@daily'")
    db.execute("ALTER LOG SET (versions = 2)")
    fill(db, 0, 9)
    clock.now += dt.timedelta(hours=3)
    fill(db, 9, 9)
    assert (results(db, "daily"), results(db, "nightly")) == (0, 0)
    clock.now += dt.timedelta(days=1)
    assert reopen().run_due() == 2
    db = reopen()
    assert (results(db, "daily"), results(db, "nightly")) == (1, 1)
    whole = db.results("daily").poll()
    assert whole is not None and len(rows(whole.rows)) == 18


def test_a_query_cannot_be_made_to_answer_early(reopen: Reopen) -> None:
    db = reopen()
    db.execute(SETUP)
    for policy in ("refresh", "invalidate"):
        with pytest.raises(tm.TidemarkError) as error:
            db.execute(f"CREATE CONTINUAL QUERY q WITH (lag = '{policy}') AS SELECT a FROM t TRIGGER ON CHANGE")
        assert error.value.code == "unsupported"
    db.execute("CREATE CONTINUAL QUERY q WITH (lag = 'keep') AS SELECT a FROM t TRIGGER ON CHANGE")


def test_a_reader_is_told_which_results_are_gone_and_goes_on_with_the_oldest(reopen: Reopen) -> None:
    db = reopen()
    db.execute(SETUP)
    db.execute("CREATE CONTINUAL QUERY q AS SELECT a, b FROM t TRIGGER ON CHANGE")
    fill(db, 0, 10)
    assert numbers(db.results("q")) == list(range(1, 11)), "all are kept"
    db.execute("ALTER LOG SET (versions = 6)")
    oldest = min(db._continual.results_of("q"))
    assert 3 < oldest < 9
    for name in (None, "new"):
        with db.results("q", after=1, name=name) as reader:
            with pytest.raises(tm.TidemarkError) as error:
                reader.poll()
            assert error.value.code == "version"
            assert f"results 2 to {oldest - 1} of 'q' are no longer kept" in error.value.message
            assert f"the oldest that is kept is {oldest}" in str(error.value.hint)
            assert numbers(reader) == list(range(oldest, 11))
    db = reopen()
    with db.results("q", name="new") as again:
        assert again.poll() is None, "it has read them all"
        fill(db, 10, 5)
        assert numbers(again) == list(range(11, 16))
    with db.results("q", after=oldest - 2) as one_short, pytest.raises(tm.TidemarkError, match="no longer kept"):
        one_short.poll()


def test_a_reader_that_has_not_been_told_is_told_when_it_comes_again(reopen: Reopen) -> None:
    db = reopen()
    db.execute(SETUP)
    db.execute("CREATE CONTINUAL QUERY q AS SELECT a, b FROM t TRIGGER ON CHANGE")
    fill(db, 0, 10)
    db.execute("ALTER LOG SET (versions = 2)")
    db.results("q", name="late").close()
    db = reopen()
    with db.results("q", name="late") as late, pytest.raises(tm.TidemarkError, match="results 1 to"):
        late.poll()
    with db.results("q", name="late") as late:
        found = late.poll()
        assert found is not None and found.number == min(db._continual.results_of("q"))
