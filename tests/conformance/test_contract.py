"""The public contract of DESIGN §5: versions, changes, subscribe, audit, explain, trace, drop."""

from __future__ import annotations

import datetime as dt
import threading
from decimal import Decimal

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import changes_at, rows, weights_of

SPARK_VARIANTS = ("spark",)


def test_versions_and_changes(db: tm.Database) -> None:
    assert db.version == 0
    db.execute("CREATE TABLE t (a INT, b VARCHAR)")
    db.execute("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    db.execute("DELETE FROM t WHERE a = 1")
    assert db.version == 4
    found = db.changes("v")
    assert found.column_names == ["a", "_version", "_weight", "_time"]
    assert found.schema.field("_version").type == pa.int64() and found.schema.field("_weight").type == pa.int64()
    assert found.schema.field("_time").type == pa.timestamp("us")
    assert rows(found.drop_columns(["_time"])) == [(1, 3, 2), (1, 4, -2), (2, 3, 1)]
    assert rows(db.changes("v", since=3).drop_columns(["_time"])) == [(1, 4, -2)]
    assert rows(db.changes("t", since=1).drop_columns(["_time"])) == [(1, "x", 2, 2), (1, "x", 4, -2), (2, None, 2, 1)]
    assert db.changes("v", since=4).num_rows == 0
    assert db.changes("V").num_rows == 3, "names are folded as in SQL"
    with pytest.raises(tm.TidemarkError, match="version"):
        db.changes("v", since=-1)
    with pytest.raises(tm.TidemarkError, match="unknown_relation"):
        db.changes("nothing")


def test_a_plain_view_is_expanded_and_keeps_no_changes(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT); CREATE VIEW plain (x, y) AS SELECT a, a + b FROM t WHERE b > 0")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT y, COUNT(*) AS n FROM plain GROUP BY y")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 0), (0, 2)")
    assert rows(db.query("SELECT * FROM plain")) == [(0, 2), (1, 2)]
    assert changes_at(db, "v") == {(2, 2): 1}
    with pytest.raises(tm.TidemarkError, match="not_materialized"):
        db.changes("plain")
    assert "expanded" in db.explain("plain")


def test_subscribe_gives_the_content_first_then_each_change(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 0")
    db.execute("INSERT INTO t VALUES (1), (1)")
    with db.subscribe("v") as subscription:
        first = subscription.poll(0)
        assert first is not None and first.version == 3
        assert rows(first.inserted) == [(1,), (1,)] and first.deleted.num_rows == 0
        assert subscription.poll(0) is None
        db.execute("INSERT INTO t VALUES (0)")
        assert subscription.poll(0.01) is None, "a version in which v did not change is not told"
        db.execute("DELETE FROM t WHERE a = 1")
        db.execute("INSERT INTO t VALUES (7)")
        second, third = subscription.poll(0), subscription.poll(0)
        assert second is not None and rows(second.deleted) == [(1,), (1,)] and second.version == 5
        assert third is not None and rows(third.inserted) == [(7,)] and third.version == 6
    assert subscription.poll(0) is None
    resumed = db.subscribe("v", since=4)
    assert [resumed.poll(0).version, resumed.poll(0).version, resumed.poll(0)] == [5, 6, None]  # type: ignore[union-attr]


def test_a_subscription_waits_for_changes_from_another_thread(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    subscription = db.subscribe("v", since=db.version)
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.extend(change.version for change in subscription))
    reader.start()
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("INSERT INTO t VALUES (2)")
    while len(seen) < 2:
        reader.join(0.02)
    subscription.close()
    reader.join(10)
    assert not reader.is_alive() and seen == [3, 4]


def test_result_types(db: tm.Database) -> None:
    db.execute(
        "CREATE TABLE t (s SMALLINT, i INT, b BIGINT, d DECIMAL(12,2), "
        "x DOUBLE PRECISION, c VARCHAR(5), f BOOLEAN, day DATE, at TIMESTAMP)"
    )
    row = (1, 2, 3, Decimal("4.50"), 5.25, "six", True, dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3, 456789))
    db.insert("t", [row, (None,) * 9])
    assert rows(db.query("SELECT * FROM t"))[1] == row
    assert db.query("SELECT * FROM t").schema.types == [
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.decimal128(12, 2),
        pa.float64(),
        pa.string(),
        pa.bool_(),
        pa.date32(),
        pa.timestamp("us"),
    ]
    sums = db.query("SELECT SUM(s), SUM(i), SUM(b), SUM(d), COUNT(*), COUNT(c) FROM t")
    assert sums.schema.types == [pa.int64(), pa.int64(), pa.int64(), pa.decimal128(38, 2), pa.int64(), pa.int64()]
    assert rows(sums) == [(1, 2, 3, Decimal("4.50"), 2, 1)]
    assert rows(db.query("SELECT 7 / 2, -7 / 2, 7 % -2")) == [(3, -3, 1)]
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT c, f, day, at, x, SUM(d) AS d FROM t GROUP BY c, f, day, at, x")
    db.insert("t", [row])
    assert changes_at(db, "v") == {
        ("six", True, row[7], row[8], 5.25, Decimal("4.50")): -1,
        ("six", True, row[7], row[8], 5.25, Decimal("9.00")): 1,
    }
    db.delete("t", [row, row, (None,) * 9])
    assert db.query("SELECT * FROM v").num_rows == 0


