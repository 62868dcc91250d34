"""REAL, BYTEA and TIMESTAMPTZ: stored, compared, grouped, joined, changed, handed over and read again."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tidemark as tm
from tests.support import changes_at, rows, rows_in_order, weights_of
from tidemark.algebra.functions import canonical
from tidemark.cli.tables import cell
from tidemark.session.check import check

SPARK_VARIANTS = ("spark forced", "spark in process")

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, r REAL, b BYTEA, z TIMESTAMPTZ)"
FILLED = r"""
    INSERT INTO t VALUES
    (1, 0.1, '\xDEAD', '2026-01-01 12:00:00+02'),
    (2, 1.5, '\x', '2026-01-01 10:00:00Z'),
    (3, 0.1, '\xff', '2026-07-01 00:00:00.000001-05:30'),
    (4, NULL, NULL, NULL),
    (5, 'NaN', '\x00ff', '0001-01-01 00:00:00'),
    (6, '-Infinity', '\xdead', '9999-12-31 23:59:59.999999')
"""
TENTH = 0.10000000149011612
NOON = dt.datetime(2026, 1, 1, 10, tzinfo=dt.UTC)
SUMMER = dt.datetime(2026, 7, 1, 5, 30, 0, 1, tzinfo=dt.UTC)
FIRST = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
TYPES = [pa.int32(), pa.float32(), pa.binary(), pa.timestamp("us", "UTC")]


def found(db: tm.Database, text: str, params: Any = None) -> list[tuple[Any, ...]]:
    return rows(db.query(text, params))


def ordered(db: tm.Database, text: str) -> list[tuple[Any, ...]]:
    return rows_in_order(db.query(text))


def values(db: tm.Database, *expressions: str) -> list[Any]:
    [row] = ordered(db, f"SELECT {', '.join(f'{text} AS c{i}' for i, text in enumerate(expressions))}")
    return list(row)


def test_they_are_columns_with_values_as_they_were_written(db: tm.Database) -> None:
    db.execute(TABLE + ";" + FILLED)
    table = db.query("SELECT * FROM t ORDER BY id")
    assert table.schema.types == TYPES
    assert table["r"].to_pylist()[:4] == [TENTH, 1.5, TENTH, None]
    assert math.isnan(table["r"].to_pylist()[4]) and table["r"].to_pylist()[5] == -math.inf
    assert table["b"].to_pylist() == [b"\xde\xad", b"", b"\xff", None, b"\x00\xff", b"\xde\xad"]
    assert table["z"].to_pylist() == [NOON, NOON, SUMMER, None, FIRST, LAST]


def test_they_are_ordered_and_compared(db: tm.Database) -> None:
    db.execute(TABLE + ";" + FILLED)
    assert [i for (i,) in ordered(db, "SELECT id FROM t ORDER BY r, id")] == [6, 1, 3, 2, 5, 4]
    assert [i for (i,) in ordered(db, "SELECT id FROM t ORDER BY b DESC NULLS LAST, id")] == [3, 1, 6, 5, 2, 4]
    assert [i for (i,) in ordered(db, "SELECT id FROM t ORDER BY z, id LIMIT 3")] == [5, 1, 2]
    assert found(db, "SELECT id FROM t WHERE r = 0.1::REAL ORDER BY id") == [(1,), (3,)]
    assert found(db, "SELECT id FROM t WHERE r = 0.1") == []  # a DOUBLE, which is not quite the same
    assert found(db, "SELECT id FROM t WHERE r > 1 ORDER BY id") == [(2,), (5,)]
    assert found(db, r"SELECT id FROM t WHERE b = '\xdead' ORDER BY id") == [(1,), (6,)]
    assert found(db, r"SELECT id FROM t WHERE b > '\x00' AND b < '\xe0' ORDER BY id") == [(1,), (5,), (6,)]
    assert found(db, r"SELECT id FROM t WHERE b IN ('\xff', '\x') ORDER BY id") == [(2,), (3,)]
    assert found(db, "SELECT id FROM t WHERE z = '2026-01-01 05:00-05' ORDER BY id") == [(1,), (2,)]
    assert found(db, "SELECT id FROM t WHERE z > TIMESTAMP '2026-01-01 10:00' ORDER BY id") == [(3,), (6,)]
    assert found(db, "SELECT id FROM t WHERE z BETWEEN DATE '2026-01-01' AND DATE '2026-12-31' ORDER BY id") == [
        (1,),
        (2,),
        (3,),
    ]
    assert found(db, "SELECT id FROM t WHERE r IS NOT DISTINCT FROM 'NaN' OR b IS NULL ORDER BY id") == [(4,), (5,)]
    assert found(db, "SELECT id FROM t WHERE z IN ('2026-01-01 10:00Z', NULL) ORDER BY id") == [(1,), (2,)]


VIEWS = """
    CREATE MATERIALIZED VIEW by_real AS
        SELECT r, COUNT(*) AS n, MIN(b) AS least, MAX(b) AS most, MIN(z) AS first, MAX(z) AS last FROM t GROUP BY r;
    CREATE MATERIALIZED VIEW by_bytes AS SELECT b, COUNT(r) AS n, MIN(r) AS low, MAX(r) AS high FROM t GROUP BY b;
    CREATE MATERIALIZED VIEW by_time AS SELECT z, COUNT(b) AS n, COUNT(DISTINCT b) AS kinds FROM t GROUP BY z;
    CREATE MATERIALIZED VIEW sums AS SELECT id % 2 AS odd, SUM(r) AS total, AVG(r) AS mean FROM t WHERE r < 100
        GROUP BY id % 2;
    CREATE MATERIALIZED VIEW pairs AS SELECT x.id AS i, y.id AS j FROM t AS x JOIN t AS y
        ON x.b = y.b AND x.z <= y.z AND x.id <> y.id;
    CREATE MATERIALIZED VIEW same_time AS SELECT x.id AS i, y.id AS j FROM t AS x LEFT JOIN t AS y
        ON x.z = y.z AND x.id < y.id;
    CREATE MATERIALIZED VIEW same_real AS SELECT x.id AS i, y.id AS j FROM t AS x JOIN t AS y
        ON x.r IS NOT DISTINCT FROM y.r AND x.id < y.id;
    CREATE MATERIALIZED VIEW different AS SELECT DISTINCT r, b, z FROM t;
    CREATE MATERIALIZED VIEW missing AS
        SELECT b, z FROM t WHERE id < 4 EXCEPT SELECT b, z FROM t WHERE id >= 4;
    CREATE MATERIALIZED VIEW common AS SELECT b FROM t WHERE id < 4 INTERSECT SELECT b FROM t WHERE id >= 4;
    CREATE MATERIALIZED VIEW other AS SELECT id FROM t WHERE b NOT IN (SELECT b FROM t WHERE z IS NOT NULL AND id > 4);
    CREATE MATERIALIZED VIEW placed AS
        SELECT id, RANK() OVER (PARTITION BY b ORDER BY z) AS place, LAG(r) OVER (ORDER BY id) AS before,
               MAX(z) OVER (PARTITION BY r) AS newest, FIRST_VALUE(b) OVER (ORDER BY z, id) AS first FROM t;
    CREATE MATERIALIZED VIEW top AS SELECT id, z FROM t ORDER BY z DESC NULLS LAST, id LIMIT 2
