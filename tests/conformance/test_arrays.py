"""Arrays within queries, and UNNEST: a linear operator, so its changes follow those of its input."""

from __future__ import annotations

import pytest

import tidemark as tm
from tests.support import changes_at, rows

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


def test_what_arrays_are_not(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, tags VARCHAR)")
    for text in (
        "SELECT ARRAY[1]",
        "SELECT string_to_array(tags, ',') FROM t",
        "SELECT a FROM t WHERE ARRAY[a] = ARRAY[1]",
        "SELECT 1 FROM t GROUP BY ARRAY[a]",
        "SELECT a FROM t ORDER BY ARRAY[a]",
        "SELECT a FROM t, UNNEST(a) AS x",
        "SELECT a FROM t LEFT JOIN UNNEST(ARRAY[1]) AS x ON TRUE",
        "SELECT (ARRAY[1, 2])[1:2]",
        "CREATE TABLE u (a INT[])",
    ):
        with pytest.raises(tm.TidemarkError) as error:
            db.execute(text)
        assert error.value.code in ("unsupported", "type", "ordering"), text
