"""Large views are exact: what analysis cannot decide within its budget, and what is written otherwise for its size."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import tidemark as tm
from tests import growing_views as views
from tests.growing_views import Growing
from tests.oracle import check_against_oracle

SPARK_VARIANTS = ("spark",)

SIZES: dict[Callable[[int], Growing], int] = {
    **dict.fromkeys(views.LINEAR, 40),
    views.joined_relations: 10,
    views.copies: 9,
    views.copies_with_count_distinct: 10,
    views.full_joins: 4,
}
ALL = [(make, size) for make, size in SIZES.items() if make is not views.clauses_of_rules]


def query_of(view: Growing) -> str:
    """The view as one query, as DuckDB reads it by itself."""
    return view.statements[-1].partition(" AS ")[2]


def change(db: tm.Database, view: Growing, random_: random.Random) -> None:
    for _ in range(4):
        kept = random_.sample(range(6), 3)
        rows = ", ".join(f"({', '.join(str(random_.choice(kept)) for _ in range(view.width))})" for _ in range(2))
        with db.transaction() as transaction:
            transaction.execute(f"INSERT INTO t VALUES {rows}")
            transaction.execute(f"DELETE FROM t WHERE n = {random_.randrange(6)}")


@pytest.mark.parametrize(("make", "size"), ALL, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_large_view_is_what_its_query_gives(db: tm.Database, make: Callable[[int], Growing], size: int) -> None:
    view, random_ = make(size), random.Random(size)
    for statement in view.statements:
        db.execute(statement)
    for table in db._store.catalog.tables:
        if table.name != "t":
            db.execute(f"INSERT INTO {table.name} VALUES ({', '.join(['2'] * len(table.schema))})")
    change(db, view, random_)
    if make is views.stacked_views:
        deep = f"SELECT n, g + {size} AS g FROM t WHERE g >= 0"
        check_against_oracle(db, {"v": deep})
    else:
        check_against_oracle(db, {"v": query_of(view)})


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_an_external_view_over_outer_joins_tells_exact_changes(db: tm.Database, size: int) -> None:
    stored, external = views.full_joins(size), views.full_joins(size, "EXTERNAL VIEW")
    db.execute(stored.statements[0])
    db.execute(stored.statements[1].replace(" v AS", " kept AS"))
    db.execute(external.statements[1])
    change(db, external, random.Random(size))
    assert sorted(map(repr, db.changes("v").to_pylist())) == sorted(map(repr, db.changes("kept").to_pylist()))
    db.explain("v")
    db.query("SELECT * FROM v")


def test_copies_without_equal_columns_are_exact(db: tm.Database) -> None:
    """No equality leads from the delta to the other copies, so that all of them is read."""
    joins = " ".join(f"JOIN t a{i} ON a{i - 1}.n <= a{i}.g" for i in range(1, 7))
    query = f"SELECT a0.n, a6.g FROM t a0 {joins} WHERE a0.n = 1"
    db.execute(views.NARROW)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    db.execute("INSERT INTO t VALUES (1, 2), (2, 1)")
    db.execute("DELETE FROM t WHERE n = 2")
    db.execute("UPDATE t SET g = g - 1")
    check_against_oracle(db, {"v": query})