"""


def test_views_over_them_are_kept_true(db: tm.Database) -> None:
    db.execute(TABLE + ";" + VIEWS)
    db.execute(FILLED)
    assert changes_at(db, "by_bytes") == {
        (b"\xde\xad", 2, -math.inf, TENTH): 1,
        (b"", 1, 1.5, 1.5): 1,
        (b"\xff", 1, TENTH, TENTH): 1,
        (None, 0, None, None): 1,
        (b"\x00\xff", 1, NAN, NAN): 1,
    }
    assert changes_at(db, "same_real") == {(1, 3): 1}
    assert changes_at(db, "common") == {(b"\xde\xad",): 1}
    db.execute(r"UPDATE t SET b = '\xff', z = z WHERE id = 6")
    assert changes_at(db, "common") == {(b"\xde\xad",): -1, (b"\xff",): 1}
    assert changes_at(db, "by_time") == {}
    db.execute("UPDATE t SET z = z + INTERVAL '1 day', r = r * 2 WHERE id IN (1, 3)")
    assert changes_at(db, "same_time") == {(1, 2): -1, (1, None): 1}
    assert changes_at(db, "by_real") == {
        (TENTH, 2, b"\xde\xad", b"\xff", NOON, SUMMER): -1,
        (2 * TENTH, 2, b"\xde\xad", b"\xff", NOON + DAY, SUMMER + DAY): 1,
    }
    db.execute("DELETE FROM t WHERE z < '2000-01-01' OR r IS NULL")
    assert changes_at(db, "different") == {(NAN, b"\x00\xff", FIRST): -1, (None, None, None): -1}
    db.execute("UPDATE t SET r = r, b = b, z = z")
    assert changes_at(db, "t") == changes_at(db, "placed") == {}
    db.execute(r"DELETE FROM t WHERE b = '\xff'")
    assert found(db, "SELECT id FROM placed ORDER BY id") == [(1,), (2,)]


def test_many_changes_at_once_are_followed_too(db: tm.Database) -> None:
    db.execute(TABLE + ";" + VIEWS)
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    listed = [
        (i, None if i % 7 == 0 else i % 5 / 4, bytes([i % 11]) * (i % 3), moment + dt.timedelta(minutes=i % 13))
        for i in range(300)
    ]
    db.insert("t", listed)
    db.execute("UPDATE t SET r = 0.25, z = z + INTERVAL '1 minute' WHERE id % 3 = 0")
    db.execute("DELETE FROM t WHERE b >= '\\x05' AND id % 2 = 0")
    db.delete("t", db.query("SELECT * FROM t WHERE z > '2026-01-01 00:05Z'"))
    assert found(db, "SELECT COUNT(*), MIN(z), MAX(b) FROM t")[0][1] == moment


def test_random_histories_are_followed_as_by_the_reference(db: tm.Database) -> None:
    chosen = random.Random(7)
    reals = [None, 0.0, 0.1, 1.5, -2.0, math.inf, NAN]
    strings = [None, b"", b"\x00", b"\x00\x01", b"\x7f", b"\x80", b"\xff\xff", b"a"]
    moments = [None, FIRST, LAST, NOON, SUMMER, NOON - DAY]

    def row(key: int) -> tuple[Any, ...]:
        return key, chosen.choice(reals), chosen.choice(strings), chosen.choice(moments)

    with tm.connect("reference") as other:
        for each in (db, other):
            each.execute(TABLE + ";" + VIEWS)
        for step in range(5):
            present = [i for (i,) in found(other, "SELECT id FROM t")]
            coming = [row(key) for key in range(step * 100, step * 100 + chosen.choice((1, 5, 80)))]
            changed = [row(key) for key in chosen.sample(present, min(len(present), chosen.choice((0, 1, 30))))]
            leaving = chosen.sample(present, min(len(present), chosen.choice((0, 2, 20))))
            statement = chosen.choice(
                (
                    r"UPDATE t SET b = b || '\x01', z = z - INTERVAL '1 hour' WHERE r >= 0 AND z > '0002-01-01'",
                    "UPDATE t SET r = r / 4 WHERE b < '\\x80'",
                    "DELETE FROM t WHERE z = '2026-01-01 10:00Z' AND id % 3 = 0",
                    "UPDATE t SET z = '2026-01-01 12:00+02' WHERE r IS NULL OR r = 'NaN'",
                )
            )
            for each in (db, other):
                with each.transaction() as tx:
                    tx.insert("t", coming)
                    tx.upsert("t", changed)
                    if leaving:
                        tx.execute(f"DELETE FROM t WHERE id IN ({', '.join(map(str, leaving))})")
                    tx.execute(statement)
            for name in ("t", *(view.removesuffix(" AS") for view in re.findall(r"VIEW (\w+)", VIEWS))):
                mine, theirs = changes_at(db, name), changes_at(other, name)
                assert {_rounded(r): w for r, w in mine.items()} == {_rounded(r): w for r, w in theirs.items()}, name
                assert Counter(map(_rounded, found(db, f"SELECT * FROM {name}"))) == Counter(
                    map(_rounded, found(other, f"SELECT * FROM {name}"))
                ), name


def _rounded(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sums are not the same to their last digits."""
    return tuple(
        canonical(float(f"{value:.10g}")) if isinstance(value, float) and math.isfinite(value) else value
        for value in values
    )


