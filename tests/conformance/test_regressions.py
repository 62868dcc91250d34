"""Faults that were found once, each kept as a test on every engine."""

from __future__ import annotations

import math
import threading
from decimal import Decimal

import pytest

import tidemark as tm
from tests.support import changes_at, rows, weights_of

SPARK_VARIANTS = ("spark", "spark forced")


def test_a_second_view_that_shares_a_join_leaves_the_first_as_it_is(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, x INT); CREATE TABLE u (a INT, y INT)")
    db.execute("CREATE MATERIALIZED VIEW v1 AS SELECT t.a, u.y FROM t JOIN u ON t.a = u.a")
    db.execute("INSERT INTO u VALUES (1, 1)")
    with db.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1, 1)")
        tx.execute("CREATE MATERIALIZED VIEW v2 AS SELECT t.x FROM t JOIN u ON t.a = u.a")
    assert rows(db.changes("v1").drop_columns(["_time"])) == [(1, 1, db.version, 1)], (
        "its history is kept, and nothing is applied twice"
    )
    db.execute("CREATE MATERIALIZED VIEW v3 AS SELECT u.y FROM t JOIN u ON t.a = u.a")
    assert rows(db.changes("v1").drop_columns(["_time"])) == [(1, 1, db.version - 1, 1)]
    db.execute("DELETE FROM u")
    assert changes_at(db, "v1") == {(1, 1): -1} and changes_at(db, "v3") == {(1,): -1}


