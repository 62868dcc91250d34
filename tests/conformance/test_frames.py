"""Frames of any library go in by column name, whole or not at all; ``db.table`` gives rows in the form of each."""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)

TABLE = "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR, c DOUBLE, d TIMESTAMP)"
NOON = dt.datetime(2026, 1, 1, 12)
CONTENT = pa.table(
    {
        "d": pa.array([NOON, None], pa.timestamp("us")),
        "a": pa.array([1, 2], pa.int64()),
        "c": pa.array([0.5, None], pa.float64()),
        "b": ["x", None],
    }
)
STORED = [(1, "x", 0.5, NOON), (2, None, None, None)]


class Stream:
    """A frame of a library that nobody knows: it has the protocol, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def of_pandas(table: pa.Table) -> pd.DataFrame:
    """With an index that is none of the columns."""
    frame = table.to_pandas()
    frame.index = pd.Index(["p", "q"], name="extra")
    return frame


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "batch": lambda table: table.to_batches()[0],
    "reader": lambda table: table.to_reader(max_chunksize=1),
    "stream": Stream,
    "pandas": of_pandas,
    "pandas of objects": lambda table: of_pandas(table).astype(object),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "duckdb": lambda table: duckdb.from_arrow(table),
    "dicts": lambda table: table.to_pylist(),
    "generator": lambda table: (one for one in table.to_pylist()),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_a_frame_goes_in_by_column_name(db: tm.Database, kind: str) -> None:
    db.execute(TABLE)
    make = FRAMES[kind]
    db.insert("t", make(CONTENT))
    assert rows(db.query("SELECT * FROM t")) == STORED
    db.upsert("t", make(CONTENT.set_column(3, "b", [["y", "z"]])))
    assert rows(db.query("SELECT a, b FROM t")) == [(1, "y"), (2, "z")]
    assert db.sync("t", make(CONTENT)) == tm.Synced(2, 2)
    assert db.sync("t", changed=make(CONTENT), present=[(1,), (2,)]) == tm.Synced(0, 0)
    db.delete("t", make(CONTENT))
    assert rows(db.query("SELECT * FROM t")) == []
    db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", STORED)
    assert rows(db.query("SELECT * FROM t")) == STORED


def test_nan_of_pandas_is_null_and_that_of_others_a_value(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, c DOUBLE, d TIMESTAMP, n BIGINT, f BOOLEAN)")
    frame = pd.DataFrame(
        {
            "a": [1.0, math.nan],
            "c": [math.nan, 2.5],
            "d": [pd.NaT, pd.Timestamp("2026-01-01T01:00", tz="Europe/Berlin")],
            "n": pd.array([2**62 + 1, None], "Int64"),
            "f": pd.Series([pd.NA, True], dtype=object),
        }
    )
    db.insert("t", frame)
    expected = [(None, 2.5, dt.datetime(2026, 1, 1), None, True), (1, None, None, 2**62 + 1, None)]
    assert rows(db.query("SELECT * FROM t")) == expected
    db.execute("DELETE FROM t")
    nan = pa.table({"c": [math.nan], "a": [1], "d": [None], "n": [None], "f": [None]})
    db.insert("t", Stream(nan))
    [(_, found, *_)] = rows(db.query("SELECT * FROM t"))
    assert math.isnan(found)


CATEGORIES = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array(["u", "v"]))])
VIEWS = pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array(["u", "v"], pa.string_view()))


@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
@pytest.mark.parametrize(
    "column",
    [CATEGORIES, VIEWS, pa.array(["v", "u", None], pa.string_view())],
    ids=["dictionary", "dictionary of views", "views"],
)
def test_texts_in_every_form_of_arrow_are_texts(db: tm.Database, column: Any) -> None:
    db.execute("CREATE TABLE t (a VARCHAR)")
    db.insert("t", Stream(pa.table({"a": column})))
    assert rows(db.query("SELECT a FROM t")) == [(None,), ("u",), ("v",)]


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
@pytest.mark.parametrize("width", [pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
def test_whole_decimals_of_any_width_are_integers(db: tm.Database, width: Callable[[int, int], pa.DataType]) -> None:
    db.execute("CREATE TABLE t (a BIGINT, b INT, c SMALLINT, d DECIMAL(38, 2))")
    column = pa.array([Decimal("2.0"), None, Decimal("-31.0")], width(5, 1))
    db.insert("t", pa.table(dict.fromkeys("abcd", column)))
    assert rows(db.query("SELECT * FROM t")) == [(None,) * 4, (-31, -31, -31, -31), (2, 2, 2, 2)]
    for name in "abc":
        with pytest.raises(tm.TidemarkError, match=f"column '{name}'") as error:
            one = {other: pa.array([Decimal(1)], width(5, 1)) for other in "abcd"}
            db.insert("t", pa.table({**one, name: pa.array([Decimal("1.5")], width(5, 1))}))
        assert error.value.code == "type"


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
@pytest.mark.parametrize("type_", [pa.int64(), pa.uint64()])
def test_a_double_takes_large_integers_that_it_can_hold(db: tm.Database, type_: pa.DataType) -> None:
    db.execute("CREATE TABLE t (x DOUBLE)")
    db.insert("t", pa.table({"x": pa.array([2**60, 2**53, None], type_)}))
    assert rows(db.query("SELECT * FROM t")) == [(None,), (2.0**53,), (2.0**60,)]
    for given in (pa.table({"x": pa.array([1, 2**53 + 1], type_)}), [(2**53 + 1,)]):
        with pytest.raises(tm.TidemarkError) as error:
            db.insert("t", given)
        assert error.value.code == "type"


REFUSED: list[tuple[Any, str]] = [
    (pd.DataFrame({"a": [1.5], "d": [None]}), "type"),
    (pd.DataFrame({"a": [2**31], "d": [None]}), "type"),
    (pd.DataFrame({"a": ["1"], "d": [None]}), "type"),
    (pd.DataFrame({"a": [1], "d": [pd.Timestamp("2026-01-01T00:00:00.000000001")]}), "type"),
    (pd.DataFrame({"a": [1], "d": [None], "e": [1]}), "columns"),
    (pd.DataFrame([[1, None, 1]], columns=["a", "d", "a"]), "columns"),
    (pd.DataFrame({"a": [1]}), "columns"),
    (pd.Series([1], name="a"), "type"),
    (Stream(pa.table({"a": [1.5], "d": [None]})), "type"),
    (Stream(pa.table({"a": [1], "d": pa.array([1], pa.timestamp("ns"))})), "type"),
    (Stream(pa.table({"a": [1], "d": [b"x"]})), "type"),
    (pa.chunked_array([[1, 2]]), "type"),
    (duckdb.sql("SELECT 1 AS a, TIMESTAMP_NS '2026-01-01 00:00:00.000000001' AS d"), "type"),
    (pd.DataFrame({"a": pd.arrays.SparseArray([1, 2]), "d": [None, None]}), "type"),
    (pd.DataFrame({"a": [1 + 2j], "d": [None]}), "type"),
    ("a text", "type"),
    (7, "type"),
    ({"a": [1], "d": [None]}, "type"),
]


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_a_frame_that_does_not_fit_changes_nothing(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT PRIMARY KEY, d TIMESTAMP)")
    before = db.version
    for frame, code in REFUSED:
        for change in (db.insert, db.upsert, db.delete, db.sync):
            with pytest.raises(tm.TidemarkError) as error:
                change("t", frame)
            assert error.value.code == code, (frame, error.value)
    assert db.version == before


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_a_relation_of_duckdb_that_gives_no_rows_is_an_error_of_the_frame(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT)")
    connection = duckdb.connect()
    closed = connection.sql("SELECT 1 AS a")
    connection.close()
    for frame, said in (
        (duckdb.sql("SELECT CAST('x' AS INT) AS a"), "Could not convert string 'x'"),
        (duckdb.sql("SELECT error('mine') AS a"), "mine"),
        (closed, "its connection is closed"),
    ):
        for change in (db.insert, db.sync, db.delete):
            with pytest.raises(tm.TidemarkError, match=said) as error:
                change("t", frame)
            assert error.value.code == "type" and "'t'" in error.value.message


@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
def test_what_a_reader_of_the_program_raises_is_its_own(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT)")

    def batches() -> Any:
        yield pa.record_batch({"a": [1]})
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        db.insert("t", pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches()))
    assert rows(db.query("SELECT * FROM t")) == []


# Reading

RELATIONS = """
CREATE TABLE t (a BIGINT PRIMARY KEY, "B b" VARCHAR, f BOOLEAN, m DECIMAL(9, 2));
CREATE VIEW plain AS SELECT a FROM t;
CREATE MATERIALIZED VIEW kept AS SELECT f, COUNT(*) AS n FROM t GROUP BY f;
CREATE EXTERNAL VIEW outside AS SELECT a - 1 AS a FROM t;
CREATE SNAPSHOT snap AS SELECT a FROM t REFRESH ON DEMAND;
INSERT INTO t VALUES (9223372036854775807, '<b>', NULL, 1.5), (NULL + 1, 'x', TRUE, NULL);
"""


def test_a_relation_of_every_kind_is_read_when_it_is_asked(db: tm.Database) -> None:
    db.execute(RELATIONS.replace("NULL + 1", "2"))
    t = db.table("T")
    assert t.name == "t"
    assert t.columns == ("a", "B b", "f", "m")
    assert t.schema == db.query("SELECT * FROM t").schema
    assert rows(t.arrow()) == [(2, "x", True, None), (2**63 - 1, "<b>", None, Decimal("1.50"))]
    counts = {name: db.table(name).arrow().num_rows for name in ("plain", "kept", "outside", "snap")}
    assert counts == {"plain": 2, "kept": 2, "outside": 2, "snap": 0}
    db.insert("t", [(0, None, None, None)])
    assert t.arrow().num_rows == 3
    assert pa.table(t).num_rows == 3
    assert rows(t.limit(2).arrow()) == [(0, None, None, None), (2, "x", True, None)]
    assert rows(t.limit(2).limit(1).arrow()) == [(0, None, None, None)]
    with pytest.raises(tm.TidemarkError) as error:
        db.table("nothing")
    assert error.value.code == "unknown_relation"
    db.execute("BEGIN; DELETE FROM t WHERE a = 0; CREATE TABLE fresh (x INT)")
    assert t.arrow().num_rows == 2
    assert db.table("fresh").columns == ("x",)
    db.execute("ROLLBACK")


def test_what_a_relation_shows_of_itself(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, b VARCHAR)")
    assert repr(db.table("t")) == "t: 0 rows\na  b"
    db.insert("t", [(n, None if n else "<i>\n") for n in range(12)])
    shown = repr(db.table("t")).splitlines()
    assert shown[:4] == ["t: 12 rows, the first 10", "a  b", "0  <i>\\n", "1  NULL"]
    assert len(shown) == 12
    page = db.table("t").limit(1)._repr_html_()
    assert "<caption>t: 1 row</caption>" in page
    assert "<td>&lt;i&gt;\\n</td>" in page
    assert "<tr><th>a</th><th>b</th></tr>" in page


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_pandas_gets_every_digit(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a BIGINT, f BOOLEAN, n INT, d DATE, c DOUBLE)")
    db.insert("t", [(2**63 - 1, None, 1, dt.date(1, 1, 1), None), (None, True, 2, None, 0.5)])
    frame = db.table("t").pandas()
    assert [str(type_) for type_ in frame.dtypes] == ["Int64", "boolean", "int32", "object", "float64"]
    assert frame["a"].max() == 2**63 - 1
    before = rows(db.query("SELECT * FROM t"))
    db.delete("t", frame)
    db.insert("t", frame)
    assert rows(db.query("SELECT * FROM t")) == before


EVERY = """
CREATE TABLE z (
    id INT PRIMARY KEY, i SMALLINT, b BIGINT, d DECIMAL(20, 3), f DOUBLE, s VARCHAR, da DATE, ts TIMESTAMP, bo BOOLEAN,
    ai BIGINT[], ad DATE[], at TIMESTAMP[], af DOUBLE[], ab BOOLEAN[], av VARCHAR[], st STRUCT(a BIGINT, f DOUBLE)
)
"""
WIDE = 2**53 + 1
FULL = (1, 2, WIDE, Decimal("1.234"), 0.5, "x", dt.date(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), True)
NESTED = ([WIDE, None], [dt.date(9999, 12, 31), None], [NOON, None], [0.1, None], [True, None], ["x", None])
HALF = {"a": WIDE, "f": None}


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
@pytest.mark.parametrize("form", ["pandas", "arrow"])
def test_a_relation_comes_back_in_as_it_is(db: tm.Database, form: str) -> None:
    db.execute(EVERY)
    empty: tuple[list[Any], ...] = tuple([] for _ in NESTED)
    db.insert("z", [(*FULL, *NESTED, HALF), (2, *(None,) * 15), (3, *(None,) * 8, *empty, {"a": None, "f": 1.5})])
    before = rows(db.query("SELECT * FROM z"))
    frame = getattr(db.table("z"), form)()
    db.upsert("z", frame)
    assert db.changes("z", since=db.version - 1).num_rows == 0
    assert db.sync("z", frame) == tm.Synced(0, 0)
    db.delete("z", frame)
    db.insert("z", getattr(db.table("z"), form)())  # nothing fits everywhere
    db.insert("z", frame)
    assert rows(db.query("SELECT * FROM z")) == before
    if form == "pandas":
        assert frame["ai"].tolist()[:2] == [[WIDE, None], None] and list(frame.columns) == list(db.table("z").columns)


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_a_column_of_pandas_without_values_fits_every_type(db: tm.Database) -> None:
    db.execute(EVERY)
    names = [name for name in db.table("z").columns if name != "id"]
    none: list[Any] = [math.nan, pd.NaT, None, pd.NA]
    columns = [pd.Series([value] * 2) for value in none] + [pd.Series([value] * 2, dtype=object) for value in none]
    columns += [pd.Series([None, None], dtype=kind) for kind in ("Int64", "string", "boolean", "category")]
    columns += [pd.Series([None, None], dtype=pd.ArrowDtype(pa.float64()))]
    for column in columns:
        db.insert("z", pd.DataFrame({"id": [1, 2], **dict.fromkeys(names, column)}))
        assert rows(db.query("SELECT * FROM z")) == [(1, *(None,) * 15), (2, *(None,) * 15)]
        db.execute("DELETE FROM z")
        db.insert("z", pd.DataFrame({"id": [1, 2], **dict.fromkeys(names, column)}).iloc[:0])
    db.insert("z", pd.DataFrame({"id": [], **{name: [] for name in names}}))
    assert rows(db.query("SELECT * FROM z")) == []


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_nan_of_pandas_is_null_inside_of_values(db: tm.Database) -> None:
    db.execute("CREATE TABLE z (i INT[], f DOUBLE[], t TIMESTAMP[], s STRUCT(a INT, b VARCHAR))")
    moments = np.array(["2026-01-01T12:00:00", "NaT"], dtype="datetime64[ns]")
    cells: dict[str, list[Any]] = {
        "i": [np.array([1.0, math.nan]), [1.0, math.nan]],
        "f": [np.array([1.5, math.nan]), (1.5, math.nan)],
        "t": [moments, list(moments)],
        "s": [{"a": 1.0, "b": math.nan}, {"a": 1, "b": pd.NA}],
    }
    frame = pd.DataFrame({name: pd.Series(found, dtype=object) for name, found in cells.items()})
    db.insert("z", frame)
    expected = ((1, None), (1.5, None), (NOON, None), (1, None))
    assert rows(db.query("SELECT * FROM z")) == [expected, expected]
    db.execute("DELETE FROM z")
    nested = pd.ArrowDtype(pa.list_(pa.float64()))
    db.insert("z", frame.assign(f=pd.Series([[1.5, math.nan]] * 2, dtype=nested)))
    assert rows(db.query("SELECT f FROM z")) == [((1.5, None),), ((1.5, None),)]


class Special(pd.DataFrame):  # type: ignore[misc]
    """What libraries on pandas have."""

    @property
    def _constructor(self) -> type[Special]:
        return Special


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_the_index_of_a_class_made_from_pandas_is_ignored(db: tm.Database) -> None:
    db.execute("CREATE TABLE z (a INT, c DOUBLE)")
    frame = Special({"a": [1, 2, 3], "c": [0.5, 1.5, math.nan]})
    db.insert("z", frame[frame.a != 2])
    assert rows(db.query("SELECT * FROM z")) == [(1, 0.5), (3, None)]
    db.delete("z", frame.iloc[2:].set_index(pd.Index([7], name="b")))
    assert rows(db.query("SELECT * FROM z")) == [(1, 0.5)]


@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
def test_a_library_that_is_missing_is_named(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("CREATE TABLE t (a INT)")
    held = db.table("t")
    for library in ("pandas", "polars", "pyspark"):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(tm.TidemarkError, match=f"{library} is not installed") as error:
            getattr(held, library.removeprefix("py"))()
        assert error.value.code == "unsupported"
    assert held.arrow().num_rows == 0


@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
def test_polars_is_handed_arrow(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    class Polars:
        from_arrow = staticmethod(lambda table: ("a frame", table.num_rows))

    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    monkeypatch.setitem(sys.modules, "polars", Polars)
    assert db.table("t").polars() == ("a frame", 1)