def test_recursion_goes_by_them(db: tm.Database) -> None:
    db.execute("CREATE TABLE edge (x BYTEA, y BYTEA, z TIMESTAMPTZ)")
    db.execute(
        """CREATE MATERIALIZED VIEW reach (x, y) AS WITH RECURSIVE r (x, y) AS (
             SELECT x, y FROM edge UNION SELECT r.x, e.y FROM r JOIN edge AS e ON r.y = e.x) SELECT x, y FROM r;
           CREATE MATERIALIZED VIEW later (z, x) AS DATALOG $$ later(z, x) :- edge(x, y, z).
                                                               later(z, y) :- later(z, x), edge(x, y, w). $$"""
    )
    db.execute(r"INSERT INTO edge VALUES ('\x01', '\x02', '2026-01-01'), ('\x02', '\x03', '2026-01-02')")
    assert changes_at(db, "reach") == {(b"\x01", b"\x02"): 1, (b"\x02", b"\x03"): 1, (b"\x01", b"\x03"): 1}
    db.execute(r"DELETE FROM edge WHERE x = '\x02'")
    assert changes_at(db, "reach") == {(b"\x02", b"\x03"): -1, (b"\x01", b"\x03"): -1}


def test_casts_and_functions(db: tm.Database) -> None:
    assert values(db, "1.1::REAL::DOUBLE PRECISION", "16777217::REAL", "'1e10'::REAL", "2.5::REAL::INT") == [
        1.100000023841858,
        16777216.0,
        1e10,
        2,
    ]
    assert values(
        db, "0.1::REAL + 0.1::REAL", "-(1.5::REAL)", "abs((-2)::REAL)", "round(2.5::REAL)", "sqrt(4::REAL)"
    ) == [
        2 * TENTH,
        -1.5,
        2.0,
        2.0,
        2.0,
    ]
    assert db.query("SELECT 1.5::REAL + 1 AS a, SUM(1.5::REAL) AS s, MAX(1.5::REAL) AS m").schema.types == [
        pa.float64(),
        pa.float64(),
        pa.float32(),
    ]
    assert values(db, r"'\x00Ff'::BYTEA::VARCHAR", r"'\x01'::BYTEA || '\x02'::BYTEA", r"length('\x0102'::BYTEA)") == [
        "\\x00ff",
        b"\x01\x02",
        2,
    ]
    assert values(db, r"'\x01'::BYTEA || '\x02'", r"NULL || '\x02'::BYTEA", r"'\x01'::BYTEA || lower('X')") == [
        b"\x01\x02",
        None,
        "\\x01x",
    ]
    assert values(db, "octet_length('dé')", r"octet_length('\xff'::BYTEA)") == [3, 1]
    assert values(
        db,
        "'2026-01-01 12:00:00+02'::TIMESTAMPTZ::VARCHAR",
        "'2026-01-01 01:00:00+02'::TIMESTAMPTZ::DATE",
        "'2026-01-01 12:00:00+02'::TIMESTAMPTZ::TIMESTAMP",
        "'2026-01-01 12:00:00'::TIMESTAMP::TIMESTAMPTZ",
        "'2026-01-01'::DATE::TIMESTAMPTZ",
        "'2026-01-01 10:00'::TIMESTAMP AT TIME ZONE 'UTC'",
        "'2026-01-01 12:00+02'::TIMESTAMPTZ AT TIME ZONE 'utc'",
    ) == [
        "2026-01-01 10:00:00+00",
        dt.date(2025, 12, 31),
        NOON.replace(tzinfo=None),
        NOON + dt.timedelta(hours=2),
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        NOON,
        NOON.replace(tzinfo=None),
    ]
    assert values(
        db,
        "TIMESTAMPTZ '2026-01-31 12:00+02' + INTERVAL '1 month'",
        "extract(hour FROM TIMESTAMPTZ '2026-01-31 12:00+02')",
        "date_trunc('day', TIMESTAMPTZ '2026-01-31 01:00+02')",
        "extract(epoch FROM TIMESTAMPTZ '2026-01-31 01:00+02' - TIMESTAMPTZ '2026-01-31 01:00+01')",
        "to_char(TIMESTAMPTZ '2026-01-31 01:00+02', 'YYYY-MM-DD HH24:MI')",
        "TIMESTAMPTZ '2026-01-31 01:00+02' - TIMESTAMP '2026-01-30' > INTERVAL '22 hours'",
    ) == [
        dt.datetime(2026, 2, 28, 10, tzinfo=dt.UTC),
        10,
        dt.datetime(2026, 1, 30, tzinfo=dt.UTC),
        Decimal("-3600"),
        "2026-01-30 23:00",
        True,
    ]


