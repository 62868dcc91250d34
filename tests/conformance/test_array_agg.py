"""ARRAY_AGG: the values of a group as an array, NULL among them, in an order that is always determined."""

from __future__ import annotations

import pytest

import tidemark as tm
from tests.support import changes_at, rows

T = "CREATE TABLE t (k INT, x INT, s VARCHAR)"


def test_it_follows_its_rows_in_order_and_keeps_nulls(db: tm.Database) -> None:
    db.execute(T)
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, ARRAY_AGG(s ORDER BY x DESC, s) AS a, ARRAY_AGG(x) AS b,"
        " ARRAY_AGG(DISTINCT x ORDER BY x DESC) AS c, ARRAY_AGG(DISTINCT s) AS d FROM t GROUP BY k"
    )
    db.execute(
        "INSERT INTO t VALUES (1, 2, 'b'), (1, NULL, 'a'), (1, 2, NULL), (1, 3, 'c'), (1, 2, 'b'), (2, NULL, NULL)"
    )
    first = (1, ("a", "c", "b", "b", None), (2, 2, 2, 3, None), (None, 3, 2), ("a", "b", "c", None))
    assert changes_at(db, "v") == {first: 1, (2, (None,), (None,), (None,), (None,)): 1}
    with db.transaction() as tx:
        tx.delete("t", [(1, 2, "b"), (2, None, None)])
        tx.insert("t", [(1, 7, None)])
    second = (1, ("a", None, "c", "b", None), (2, 2, 3, 7, None), (None, 7, 3, 2), ("a", "b", "c", None))
    assert changes_at(db, "v") == {first: -1, second: 1, (2, (None,), (None,), (None,), (None,)): -1}
    with db.transaction() as tx:  # changes that cancel
        tx.insert("t", [(1, 9, "z")])
        tx.delete("t", [(1, 9, "z")])
    assert changes_at(db, "v") == {}


def test_filter_leaves_rows_out_and_nothing_gives_null(db: tm.Database) -> None:
    db.execute(T)
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, ARRAY_AGG(s ORDER BY x NULLS FIRST) FILTER (WHERE x > 1 OR x IS NULL)"
        " AS a, ARRAY_AGG(DISTINCT s ORDER BY s DESC NULLS LAST) FILTER (WHERE x > 1) AS b, COUNT(*) AS n"
        " FROM t GROUP BY k;"
        "CREATE MATERIALIZED VIEW w AS SELECT ARRAY_AGG(x ORDER BY s) AS a FROM t"
    )
    assert rows(db.query("SELECT * FROM w")) == [(None,)]
    db.execute("INSERT INTO t VALUES (1, 1, 'a'), (1, NULL, 'b'), (2, 0, 'c'), (3, 5, NULL), (3, 4, 'd'), (3, 4, 'd')")
    assert changes_at(db, "v") == {
        (1, ("b",), None, 2): 1,
        (2, None, None, 1): 1,
        (3, ("d", "d", None), ("d", None), 3): 1,
    }
    assert changes_at(db, "w") == {(None,): -1, ((1, None, 0, 4, 4, 5),): 1}
    db.execute("UPDATE t SET x = 2 WHERE k = 2")
    assert changes_at(db, "v") == {(2, None, None, 1): -1, (2, ("c",), ("c",), 1): 1}
    db.execute("DELETE FROM t")
    assert rows(db.query("SELECT * FROM w")) == [(None,)]


def test_the_array_is_used_in_expressions_subqueries_and_further_views(db: tm.Database) -> None:
    db.execute(T)
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, ARRAY_AGG(x ORDER BY x) AS xs FROM t GROUP BY k;"
        "CREATE MATERIALIZED VIEW sizes AS SELECT k, cardinality(ARRAY_AGG(x)) AS n, (ARRAY_AGG(s ORDER BY x DESC"
        " NULLS LAST))[1] AS best, array_to_string(ARRAY_AGG(s), '+') AS l FROM t GROUP BY k HAVING COUNT(*) > 1;"
        "CREATE MATERIALIZED VIEW alike AS SELECT a.k, b.k AS other FROM v AS a JOIN v AS b ON a.xs = b.xs"
        " WHERE a.k < b.k;"
        "CREATE MATERIALIZED VIEW sets AS SELECT xs, COUNT(*) AS n FROM v GROUP BY xs;"
        "CREATE MATERIALIZED VIEW back AS SELECT k, x FROM v, UNNEST(xs) AS x;"
        "CREATE MATERIALIZED VIEW near AS SELECT DISTINCT k,"
        " (SELECT ARRAY_AGG(u.x) FROM t AS u WHERE u.k = t.k + 1) AS a FROM t"
    )
    db.execute("INSERT INTO t VALUES (1, 2, 'b'), (1, 1, 'a'), (2, 1, 'c'), (2, 2, NULL), (3, NULL, 'd')")
    assert changes_at(db, "sizes") == {(1, 2, "b", "a+b"): 1, (2, 2, None, "c"): 1}
    assert changes_at(db, "alike") == {(1, 2): 1}
    assert changes_at(db, "sets") == {((1, 2), 2): 1, ((None,), 1): 1}
    assert changes_at(db, "near") == {(1, (1, 2)): 1, (2, (None,)): 1, (3, None): 1}
    db.execute("DELETE FROM t WHERE s = 'c'")
    assert changes_at(db, "alike") == {(1, 2): -1}
    assert changes_at(db, "sets") == {((1, 2), 2): -1, ((1, 2), 1): 1, ((2,), 1): 1}
    assert changes_at(db, "back") == {(2, 1): -1}
    assert changes_at(db, "near") == {(1, (1, 2)): -1, (1, (2,)): 1}


