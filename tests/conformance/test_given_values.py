"""Values that a program hands over, as rows or Arrow tables, are stored as they are, or refused. Nothing is cut off."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)

UTC = dt.UTC
BERLIN = dt.timezone(dt.timedelta(hours=2))
TABLES = """
CREATE TABLE whole (v INT); CREATE TABLE small (v SMALLINT); CREATE TABLE long (v BIGINT);
CREATE TABLE money (v DECIMAL(6,2)); CREATE TABLE fine (v DECIMAL(38,20)); CREATE TABLE real (v DOUBLE);
CREATE TABLE day (v DATE); CREATE TABLE moment (v TIMESTAMP); CREATE TABLE word (v VARCHAR);
CREATE TABLE flag (v BOOLEAN);
CREATE TABLE list (v INT[]); CREATE TABLE days (v DATE[]); CREATE TABLE pair (v STRUCT(a INT, b TIMESTAMP));
"""
NANOSECONDS = "2024-02-29T10:11:12.123456789"

TAKEN: list[tuple[str, Any, Any]] = [
    ("whole", 2.0, 2),
    ("whole", Decimal("2.00"), 2),
    ("long", 2**63 - 1, 2**63 - 1),
    ("money", 1.25, Decimal("1.25")),
    ("money", 0.1, Decimal("0.10")),
    ("money", Decimal("1.5000"), Decimal("1.50")),
    ("money", 12, Decimal("12.00")),
    ("fine", 0.1, Decimal("0.1")),
    ("real", Decimal("0.1"), 0.1),
    ("real", 2**53, 2.0**53),
    ("real", math.inf, math.inf),
    ("day", "2024-02-29", dt.date(2024, 2, 29)),
    ("moment", "2024-02-29", dt.datetime(2024, 2, 29)),
    ("moment", "2024-02-29 10:11", dt.datetime(2024, 2, 29, 10, 11)),
    ("moment", "2024-02-29T10:11:12.5", dt.datetime(2024, 2, 29, 10, 11, 12, 500000)),
    ("moment", "2024-02-29T10:11:12.123456000", dt.datetime(2024, 2, 29, 10, 11, 12, 123456)),
    ("moment", "2024-02-29T10:11:12Z", dt.datetime(2024, 2, 29, 10, 11, 12)),
    ("moment", "2024-02-29T00:11:12+02:00", dt.datetime(2024, 2, 28, 22, 11, 12)),
    ("moment", "2024-02-29 10:11:12-05", dt.datetime(2024, 2, 29, 15, 11, 12)),
    ("moment", "2024-02-29 10:11:12+0530", dt.datetime(2024, 2, 29, 4, 41, 12)),
    ("moment", dt.date(2024, 2, 29), dt.datetime(2024, 2, 29)),
    ("moment", dt.datetime(2024, 2, 29, 1, tzinfo=BERLIN), dt.datetime(2024, 2, 28, 23)),
    ("moment", dt.datetime(2024, 2, 29, 1, tzinfo=UTC), dt.datetime(2024, 2, 29, 1)),
    ("moment", np.datetime64("2024-02-29T10:11:12.123456000"), dt.datetime(2024, 2, 29, 10, 11, 12, 123456)),
    ("moment", np.datetime64("2024-02-29"), dt.datetime(2024, 2, 29)),
    ("moment", np.datetime64("2024-02-29T10"), dt.datetime(2024, 2, 29, 10)),
    ("day", np.datetime64("2024-02-29"), dt.date(2024, 2, 29)),
    ("day", np.datetime64("2024-02"), dt.date(2024, 2, 1)),
    ("day", np.datetime64("NaT"), None),
    ("days", [np.datetime64("2024-02-29"), np.datetime64("NaT")], [dt.date(2024, 2, 29), None]),
    ("moment", pd.Timestamp("2024-02-29T00:11:12", tz="Europe/Berlin"), dt.datetime(2024, 2, 28, 23, 11, 12)),
    ("moment", pd.NaT, None),
    ("long", np.int8(-3), -3),
    ("real", np.float32(1.5), 1.5),
    ("real", 2**60, 2.0**60),
    ("flag", np.bool_(True), True),
    ("list", [1.0, None, Decimal(2)], [1, None, 2]),
    ("days", ["2024-02-29", None], [dt.date(2024, 2, 29), None]),
    ("pair", {"a": 1.0, "b": "2024-02-29"}, {"a": 1, "b": dt.datetime(2024, 2, 29)}),
]

REFUSED: list[tuple[str, Any]] = [
    ("whole", 1.5),
    ("whole", Decimal("1.5")),
    ("whole", 2**31),
    ("whole", 2.0**40),
    ("whole", math.nan),
    ("whole", math.inf),
    ("whole", Decimal("1e400")),
    ("whole", Decimal("NaN")),
    ("whole", True),
    ("whole", np.bool_(True)),
    ("whole", np.float64(1.5)),
    ("whole", Fraction(3, 2)),
    ("whole", Fraction(1, 3)),
    ("whole", "1"),
    ("small", 2**15),
    ("long", 2**63),
    ("long", 1e19),
    ("money", Decimal("1.555")),
    ("money", Decimal("12345.6")),
    ("money", Decimal("Infinity")),
    ("money", 1.555),
    ("money", 1e15),
    ("money", math.nan),
    ("money", 10**4),
    ("money", True),
    ("money", "1.5"),
    ("fine", Decimal("1e-21")),
    ("real", 2**53 + 1),
    ("real", Decimal("0.123456789012345678901")),
    ("real", True),
    ("real", "1"),
    ("day", "2024-02-30"),
    ("day", "2024-02-29T00:00:00"),
    ("day", "29.02.2024"),
    ("day", dt.datetime(2024, 2, 29)),
    ("day", 19782),
    ("moment", "2024-02-29T10:11:12.1234567"),
    ("moment", "2024-02-29T10:11:12+25:00"),
    ("moment", "2024-W09-4"),
    ("moment", "0001-01-01T00:00:00+02:00"),
    ("moment", "noon"),
    ("moment", dt.datetime(1, 1, 1, tzinfo=BERLIN)),
    ("moment", 0),
    ("moment", np.datetime64(NANOSECONDS)),
    ("moment", np.datetime64("12024-02-29")),
    ("day", np.datetime64("12024-02-29")),
    ("day", np.datetime64("2024-02-29T00:00:00")),
    ("moment", pd.Timestamp(NANOSECONDS)),
    ("word", 1),
    ("word", b"ab"),
    ("flag", 1),
    ("flag", "true"),
    ("list", [1.5]),
    ("list", "12"),
    ("days", ["2024-02-30"]),
    ("pair", {"a": 1.5, "b": None}),
    ("pair", {"a": 1}),
]

Form = Callable[[Any], Any]
FORMS: dict[str, Form] = {
    "tuple": lambda value: [(value,)],
    "dict": lambda value: [{"v": value}],
    "beside a plain one": lambda value: [(None,), (value,)],
}


def test_what_fits_is_stored_as_it_is(db: tm.Database) -> None:
    db.execute(TABLES)
    for table, value, expected in TAKEN:
        db.insert(table, [(value,)])
        assert rows(db.query(f"SELECT v FROM {table}")) == [(_canonical(expected),)], (table, value)
        db.delete(table, [{"v": value}])
        assert db.sync(table, [(value,)]) == tm.Synced(1, 0)
        assert db.sync(table, []) == tm.Synced(0, 1)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(value.values())
    return tuple(value) if isinstance(value, list) else value


def test_what_does_not_fit_is_refused_and_changes_nothing(db: tm.Database) -> None:
    db.execute(TABLES)
    before = db.version
    for table, value in REFUSED:
        for name, form in FORMS.items():
            for operation in (db.insert, db.delete, db.sync):
                with pytest.raises(tm.TidemarkError) as caught:
                    operation(table, form(value))
                assert caught.value.code == "type", (table, value, name, caught.value)
    assert db.version == before


ARROW_TAKEN: list[tuple[str, pa.Array, Any]] = [
    ("whole", pa.array([2.0]), 2),
    ("whole", pa.array([Decimal("2.00")]), 2),
    ("money", pa.array([12]), Decimal("12.00")),
    ("money", pa.array([12], pa.uint8()), Decimal("12.00")),
    ("money", pa.array([0.1]), Decimal("0.10")),
    ("fine", pa.array([0.1]), Decimal("0.1")),
    ("real", pa.array([Decimal("0.1")]), 0.1),
    ("real", pa.array([1.5], pa.float32()), 1.5),
    ("day", pa.array(["2024-02-29"]), dt.date(2024, 2, 29)),
    ("day", pa.array(["2024-02-29"]).dictionary_encode(), dt.date(2024, 2, 29)),
    ("moment", pa.array(["2024-02-29T00:11:12+02:00"], pa.large_string()), dt.datetime(2024, 2, 28, 22, 11, 12)),
    ("moment", pa.array([1], pa.timestamp("ms", "Europe/Berlin")), dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
    ("moment", pa.array([1000], pa.timestamp("ns")), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
    ("moment", pa.array([1], pa.date32()), dt.datetime(1970, 1, 2)),
    ("list", pa.array([[1.0, None]]), (1, None)),
    ("days", pa.array([["2024-02-29"]]), (dt.date(2024, 2, 29),)),
    (
        "pair",
        pa.array([{"a": 1, "b": dt.datetime(2024, 2, 29, tzinfo=UTC)}]),
        (1, dt.datetime(2024, 2, 29)),
    ),
]

ARROW_REFUSED: list[tuple[str, pa.Array]] = [
    ("whole", pa.array([1.5])),
    ("whole", pa.array([math.nan])),
    ("whole", pa.array([Decimal("1.5")])),
    ("whole", pa.array([2**31])),
    ("whole", pa.array(["1"])),
    ("whole", pa.array([True])),
    ("money", pa.array([1.555])),
    ("money", pa.array([math.nan])),
    ("money", pa.array([Decimal("1.555")])),
    ("money", pa.array([10**4])),
    ("money", pa.array([Decimal("10000")])),
    ("real", pa.array([2**53 + 1])),
    ("real", pa.array([Decimal("0.123456789012345678901")])),
    ("day", pa.array([10**7], pa.date32())),
    ("day", pa.array([-(10**7)], pa.date32())),
    ("day", pa.array([86_400_005], pa.date64())),
    ("day", pa.array([0], pa.timestamp("us"))),
    ("day", pa.array(["2024-02-30"])),
    ("moment", pa.array([1], pa.timestamp("ns"))),
    ("moment", pa.array([1], pa.timestamp("ns", "UTC"))),
    ("moment", pa.array([2**61], pa.timestamp("us"))),
    ("moment", pa.array([-(2**61)], pa.timestamp("us"))),
    ("moment", pa.array([2**61], pa.timestamp("s"))),
    ("moment", pa.array([10**7], pa.date32())),
    ("moment", pa.array(["2024-02-29T10:11:12.1234567"])),
    ("word", pa.array([b"ab"])),
    ("word", pa.array([b"\xff"]).view(pa.string())),
    ("list", pa.array([[1.5]])),
    ("days", pa.array([[10**7]], pa.list_(pa.date32()))),
    ("pair", pa.array([{"a": 1.5, "b": None}], pa.struct([("a", pa.float64()), ("b", pa.timestamp("us"))]))),
    ("pair", pa.array([{"a": 1, "b": 1}], pa.struct([("a", pa.int32()), ("b", pa.timestamp("ns"))]))),
]


def test_an_arrow_column_that_fits(db: tm.Database) -> None:
    db.execute(TABLES)
    for table, column, expected in ARROW_TAKEN:
        given = pa.table({"v": column})
        db.insert(table, given)
        assert rows(db.query(f"SELECT v FROM {table}")) == [(expected,)], (table, column)
        db.delete(table, given)
        assert db.sync(table, given) == tm.Synced(1, 0)
        assert db.sync(table, given.slice(0, 0)) == tm.Synced(0, 1)


def test_an_arrow_column_that_does_not_fit(db: tm.Database) -> None:
    db.execute(TABLES)
    before = db.version
    for table, column in ARROW_REFUSED:
        given = pa.table({"v": column})
        for operation in (db.insert, db.delete, db.sync):
            with pytest.raises(tm.TidemarkError) as caught:
                operation(table, given)
            assert caught.value.code == "type", (table, column)
    assert db.version == before


def test_a_day_of_numpy_is_a_parameter(db: tm.Database) -> None:
    db.execute(TABLES)
    day = np.datetime64("2024-02-29")
    db.execute("INSERT INTO day VALUES (?)", [day])
    db.execute("INSERT INTO moment VALUES (?)", [day])
    assert rows(db.query("SELECT v FROM day WHERE v = ?", [day])) == [(dt.date(2024, 2, 29),)]
    assert rows(db.query("SELECT v FROM moment WHERE v = ?", [day])) == [(dt.datetime(2024, 2, 29),)]


def test_not_a_number_stays_what_it_is(db: tm.Database) -> None:
    db.execute("CREATE TABLE real (v DOUBLE)")
    db.insert("real", [(math.nan,)])
    db.insert("real", pa.table({"v": [math.nan]}))
    assert rows(db.query("SELECT COUNT(*), COUNT(v) FROM real WHERE v = 'NaN'")) == [(2, 2)]


def test_the_message_says_which_value_and_why(db: tm.Database) -> None:
    db.execute(TABLES)
    for table, value, said in (
        ("whole", 1.5, "1.5 has a fraction"),
        ("whole", 2**31, "2147483648 is out of range"),
        ("whole", Decimal("1E+1000"), "Decimal('1E+1000') is out of range"),
        ("long", Decimal("-1E+400"), "Decimal('-1E+400') is out of range"),
        ("whole", Decimal("1E-1000"), "has a fraction"),
        ("whole", Decimal("Infinity"), "is no whole number"),
        ("whole", Decimal("sNaN"), "is no whole number"),
        ("real", Decimal("1E+1000"), "is out of range"),
        ("money", Decimal("1.555"), "Decimal('1.555') has more than 2 digits after the point"),
        ("money", Decimal("12345.6"), "Decimal('12345.6') is out of range"),
        ("moment", "noon", "'noon' is no ISO 8601 text"),
        ("moment", "2024-02-29T10:11:12.1234567", "finer than a microsecond"),
        ("word", 1, "1 is no text"),
    ):
        with pytest.raises(tm.TidemarkError) as caught:
            db.insert(table, [(value,)])
        assert said in caught.value.message and "column 'v'" in caught.value.message


def test_long_lists_of_constants_pick_their_rows(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, s VARCHAR)")
    db.execute("CREATE VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    db.execute(
        f"INSERT INTO t VALUES {', '.join(f'({i}, {chr(39)}s{i % 3}{chr(39)})' for i in range(300))}, (NULL, NULL)"
    )
    odd = ", ".join(str(i) for i in range(1, 300, 2))
    db.execute(f"DELETE FROM t WHERE k IN ({odd})")
    assert rows(db.query("SELECT COUNT(*), SUM(k) FROM t")) == [(151, sum(range(0, 300, 2)))]
    db.execute(f"UPDATE t SET s = 'u' WHERE s <> 's0' AND k IN ({', '.join(map(str, range(100)))})")
    assert rows(db.query("SELECT s, n FROM v WHERE s = 'u'")) == [("u", 33)]
    assert rows(db.query(f"SELECT COUNT(*) FROM t WHERE k NOT IN ({odd})")) == [(150,)]
    named = ", ".join(["'u'", *(f"'no {i}'" for i in range(100))])
    assert rows(db.query(f"SELECT COUNT(*) FROM t WHERE s IN ({named})")) == [(33,)]