def test_texts_in_columns_are_read_alike(db: tm.Database) -> None:
    db.execute("CREATE TABLE written (id INT, z VARCHAR, b VARCHAR, r VARCHAR)")
    moments = [
        *("2026-01-01", "2026-01-01 12:00", "2026-01-01T12:00:00Z", " 2026-01-01 12:00:00.123456 +02 "),
        *("2026-01-01 12:00:00-0330", "2026-01-01 12:00 UTC", "2026-01-01 00:30:00+15:59", None),
    ]
    db.insert("written", [(i, text, "\\x0aFF", "1.1") for i, text in enumerate(moments)])
    db.execute(
        "CREATE MATERIALIZED VIEW read AS SELECT id, z::TIMESTAMPTZ AS z, b::BYTEA AS b, r::REAL AS r,"
        " z::TIMESTAMPTZ::VARCHAR AS shown FROM written"
    )
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert db.query("SELECT z FROM read ORDER BY id")["z"].to_pylist() == [
        *(day, day + 12 * HOUR, day + 12 * HOUR, day + 10 * HOUR + dt.timedelta(microseconds=123456)),
        *(day + 15.5 * HOUR, day + 12 * HOUR, day - 15 * HOUR - dt.timedelta(minutes=29), None),
    ]
    assert found(db, "SELECT DISTINCT b, r FROM read") == [(b"\x0a\xff", 1.100000023841858)]
    for column, text in (
        *(("z", text) for text in ("2026-02-30", "2026-01-01 12:00+16", "0001-01-01 00:00+01", "now", "2026-01-01+02")),
        *(("b", text) for text in ("abc", "\\x0", "/x00", "\\xgg", "")),
        *(("r", text) for text in ("1e39", "1e-60", "one")),
    ):
        with pytest.raises(tm.TidemarkError) as raised:
            db.insert("written", [{"id": 9, "z": None, "b": None, "r": None} | {column: text}])
        assert raised.value.code == ("overflow" if text.startswith("1e") else "invalid_value"), text


