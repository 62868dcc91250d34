"""DISTINCT within aggregates: equal values count once, in queries, fills and views that follow changes."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark", "spark forced")

VARIANCES = {"VAR_SAMP": 4.5, "VAR_POP": 2.25, "VARIANCE": 4.5}
FUNCTIONS = {**VARIANCES, "STDDEV_SAMP": math.sqrt(4.5), "STDDEV_POP": 1.5, "STDDEV": math.sqrt(4.5)}
"""Of the values 1, 1 and 4."""


def close(found: tm.Database | Any, *expected: Any) -> None:
    (row,) = rows(found)
    assert row == pytest.approx(expected)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_equal_values_count_once(db: tm.Database, function: str) -> None:
    query = f"SELECT {function}(DISTINCT x) AS d, {function}(x) AS p, COUNT(*) AS n FROM t"
    db.execute(f"CREATE TABLE t (x INT, y INT); CREATE MATERIALIZED VIEW kept AS {query}")
    db.insert("t", [(1, 0), (1, 1), (4, 0), (None, 0)])
    db.execute(f"CREATE MATERIALIZED VIEW filled AS {query} WHERE y >= 0")
    for relation in ("kept", "filled"):
        close(db.query(f"SELECT d, n FROM {relation}"), FUNCTIONS[function], 4)
    close(db.query(f"SELECT {function}(DISTINCT x) AS d FROM t"), FUNCTIONS[function])


def test_they_follow_changes_with_a_filter_beside_other_aggregates(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x INT, y INT)")
    db.insert("t", [(1, 0), (1, 1), (4, 0), (9, 5)])
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT VAR_SAMP(DISTINCT x) FILTER (WHERE y < 5) AS d, "
        "STDDEV_POP(x) FILTER (WHERE y < 5) AS p, SUM(y) AS s, COUNT(DISTINCT y) AS c FROM t"
    )
    close(db.query("SELECT * FROM v"), 4.5, math.sqrt(2), 6, 3)
    db.insert("t", [(4, 2), (4, 2)])
    close(db.query("SELECT d, s, c FROM v"), 4.5, 10, 4)
    db.execute("DELETE FROM t WHERE x = 1 AND y = 0")
    close(db.query("SELECT d, s FROM v"), 4.5, 10)
    db.execute("DELETE FROM t WHERE x = 1")
    close(db.query("SELECT d IS NULL AS none, s FROM v"), True, 9)


def test_grouped_and_over_copies_of_rows(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (g INT, x DOUBLE); CREATE TABLE s (g INT)")
    db.insert("t", [(1, 2.0), (1, 2.0), (1, 6.0), (2, 3.0), (2, 3.0)])
    db.insert("s", [(1,), (1,), (2,)])
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT t.g AS g, VAR_POP(DISTINCT x) AS d, VAR_POP(x) AS p "
        "FROM t JOIN s ON s.g = t.g GROUP BY t.g"
    )
    first, second = rows(db.query("SELECT * FROM v"))
    assert first == pytest.approx((1, 4.0, 32 / 9))
    assert second == pytest.approx((2, 0.0, 0.0))
    db.execute("DELETE FROM s WHERE g = 1; INSERT INTO s VALUES (1)")
    assert rows(db.query("SELECT * FROM v"))[0] == pytest.approx((1, 4.0, 32 / 9))


def test_distinct_aggregates_of_several_columns_stand_beside_each_other(db: tm.Database) -> None:
    query = (
        "SELECT STRING_AGG(DISTINCT b, ',') AS up, "
        "STRING_AGG(DISTINCT b, '' ORDER BY b DESC) FILTER (WHERE a > 1) AS down, "
        "STRING_AGG(DISTINCT b, ',') FILTER (WHERE a > 9) AS none, COUNT(DISTINCT a) AS n, SUM(DISTINCT a) AS s FROM t"
    )
    db.execute(f"CREATE TABLE t (a INT, b VARCHAR); CREATE MATERIALIZED VIEW v AS {query}")
    db.insert("t", [(1, "x"), (2, "y"), (2, ""), (3, "y"), (3, None), (2, "é")])
    expected = [(",x,y,é", "éy", None, 3, 6)]
    assert rows(db.query(query)) == rows(db.query("SELECT * FROM v")) == expected
    db.execute("DELETE FROM t WHERE b = 'x'")
    assert rows(db.query("SELECT * FROM v")) == [(",y,é", "éy", None, 2, 5)]