def test_values_that_cancel_have_no_sum(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (g INT, x INT); INSERT INTO t VALUES (1, 5), (1, NULL)")
    db.execute("CREATE MATERIALIZED VIEW v WITH (strategy = 'complete') AS SELECT g, SUM(x) AS s FROM t GROUP BY g")
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE x = 5")
        assert rows(tx.query("SELECT SUM(x) AS s, COUNT(x) AS n FROM t")) == [(None, 0)]
        tx.execute("CREATE MATERIALIZED VIEW w AS SELECT g, SUM(x) AS s FROM t GROUP BY g")
    assert rows(db.query("SELECT * FROM v")) == rows(db.query("SELECT * FROM w")) == [(1, None)]


def test_a_state_that_a_new_view_takes_over_follows_the_same_transaction(db: tm.Database) -> None:
    definition = "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t"
    db.execute(f"CREATE TABLE t (a INT); INSERT INTO t VALUES (1); {definition}")
    with db.transaction() as tx:
        tx.execute(f"INSERT INTO t VALUES (2); DROP VIEW v; {definition}")
    assert rows(db.query("SELECT * FROM v")) == [(2,)]
    db.execute("INSERT INTO t VALUES (3)")
    assert changes_at(db, "v") == {(2,): -1, (3,): 1}


def test_many_relations_change_in_one_transaction(db: tm.Database) -> None:
    count = 20
    for i in range(count):
        db.execute(f"CREATE TABLE t{i} (a INT)")
    parts = " UNION ALL ".join(f"SELECT a FROM t{i} WHERE a >= 0" for i in range(count))
    db.execute(f"CREATE MATERIALIZED VIEW v AS {parts}")
    with db.transaction() as tx:
        for i in range(count):
            tx.insert(f"t{i}", [(i * 1000 + k,) for k in range(10)])
        assert tx.query("SELECT DISTINCT a FROM v").num_rows == 10 * count
    assert db.query("SELECT * FROM v").num_rows == 10 * count


def test_the_names_of_a_union_are_those_of_its_first_part(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE TABLE u (b INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t UNION ALL SELECT b FROM u")
    db.execute("INSERT INTO u VALUES (1)")
    assert changes_at(db, "v") == {(1,): 1}
    assert db.changes("v").column_names == ["a", "_version", "_weight", "_time"]
    with db.transaction() as tx:
        tx.execute("CREATE TABLE e (z INT)")
        assert tx.query("SELECT z FROM e UNION ALL SELECT b FROM u").column_names == ["z"]


def test_a_pair_that_never_was_raises_no_error(db: tm.Database) -> None:
    """The telescoped form pairs a deleted row with an inserted one; such pairs cancel before they are computed with."""
    db.execute("CREATE TABLE t (a INT); CREATE TABLE u (b INT); INSERT INTO t VALUES (1); INSERT INTO u VALUES (2)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT 10 / (t.a - u.b) AS x FROM t, u")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT t.a FROM t JOIN u ON 10 / (t.a - u.b) > 0")
    db.execute("CREATE MATERIALIZED VIEW g AS SELECT SUM(10 / (t.a - u.b)) AS s FROM t, u GROUP BY 1 / (t.a - u.b)")
    with db.transaction() as tx:
        tx.execute("UPDATE t SET a = 2; UPDATE u SET b = 1")
    assert changes_at(db, "v") == {(-10,): -1, (10,): 1}
    assert changes_at(db, "w") == {(2,): 1}
    assert changes_at(db, "g") == {(-10,): -1, (10,): 1}


def test_a_row_that_is_gone_raises_no_error(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 0), (2, 5)")
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE b = 0")
        assert rows(tx.query("SELECT 10 / b AS q FROM t")) == [(2,)]
        tx.execute("CREATE MATERIALIZED VIEW v AS SELECT 10 / b AS q FROM t WHERE 100 / b > 1")
        assert rows(tx.query("SELECT q FROM v")) == [(2,)]
    assert rows(db.query("SELECT * FROM v")) == [(2,)]


def test_having_without_groups_gives_at_most_one_row(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2), (3)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT 1 AS x FROM t HAVING TRUE")
    assert rows(db.query("SELECT 1 AS x FROM t HAVING TRUE")) == [(1,)]
    assert rows(db.query("SELECT 1 AS x FROM t HAVING COUNT(*) > 5")) == []
    db.execute("INSERT INTO t VALUES (4)")
    assert rows(db.query("SELECT * FROM v")) == [(1,)]


def test_every_not_a_number_is_the_same(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x DOUBLE PRECISION)")
    db.insert("t", [(math.nan,), (-math.nan,)])
    assert list(weights_of(db.changes("t").drop_columns(["_version"])).values()) == [2]
    db.delete("t", [(-math.nan,)])
    assert db.query("SELECT x FROM t ORDER BY x").num_rows == 1
    db.insert("t", [(1.0,)])
    assert str(db.query("SELECT x FROM t ORDER BY x")["x"].to_pylist()) == "[1.0, nan]"


def test_a_transaction_commits_once_whoever_asks(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT)")
    tx = db.transaction()
    tx.insert("t", [(1,)])
    barrier, refused = threading.Barrier(2), []

    def commit() -> None:
        barrier.wait()
        try:
            tx.commit()
        except tm.TidemarkError as error:
            refused.append(error.code)

    threads = [threading.Thread(target=commit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["transaction"] and db.version == 2 and db.query("SELECT * FROM t").num_rows == 1


def test_a_quoted_number_is_not_rounded_to_the_column(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (d DECIMAL(4,2)); INSERT INTO t VALUES (1.01)")
    assert rows(db.query("SELECT d = '1.005', d < '123456.7', COALESCE(d, '1.005') FROM t")) == [
        (False, True, Decimal("1.010"))
    ]


def test_casts_and_functions_of_text(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (s VARCHAR, n INT); INSERT INTO t VALUES ('hello', NULL)")
    assert rows(db.query("SELECT CAST(s AS VARCHAR(2)), concat(s, n, 1), greatest(2, n, 1), least(n, 3) FROM t")) == [
        ("he", "hello1", 2, 3)
    ]
    with pytest.raises(tm.TidemarkError, match="is not a TIMESTAMP"):
        db.query("SELECT TIMESTAMP '2024-01-01 00:00:00.9999999'")


def test_a_comma_binds_looser_than_a_join(db: tm.Database) -> None:
    db.execute("CREATE TABLE w (c INT); CREATE TABLE t (a INT, x INT); CREATE TABLE u (a BIGINT, y INT)")
    db.execute("INSERT INTO w VALUES (7); INSERT INTO t VALUES (1, 2); INSERT INTO u VALUES (1, 3)")
    found = db.query("SELECT * FROM w, t JOIN u USING (a)")
    assert found.column_names == ["c", "a", "x", "y"] and rows(found) == [(7, 1, 2, 3)]
    assert str(found.schema.field("a").type) == "int64", "USING gives the common type"
    with pytest.raises(tm.TidemarkError, match="there is no 'w' in FROM"):
        db.query("SELECT 1 FROM w, u JOIN t ON t.a = w.c")


def test_definitions_without_effect_take_a_version_too(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT)")
    db.execute("CREATE TABLE IF NOT EXISTS t (a INT)")
    db.execute("DROP TABLE IF EXISTS nothing")
    assert db.version == 3


def test_tables_whose_names_look_like_ours(db: tm.Database) -> None:
    db.execute('CREATE TABLE given_0 (a INT); CREATE TABLE delta (a INT); CREATE TABLE "T" (a INT)')
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT given_0.a FROM given_0 JOIN delta ON given_0.a = delta.a")
    rows_ = [(i,) for i in range(40)]
    with db.transaction() as tx:
        tx.insert("given_0", rows_)
        tx.insert("delta", rows_)
        assert tx.query("SELECT * FROM v").num_rows == 40
    db.insert("T", [(1,)])
    assert rows(db.query('SELECT * FROM "T"')) == [(1,)]
    for refused in ("CREATE TABLE x (rowid INT)", 'CREATE TABLE x ("_VERSION" INT)', 'CREATE TABLE "" (a INT)'):
        with pytest.raises(tm.TidemarkError, match="reserved_name"):
            db.execute(refused)


@pytest.mark.parametrize("joiner", [" OR ", " + ", " UNION ALL SELECT "])
def test_a_statement_that_is_too_deep_is_refused_clearly(db: tm.Database, joiner: str) -> None:
    part = "1 = 2" if joiner == " OR " else "1"
    with pytest.raises(tm.TidemarkError) as caught:
        db.query("SELECT " + joiner.join([part] * 5000))
    assert caught.value.code == "too_complex"
    assert rows(db.query("SELECT 1 AS one")) == [(1,)]


def test_wrong_arguments_are_refused_clearly(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (day DATE, at TIMESTAMP); CREATE MATERIALIZED VIEW v AS SELECT day FROM t")
    for action in (
        lambda: db.changes("v", since=None),  # type: ignore[arg-type]
        lambda: db.changes("v", since="1"),  # type: ignore[arg-type]
        lambda: db.subscribe("v", since="x"),  # type: ignore[arg-type]
        lambda: db.subscribe("v", since=99),
        lambda: db.trace("x"),  # type: ignore[arg-type]
        lambda: db.execute(None),  # type: ignore[arg-type]
        lambda: db.query(None),  # type: ignore[arg-type]
        lambda: db.changes(None),  # type: ignore[arg-type]
        lambda: db.insert("t", [(3_000_000, None)]),
        lambda: db.insert("t", [(None, 2**62)]),
        lambda: db.execute("CREATE TABLE q (a VARCHAR(x))"),
        lambda: db.execute("CREATE TABLE q (a DECIMAL(x, y))"),
        lambda: db.execute("SELECT * EXCLUDE (day) FROM t"),
        lambda: db.execute("SELECT FROM t"),
        lambda: db.execute("SELECT 1 FROM t JOIN v"),
        lambda: db.execute("SELECT 1 FROM t CROSS JOIN v ON TRUE"),
        lambda: db.execute("WITH q AS (SELECT 1), q AS (SELECT 2) SELECT * FROM q"),
        lambda: db.execute("SELECT CAST('1_5' AS DOUBLE PRECISION)"),
        lambda: db.execute("SELECT 1e400"),
        lambda: db.execute("UPDATE t SET z.day = NULL"),
        lambda: db.execute("DELETE FROM t AS x (q)"),
        lambda: db.execute("CREATE TABLE q (a INT, PRIMARY KEY (a, a))"),
        lambda: db.execute("SELECT TIMESTAMP '2024-W05-1'"),
    ):
        with pytest.raises(tm.TidemarkError):
            action()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT e.id, s.c FROM e JOIN s ON e.id > s.a WHERE 100 / e.x > 0",
        "SELECT e.id, s.c FROM e JOIN s ON e.id = s.a AND s.c + e.id > 3 WHERE 100 / e.x > 0",
        "SELECT e.id, s.c FROM e, s WHERE e.id > s.a AND s.c > 0 AND 100 / e.x >= s.c AND 100 / (e.x + s.c) > 0",
        "SELECT s.c, COUNT(*) AS n FROM e JOIN s ON e.id > s.a WHERE 100 / e.x > 0 GROUP BY s.c",
        "SELECT e.id, s.c FROM e LEFT JOIN s ON e.id > s.a AND 100 / e.x > 0",
    ],
)
def test_a_condition_that_can_fail_is_asked_of_pairs_that_are_there(db: tm.Database, query: str) -> None:
    """The row that cannot be divided by has no partner. Optimizers would take the division below the join."""
    db.execute("CREATE TABLE e (id INT, x INT); CREATE TABLE s (a INT, c INT)")
    db.execute("INSERT INTO e VALUES (3, 5), (1, 0); INSERT INTO s VALUES (1, 1), (2, 2), (3, 1)")
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    expected = rows(db.query("SELECT * FROM v"))
    assert rows(db.query(query)) == expected != [] and db.audit("v").num_rows == 0
    db.execute("INSERT INTO e VALUES (0, 0); INSERT INTO s VALUES (7, 1)")
    assert rows(db.query("SELECT * FROM v" if "LEFT" not in query else "SELECT * FROM v WHERE id > 0")) == expected
    with pytest.raises(tm.TidemarkError, match="division_by_zero"):
        db.execute("INSERT INTO e VALUES (8, 0); INSERT INTO s VALUES (8, 2)")


def test_a_sum_beside_a_total_of_nothing_is_compared_by_its_value(db: tm.Database) -> None:
    """DuckDB 2.0 takes a total of no rows for no row, concludes that a sum over pairs with it is zero, and answers by
    that instead of by the sum."""
    db.execute("CREATE TABLE e (k INT, p INT); CREATE TABLE f (k INT, p INT, q INT, x INT)")
    db.execute("INSERT INTO e VALUES (0, 0); INSERT INTO f VALUES (0, 17, 18, 2), (0, 30, NULL, 1), (0, 13, 39, 0)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT a.k, COUNT(*) AS n FROM e AS a"
        " LEFT JOIN (SELECT * FROM f WHERE x = k) AS b ON a.k = b.k"
        " WHERE b.x < (SELECT COUNT(*) FROM f AS z WHERE z.k = b.k AND z.q <= 18)"
        " OR a.k IN (SELECT y.k FROM f AS y WHERE y.p > 60) GROUP BY a.k"
    )
    assert rows(db.query("SELECT * FROM v")) == [(0, 1)]
    assert db.audit("v").num_rows == 0


def test_views_that_are_created_together_do_not_get_the_rows_of_one_another(db: tm.Database) -> None:
    """What was settled for the first of them was given to the second under the same name."""
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (3, 4)")
    db.execute(
        """
        BEGIN;
        INSERT INTO t VALUES (5, 6);
        CREATE MATERIALIZED VIEW v1 AS SELECT 60 / a AS x FROM t;
        CREATE MATERIALIZED VIEW v2 AS SELECT 60 / b AS x FROM t;
        COMMIT
        """
    )
    assert rows(db.query("SELECT * FROM v1")) == [(12,), (20,), (60,)]
    assert rows(db.query("SELECT * FROM v2")) == [(10,), (15,), (30,)]


def test_distinct_on_an_aggregate(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 1), (3, 1), (3, 2), (2, 3), (2, 4), (NULL, 5)")
    for query, expected in {
        "SELECT DISTINCT ON (MAX(a)) b FROM t GROUP BY b": [(1,), (3,), (5,)],
        "SELECT DISTINCT ON (MAX(a)) b FROM t GROUP BY b ORDER BY MAX(a), b DESC": [(2,), (4,), (5,)],
        "SELECT DISTINCT ON (COUNT(*), MAX(a) > 2) b FROM t GROUP BY b ORDER BY COUNT(*), MAX(a) > 2, MIN(a), b": [
            *((1,), (2,)),
            *((3,), (5,)),
        ],
        "SELECT DISTINCT ON (MAX(a)) COUNT(*) AS n FROM t": [(6,)],
        "SELECT 1 AS one FROM t ORDER BY COUNT(*)": [(1,)],
    }.items():
        assert rows(db.query(query)) == expected, query
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT DISTINCT ON (MAX(a)) b FROM t GROUP BY b ORDER BY MAX(a), b")
    db.execute("INSERT INTO t VALUES (3, 0), (9, 5); DELETE FROM t WHERE b = 1")
    assert rows(db.query("SELECT b FROM v")) == [(0,), (3,), (5,)]
    for query in ("SELECT DISTINCT ON (MAX(a)) b FROM t", "SELECT DISTINCT ON (a) b FROM t GROUP BY b"):
        with pytest.raises(tm.TidemarkError) as caught:
            db.query(query)
        assert caught.value.code == "grouping"
    with pytest.raises(tm.TidemarkError) as caught:
        db.query("SELECT DISTINCT ON ((SELECT MAX(a) FROM t)) b FROM t")
    assert caught.value.code == "unsupported"
