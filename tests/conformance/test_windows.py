"""Frames with distances, GROUPS, IGNORE NULLS and windows in ORDER BY, on every engine.

The answers are PostgreSQL's, written by hand: at the ends of types, where adding a distance would overflow, engines
left alone do not agree. Random histories over the same constructs are those of ``test_breadth.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

import tidemark as tm
from tests.support import changes_at, rows, rows_in_order

SPARK_VARIANTS = ("spark forced",)


def counted(db: tm.Database, frames: dict[str, str]) -> list[tuple[Any, ...]]:
    """x of t, and how many rows are in each frame."""
    counts = ", ".join(f"COUNT(*) OVER (ORDER BY {frame}) AS {name}" for name, frame in frames.items())
    return rows(db.query(f"SELECT x, {counts} FROM t"))


def test_a_distance_reaches_beyond_the_ends_of_a_type_without_an_error(db: tm.Database) -> None:
    lowest, highest = -(2**63), 2**63 - 1
    db.execute("CREATE TABLE t (x BIGINT)")
    db.insert("t", [(lowest,), (lowest + 1,), (0,), (highest,), (None,), (None,)])
    assert counted(
        db,
        {
            "near": "x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            "far": f"x RANGE BETWEEN {highest} PRECEDING AND CURRENT ROW",
            "after": "x DESC RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
            "until": "x NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
        },
    ) == [
        (None, 2, 2, 6, 2),
        (None, 2, 2, 6, 2),
        (lowest, 2, 1, 0, 2),
        (lowest + 1, 2, 2, 1, 3),
        (0, 1, 2, 2, 4),
        (highest, 1, 2, 3, 5),
    ]


def test_a_distance_from_decimals_has_more_digits_than_they(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x DECIMAL(4,2)); INSERT INTO t VALUES (99.99), (99.74), (1), (-99.99), (NULL)")
    found = counted(
        db,
        {
            "quarter": "x RANGE BETWEEN 0.25 PRECEDING AND CURRENT ROW",
            "fine": "x RANGE BETWEEN CURRENT ROW AND 0.249 FOLLOWING",
            "large": "x RANGE BETWEEN 1000000 PRECEDING AND 100.99 FOLLOWING",
            "down": "x DESC NULLS LAST RANGE BETWEEN 98.74 PRECEDING AND CURRENT ROW",
        },
    )
    assert [(None if x is None else str(x), *counts) for x, *counts in found] == [
        (None, 1, 1, 1, 1),
        ("-99.99", 1, 1, 2, 1),
        ("1.00", 1, 1, 4, 2),
        ("99.74", 1, 1, 4, 2),
        ("99.99", 2, 1, 4, 1),
    ]


def test_months_are_counted_by_the_calendar(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x DATE, at TIMESTAMP)")
    days = ["0001-01-01", "2024-01-30", "2024-01-31", "2024-02-29", "2024-03-01", "9999-12-31"]
    db.execute("INSERT INTO t VALUES " + ", ".join(f"('{day}', '{day} 12:00:00')" for day in days) + ", (NULL, NULL)")
    found = counted(
        db,
        {
            "month": "x RANGE BETWEEN INTERVAL '1 month' PRECEDING AND CURRENT ROW",
            "months": "x DESC RANGE BETWEEN '1 month' PRECEDING AND '1 month' FOLLOWING",
            "days": "x RANGE BETWEEN INTERVAL '1 day' PRECEDING AND INTERVAL '29 days 23 hours' FOLLOWING",
            "half": "at RANGE BETWEEN INTERVAL '1 month' - INTERVAL '12 hours' + INTERVAL '12 hours' PRECEDING AND"
            " 2 * INTERVAL '1 day' PRECEDING",
            "mixed": "at RANGE BETWEEN INTERVAL '30 days' PRECEDING AND INTERVAL '1 month' PRECEDING",
            "thirty": "x RANGE BETWEEN INTERVAL '30 days' PRECEDING AND CURRENT ROW",
            "all_": "x RANGE BETWEEN INTERVAL '9999 years' PRECEDING AND INTERVAL '9999 years' FOLLOWING",
        },
    )
    assert [(str(x), *counts) for x, *counts in found] == [
        ("None", 1, 1, 1, 1, 1, 1, 1),
        ("0001-01-01", 1, 1, 1, 0, 0, 1, 6),
        ("2024-01-30", 1, 3, 2, 0, 0, 1, 6),
        ("2024-01-31", 2, 3, 3, 0, 0, 2, 6),
        ("2024-02-29", 3, 4, 2, 2, 0, 3, 6),
        ("2024-03-01", 2, 2, 2, 0, 1, 3, 6),
        ("9999-12-31", 1, 1, 1, 0, 0, 1, 6),
    ]


def test_not_a_number_is_near_itself_alone(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x DOUBLE PRECISION)")
    db.insert("t", [(float("nan"),), (float("nan"),), (float("inf"),), (float("-inf"),), (0.5,), (2.0,), (1e308,)])
    found = counted(
        db,
        {
            "near": "x RANGE BETWEEN 1.5 PRECEDING AND 1 FOLLOWING",
            "far": "x RANGE BETWEEN CURRENT ROW AND 1e308 FOLLOWING",
            "below": "x DESC RANGE BETWEEN 1.5 FOLLOWING AND UNBOUNDED FOLLOWING",
        },
    )
    assert [(str(x), *counts) for x, *counts in found] == [
        ("-inf", 1, 1, 1),
        ("0.5", 1, 3, 1),
        ("2.0", 2, 2, 2),
        ("1e+308", 1, 2, 4),  # what is taken away from so much is lost
        ("inf", 1, 1, 5),
        ("nan", 2, 2, 7),
        ("nan", 2, 2, 7),
    ]


def test_groups_count_places(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x INT, y INT)")
    db.execute("INSERT INTO t VALUES (1, 1), (1, 2), (5, 3), (9, 4), (9, 5), (NULL, 6), (NULL, 7)")
    assert rows(
        db.query(
            "SELECT y, SUM(y) OVER (ORDER BY x GROUPS 1 PRECEDING) AS a,"
            " SUM(y) OVER (ORDER BY x DESC GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS b,"
            " COUNT(*) OVER (ORDER BY x GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS c,"
            " COUNT(*) OVER (ORDER BY x GROUPS CURRENT ROW) AS d,"
            " FIRST_VALUE(y) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS e,"
            " LAST_VALUE(y) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS f FROM t"
        )
    ) == [
        (1, 3, None, 3, 2, None, 3),
        (2, 3, None, 3, 2, None, 3),
        (3, 6, 3, 5, 1, 1, 5),
        (4, 12, 6, 7, 2, 3, 7),
        (5, 12, 6, 7, 2, 3, 7),
        (6, 22, 12, 7, 2, 4, 7),
        (7, 22, 12, 7, 2, 4, 7),
    ]


def test_values_that_are_null_are_passed_over(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x INT, y VARCHAR)")
    db.execute("INSERT INTO t VALUES (1, NULL), (2, 'b'), (3, NULL), (4, 'd'), (4, 'e'), (5, NULL)")
    assert rows(
        db.query(
            "SELECT x, y, LAG(y) IGNORE NULLS OVER w AS a, LAG(y, 2, '-') IGNORE NULLS OVER w AS b,"
            " LEAD(y, 1, '-') IGNORE NULLS OVER w AS c, LAST_VALUE(y) IGNORE NULLS OVER (ORDER BY x) AS d,"
            " FIRST_VALUE(y) IGNORE NULLS OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS e,"
            " FIRST_VALUE(y) RESPECT NULLS OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS f,"
            " NTH_VALUE(y, 3) IGNORE NULLS OVER (ORDER BY x) AS g,"
            " NTH_VALUE(y, 2) IGNORE NULLS OVER (ORDER BY x, y ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS h FROM t"
            " WINDOW w AS (ORDER BY x, y)"
        )
    ) == [
        (1, None, None, "-", "b", None, None, None, None, None),
        (2, "b", None, "-", "d", "b", "b", None, None, "d"),
        (3, None, "b", "-", "d", "b", "b", "b", None, "d"),
        (4, "d", "b", "-", "e", "e", "d", None, "e", "e"),
        (4, "e", "d", "b", "-", "e", "d", None, "e", "e"),
        (5, None, "e", "d", "-", "e", "d", "d", "e", None),
    ]


def test_a_change_touches_the_frames_of_its_partition_that_reach_it(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, x INT, y INT)")
    db.execute(
        "CREATE MATERIALIZED VIEW near WITH (strategy = 'incremental') AS SELECT k, x,"
        " SUM(y) OVER (PARTITION BY k ORDER BY x RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM t;"
        "CREATE MATERIALIZED VIEW last WITH (strategy = 'incremental') AS SELECT k, x,"
        " LAST_VALUE(y) IGNORE NULLS OVER (PARTITION BY k ORDER BY x) AS y FROM t"
    )
    db.execute("INSERT INTO t VALUES (1, 1, 1), (1, 3, NULL), (1, 6, 4), (2, 1, 8), (NULL, 1, 16)")
    assert changes_at(db, "near") == {(1, 1, 1): 1, (1, 3, 1): 1, (1, 6, 4): 1, (2, 1, 8): 1, (None, 1, 16): 1}
    db.execute("INSERT INTO t VALUES (1, 2, 5)")
    assert changes_at(db, "near") == {(1, 2, 6): 1, (1, 3, 1): -1, (1, 3, 6): 1}
    assert changes_at(db, "last") == {(1, 2, 5): 1, (1, 3, 1): -1, (1, 3, 5): 1}
    db.execute("DELETE FROM t WHERE x = 1 AND k = 1")
    assert changes_at(db, "near") == {(1, 1, 1): -1, (1, 2, 6): -1, (1, 2, 5): 1, (1, 3, 6): -1, (1, 3, 5): 1}
    assert changes_at(db, "last") == {(1, 1, 1): -1}


def test_rows_are_ordered_by_window_functions(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, x INT); INSERT INTO t VALUES (1, 3), (1, 4), (2, 9), (3, 1), (3, 1)")
    query = "SELECT k, x FROM t ORDER BY SUM(x) OVER (PARTITION BY k) DESC, ROW_NUMBER() OVER (ORDER BY x DESC)"
    assert rows_in_order(db.query(query)) == [(2, 9), (1, 4), (1, 3), (3, 1), (3, 1)]
    grouped = "SELECT k FROM t GROUP BY k ORDER BY RANK() OVER (ORDER BY MIN(x)) DESC LIMIT 2"
    assert rows_in_order(db.query(grouped)) == [(2,), (1,)]
    chosen = "SELECT DISTINCT ON (k) k, x FROM t ORDER BY k, COUNT(*) OVER (ORDER BY x DESC)"
    assert rows_in_order(db.query(chosen)) == [(1, 4), (2, 9), (3, 1)]
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query} LIMIT 2; CREATE MATERIALIZED VIEW w AS {chosen}")
    db.execute("INSERT INTO t VALUES (3, 20)")
    assert changes_at(db, "v") == {(2, 9): -1, (1, 4): -1, (3, 20): 1, (3, 1): 1}
    assert changes_at(db, "w") == {(3, 1): -1, (3, 20): 1}


def test_the_order_of_a_window_may_be_an_expression_that_can_fail(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x TIMESTAMP); INSERT INTO t VALUES ('2024-01-01'), ('2024-01-02'), (NULL)")
    assert [
        (place, near)
        for _, place, near in rows(
            db.query(
                "SELECT x, RANK() OVER (ORDER BY x + INTERVAL '1 hour') AS place,"
                " COUNT(*) OVER (ORDER BY x + INTERVAL '1 hour' DESC RANGE '1 day' PRECEDING) AS near FROM t"
            )
        )
    ] == [(3, 1), (1, 2), (2, 1)]


def test_more_parentheses_around_a_subquery_mean_nothing(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x INT, a INT[]); INSERT INTO t VALUES (1, ARRAY[1, 5]), (2, ARRAY[7])")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT x FROM t WHERE x <> ALL ((SELECT x + 1 FROM t))")
    assert rows(db.query("SELECT * FROM v")) == [(1,)]
    assert rows(db.query("SELECT x FROM t WHERE x >= ALL (((SELECT x FROM t)))")) == [(2,)]
    assert rows(db.query("SELECT x FROM t WHERE x = ANY ((SELECT x + 1 FROM t))")) == [(2,)]
    # A cast makes it a value, and the value an array.
    assert rows(db.query("SELECT x FROM t WHERE x <> ALL ((SELECT a FROM t WHERE x = 1)::INT[])")) == [(2,)]
    db.execute("DELETE FROM t WHERE x = 1")
    assert changes_at(db, "v") == {(1,): -1, (2,): 1}


def test_limit_and_offset_may_be_larger_than_an_int(db: tm.Database) -> None:
    """Programs that mean all rows write the largest number that they know."""
    most = 2**63 - 1
    db.execute("CREATE TABLE t (k INT, x INT); INSERT INTO t VALUES (1, 3), (2, 2), (3, 1), (3, 1)")
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT k FROM t ORDER BY x LIMIT {most} OFFSET 1")
    db.execute(f"CREATE MATERIALIZED VIEW w AS SELECT k FROM t ORDER BY x LIMIT 1 OFFSET {most}")
    db.execute("INSERT INTO t VALUES (4, 0); DELETE FROM t WHERE k = 2")
    assert rows(db.query("SELECT k FROM v")) == [(1,), (3,), (3,)]
    assert rows(db.query("SELECT k FROM w")) == []
    assert db.query(f"SELECT k FROM t ORDER BY x, k LIMIT {most} OFFSET 1")["k"].to_pylist() == [3, 3, 1]
    assert db.query(f"SELECT x FROM t ORDER BY k DESC LIMIT 3000000000 OFFSET {2**31}").num_rows == 0
    assert rows(db.query(f"SELECT COUNT(*) AS n FROM (SELECT k FROM t LIMIT {2**31}) AS q")) == [(4,)]
    with pytest.raises(tm.TidemarkError) as caught:
        db.query(f"SELECT k FROM t LIMIT {2**63}")
    assert caught.value.code == "overflow"