BEFORE = "PRECEDING AND CURRENT ROW"
SUMS = "(SELECT SUM(r) AS s FROM t GROUP BY b) AS x"


def test_what_does_not_fit_is_refused(db: tm.Database) -> None:
    db.execute(TABLE)
    for text, code in (
        ("INSERT INTO t VALUES (1, 1e39, NULL, NULL)", "overflow"),
        ("INSERT INTO t VALUES (1, 1e-60, NULL, NULL)", "overflow"),
        ("INSERT INTO t VALUES (1, 'x', NULL, NULL)", "type"),
        ("INSERT INTO t VALUES (1, NULL, 'abc', NULL)", "type"),
        ("INSERT INTO t VALUES (1, NULL, 7, NULL)", "type"),
        ("INSERT INTO t VALUES (1, NULL, NULL, '2026-13-01')", "type"),
        ("INSERT INTO t VALUES (1, NULL, NULL, 7)", "type"),
        ("SELECT b + 1 FROM t", "type"),
        ("SELECT b || 'x' || 1.5::REAL FROM t", "type"),
        ("SELECT z + 1 FROM t", "type"),
        ("SELECT z - z FROM t", "unsupported"),
        ("SELECT r::VARCHAR FROM t", "type"),
        ("SELECT b::INT FROM t", "type"),
        ("SELECT z::INT FROM t", "type"),
        ("SELECT r % 'a' FROM t", "type"),
        ("SELECT b = z FROM t", "type"),
        ("SELECT b LIKE 'a' FROM t", "type"),
        ("SELECT substring(b, 1, 1) FROM t", "type"),
        ("SELECT upper(b) FROM t", "type"),
        ("SELECT SUM(b) FROM t", "type"),
        ("SELECT AVG(z) FROM t", "type"),
        ("SELECT ARRAY[r] FROM t", "type"),
        ("SELECT ARRAY[z] FROM t", "type"),
        ("SELECT b || 'abc' FROM t", "type"),
        ("SELECT ROW(b, 1) FROM t", "type"),
        ("SELECT ARRAY_AGG(z) FROM t", "unsupported"),
        ("SELECT ARRAY(SELECT b FROM t)", "type"),
        ("SELECT z AT TIME ZONE 'Europe/Berlin' FROM t", "unsupported"),
        ("SELECT b AT TIME ZONE 'UTC' FROM t", "type"),
        (f"SELECT SUM(id) OVER (ORDER BY z RANGE BETWEEN INTERVAL '1 day' {BEFORE}) FROM t", "unsupported"),
        (f"SELECT SUM(id) OVER (ORDER BY r RANGE BETWEEN 1 {BEFORE}) FROM t", "unsupported"),
        ("CREATE TABLE n (a REAL[])", "unsupported"),
        ("CREATE TABLE n (a BYTEA[])", "unsupported"),
        ("CREATE TABLE n (a STRUCT(z TIMESTAMPTZ))", "unsupported"),
        ("CREATE TABLE n (a TIMESTAMPTZ(3))", "unsupported"),
        (f"CREATE MATERIALIZED VIEW n AS SELECT s, COUNT(*) AS n FROM {SUMS} GROUP BY s", "approximate_key"),
        (f"CREATE MATERIALIZED VIEW n AS SELECT DISTINCT s::REAL AS s FROM {SUMS}", "approximate_key"),
    ):
        with pytest.raises(tm.TidemarkError) as raised:
            db.execute(text)
        assert raised.value.code == code, f"{text}: {raised.value}"
    assert found(db, "SELECT COUNT(*) FROM t") == [(0,)]


