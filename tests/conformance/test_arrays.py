"""Arrays within queries and as columns, and UNNEST: a linear operator, so its changes follow those of its input."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import changes_at, check_invariant, rows
from tidemark.algebra.functions import canonical

SPARK_VARIANTS = ("spark forced",)


def test_arrays_within_a_query(db: tm.Database) -> None:
    db.execute(
        "CREATE TABLE t (a INT, i INT, tags VARCHAR); INSERT INTO t VALUES (2, 1, 'x,y'), (5, 3, NULL), (7, 0, '')"
    )
    found = db.query(
        "SELECT a, (ARRAY[10, 20])[a], (ARRAY[10, 20])[2], string_to_array(tags, ',') [i] AS tag,"
        " cardinality(string_to_array(tags, ',')) AS n, array_length(string_to_array(tags, ','), 1) AS l,"
        " array_to_string(ARRAY[tags, 'z'], '-') AS j, a = ANY(ARRAY[1, 2]) AS e, a <> ALL(ARRAY[7, NULL]) AS f,"
        " array_position(ARRAY[5, 2], a) AS p FROM t"
    )
    assert rows(found) == [
        (2, 20, 20, "x", 2, 2, "x,y-z", True, None, 2),
        (5, None, 20, None, None, None, "z", False, None, 1),
        (7, None, 20, None, 0, None, "-z", False, False, None),
    ]


def test_the_elements_of_a_column_are_rows_that_come_and_go_with_it(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, tags VARCHAR)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, tag"
        " FROM t, UNNEST(string_to_array(t.tags, ',')) AS x(tag) WHERE k > 0;"
        "CREATE MATERIALIZED VIEW n AS SELECT tag, COUNT(*) AS n FROM t"
        " CROSS JOIN UNNEST(string_to_array(tags, ',')) AS x(tag) GROUP BY tag;"
        "CREATE MATERIALIZED VIEW p AS SELECT k, x.tag, x.place FROM t"
        " CROSS JOIN UNNEST(string_to_array(tags, ',')) WITH ORDINALITY AS x(tag, place)"
    )
    db.execute("INSERT INTO t VALUES (1, 'a,b,a'), (2, NULL), (3, ''), (0, 'b'), (1, 'a,b,a')")
    assert changes_at(db, "v") == {(1, "a"): 4, (1, "b"): 2}
    assert rows(db.query("SELECT * FROM n")) == [("a", 4), ("b", 3)]
    assert changes_at(db, "p") == {(1, "a", 1): 2, (1, "b", 2): 2, (1, "a", 3): 2, (0, "b", 1): 1}
    db.execute("UPDATE t SET tags = 'a,c' WHERE k = 1")
    assert changes_at(db, "v") == {(1, "a"): -2, (1, "b"): -2, (1, "c"): 2}
    assert changes_at(db, "n") == {("a", 4): -1, ("a", 2): 1, ("b", 3): -1, ("b", 1): 1, ("c", 2): 1}
    db.execute("DELETE FROM t")
    assert db.query("SELECT * FROM p").num_rows == 0


def test_elements_are_joined_with_other_relations(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, tags VARCHAR); CREATE TABLE names (tag VARCHAR, name VARCHAR)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, name FROM t"
        " JOIN LATERAL UNNEST(string_to_array(tags, ' ')) AS x ON TRUE JOIN names ON names.tag = x"
    )
    with db.transaction() as tx:
        tx.insert("t", [(1, "a b"), (2, "b")])
        tx.insert("names", [("b", "Bee"), ("a", "Ay")])
    assert changes_at(db, "v") == {(1, "Ay"): 1, (1, "Bee"): 1, (2, "Bee"): 1}
    with db.transaction() as tx:
        tx.execute("DELETE FROM names WHERE tag = 'a'")
        tx.execute("UPDATE t SET tags = 'b b' WHERE k = 1")
    assert changes_at(db, "v") == {(1, "Ay"): -1, (1, "Bee"): 1}
    assert rows(db.query("SELECT u FROM UNNEST(ARRAY[3, 1]) AS u WHERE u > 1")) == [(3,)]


ARRAYS = "CREATE TABLE t (k INT, tags VARCHAR[], xs DOUBLE PRECISION[])"
NAN = float("nan")
NAN_ = canonical(NAN)


def test_arrays_are_columns_of_tables_results_and_views(db: tm.Database) -> None:
    db.execute(ARRAYS)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, tags, ARRAY[k, NULL] AS pair FROM t WHERE k > 0")
    db.execute(
        "INSERT INTO t VALUES (1, ARRAY['a', NULL], ARRAY[1.5, 2]), (2, ARRAY[]::VARCHAR[], NULL), (2, NULL, NULL),"
        " (1, ARRAY['a', NULL], NULL), (3, ARRAY[NULL]::VARCHAR[], ARRAY[0]), (2, ARRAY[]::VARCHAR[], NULL)"
    )
    assert changes_at(db, "t") == {
        (1, ("a", None), (1.5, 2.0)): 1,
        (1, ("a", None), None): 1,
        (2, (), None): 2,
        (2, None, None): 1,
        (3, (None,), (0.0,)): 1,
    }
    assert changes_at(db, "v") == {
        (1, ("a", None), (1, None)): 2,
        (2, (), (2, None)): 2,
        (2, None, (2, None)): 1,
        (3, (None,), (3, None)): 1,
    }
    assert str(db.query("SELECT tags FROM v").schema.field("tags").type) == "list<item: string>"
    db.execute("UPDATE t SET tags = ARRAY['a', NULL] WHERE k = 2 AND tags IS NULL")
    assert changes_at(db, "v") == {(2, None, (2, None)): -1, (2, ("a", None), (2, None)): 1}
    db.execute("DELETE FROM t WHERE cardinality(tags) = 0")
    assert changes_at(db, "v") == {(2, (), (2, None)): -2}
    db.execute("UPDATE t SET tags = ARRAY['a', NULL] WHERE k = 1")  # as before: nothing changes
    assert changes_at(db, "t") == changes_at(db, "v") == {}
    assert db.query("SELECT tags FROM t WHERE k = 3").to_pylist() == [{"tags": [None]}]


def test_rows_with_arrays_are_handed_over_and_taken_back(db: tm.Database) -> None:
    db.execute(ARRAYS)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT xs, COUNT(*) AS n FROM t GROUP BY xs")
    with db.transaction() as tx:
        tx.insert("t", [(1, ["a", None], (NAN, -0.0)), (2, [], [None]), (3, None, []), (1, ("a", None), (NAN, 0.0))])
        arrow = pa.table({"k": [4], "tags": [["x"]], "xs": pa.array([[1, 2]], pa.large_list(pa.int64()))})
        tx.insert("t", arrow)
    assert changes_at(db, "v") == {((NAN_, 0.0), 2): 1, ((None,), 1): 1, ((), 1): 1, ((1.0, 2.0), 1): 1}
    with db.transaction() as tx:
        tx.delete("t", [(1, ["a", None], [NAN, 0.0]), (3, None, [])])
    assert changes_at(db, "v") == {((NAN_, 0.0), 2): -1, ((NAN_, 0.0), 1): 1, ((), 1): -1}
    for row in ((1, "ab", None), (1, [1], None), (1, None, ["x"]), (1, None, 5), (1, None, [["x"]])):
        with pytest.raises(tm.TidemarkError) as error, db.transaction() as tx:
            tx.insert("t", [row])
        assert error.value.code == "type", row
    with pytest.raises(tm.TidemarkError) as error, db.transaction() as tx:
        tx.delete("t", [(2, [None], [None])])
    assert error.value.code == "absent"


def test_many_rows_with_arrays_come_and_go(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT[]); CREATE TABLE u (a INT[], b VARCHAR[])")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;"
        "CREATE MATERIALIZED VIEW w AS SELECT t.k, u.b FROM t JOIN u ON t.a = u.a"
    )
    with db.transaction() as tx:
        tx.insert("t", [(k, [k % 7, None] if k % 3 else None) for k in range(600)])
        tx.insert("u", [([k % 7, None], [str(k % 2)]) for k in range(100)])
    check_invariant(db)
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE k % 2 = 0")
        tx.execute("DELETE FROM u WHERE b = ARRAY['1']")
    check_invariant(db)
    assert rows(db.query("SELECT n FROM v WHERE a = ARRAY[3, NULL]")) == [(28,)]
    db.execute("UPDATE t SET a = ARRAY[k] WHERE k < 200")
    db.execute("DELETE FROM t WHERE k >= 3")
    assert changes_at(db, "t", db.version - 1)[(1, (1,))] == 1
    assert rows(db.query("SELECT * FROM v")) == [((1,), 1)]


def test_arrays_are_equal_element_by_element(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT[]); CREATE TABLE u (b BIGINT[])")
    db.execute(
        "CREATE MATERIALIZED VIEW equal AS SELECT a, b FROM t JOIN u ON a = b;"
        "CREATE MATERIALIZED VIEW other AS SELECT a, b FROM t JOIN u ON a <> b;"
        "CREATE MATERIALIZED VIEW missing AS SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE b = a);"
        "CREATE MATERIALIZED VIEW outer_ AS SELECT a, b FROM t FULL JOIN u ON a = b;"
        "CREATE MATERIALIZED VIEW both_ AS SELECT a FROM t INTERSECT SELECT b FROM u;"
        "CREATE MATERIALIZED VIEW kinds AS SELECT COUNT(a) AS n, COUNT(DISTINCT a) AS d FROM t"
    )
    with db.transaction() as tx:
        tx.insert("t", [([1, None],), ([1, None],), ([],), (None,), ([None],), ([1, 2],)])
        tx.insert("u", [([1, None],), ([],), (None,), ([2, 1],)])
    assert changes_at(db, "equal") == {((1, None), (1, None)): 2, ((), ()): 1}
    assert sum(changes_at(db, "other").values()) == 5 * 3 - 3
    assert changes_at(db, "missing") == {(None,): 1, ((None,),): 1, ((1, 2),): 1}
    assert changes_at(db, "both_") == {((1, None),): 1, ((),): 1, (None,): 1}
    assert changes_at(db, "kinds") == {(0, 0): -1, (5, 4): 1}
    with db.transaction() as tx:
        tx.execute("DELETE FROM u WHERE b IS NOT DISTINCT FROM ARRAY[1, NULL]")
        tx.execute("INSERT INTO u VALUES (ARRAY[NULL]::BIGINT[])")
    assert changes_at(db, "equal") == {((1, None), (1, None)): -2, ((None,), (None,)): 1}
    assert changes_at(db, "missing") == {((1, None),): 2, ((None,),): -1}
    found = db.query(
        "SELECT ARRAY[1, NULL] = ARRAY[1, NULL] AS a, ARRAY[1, NULL] = ARRAY[1, 2] AS b,"
        " ARRAY[1] <> ARRAY[1, NULL] AS c,"
        " ARRAY[1] = NULL AS d, ARRAY[1] IS DISTINCT FROM NULL AS e, nullif(ARRAY[1], ARRAY[1.0]) IS NULL AS f,"
        " coalesce(NULL, ARRAY[2]) AS g, ARRAY['1', NULL]::INT[] AS h"
    )
    assert rows(found) == [(True, False, True, None, True, True, (2,), (1, None))]


def test_ties_between_rows_are_broken_by_their_arrays(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, a INT[])")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, a FROM t ORDER BY k LIMIT 2;"
        "CREATE MATERIALIZED VIEW w AS SELECT k, a, ROW_NUMBER() OVER (ORDER BY k) AS n FROM t"
    )
    with db.transaction() as tx:
        tx.insert("t", [(1, [2]), (1, [None]), (1, None), (1, [1, None]), (1, [1, 2]), (1, [])])
    assert changes_at(db, "v") == {(1, ()): 1, (1, (1, 2)): 1}
    order = [(), (1, 2), (1, None), (2,), (None,), None]
    assert changes_at(db, "w") == {(1, array, place): 1 for place, array in enumerate(order, 1)}
    db.execute("DELETE FROM t WHERE a = ARRAY[1, 2]")
    assert changes_at(db, "v") == {(1, (1, 2)): -1, (1, (1, None)): 1}


def test_the_elements_of_a_stored_array_are_rows(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, a INT[])")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, x FROM t, UNNEST(a) AS x;"
        "CREATE MATERIALIZED VIEW w AS SELECT k, x, n FROM t LEFT JOIN UNNEST(a) WITH ORDINALITY AS e(x, n) ON TRUE"
    )
    db.execute("INSERT INTO t VALUES (1, ARRAY[5, NULL]), (2, ARRAY[]::INT[]), (3, NULL), (2, ARRAY[]::INT[])")
    assert changes_at(db, "v") == {(1, 5): 1, (1, None): 1}
    assert changes_at(db, "w") == {(1, 5, 1): 1, (1, None, 2): 1, (2, None, None): 2, (3, None, None): 1}
    db.execute("UPDATE t SET a = ARRAY[k] WHERE k = 2")
    assert changes_at(db, "w") == {(2, None, None): -2, (2, 2, 1): 2}


def test_arrays_grow_and_are_joined(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, a INT[]); INSERT INTO t VALUES (1, ARRAY[5, NULL]), (2, NULL)")
    db.execute("UPDATE t SET a = array_append(a, k) WHERE k > 1; UPDATE t SET a = 0 || a || k || ARRAY[9] WHERE k = 1")
    assert rows(db.query("SELECT k, a, a || NULL, array_prepend(7, a), array_cat(a, ARRAY[2.5]) FROM t")) == [
        (1, (0, 5, None, 1, 9), (0, 5, None, 1, 9), (7, 0, 5, None, 1, 9), (0, 5, None, 1, 9, Decimal("2.5"))),
        (2, (2,), (2,), (7, 2), (2, Decimal("2.5"))),
    ]


def test_subqueries_read_the_elements_of_the_row_around_them(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, a INT[])")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, (SELECT SUM(x) FROM UNNEST(t.a) AS x) AS s,"
        " (SELECT ARRAY_AGG(x + k ORDER BY x DESC) FROM UNNEST(t.a) AS x WHERE x > 1) AS l FROM t;"
        "CREATE MATERIALIZED VIEW w AS SELECT k FROM t WHERE EXISTS (SELECT 1 FROM UNNEST(t.a) AS x WHERE x = k)"
    )
    db.execute("INSERT INTO t VALUES (1, ARRAY[1, 2, 3]), (2, ARRAY[]::INT[]), (3, NULL), (1, ARRAY[1, 2, 3])")
    assert changes_at(db, "v") == {(1, 6, (4, 3)): 2, (2, None, None): 1, (3, None, None): 1}
    assert changes_at(db, "w") == {(1,): 2}
    db.execute("UPDATE t SET a = ARRAY[k, k] WHERE k > 1")
    assert changes_at(db, "w") == {(2,): 1, (3,): 1}
    assert rows(db.query("SELECT * FROM v WHERE k = 2")) == [(2, 4, (4, 4))]


def test_a_column_of_arrays_is_added(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (1), (2)")
    db.execute("ALTER TABLE t ADD COLUMN a INT[] DEFAULT ARRAY[1, NULL]; ALTER TABLE t ADD COLUMN b VARCHAR[]")
    db.execute("INSERT INTO t (k, b) VALUES (3, ARRAY['x'])")
    assert rows(db.query("SELECT * FROM t")) == [(1, (1, None), None), (2, (1, None), None), (3, (1, None), ("x",))]


def test_what_arrays_are_not(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, tags VARCHAR, b INT[])")
    for text in (
        "SELECT a FROM t WHERE ARRAY[a] < ARRAY[1]",
        "SELECT a FROM t WHERE b = ARRAY['1']",
        "SELECT greatest(b, b) FROM t",
        "SELECT MIN(b) FROM t",
        "SELECT a FROM t ORDER BY ARRAY[a]",
        "SELECT b FROM t ORDER BY b",
        "SELECT b FROM t ORDER BY 1",
        "SELECT RANK() OVER (ORDER BY b) FROM t",
        "SELECT STRING_AGG(tags, '' ORDER BY b) FROM t",
        "SELECT DISTINCT ON (a) a FROM t ORDER BY a, b",
        "SELECT a FROM t, UNNEST(a) AS x",
        "SELECT a FROM t RIGHT JOIN UNNEST(ARRAY[1]) AS x ON TRUE",
        "SELECT a FROM t LEFT JOIN UNNEST(ARRAY[1]) AS x ON x = 1",
        "SELECT (ARRAY[1, 2])[1:2:1]",
        "SELECT ARRAY[]",
        "SELECT ARRAY[ARRAY[1]]",
        "SELECT ARRAY[b] FROM t",
        "SELECT '{1}'::INT[]",
        "SELECT b::VARCHAR FROM t",
        "INSERT INTO t (b) VALUES ('{1}')",
        "INSERT INTO t (b) VALUES (ARRAY['1'])",
        "CREATE TABLE u (a INT[][])",
        "CREATE TABLE u (a VARCHAR(3)[])",
        "CREATE TABLE u (a INT[3])",
    ):
        with pytest.raises(tm.TidemarkError) as error:
            db.execute(text)
        assert error.value.code in ("unsupported", "type", "ordering"), text


def test_an_array_of_a_query(db: tm.Database) -> None:
    """ARRAY(SELECT …) has all rows of the query in its order; ARRAY[(SELECT …)] has one element."""
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 3), (2, 1), (3, 2), (NULL, 0)")
    for query, expected in {
        "SELECT a FROM t ORDER BY b": [None, 2, 3, 1],
        "SELECT a FROM t ORDER BY b DESC LIMIT 2": [1, 3],
        "SELECT a FROM t ORDER BY b OFFSET 1": [2, 3, 1],
        "SELECT a FROM t": [1, 2, 3, None],
        "(SELECT a FROM t)": [1, 2, 3, None],
        "SELECT a FROM t WHERE a > 3": [],
        "SELECT 1 UNION ALL SELECT 2 ORDER BY 1 DESC": [2, 1],
        "VALUES (2), (1)": [1, 2],
        "WITH q AS (SELECT b AS x FROM t) SELECT x FROM q WHERE x > 0 ORDER BY x DESC": [3, 2, 1],
        "SELECT DISTINCT b % 2 FROM t ORDER BY 1": [0, 1],
        "SELECT COUNT(*) FROM t": [4],
    }.items():
        assert db.query(f"SELECT ARRAY({query}) AS x").to_pylist() == [{"x": expected}], query
    assert db.query("SELECT ARRAY[(SELECT MAX(a) FROM t)] AS x").to_pylist() == [{"x": [3]}]
    assert db.query("SELECT ARRAY[(SELECT a FROM t WHERE a > 3)] AS x").to_pylist() == [{"x": [None]}]
    for query in ("SELECT a, b FROM t", "SELECT ARRAY[a] FROM t", "SELECT ROW(a) FROM t"):
        with pytest.raises(tm.TidemarkError) as caught:
            db.query(f"SELECT ARRAY({query})")
        assert caught.value.code == "type"


def test_a_view_with_arrays_of_queries(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 3), (2, 1), (3, 2), (NULL, 0)")
    db.execute("CREATE TABLE g (k INT); INSERT INTO g VALUES (0), (2), (9), (NULL)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k, ARRAY(SELECT a FROM t WHERE b <= k ORDER BY b * k DESC, a) AS x,"
        " ARRAY(SELECT a FROM t ORDER BY b LIMIT 2) AS y FROM g"
    )
    assert rows(db.query("SELECT k, x FROM v")) == [(None, ()), (0, (None,)), (2, (3, 2, None)), (9, (1, 3, 2, None))]
    db.execute("BEGIN; INSERT INTO t VALUES (5, 1); DELETE FROM t WHERE a IS NULL; INSERT INTO g VALUES (-1); COMMIT")
    assert rows(db.query("SELECT * FROM v")) == [
        (None, (), (2, 5)),
        (-1, (), (2, 5)),
        (0, (), (2, 5)),
        (2, (3, 2, 5), (2, 5)),
        (9, (1, 3, 2, 5), (2, 5)),
    ]
    assert rows(db.query("SELECT k FROM g WHERE 3 = ANY(ARRAY(SELECT a FROM t WHERE b < k))")) == [(9,)]
