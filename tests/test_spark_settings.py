"""What a site has set for its Spark does not decide what a query answers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.support import check_invariant, rows
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.session import ON_SPARK

pytestmark = pytest.mark.spark

OF_A_SITE = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.statisticalAggregate": "true",
    "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": "true",
}
"""Such as sites have that came from an older Spark."""


class Site:
    """A session whose new sessions have the settings of the site, as those of its configuration files are."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def newSession(self) -> Any:
        session = self._session.newSession()
        for key, value in OF_A_SITE.items():
            session.conf.set(key, value)
        return session


@pytest.fixture
def engine(spark: Any, tmp_path: Path) -> SparkEngine:
    session: Any = Site(spark)
    return SparkEngine(tmp_path / "lake", session, inline_rows=0, **ON_SPARK)


def test_settings_of_a_site_change_no_answer(engine: SparkEngine) -> None:
    days = [dt.date(1, 1, 1), dt.date(1500, 2, 28), dt.date(1582, 10, 15)]
    with tm.Database(engine) as db:
        db.execute("CREATE TABLE t (k INT, day DATE, days DATE[], x DOUBLE PRECISION)")
        db.insert("t", [(number, day, [day, None], 1.5) for number, day in enumerate(days)])
        db.execute(
            "CREATE MATERIALIZED VIEW days AS SELECT DISTINCT day, days FROM t;"
            "CREATE MATERIALIZED VIEW spread AS SELECT k, VARIANCE(x) AS v FROM t GROUP BY k;"
            "INSERT INTO t SELECT k + 3, day, days, x FROM t"
        )
        for relation in ("t", "days", "spread"):
            engine.merge(relation)
        db.execute("DELETE FROM t WHERE k = 0 OR k = 3")
        assert rows(db.query("SELECT day, days FROM days")) == [(day, (day, None)) for day in days[1:]]
        assert rows(db.query("SELECT k, v FROM spread WHERE k < 3")) == [(1, None), (2, None)]
        with pytest.raises(tm.TidemarkError) as caught:
            db.query("SELECT k / (k - 1) FROM t")
        assert caught.value.code == "division_by_zero"
        check_invariant(db)


def test_a_file_that_is_lost_is_missed(engine: SparkEngine) -> None:
    with tm.Database(engine) as db:
        db.execute("CREATE TABLE t (k INT)")
        db.insert("t", [(1,), (2,)])
        db.insert("t", [(3,)])
        assert db.query("SELECT SUM(k) AS s FROM t").to_pylist() == [{"s": 6}]
        first, *_ = sorted(Path(engine.path).glob("tables/t*/*.parquet"))
        first.unlink()
        with pytest.raises(tm.TidemarkError):
            db.query("SELECT SUM(k) AS s FROM t")
