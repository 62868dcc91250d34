"""Structs as values and columns: made, read by field, compared, grouped, joined, stored and handed over."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.oracle import check_against_oracle
from tests.support import changes_at, check_invariant, rows
from tidemark.algebra.functions import canonical

SPARK_VARIANTS = ("spark forced",)

PLACES = "CREATE TABLE place (id INT, at STRUCT(x INT, name VARCHAR))"
NAN = float("nan")
NAN_ = canonical(NAN)


def test_structs_are_columns_of_tables_results_and_views(db: tm.Database) -> None:
    db.execute(PLACES)
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT id, at, STRUCT(id AS id, (at).name || '!' AS loud) AS made,"
        " ROW(id, 1.5) AS pair FROM place WHERE id > 0"
    )
    db.execute(
        "INSERT INTO place VALUES (1, ROW(7, 'sea')), (1, ROW(7, 'sea')), (2, NULL), (3, ROW(NULL, NULL)),"
        " (4, {'x': 8, 'name': NULL}), (0, ROW(7, 'sea'))"
    )
    half = Decimal("1.5")
    assert changes_at(db, "v") == {
        (1, (7, "sea"), (1, "sea!"), (1, half)): 2,
        (2, None, (2, None), (2, half)): 1,
        (3, (None, None), (3, None), (3, half)): 1,
        (4, (8, None), (4, None), (4, half)): 1,
    }
    schema = db.query("SELECT at, made, pair FROM v").schema
    assert [str(field.type) for field in schema] == [
        "struct<x: int32, name: string>",
        "struct<id: int32, loud: string>",
        "struct<f1: int32, f2: decimal128(2, 1)>",
    ]
    db.execute("UPDATE place SET at = ROW((at).x + 1, 'lake') WHERE at = ROW(7, 'sea') AND id = 1")
    assert changes_at(db, "place") == {(1, (7, "sea")): -2, (1, (8, "lake")): 2}
    db.execute("UPDATE place SET at = ROW(8, 'lake') WHERE id = 1")  # as before: nothing changes
    assert changes_at(db, "place") == changes_at(db, "v") == {}
    assert db.query("SELECT at FROM place WHERE id = 4").to_pylist() == [{"at": {"x": 8, "name": None}}]


def test_fields_are_read_with_and_without_parentheses(db: tm.Database) -> None:
    db.execute(PLACES + "; CREATE TABLE at (x INT); INSERT INTO at VALUES (99)")
    db.execute("INSERT INTO place VALUES (1, ROW(7, 'sea')), (2, NULL), (3, ROW(NULL, 'land'))")
    found = db.query("SELECT (at).x, at.name, place.at.x + 1 AS more, (place.at).name AS again FROM place")
    assert found.column_names == ["x", "name", "more", "again"]
    assert rows(found) == [(None, None, None, None), (None, "land", None, "land"), (7, "sea", 8, "sea")]
    assert rows(db.query("SELECT (at).* FROM place WHERE at.x > 1")) == [(7, "sea")]
    assert rows(db.query("SELECT p.id FROM place p WHERE EXISTS (SELECT 1 FROM place q WHERE q.at.x = p.at.x)")) == [
        (1,)
    ]
    # A relation goes before a column of the same name.
    assert rows(db.query("SELECT at.x, (place.at).x AS y FROM place, at WHERE id = 1")) == [(99, 7)]
    assert rows(db.query("SELECT ((ROW(1, '2024-01-31')::STRUCT(n INT, day DATE)).day + 1) AS d")) == [
        (dt.date(2024, 2, 1),)
    ]
    with pytest.raises(tm.TidemarkError) as error:
        db.query("SELECT at.z FROM place")
    assert (error.value.code, error.value.hint) == ("unknown_column", "fields: x, name")


def test_structs_are_equal_field_by_field(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a STRUCT(n INT, s VARCHAR)); CREATE TABLE u (b STRUCT(m BIGINT, s VARCHAR))")
    db.execute(
        "CREATE MATERIALIZED VIEW equal AS SELECT a, b FROM t JOIN u ON a = b;"
        "CREATE MATERIALIZED VIEW other AS SELECT a, b FROM t JOIN u ON a <> b;"
        "CREATE MATERIALIZED VIEW missing AS SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE b = a);"
        "CREATE MATERIALIZED VIEW among AS SELECT a FROM t WHERE a IN (SELECT b FROM u);"
        "CREATE MATERIALIZED VIEW outer_ AS SELECT a, b FROM t FULL JOIN u ON a = b;"
        "CREATE MATERIALIZED VIEW both_ AS SELECT a FROM t INTERSECT SELECT b FROM u;"
        "CREATE MATERIALIZED VIEW groups AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;"
        "CREATE MATERIALIZED VIEW kinds AS SELECT COUNT(a) AS n, COUNT(DISTINCT a) AS d FROM t"
    )
    with db.transaction() as tx:
        tx.insert("t", [((1, None),), ({"n": 1, "s": None},), (None,), ((None, None),), ((1, "x"),)])
        tx.insert("u", [((1, None),), ((None, None),), (None,), ((2, "x"),)])
    assert changes_at(db, "equal") == {((1, None), (1, None)): 2, ((None, None), (None, None)): 1}
    assert sum(changes_at(db, "other").values()) == 4 * 3 - 3
    assert changes_at(db, "missing") == {(None,): 1, ((1, "x"),): 1}
    assert changes_at(db, "among") == {((1, None),): 2, ((None, None),): 1}
    assert changes_at(db, "both_") == {((1, None),): 1, ((None, None),): 1, (None,): 1}
    assert changes_at(db, "groups") == {((1, None), 2): 1, ((None, None), 1): 1, (None, 1): 1, ((1, "x"), 1): 1}
    assert changes_at(db, "kinds") == {(0, 0): -1, (4, 3): 1}
    with db.transaction() as tx:
        tx.execute("DELETE FROM u WHERE b IS NOT DISTINCT FROM ROW(1, NULL)")
        tx.execute("INSERT INTO u VALUES (ROW(1, 'x'))")
        tx.execute("DELETE FROM t WHERE a IS NOT DISTINCT FROM NULL")
    assert changes_at(db, "equal") == {((1, None), (1, None)): -2, ((1, "x"), (1, "x")): 1}
    assert changes_at(db, "missing") == {((1, None),): 2, ((1, "x"),): -1, (None,): -1}
    assert changes_at(db, "groups") == {(None, 1): -1}


def test_null_and_a_struct_of_nulls_are_told_apart_except_by_is_null(db: tm.Database) -> None:
    """As in PostgreSQL: IS NULL looks at the fields, and IS NOT NULL is not its opposite."""
    db.execute(
        PLACES + "; INSERT INTO place VALUES (1, NULL), (2, ROW(NULL, NULL)), (3, ROW(1, NULL)), (4, ROW(1, 'a'))"
    )
    found = db.query(
        "SELECT id, at IS NULL AS n, at IS NOT NULL AS f, at IS NOT DISTINCT FROM NULL AS d,"
        " coalesce(at, ROW(0, 'none')) AS c, CASE WHEN id > 2 THEN at END AS w, nullif(at, ROW(1, NULL)) AS m"
        " FROM place"
    )
    assert rows(found) == [
        (1, True, False, True, (0, "none"), None, None),
        (2, True, False, False, (None, None), None, (None, None)),
        (3, False, False, False, (1, None), (1, None), None),
        (4, False, True, False, (1, "a"), (1, "a"), (1, "a")),
    ]


def test_rows_are_compared_with_structs_and_fit_their_fields(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, s STRUCT(d DATE, m DECIMAL(6,2)))")
    db.execute("INSERT INTO t VALUES (1, ROW('2024-01-31', 1)), (2, ROW(NULL, 2.505))")
    assert rows(db.query("SELECT s FROM t")) == [
        ((dt.date(2024, 1, 31), Decimal("1.00")),),
        ((None, Decimal("2.51")),),
    ]
    assert rows(db.query("SELECT k FROM t WHERE s = ROW('2024-01-31', 1)")) == [(1,)]
    assert rows(db.query("SELECT k FROM t WHERE ROW(NULL, 2.51) = s")) == [(2,)]  # a struct's NULLs are equal
    assert rows(db.query("SELECT k FROM t WHERE s IN (ROW('2024-01-31', 1), ROW('2024-02-01', 2))")) == [(1,)]
    assert rows(db.query("SELECT k FROM t WHERE s <> ROW('2024-01-31', 1.001)")) == [(1,), (2,)]
    # Rows that are written out on both sides are compared by columns, with SQL's NULL.
    assert rows(db.query("SELECT ROW(1, NULL) = ROW(1, NULL) AS a, ROW(1, NULL) = ROW(2, NULL) AS b")) == [
        (None, False)
    ]
    assert rows(db.query("SELECT s::STRUCT(p TIMESTAMP, q INT) AS c FROM t WHERE k = 1")) == [
        ((dt.datetime(2024, 1, 31), 1),)
    ]
    assert rows(db.query("SELECT s FROM t WHERE k = 2 UNION SELECT ROW(NULL::DATE, 2.51)")) == [
        ((None, Decimal("2.51")),)
    ]


def test_rows_with_structs_are_handed_over_and_taken_back(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, s STRUCT(x DOUBLE PRECISION, b BOOLEAN))")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    with db.transaction() as tx:
        tx.insert("t", [(1, {"b": True, "x": NAN}), (2, (NAN, True)), (3, (-0.0, None)), (4, None), (5, (0.0, None))])
        kind = pa.struct([("x", pa.float32()), ("b", pa.bool_())])
        tx.insert("t", pa.table({"k": [6], "s": pa.array([{"x": 1.5, "b": False}], kind)}))
    assert changes_at(db, "v") == {((NAN_, True), 2): 1, ((0.0, None), 2): 1, (None, 1): 1, ((1.5, False), 1): 1}
    with db.transaction() as tx:
        tx.delete("t", [(2, {"x": NAN, "b": True}), (4, None)])
    assert changes_at(db, "v") == {((NAN_, True), 2): -1, ((NAN_, True), 1): 1, (None, 1): -1}
    (change,) = list_of(db.subscribe("v", since=db.version - 1))
    assert change.inserted.to_pylist()[0]["s"]["b"] is True
    wrong: list[Any] = [{"x": 1.0}, {"x": 1.0, "b": True, "c": 1}, (1.0,), [1.0, True], "x", ("x", True), (1.0, 1)]
    for value in wrong:
        with pytest.raises(tm.TidemarkError) as error, db.transaction() as tx:
            tx.insert("t", [(1, value)])
        assert error.value.code == "type", value
    with pytest.raises(tm.TidemarkError) as error, db.transaction() as tx:
        tx.insert("t", pa.table({"k": [1], "s": pa.array([{"b": True, "x": 1.0}])}))
    assert error.value.code == "type"
    with pytest.raises(tm.TidemarkError) as error, db.transaction() as tx:
        tx.delete("t", [(3, (None, None))])
    assert error.value.code == "absent"


def list_of(subscription: tm.Subscription) -> list[tm.Change]:
    found = []
    while (change := subscription.poll(0)) is not None:
        found.append(change)
    subscription.close()
    return found


def test_many_rows_with_structs_come_and_go(db: tm.Database) -> None:
    db.execute(
        "CREATE TABLE t (k INT PRIMARY KEY, s STRUCT(a INT, b VARCHAR));"
        "CREATE TABLE u (s STRUCT(a INT, b VARCHAR), n INT)"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n, MAX(k) AS last FROM t GROUP BY s;"
        "CREATE MATERIALIZED VIEW w AS SELECT t.k, u.n FROM t JOIN u ON t.s = u.s;"
        "CREATE MATERIALIZED VIEW x AS SELECT (s).a, SUM(k) AS total FROM t GROUP BY (s).a"
    )
    with db.transaction() as tx:
        tx.insert("t", [(k, (k % 7, None) if k % 3 else None) for k in range(600)])
        tx.insert("u", [((k % 7, None), k % 2) for k in range(100)])
    check_invariant(db)
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE k % 2 = 0")
        tx.execute("DELETE FROM u WHERE n = 1 AND s.a > 3")
    check_invariant(db)
    assert rows(db.query("SELECT n FROM v WHERE s = ROW(3, NULL)")) == [(28,)]
    db.execute("UPDATE t SET s = ROW(k, 'k') WHERE k < 200")
    db.execute("DELETE FROM t WHERE k >= 3")
    assert changes_at(db, "t", db.version - 1)[(1, (1, "k"))] == 1
    assert rows(db.query("SELECT * FROM v")) == [((1, "k"), 1, 1)]


def test_structs_are_keys_of_tables_and_partitions(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (s STRUCT(a INT, b INT) PRIMARY KEY, n INT)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT s, n, RANK() OVER (PARTITION BY (s).a ORDER BY n) AS r FROM t;"
        "CREATE MATERIALIZED VIEW w AS SELECT n, COUNT(*) OVER (PARTITION BY s) AS c FROM t"
    )
    db.execute("INSERT INTO t VALUES (ROW(1, 1), 5), (ROW(1, NULL), 4), (ROW(2, 1), 3)")
    assert changes_at(db, "v") == {((1, 1), 5, 2): 1, ((1, None), 4, 1): 1, ((2, 1), 3, 1): 1}
    with pytest.raises(tm.TidemarkError) as error:
        db.execute("INSERT INTO t VALUES (ROW(1, NULL), 9)")
    assert error.value.code == "primary_key"
    db.execute("UPDATE t SET n = 6 WHERE s = ROW(1, NULL)")
    assert changes_at(db, "v") == {((1, 1), 5, 2): -1, ((1, 1), 5, 1): 1, ((1, None), 4, 1): -1, ((1, None), 6, 2): 1}
    paired = db.changes("t", since=db.version - 1, paired=True)
    assert paired.num_rows == 1


def test_ties_between_rows_are_broken_by_their_structs(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, s STRUCT(a INT, b VARCHAR))")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, s FROM t ORDER BY k LIMIT 2;"
        "CREATE MATERIALIZED VIEW w AS SELECT k, s, ROW_NUMBER() OVER (ORDER BY k) AS n FROM t"
    )
    order = [(1, "B"), (1, "a"), (1, None), (2, "a"), (None, "a"), (None, None), None]
    with db.transaction() as tx:
        tx.insert("t", [(1, struct) for struct in reversed(order)])
    assert changes_at(db, "v") == {(1, (1, "B")): 1, (1, (1, "a")): 1}
    assert changes_at(db, "w") == {(1, struct, place): 1 for place, struct in enumerate(order, 1)}
    db.execute("DELETE FROM t WHERE s = ROW(1, 'B')")
    assert changes_at(db, "v") == {(1, (1, "B")): -1, (1, (1, None)): 1}


def test_a_column_of_structs_is_added_and_checked(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (1), (2)")
    db.execute("ALTER TABLE t ADD COLUMN s STRUCT(d DATE, x DOUBLE PRECISION) DEFAULT ROW('2024-01-31', NULL)")
    db.execute("INSERT INTO t VALUES (3, ROW(NULL, 1))")
    day = dt.date(2024, 1, 31)
    assert rows(db.query("SELECT * FROM t")) == [(1, (day, None)), (2, (day, None)), (3, (None, 1.0))]
    db.execute("CREATE TABLE c (s STRUCT(a INT, b INT) NOT NULL, CHECK ((s).a < (s).b))")
    db.execute("INSERT INTO c VALUES (ROW(1, 2)), (ROW(NULL, 2))")
    for row in ("ROW(2, 1)", "NULL"):
        with pytest.raises(tm.TidemarkError) as error:
            db.execute(f"INSERT INTO c VALUES ({row})")
        assert error.value.code in ("check", "not_null")


def test_relations_are_joined_by_fields(db: tm.Database) -> None:
    db.execute(PLACES + "; CREATE TABLE name (name VARCHAR, long VARCHAR)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT p.id, n.long FROM place p JOIN name n ON n.name = p.at.name;"
        "CREATE MATERIALIZED VIEW w AS SELECT p.id, n.long FROM place p LEFT JOIN name n ON n.name = (p.at).name"
        " AND p.at.x > 1"
    )
    with db.transaction() as tx:
        tx.insert("place", [(1, (1, "a")), (2, (2, "a")), (3, None), (4, (2, None))])
        tx.insert("name", [("a", "Ay"), (None, "?")])
    assert changes_at(db, "v") == {(1, "Ay"): 1, (2, "Ay"): 1}
    assert changes_at(db, "w") == {(1, None): 1, (2, "Ay"): 1, (3, None): 1, (4, None): 1}
    db.execute("UPDATE place SET at = ROW((at).x + 1, (at).name) WHERE id = 1")
    assert changes_at(db, "v") == {}
    assert changes_at(db, "w") == {(1, None): -1, (1, "Ay"): 1}
    db.execute("UPDATE name SET long = 'Eh' WHERE name = 'a'")
    assert changes_at(db, "v") == {(1, "Ay"): -1, (2, "Ay"): -1, (1, "Eh"): 1, (2, "Eh"): 1}


def test_a_struct_is_as_approximate_as_its_fields(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, x DOUBLE PRECISION)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, STRUCT(SUM(x) AS s, COUNT(*) AS n) AS both_ FROM t GROUP BY k")
    db.execute("INSERT INTO t VALUES (1, 0.1), (1, 0.2), (1, 0.3), (2, 1e16), (2, 1)")
    db.execute("DELETE FROM t WHERE x = 0.2")
    assert rows(db.query("SELECT k, (both_).n FROM v")) == [(1, 2), (2, 2)]
    for key in ("both_", "(both_).n"):  # what is read of an approximate value counts as approximate
        with pytest.raises(tm.TidemarkError) as error:
            db.execute(f"CREATE MATERIALIZED VIEW w AS SELECT {key} AS k, COUNT(*) AS c FROM v GROUP BY {key}")
        assert error.value.code == "approximate_key"


def test_groups_know_the_fields_of_their_keys(db: tm.Database) -> None:
    db.execute(PLACES + "; INSERT INTO place VALUES (1, ROW(1, 'a')), (2, ROW(1, 'a')), (3, ROW(2, 'b'))")
    assert rows(db.query("SELECT at.x, (at).name || '!' AS n, COUNT(*) AS c FROM place GROUP BY at")) == [
        (1, "a!", 2),
        (2, "b!", 1),
    ]
    assert rows(db.query("SELECT at.x, COUNT(*) AS c FROM place GROUP BY at.x HAVING at.x > 1")) == [(2, 1)]
    with pytest.raises(tm.TidemarkError) as error:
        db.query("SELECT at.name, COUNT(*) AS c FROM place GROUP BY at.x")
    assert error.value.code == "grouping"


def test_what_structs_are_not(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, s STRUCT(x INT, y VARCHAR), b INT[])")
    for text in (
        "SELECT a FROM t WHERE s < s",
        "SELECT a FROM t WHERE s < ROW(1, 'a')",
        "SELECT a FROM t WHERE s = ROW(1)",
        "SELECT a FROM t WHERE s = 1",
        "SELECT a FROM t WHERE s = ROW(1, 2)",
        "SELECT greatest(s, s) FROM t",
        "SELECT MIN(s) FROM t",
        "SELECT ARRAY_AGG(s) FROM t",
        "SELECT s FROM t ORDER BY s",
        "SELECT s FROM t ORDER BY 1",
        "SELECT RANK() OVER (ORDER BY s) FROM t",
        "SELECT ARRAY[s] FROM t",
        "SELECT ROW(b) FROM t",
        "SELECT ROW(s, 1) FROM t",
        "SELECT ROW()",
        "SELECT STRUCT(a + 1) FROM t",
        "SELECT STRUCT(a AS x, a AS X) FROM t",
        "SELECT s || 'x' FROM t",
        "SELECT s::VARCHAR FROM t",
        "SELECT '(1,a)'::STRUCT(x INT, y VARCHAR)",
        "SELECT a.x FROM t",
        "SELECT (a).x FROM t",
        "INSERT INTO t (s) VALUES ('(1,a)')",
        "INSERT INTO t (s) VALUES (ROW(1, 'a', 2))",
        "INSERT INTO t (s) VALUES (ROW('a', 'a'))",
        "UPDATE t SET s.x = 1",
        "CREATE TABLE u (s STRUCT(x INT[]))",
        "CREATE TABLE u (s STRUCT(x INT)[])",
        "CREATE TABLE u (s STRUCT(x STRUCT(y INT)))",
        "CREATE TABLE u (s STRUCT(x VARCHAR(3)))",
        'CREATE TABLE u (s STRUCT("x y" INT))',
        "CREATE TABLE u (s STRUCT(x INT, X INT))",
        "CREATE TABLE u (s STRUCT)",
    ):
        with pytest.raises(tm.TidemarkError) as error:
            db.execute(text)
        known = ("unsupported", "type", "ordering", "syntax", "duplicate_column", "unknown_relation")
        assert error.value.code in known, (text, error.value)


VIEWS = {
    "fields": "SELECT k, (s).a AS a, s.b AS b FROM t WHERE s.a > 0",
    "groups": "SELECT s, COUNT(*) AS n, SUM(k) AS total FROM t GROUP BY s",
    "joined": "SELECT l.k, r.s FROM t l JOIN t r ON l.s = r.s",
    "outer_": "SELECT l.k, r.k AS other FROM t l LEFT JOIN t r ON l.s = r.s AND r.k > 3",
    "kinds": "SELECT DISTINCT s FROM t",
    "rest": "SELECT s FROM t EXCEPT ALL SELECT s FROM t WHERE k > 2",
    "some": "SELECT k FROM t WHERE s IN (SELECT u.s FROM t u WHERE u.k = 1)",
    "made": "SELECT {'k': k, 'a': (s).a} AS made, COUNT(DISTINCT s) AS n FROM t GROUP BY {'k': k, 'a': (s).a}",
}
structs = st.none() | st.tuples(st.none() | st.integers(-1, 2), st.none() | st.sampled_from(["", "x"]))
table_rows = st.lists(st.tuples(st.integers(1, 5), structs), max_size=6)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(table_rows, min_size=1, max_size=4), st.data())
def test_views_over_structs_hold_what_duckdb_makes_of_their_definitions(
    history: list[Any], data: st.DataObject
) -> None:
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (k INT, s STRUCT(a INT, b VARCHAR))")
        for name, text in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        present: list[Any] = []
        for added in history:
            leaving = data.draw(st.lists(st.sampled_from(present), unique_by=id) if present else st.just([]))
            with db.transaction() as tx:
                tx.insert("t", added)
                tx.delete("t", leaving)
            for row in leaving:
                present.remove(row)
            present += added
            check_against_oracle(db, VIEWS)
        check_invariant(db)