def test_programs_hand_them_over(db: tm.Database) -> None:
    db.execute(TABLE)
    zone = dt.timezone(dt.timedelta(hours=2))
    db.insert("t", [(1, 0.1, b"\x00", dt.datetime(2026, 1, 1, 12, tzinfo=zone))])
    db.insert("t", [{"id": 2, "r": Decimal("0.1"), "b": bytearray(b"\x00"), "z": dt.datetime(2026, 1, 1, 10)}])
    db.insert("t", [(3, 7, memoryview(b"\x00"), "2026-01-01T12:00:00+02:00"), (4, None, None, dt.date(2026, 1, 1))])
    arrow = pa.table(
        {
            "id": [5, 6],
            "r": pa.array([0.1, None], pa.float32()),
            "b": pa.array([b"\x00", None], pa.large_binary()),
            "z": pa.array([NOON, None], pa.timestamp("ms", "Europe/Berlin")),
        }
    )
    db.insert("t", arrow)
    frame = pd.DataFrame(
        {
            "id": [7],
            "r": pd.Series([0.1], dtype="float32"),
            "b": [b"\x00"],
            "z": [pd.Timestamp("2026-01-01 12:00", tz="Etc/GMT-2")],
        }
    )
    db.upsert("t", frame)
    db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [(8, 0.1, b"\x00", NOON), (9, None, b"", None)])
    assert found(db, "SELECT id FROM t WHERE r = ? AND b = ? AND z = ? ORDER BY id", [TENTH, b"\x00", NOON]) == [
        *((1,), (2,), (5,), (7,), (8,)),
    ]
    assert ordered(db, "SELECT r, b, z FROM t WHERE id IN (3, 4, 9) ORDER BY id") == [
        (7.0, b"\x00", NOON),
        (None, None, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        (None, b"", None),
    ]
    db.upsert("t", [(9, 1.25, b"\x01", NOON), (1, 0.1, b"\x00", NOON)])
    assert changes_at(db, "t") == {(9, None, b"", None): -1, (9, 1.25, b"\x01", NOON): 1}
    db.execute("DELETE FROM t WHERE b = :b OR z < :z", {"b": b"\x00", "z": dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC)})
    assert found(db, "SELECT id FROM t ORDER BY id") == [(6,), (9,)]
    for row in (
        *((10, math.pi, None, None), (10, 1e39, None, None), (10, 16777217, None, None), (10, "1", None, None)),
        *((10, None, "text", None), (10, None, 7, None), (10, None, None, 7), (10, None, None, "soon")),
        (10, None, None, dt.datetime(1, 1, 1, tzinfo=zone)),
    ):
        with pytest.raises(tm.TidemarkError) as raised:
            db.insert("t", [row])
        assert raised.value.code == "type", row
        with pytest.raises(tm.TidemarkError):
            db.execute("INSERT INTO t VALUES ($1, $2, $3, $4)", row)
    for column, array in (
        ("r", pa.array([math.pi])),
        ("z", pa.array([1], pa.timestamp("ns", "UTC"))),
        ("b", pa.array(["text"])),
    ):
        with pytest.raises(tm.TidemarkError) as raised:
            db.insert("t", arrow.slice(0, 1).set_column(arrow.schema.get_field_index(column), column, array))
        assert raised.value.code == "type", column


