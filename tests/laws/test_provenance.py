"""Every derivation is a proof, and WHY tells exactly the rows of a view from all others.

The views are the fixed lists of outer joins, subqueries, groups, windows and set operations, and constructs composed at
random, on random content. ``tests/proofs.py`` checks each tree step by step.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.constructs import GROUPS, TABLES
from tests.effort import examples
from tests.laws.random_queries import SCHEMA, Queries, statement
from tests.proofs import check_answer
from tests.query_cases import CASES
from tests.support import bag_of
from tidemark.algebra.plans import Scan, walk
from tidemark.sql.catalog.catalog import View

SIZE = 12
CASE_GROUPS = [list(CASES)[start : start + SIZE] for start in range(0, len(CASES), SIZE)]
MOST_ROWS = 3
EXAMPLES = max(1, settings().max_examples // 64)
"""Each example explains rows of several views; the thorough profile has more of them."""
ENGINES = ["reference", "duckdb"]
MOST_OPERATORS = 300
"""A definition of more operators, with those of the views that it names as often as it names them, is not explained
here: one in six has more, one in a hundred tens of thousands, and explaining that takes minutes."""


def absent_rows(choice: random.Random, table: pa.Table, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows that are near to those of a view: with one value of another row, and of small values."""
    near = []
    for row in choice.sample(rows, min(2, len(rows))):
        place = choice.randrange(len(row))
        near.append((*row[:place], choice.choice([None, *(other[place] for other in rows)]), *row[place + 1 :]))
    if all(pa.types.is_integer(field.type) for field in table.schema):
        near.append(tuple(choice.choice([None, 0, 1, 2, 3]) for _ in table.schema))
    return near


def check_view(db: tm.Database, view: str, choice: random.Random) -> None:
    table = db.query(f"SELECT * FROM {view}")
    content = bag_of(table)
    rows = list(content)
    for row in [*choice.sample(rows, min(MOST_ROWS, len(rows))), *absent_rows(choice, table, rows)]:
        check_answer(db, view, row, content)


def operators(db: tm.Database, view: str, sizes: Mapping[str, int]) -> int:
    """How many operators a definition has, with those of the views that it reads."""
    found = db._store.catalog.relations[view]
    assert isinstance(found, View)
    return sum(1 + (sizes.get(part.relation, 0) if isinstance(part, Scan) else 0) for part in walk(found.plan))


def filled(engine: str, choice: random.Random, size: int) -> tm.Database:
    db = tm.connect(engine)
    db.execute(SCHEMA)
    for table, width in (("r", 2), ("s", 2), ("t", 1), ("w", 3)):
        count = choice.randint(0, size)
        values = [None, 0, 1, 2, 3] if table != "s" else [0, 1, 2, 3]
        db.insert(table, [tuple(choice.choice(values) for _ in range(width)) for _ in range(count)])
    return db


@pytest.mark.parametrize("names", CASE_GROUPS, ids=lambda names: names[0])
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_outer_joins_and_subqueries(names: list[str], seed: int) -> None:
    choice = random.Random(seed)
    with filled("duckdb", choice, 5) as db:
        for name in choice.sample(names, min(3, len(names))):
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {CASES[name]}")
            check_view(db, name, choice)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=examples(4) * EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_constructs_composed_at_random(engine: str, seed: int) -> None:
    choice = random.Random(seed)
    with filled(engine, choice, 4) as db:
        relations, sizes = dict(Queries(choice).relations), dict[str, int]()
        while len(sizes) < 3:
            name = f"v{len(sizes)}"
            query, width = Queries(choice, relations).query(2)
            kind = choice.choice(["MATERIALIZED VIEW", "VIEW"])
            db.execute(f"CREATE {kind} {name} AS {query}")
            size = operators(db, name, sizes)
            if size > MOST_OPERATORS:
                db.execute(f"DROP VIEW {name}")
                continue
            relations[name], sizes[name] = tuple(f"c{i}" for i in range(width)), size
            check_view(db, name, choice)
        for _ in range(3):
            db.execute(statement(choice))
        for number in range(3):
            check_view(db, f"v{number}", choice)


ROWS = """
INSERT INTO customer VALUES (1, 'ann', 'north'), (2, 'bob', 'south'), (3, NULL, 'north'), (4, 'dan', NULL);
INSERT INTO sale VALUES (1, 1, 12.50, 0.1, 'big red', TIMESTAMP '2026-01-01 10:00:00'),
    (2, 1, 7.25, 0.2, 'red', TIMESTAMP '2026-01-02 10:00:00'), (3, 2, 30.00, 0.3, NULL, NULL),
    (4, NULL, 1.00, NULL, '', TIMESTAMP '2026-01-01 11:00:00'), (5, 1, NULL, 0.7, 'blue red', NULL),
    (6, 9, 12.50, 1.5, 'red', TIMESTAMP '2026-03-01 10:00:00');
"""


@pytest.mark.parametrize(("engine", "rows"), [("reference", 1), ("duckdb", 50)])
@pytest.mark.parametrize("query", [query for group in GROUPS.values() for query in group.values()])
def test_every_construct(engine: str, query: str, rows: int) -> None:
    with tm.connect(engine) as db:
        db.execute(TABLES + ROWS)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        content = bag_of(db.query("SELECT * FROM v"))
        for row in content:
            check_answer(db, "v", row, content, rows=rows)