def test_a_sum_is_exact_and_overflow_is_an_error_that_names_the_view(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, v BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT k, SUM(v) AS s FROM t GROUP BY k")
    big = 2**62
    with db.transaction() as tx:
        tx.insert("t", [(1, big), (1, big), (1, big), (1, -big), (1, -big)])
    assert changes_at(db, "total") == {(1, big): 1}
    version = db.version
    with pytest.raises(tm.TidemarkError, match="total") as caught:
        db.insert("t", [(1, big)])
    assert caught.value.code == "overflow"
    assert db.version == version and rows(db.query("SELECT s FROM total")) == [(big,)]


def test_an_error_inside_a_view_refuses_the_transaction(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT); CREATE MATERIALIZED VIEW ratio AS SELECT a / b AS q FROM t")
    db.execute("INSERT INTO t VALUES (6, 3)")
    with pytest.raises(tm.TidemarkError, match=r"ratio.*\(a / b\)") as caught:
        db.execute("INSERT INTO t VALUES (1, 0)")
    assert caught.value.code == "division_by_zero"
    assert rows(db.query("SELECT * FROM t")) == [(6, 3)]
    with pytest.raises(tm.TidemarkError, match="division_by_zero"):
        db.execute(
            "CREATE TABLE z (a INT); INSERT INTO z VALUES (0); CREATE MATERIALIZED VIEW y AS SELECT 1 / a AS q FROM z"
        )
    assert db.query("SELECT * FROM z").num_rows == 1
    with pytest.raises(tm.TidemarkError, match="unknown_relation"):
        db.query("SELECT * FROM y")


@pytest.mark.small
def test_trace_and_explain(db: tm.Database) -> None:
    db.execute(
        "CREATE TABLE t (a INT, b INT); CREATE TABLE unread (a INT);"
        "CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS s FROM t GROUP BY a;"
        "CREATE MATERIALIZED VIEW w AS SELECT v.a FROM v JOIN t ON t.a = v.a WHERE v.s > 0"
    )
    db.execute("INSERT INTO unread VALUES (1)")
    assert db.trace(db.version).num_rows == 0, "a table that no view reads costs nothing"
    db.execute("INSERT INTO t VALUES (1, 5)")
    trace = db.trace(db.version)
    figures = ["rows_in", "rows_out", "rows_read", "milliseconds", "rows_filtered", "rows_rederived"]
    assert trace.column_names == ["node", "strategy", "reason", *figures]
    assert {"v", "w"} <= set(trace["node"].to_pylist())
    assert dict(zip(trace["node"].to_pylist(), trace["strategy"].to_pylist(), strict=True))["v"] == "autonomous"
    assert dict(zip(trace["node"].to_pylist(), trace["strategy"].to_pylist(), strict=True))["w"] == "differential"
    text = db.explain("w")
    assert "Δw/Δ+v" in text and "Δw/Δ-t" in text and "v_old" in text
    assert db.explain("v").count("Δ+t") >= 1
    explained = db.execute("EXPLAIN w")
    assert explained is not None and explained["explain"].to_pylist() == text.splitlines()
    with pytest.raises(tm.TidemarkError, match="version"):
        db.trace(99)
    with pytest.raises(tm.TidemarkError, match="not_a_view"):
        db.explain("t")


def test_audit_show_and_drop(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t; INSERT INTO t VALUES (1)")
    audit = db.execute("AUDIT v")
    assert audit is not None and audit.num_rows == 0 and audit.column_names == ["a", "_weight"]
    assert rows(db.execute("SHOW TABLES")) == [("t", "a INT", 1)]
    assert rows(db.execute("SHOW VIEWS")) == [("v", True, 1, 3)]
    with pytest.raises(tm.TidemarkError, match="needed by v"):
        db.execute("DROP TABLE t")
    with pytest.raises(tm.TidemarkError, match="wrong_kind"):
        db.execute("DROP TABLE v")
    db.execute("DROP MATERIALIZED VIEW v; DROP TABLE t; DROP TABLE IF EXISTS t")
    assert rows(db.execute("SHOW TABLES")) == [] and rows(db.execute("SHOW VIEWS")) == []
    db.execute("CREATE TABLE t (a VARCHAR); INSERT INTO t VALUES ('x')")
    assert weights_of(db.changes("t").drop_columns(["_version"])) == {("x",): 1}


def test_queries_order_limit_and_repeat_equal_rows(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, b VARCHAR); INSERT INTO t VALUES (2, 'x'), (1, 'y'), (1, 'y'), (NULL, 'z')")
    assert db.query("SELECT b FROM t ORDER BY a DESC, b").to_pydict() == {"b": ["z", "x", "y", "y"]}
    assert db.query("SELECT a FROM t ORDER BY 1 NULLS FIRST LIMIT 2 OFFSET 1").to_pydict() == {"a": [1, 1]}
    assert db.query("SELECT b, COUNT(*) AS n FROM t GROUP BY b ORDER BY COUNT(*) DESC, b LIMIT 1").to_pylist() == [
        {"b": "y", "n": 2}
    ]
    with db.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1, 'y'); DELETE FROM t WHERE a = 2")
        assert tx.query("SELECT b FROM t ORDER BY b LIMIT 3").to_pydict() == {"b": ["y", "y", "y"]}
    assert db.execute("SELECT 1 AS one; SELECT 2 AS two").to_pylist() == [{"two": 2}]  # type: ignore[union-attr]
    assert db.execute("DELETE FROM t") is None
    assert db.execute("") is None


def test_names_that_need_quotes(db: tm.Database) -> None:
    db.execute('CREATE TABLE "My Table" ("a b" INT, "select" VARCHAR)')
    db.execute(
        'CREATE MATERIALIZED VIEW "v/1" AS SELECT "a b" AS "Sum ""x""", "select" FROM "My Table" WHERE "a b" > 0'
    )
    db.execute("""INSERT INTO "My Table" VALUES (1, 'it''s \\ ok'), (0, NULL)""")
    assert changes_at(db, "v/1") == {(1, "it's \\ ok"): 1}
    db.execute('DELETE FROM "My Table" WHERE "a b" = 1')
    assert db.query('SELECT * FROM "v/1"').num_rows == 0


def test_a_closed_database_says_so(db: tm.Database) -> None:
    with tm.connect("reference") as other:
        pass
    with pytest.raises(tm.TidemarkError, match="closed"):
        other.query("SELECT 1")