def test_keys_defaults_checks_and_rules_take_them(db: tm.Database) -> None:
    db.execute(
        r"""CREATE TABLE k (b BYTEA, z TIMESTAMPTZ DEFAULT '2026-01-01 12:00+02', r REAL DEFAULT 0.1 CHECK (r > 0),
                            PRIMARY KEY (b, z));
            CREATE TABLE noted (b BYTEA, z TIMESTAMPTZ, r REAL);
            CREATE RULE note ON INSERT ON k WHEN SELECT * FROM inserted
                DO INSERT INTO noted SELECT b, z, r FROM condition;
            ACTIVATE RULE note;
            INSERT INTO k (b) VALUES ('\x01'), ('\x02')"""
    )
    assert changes_at(db, "noted") == {(b"\x01", NOON, TENTH): 1, (b"\x02", NOON, TENTH): 1}
    with pytest.raises(tm.TidemarkError) as raised:
        db.execute(r"INSERT INTO k VALUES ('\x01', '2026-01-01 10:00Z', 1)")
    assert raised.value.code == "primary_key"
    with pytest.raises(tm.TidemarkError):
        db.execute(r"INSERT INTO k VALUES ('\x03', '2026-01-01 10:00Z', -1)")
    db.upsert("k", [(b"\x01", NOON, 2)])
    assert changes_at(db, "k") == {(b"\x01", NOON, TENTH): -1, (b"\x01", NOON, 2.0): 1}
    db.execute("ALTER TABLE k ADD COLUMN more BYTEA DEFAULT '\\xAB'")
    assert found(db, "SELECT DISTINCT more FROM k") == [(b"\xab",)]
    db.execute("CREATE MATERIALIZED VIEW near AS SELECT b FROM k WHERE z < '2026-06-01' AND b <> '\\x02' AND r > 1.5")
    assert "near" in db.explain("near")
    assert db.classify("near", "DELETE FROM k WHERE z > '2027-01-01 00:00+02'") is not None
    assert found(db, "SELECT * FROM near") == [(b"\x01",)]


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_they_are_there_again_when_the_database_is_opened(engine: str, tmp_path: Path, request: Any) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    target = f"{engine}:{tmp_path / ('x.duckdb' if engine == 'duckdb' else 'lake')}"
    with tm.connect(target) as db:
        db.execute(TABLE + "; CREATE MATERIALIZED VIEW v AS SELECT b, z, COUNT(r) AS n FROM t GROUP BY b, z;" + FILLED)
        db.execute("UPDATE t SET r = 2.5, b = '\\x07' WHERE id = 1")
        content, seen = db.query("SELECT * FROM t ORDER BY id"), db.changes("v")
    with tm.connect(target) as db:
        assert db.query("SELECT * FROM t ORDER BY id").to_pylist()[:4] == content.to_pylist()[:4]
        assert db.changes("v").num_rows == seen.num_rows and db.changes("v").schema == seen.schema
        db.execute("DELETE FROM t WHERE z = '2026-01-01 10:00Z'")
        assert db.audit("v").num_rows == 0
        assert found(db, "SELECT id FROM t AS OF VERSION 4 ORDER BY id") == [(i,) for i in range(1, 7)]
        db.execute("CHECKPOINT")
    with tm.connect(target) as db:
        assert found(db, "SELECT id, b FROM t ORDER BY id") == [
            *((3, b"\xff"), (4, None), (5, b"\x00\xff"), (6, b"\xde\xad")),
        ]
        assert db.audit("v").num_rows == 0