def test_subscribers_and_pairs_see_the_arrays_before_and_after(db: tm.Database) -> None:
    db.execute(T)
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, ARRAY_AGG(x) AS xs FROM t GROUP BY k;"
        "CREATE MATERIALIZED VIEW sets AS SELECT xs, COUNT(*) AS n FROM v GROUP BY xs;"
        "INSERT INTO t VALUES (1, 1, NULL), (2, 1, NULL)"
    )
    with db.subscribe("v", since=db.version) as changes:
        db.execute("INSERT INTO t VALUES (1, NULL, NULL)")
        change = changes.poll(timeout=0)
        assert change is not None
        assert change.inserted.to_pylist() == [{"k": 1, "xs": [1, None]}]
        assert change.deleted.to_pylist() == [{"k": 1, "xs": [1]}]
    pairs = db.changes("sets", since=db.version - 1, paired=True).select(["_change", "key", "old", "new"]).to_pylist()
    assert sorted(pairs, key=str) == [
        {"_change": "inserted", "key": {"xs": [1, None]}, "old": None, "new": {"xs": [1, None], "n": 1}},
        {"_change": "updated", "key": {"xs": [1]}, "old": {"xs": [1], "n": 2}, "new": {"xs": [1], "n": 1}},
    ]


def test_values_of_every_type_are_listed(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (b BOOLEAN, i BIGINT, d DECIMAL(5,2), f DOUBLE PRECISION, e DATE, m TIMESTAMP)")
    columns = ", ".join(f"ARRAY_AGG({name} ORDER BY {name} DESC) AS {name}" for name in "bidfem")
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {columns} FROM t")
    db.execute(
        "INSERT INTO t VALUES (TRUE, 5000000000, 1.50, 'NaN', '2024-02-29', '2024-01-01 01:02:03.000004'),"
        " (FALSE, 1, 2, 1.5, '2023-01-01', NULL)"
    )
    [row] = db.query("SELECT * FROM v").to_pylist()
    assert [str(value) for value in row.values()] == [
        "[True, False]",
        "[5000000000, 1]",
        "[Decimal('2.00'), Decimal('1.50')]",
        "[nan, 1.5]",
        "[datetime.date(2024, 2, 29), datetime.date(2023, 1, 1)]",
        "[None, datetime.datetime(2024, 1, 1, 1, 2, 3, 4)]",
    ]
    db.execute("INSERT INTO t SELECT * FROM t")
    assert db.query("SELECT f[1], f[4], cardinality(m) FROM v").to_pylist()[0]["cardinality"] == 4


def test_what_it_does_not_take(db: tm.Database) -> None:
    db.execute(T)
    for text, code in {
        "SELECT ARRAY_AGG(DISTINCT x ORDER BY s) FROM t": "ordering",
        "SELECT ARRAY_AGG(ARRAY[x]) FROM t": "type",
        "SELECT ARRAY_AGG(x ORDER BY ARRAY[x]) FROM t": "ordering",
        "SELECT ARRAY_AGG(x) OVER () FROM t": "unsupported",
        "SELECT ARRAY_AGG(x ORDER BY s LIMIT 2) FROM t": "unsupported",
        "SELECT ARRAY_AGG(COUNT(*)) FROM t": "grouping",
        "SELECT MIN(ARRAY_AGG(x)) FROM t": "grouping",
    }.items():
        with pytest.raises(tm.TidemarkError) as error:
            db.query(text)
        assert error.value.code == code, text
