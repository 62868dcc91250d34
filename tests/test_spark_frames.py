"""DataFrames of the user's own Spark session: what goes in, and what ``db.table`` gives out."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemark as tm
from tests.laws.upserts import play
from tests.support import bag_of, rows
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.frames import local_frame

pytestmark = pytest.mark.spark

KINDS = """
CREATE TABLE t (
    a BIGINT, b VARCHAR, c DOUBLE, d TIMESTAMP, e DATE, m DECIMAL(9, 2), l INT[], s STRUCT(x INT, y VARCHAR)
);
"""
ROW = (1, "x", 0.5, dt.datetime(1, 1, 1), dt.date(9999, 12, 31), Decimal("1.50"), [1, None], (1, None))
OTHERS: list[tuple[Any, ...]] = [
    (2, "y", math.nan, None, None, None, [], None),
    (None, None, None, None, None, None, None, None),
    (3, "z", -0.0, dt.datetime(2026, 1, 1, 0, 0, 0, 1), dt.date(1500, 1, 1), Decimal("-0.01"), None, (None, "q")),
]


def lake(path: Path, session: Any, **options: Any) -> tm.Database:
    """A lake whose files hold all but the smallest changes."""
    return tm.Database(SparkEngine(str(path), session, **{"inline_rows": 2, "merge_rows": 10**9, **options}))


def test_a_frame_has_files_and_tail_with_every_row_as_often_as_it_is_there(spark: Any, tmp_path: Path) -> None:
    with lake(tmp_path / "lake", spark, merge_minimum=10**9) as db:
        db.execute(KINDS)
        t = db.table("t")
        assert rows(t.spark(spark).toArrow()) == []
        db.insert("t", [ROW, ROW, ROW, *OTHERS, *OTHERS])
        assert bag_of(t.spark().toArrow()) == bag_of(t.arrow())
        before = t.spark(spark)
        db.delete("t", [ROW, OTHERS[0], OTHERS[1], OTHERS[1]])
        db.insert("t", [OTHERS[2]])
        found = t.spark(spark)
        assert found.count() == t.arrow().num_rows == 6
        assert bag_of(found.toArrow()) == bag_of(t.arrow())
        assert before.count() == 9  # it is what it was
        assert found.columns == list(t.columns)
        assert [kind for _, kind in found.dtypes][:6] == [
            *("bigint", "string", "double", "timestamp_ntz", "date", "decimal(9,2)")
        ]


def test_what_is_not_stored_goes_to_spark_as_arrow(spark: Any, tmp_path: Path) -> None:
    with lake(tmp_path / "lake", spark) as db:
        db.execute("CREATE TABLE t (a INT, d TIMESTAMP); CREATE VIEW v AS SELECT a + 1 AS b, d FROM t")
        db.execute("CREATE MATERIALIZED VIEW kept AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        db.insert("t", [(1, None), (2, dt.datetime(2026, 1, 1))])
        assert rows(db.table("v").spark(spark).toArrow()) == rows(db.query("SELECT * FROM v"))
        assert rows(db.table("kept").spark(spark).toArrow()) == [(1, 1), (2, 1)]
        assert rows(db.table("t").limit(1).spark(spark).toArrow()) == [(1, None)]
        db.execute("BEGIN; INSERT INTO t VALUES (3, NULL)")
        assert db.table("t").spark(spark).count() == 3
        db.execute("ROLLBACK")
        assert db.table("t").spark(spark).count() == 2
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT, d TIMESTAMP); INSERT INTO t VALUES (1, TIMESTAMP '2026-01-01 00:00:00')")
        assert rows(db.table("t").spark(spark).toArrow()) == [(1, dt.datetime(2026, 1, 1))]


@pytest.mark.parametrize("engine", ["reference", "duckdb", "spark"])
def test_a_spark_frame_goes_in_whole_or_not_at_all(engine: str, spark: Any, tmp_path: Path) -> None:
    with tm.connect(engine) if engine != "spark" else lake(tmp_path / "lake", spark) as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR, d TIMESTAMP, m DECIMAL(6, 2))")
        frame = spark.sql(
            "SELECT CAST(1.50 AS DECIMAL(20, 5)) AS m, 'x' AS b, TIMESTAMP_NTZ '2026-01-01 12:00:00' AS d, 1L AS a "
            "UNION ALL SELECT NULL, NULL, NULL, 2L"
        )
        db.insert("t", frame)
        assert rows(db.query("SELECT * FROM t")) == [
            (1, "x", dt.datetime(2026, 1, 1, 12), Decimal("1.50")),
            (2, None, None, None),
        ]
        db.upsert("t", spark.sql("SELECT 2 AS a, 'y' AS b, DATE '2026-01-01' AS d, 7 AS m"))
        assert rows(db.query("SELECT a, b, m FROM t")) == [(1, "x", Decimal("1.50")), (2, "y", Decimal("7.00"))]
        assert db.sync("t", frame) == tm.Synced(1, 1)
        db.delete("t", frame)
        before = db.version
        good = {"a": "1", "b": "'x'", "d": "TIMESTAMP_NTZ '2026-01-01 00:00:00'", "m": "1"}
        for name, text, code in REFUSED:
            shown = ", ".join(f"{value} AS {column}" for column, value in {**good, name: text}.items() if value)
            for change in (db.insert, db.upsert, db.sync, db.delete):
                with pytest.raises(tm.TidemarkError) as error:
                    change("t", spark.sql(f"SELECT {shown}"))
                assert error.value.code == code, (name, text, error.value)
        assert db.version == before


REFUSED = [
    ("a", "1.5D", "type"),
    ("a", "3000000000L", "type"),
    ("a", "'1'", "type"),
    ("a", "CAST('NaN' AS DOUBLE)", "type"),
    ("a", "TRUE", "type"),
    ("m", "1.555BD", "type"),
    ("m", "12345BD", "type"),
    ("m", "1.555D", "type"),
    ("b", "1", "type"),
    ("b", "X'00'", "type"),
    ("d", "1", "type"),
    ("d", "", "columns"),
    ("e", "1", "columns"),
]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_table_of_a_lake_is_what_a_dictionary_would_be(seed: int, spark: Any, tmp_path: Path) -> None:
    """The law of ``tests/laws/test_upserts.py``."""
    frames = (lambda table: local_frame(spark, table), lambda table: table)
    with lake(tmp_path / "lake", spark) as db:
        play(db, seed, 5, frames)


def test_texts_and_times_of_a_session_with_another_zone_are_the_same_moments(spark: Any, tmp_path: Path) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "America/New_York")
    frame = own.sql("SELECT TIMESTAMP '2026-01-01 07:00:00' AS d")
    for db in (tm.connect("duckdb"), lake(tmp_path / "lake", spark)):
        with db:
            db.execute("CREATE TABLE t (d TIMESTAMP)")
            db.insert("t", frame)
            assert rows(db.query("SELECT * FROM t")) == [(dt.datetime(2026, 1, 1, 12),)]


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_arrays_of_nothing_are_empty_arrays_of_any_type(engine: str, spark: Any, tmp_path: Path) -> None:
    with tm.connect(engine) if engine != "spark" else lake(tmp_path / "lake", spark) as db:
        db.execute('CREATE TABLE t (a INT, "l l" INT[], m TIMESTAMP[], w VARCHAR[], s STRUCT(x INT, y VARCHAR))')
        frame = spark.sql(
            "SELECT 1 AS a, array() AS `l l`, array() AS m, array(NULL) AS w, struct(NULL AS x, 'q' AS y) AS s"
        )
        db.insert("t", frame)
        assert rows(db.query("SELECT * FROM t")) == [(1, (), (), (None,), (None, "q"))]
        db.insert("t", frame.withColumn("w", frame["m"]).limit(0))
        assert db.sync("t", frame.withColumn("w", frame["m"])) == tm.Synced(1, 1)
        with pytest.raises(tm.TidemarkError) as error:
            db.insert("t", frame.withColumn("a", frame["m"]))
        assert error.value.code == "type"


def test_a_frame_without_rows(spark: Any, tmp_path: Path) -> None:
    with lake(tmp_path / "lake", spark) as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY)")
        nothing = spark.sql("SELECT 1 AS a WHERE FALSE")
        db.insert("t", nothing)
        db.upsert("t", nothing)
        db.insert("t", [(1,)])
        assert db.sync("t", nothing) == tm.Synced(0, 1)
        assert isinstance(db.table("t").arrow(), pa.Table)