@pytest.mark.parametrize("kind", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_copies_are_whole_and_checked(kind: str, tmp_path: Path, request: Any) -> None:
    if kind == "spark":
        request.getfixturevalue("spark")
    ending = ".duckdb" if kind == "duckdb" else ""
    with tm.connect(f"{kind}:{tmp_path}/x{ending}", allow_paths=[tmp_path]) as db:
        db.execute(TABLE + "; CREATE MATERIALIZED VIEW v AS SELECT z, MAX(b) AS b FROM t GROUP BY z;" + FILLED)
        db.backup(tmp_path / f"copy{ending}")
    for name in ("x", "copy"):
        report = check(f"{kind}:{tmp_path}/{name}{ending}", audit=True)
        assert not report.damage and report.relations >= 2
    with tm.connect(f"{kind}:{tmp_path}/copy{ending}") as db:
        assert [i for (i,) in found(db, "SELECT id FROM t WHERE b = '\\xdead'")] == [1, 6]


@pytest.mark.spark
def test_published_tables_have_them(tmp_path: Path, spark: Any) -> None:
    with tm.connect(f"spark:{tmp_path}/lake", options={"publish": "commit"}) as db:
        db.execute(TABLE + "; CREATE MATERIALIZED VIEW v AS SELECT b, MAX(z) AS z, MIN(r) AS r FROM t GROUP BY b")
        db.execute(FILLED)
        db.execute("UPDATE t SET z = z + INTERVAL '1 day', r = 3.5, b = '\\x07' WHERE id = 1")
        content = {name: db.query(f"SELECT * FROM {name}") for name in ("t", "v")}
        fed = weights_of(db.changes("v").drop_columns(["_version"]))
    for name, expected in content.items():
        table = DeltaTable(f"{tmp_path}/lake/tables/{name}")
        read = pa.table(table.to_pyarrow_table())
        assert read.schema.types == expected.schema.types
        assert rows(read) == rows(expected)
        assert table.protocol().min_reader_version == 1, "none of these asks for more of a reader"
        told = {field.name: field.type.type for field in table.schema().fields}
        assert (told["b"], told["r"], told["z"]) == ("binary", "float", "timestamp")
        few = pa.table(table.to_pyarrow_table(filters=[("z", ">=", LAST), ("b", "=", b"\xde\xad")]))
        assert few.num_rows == 1, "statistics do not hide what is there"
        statistics = [json.loads(line["stats_json"]) for line in stats_of(table)]
        assert all("b" not in each["minValues"] and each["minValues"]["z"].endswith("Z") for each in statistics)
    feed = pa.table(DeltaTable(f"{tmp_path}/lake/tables/v").load_cdf(starting_version=0).read_all())
    signs = [1 if kind in ("insert", "update_postimage") else -1 for kind in feed["_change_type"].to_pylist()]
    summed: dict[tuple[Any, ...], int] = {}
    for row, sign in zip(rows_in_order(feed.select(["b", "z", "r"])), signs, strict=True):
        summed[row] = summed.get(row, 0) + sign
    assert {row: weight for row, weight in summed.items() if weight} == fed


def stats_of(table: DeltaTable) -> list[dict[str, Any]]:
    """What the last entry of each file's add says."""
    log = Path(table.table_uri.removeprefix("file://")) / "_delta_log"
    entries = [json.loads(line) for path in sorted(log.glob("*.json")) for line in path.read_text().splitlines()]
    return [{"stats_json": entry["add"]["stats"]} for entry in entries if "add" in entry]


@pytest.mark.spark
def test_data_frames_of_spark_bring_them(tmp_path: Path, spark: Any) -> None:
    with tm.connect(f"spark:{tmp_path}/lake", options={"publish": "close"}) as db:
        db.execute(TABLE)
        session = db.table("t").spark().sparkSession
        zone = session.conf.get("spark.sql.session.timeZone")
        session.conf.set("spark.sql.session.timeZone", "America/New_York")
        try:
            frame = session.range(20_000).selectExpr(
                "CAST(id AS INT) AS id", "CAST(0.1 AS FLOAT) AS r", "CAST(CAST(id % 5 AS STRING) AS BINARY) AS b",
                "timestamp_micros(1767261600000000 + id % 7) AS z",
            )  # fmt: skip
            db.insert("t", frame)
        finally:
            session.conf.set("spark.sql.session.timeZone", zone)
        assert found(db, "SELECT COUNT(*), COUNT(DISTINCT b), MIN(z), MIN(r), MAX(r) FROM t") == [
            (20_000, 5, NOON, TENTH, TENTH),
        ]
        assert found(db, "SELECT COUNT(*) FROM t WHERE b = '\\x34' AND z = '2026-01-01 10:00Z'") == [(572,)]
        wrong = session.range(1).selectExpr(
            "100001 AS id", "CAST('x' AS STRING) AS b", "1D AS r", "current_date() AS z"
        )
        with pytest.raises(tm.TidemarkError) as raised:
            db.insert("t", wrong)
        assert raised.value.code == "type"
    read = pa.table(DeltaTable(f"{tmp_path}/lake/tables/t").to_pyarrow_table())
    assert read.schema.types == TYPES and read.num_rows == 20_000


def test_the_shell_shows_them_plainly() -> None:
    assert [cell(value).plain for value in (b"\x00\xff", NOON, 0.5)] == ["\\x00ff", "2026-01-01 10:00:00+00", "0.5"]


NAN = canonical(float("nan"))
DAY, HOUR = dt.timedelta(days=1), dt.timedelta(hours=1)
