"""Of rows that ORDER BY leaves equal, LIMIT and OFFSET take the same on every engine and in every way of asking.

All columns behind the keys of ORDER BY decide, in ascending order, NULL last, text by its bytes, NaN above all numbers.
A view takes these rows when it is filled, when it is kept true, and when it is audited; so does a query, a snapshot and
INSERT … SELECT. Random cases compare what is filled with what was kept true from nothing on.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import tidemark as tm
from tests.support import bag_of, check_invariant, rows, rows_in_order

SPARK_VARIANTS = ("spark", "spark forced")

ROWS: list[tuple[Any, ...]] = [(5, 0), (4, 0), (1, 0), (2, 0)]

FORMS = {
    "ordered": ("SELECT id, z FROM t ORDER BY z LIMIT 1", [(1, 0)]),
    "not ordered": ("SELECT id, z FROM t LIMIT 1", [(1, 0)]),
    "offset": ("SELECT id, z FROM t ORDER BY z DESC OFFSET 3", [(5, 0)]),
    "both": ("SELECT id, z FROM t ORDER BY z LIMIT 2 OFFSET 1", [(2, 0), (4, 0)]),
    "hidden key": ("SELECT id FROM t ORDER BY z + 1 LIMIT 2", [(1,), (2,)]),
    "derived": ("SELECT id + 1 AS id FROM (SELECT id, z FROM t ORDER BY z LIMIT 2) AS d", [(2,), (3,)]),
    "in": ("SELECT id, z FROM t WHERE id IN (SELECT id FROM t ORDER BY z LIMIT 1)", [(1, 0)]),
    "joined": (
        "SELECT t.id, d.id AS other FROM t JOIN (SELECT id, z FROM t LIMIT 1) AS d ON t.z = d.z AND t.id > 4",
        [(5, 1)],
    ),
    "grouped": ("SELECT COUNT(*) AS n, MAX(id) AS m FROM (SELECT id FROM t ORDER BY z LIMIT 3) AS d", [(3, 4)]),
    "distinct on": ("SELECT DISTINCT ON (z) z, id FROM t", [(0, 1)]),
    "distinct on, limited": ("SELECT DISTINCT ON (z) z, id FROM t ORDER BY z LIMIT 1", [(0, 1)]),
}


def filled(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (id INT, z INT)")
    db.insert("t", ROWS)


@pytest.mark.parametrize("form", FORMS)
def test_a_view_is_filled_with_the_rows_that_it_would_have_kept(db: tm.Database, form: str) -> None:
    query, expected = FORMS[form]
    filled(db)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert rows(db.query("SELECT * FROM v")) == expected
    assert db.audit("v").num_rows == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_query_takes_the_rows_that_a_view_would_have(db: tm.Database, form: str) -> None:
    query, expected = FORMS[form]
    filled(db)
    assert rows(db.query(query)) == expected


def test_a_snapshot_and_an_insertion_take_them_too(db: tm.Database) -> None:
    filled(db)
    db.execute("CREATE SNAPSHOT s AS SELECT id, z FROM t ORDER BY z LIMIT 2 REFRESH ON DEMAND")
    db.execute("CREATE TABLE u (id INT, z INT); INSERT INTO u SELECT id, z FROM t ORDER BY z LIMIT 2")
    assert rows(db.query("SELECT * FROM s")) == rows(db.query("SELECT * FROM u")) == [(1, 0), (2, 0)]


def test_the_order_asked_for_goes_before_ties_and_hidden_columns_after_shown_ones(db: tm.Database) -> None:
    filled(db)
    db.insert("t", [(9, 7), (8, 7)])
    assert rows_in_order(db.query("SELECT id FROM t ORDER BY z DESC LIMIT 3")) == [(8,), (9,), (1,)]


VALUES: dict[str, list[Any]] = {
    "INT": [None, -1, 0, 2],
    "DOUBLE": [None, float("nan"), float("-inf"), float("inf"), 0.5, -2.0],
    "VARCHAR": [None, "", "a", "B", "é", "zz", "\U0001f600", "\uffee"],
    "INT[]": [None, [], [None], [1], [1, None], [1, 2], [0, 5]],
    "BOOLEAN": [None, True, False],
}


@pytest.mark.parametrize("kind", VALUES)
def test_the_order_behind_the_order_is_that_of_the_reference(db: tm.Database, kind: str) -> None:
    values = list(VALUES[kind])
    random.Random(kind).shuffle(values)
    setup = f"CREATE TABLE t (x {kind}, y INT)"
    db.execute(setup)
    db.insert("t", [(value, 0) for value in values])
    with tm.connect("reference") as reference:
        reference.execute(setup)
        reference.insert("t", [(value, 0) for value in values])
        views = {f"v{n}": f"SELECT x, y FROM t ORDER BY y LIMIT {n} OFFSET {n // 3}" for n in range(1, len(values))}
        for view, query in views.items():
            db.execute(f"CREATE MATERIALIZED VIEW {view} AS {query}")
            expected = bag_of(reference.query(query))
            assert bag_of(db.query(f"SELECT * FROM {view}")) == expected, query
            assert bag_of(db.query(query)) == expected, query


LIMITED = (
    "SELECT a, b FROM r ORDER BY {key} LIMIT {n} OFFSET {m}",
    "SELECT a, b FROM r LIMIT {n} OFFSET {m}",
    "SELECT d.a, s.c FROM (SELECT a, b FROM r ORDER BY {key} LIMIT {n}) AS d JOIN s ON s.a = d.a",
    "SELECT a, c FROM s WHERE a IN (SELECT a FROM r ORDER BY {key} LIMIT {n} OFFSET {m})",
    "SELECT a, c FROM s WHERE NOT EXISTS (SELECT * FROM (SELECT a FROM r LIMIT {n}) AS d WHERE d.a = s.a)",
    "SELECT a, SUM(b) AS n FROM (SELECT a, b FROM r ORDER BY {key} OFFSET {m}) AS d GROUP BY a",
    "SELECT DISTINCT ON (b) b, a FROM r ORDER BY b LIMIT {n}",
    "(SELECT a FROM r ORDER BY {key} LIMIT {n}) UNION ALL (SELECT c FROM s LIMIT {m})",
)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_filled_is_what_was_kept_true_from_the_first_row_on(db: tm.Database, seed: int) -> None:
    choice = random.Random(seed)
    db.execute("CREATE TABLE r (a INT, b INT); CREATE TABLE s (a INT, c INT)")
    queries = [
        form.format(key=choice.choice(("b", "b DESC", "b NULLS FIRST")), n=choice.randint(1, 4), m=choice.randint(0, 2))
        for form in LIMITED
    ]
    for i, query in enumerate(queries):
        db.execute(f"CREATE MATERIALIZED VIEW kept{i} AS {query}")
    some = [None, 0, 1, 2, 3, 4, 5]
    for table in ("r", "s", "r", "s"):
        db.insert(table, [(choice.choice(some), choice.choice((None, 0, 1))) for _ in range(5)])
    for i, query in enumerate(queries):
        kept = bag_of(db.query(f"SELECT * FROM kept{i}"))
        # Equal definitions share states, so that only a different one is filled anew.
        fresh = query.replace("FROM r", "FROM (SELECT a, b FROM r WHERE 0 = 0) AS r")
        db.execute(f"CREATE MATERIALIZED VIEW filled{i} AS {fresh}")
        assert bag_of(db.query(f"SELECT * FROM filled{i}")) == kept, query
        assert bag_of(db.query(query)) == kept, query
    check_invariant(db)
