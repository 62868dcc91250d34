"""``upsert``: rows that are to stand in a table, whatever had their keys before, with the exact net change."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import changes_at, rows

SPARK_VARIANTS = ("spark",)

SETUP = """
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR, c DECIMAL(6, 2));
CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n, SUM(c) AS c FROM t GROUP BY b;
INSERT INTO t VALUES (1, 'x', 1.5), (2, 'x', NULL), (3, NULL, 2);
"""


def test_rows_come_in_place_of_those_with_their_keys(db: tm.Database) -> None:
    db.execute(SETUP)
    db.upsert("t", [(1, "y", 1), (2, "x", None), (9, "z", Decimal("0.25"))])
    assert changes_at(db, "t") == {
        (1, "x", Decimal("1.50")): -1,
        (1, "y", Decimal("1.00")): 1,
        (9, "z", Decimal("0.25")): 1,
    }
    assert changes_at(db, "v").keys() == {
        ("x", 2, Decimal("1.50")),
        ("x", 1, None),
        ("y", 1, Decimal("1.00")),
        ("z", 1, Decimal("0.25")),
    }
    paired = db.changes("t", since=db.version - 1, paired=True)
    assert sorted(paired["_change"].to_pylist()) == ["inserted", "updated"]


def test_an_equal_row_is_no_change_and_no_rows_are_none(db: tm.Database) -> None:
    db.execute(SETUP)
    before = db.version
    db.upsert("t", db.query("SELECT c, b, a FROM t"))
    db.upsert("t", [])
    assert db.changes("t", since=before).num_rows == 0


def test_what_upsert_refuses_changes_nothing(db: tm.Database) -> None:
    db.execute(SETUP + "CREATE TABLE bag (x INT)")
    before = db.version
    refused: list[tuple[str, Any, str, str]] = [
        ("bag", [(1,)], "no_key", "no PRIMARY KEY"),
        ("t", [(1, "a", 1), (4, "b", 1), (1, "c", 1)], "primary_key", r"the key \(a=1\) stands twice"),
        ("t", [(5, "a", 1), (5, "a", 1)], "primary_key", r"a=5"),
        ("t", [{"a": 1, "b": "only"}], "columns", "missing: c"),
        ("t", [(None, "a", 1)], "not_null", "'a'"),
        ("t", [(1, "a", Decimal("1.555"))], "type", "'c'"),
        ("v", [("x", 1, 1)], "not_a_table", "v"),
        ("nothing", [(1,)], "unknown_relation", "nothing"),
    ]
    for table, given, code, text in refused:
        with pytest.raises(tm.TidemarkError, match=text) as error:
            db.upsert(table, given)
        assert error.value.code == code
    assert db.version == before


def test_upserts_see_what_their_transaction_did(db: tm.Database) -> None:
    db.execute(SETUP)
    with db.transaction() as tx:
        tx.insert("t", [(7, "new", 1)])
        tx.execute("DELETE FROM t WHERE a = 1")
        tx.upsert("t", [(7, "newer", 2), (1, "back", 3), (2, "two", 4)])
        tx.upsert("t", [(7, "newest", 2), (3, None, 2)])
        assert rows(tx.query("SELECT a, b FROM t")) == [(1, "back"), (2, "two"), (3, None), (7, "newest")]
        assert rows(tx.query("SELECT n FROM v WHERE b = 'newest'")) == [(1,)]
        tx.execute("UPDATE t SET a = a + 10 WHERE a = 2")
        tx.upsert("t", [(12, "twelve", 4)])
    assert rows(db.query("SELECT a, b FROM t")) == [(1, "back"), (3, None), (7, "newest"), (12, "twelve")]
    paired = db.changes("t", since=db.version - 1, paired=True).select(["_change", "old", "new"]).to_pylist()
    moved = [one for one in paired if one["old"] is not None and one["old"]["a"] == 2]
    assert [(one["_change"], one["new"]["a"]) for one in moved] == [("updated", 12)]


def test_rules_and_sessions_see_an_update(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR);
        CREATE TABLE seen (kind VARCHAR, a INT, b VARCHAR);
        INSERT INTO t VALUES (1, 'x');
        CREATE RULE u ON UPDATE OF b ON t WHEN SELECT a, b FROM t
            DO INSERT INTO seen SELECT 'update', a, b FROM condition;
        CREATE RULE d ON DELETE ON t WHEN SELECT a, b FROM t
            DO INSERT INTO seen SELECT 'delete', a, b FROM condition;
        ACTIVATE RULE u; ACTIVATE RULE d;
    """)
    db.execute("BEGIN")
    db.upsert("t", [(1, "y")])
    db.execute("COMMIT")
    assert rows(db.query("SELECT kind, a, b FROM seen")) == [("update", 1, "y")]


def test_keys_of_every_kind(db: tm.Database) -> None:
    db.execute("CREATE TABLE k (d DATE, m TIMESTAMP, s VARCHAR, r DOUBLE, n INT, PRIMARY KEY (s, r, d, m))")
    first = (dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 1), "Ä'\"", math.nan, 1)
    db.upsert("k", [first, (*first[:3], -0.0, 1)])
    db.upsert("k", [(*first[:4], 2), (*first[:3], 0.0, 2)])
    assert rows(db.query("SELECT n FROM k")) == [(2,), (2,)]
    with pytest.raises(tm.TidemarkError, match="stands twice"):
        db.upsert("k", [(*first[:3], 0.0, 2), (*first[:3], -0.0, 3)])
    with pytest.raises(tm.TidemarkError, match="stands twice"):
        db.upsert("k", [first, (*first[:4], 7)])


def test_many_rows_at_once(db: tm.Database) -> None:
    db.execute(SETUP)
    some = pa.table({"a": list(range(3000)), "b": ["x", "y", None] * 1000, "c": pa.nulls(3000, pa.decimal128(6, 2))})
    db.upsert("t", some)
    db.upsert("t", some.slice(1500).set_column(1, "b", [["z"] * 1500]))
    assert rows(db.query("SELECT b, n FROM v")) == [(None, 500), ("x", 500), ("y", 500), ("z", 1500)]
    assert db.changes("t", since=db.version - 1).num_rows == 3000
