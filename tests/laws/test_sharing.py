"""Whoever shares a join has the rows that it would have alone: after any history, whatever the others are."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.support import bag_of, check_invariant

SCHEMA = "CREATE TABLE a (i INT PRIMARY KEY, k INT, x INT); CREATE TABLE b (k INT PRIMARY KEY, y INT)"
JOIN = "FROM a JOIN b ON a.k = b.k"
KEYED = ("a.i, a.x, b.k, b.y", "a.i, a.k, a.x, b.y", "a.i, b.k", "b.k, b.y, a.i, a.x + b.y AS s")
COLUMNS = (*KEYED, *KEYED, "a.x, b.y", "a.x")
WHERE = ("", "WHERE a.x > 3", "WHERE a.x > 4", "WHERE b.y < 3", "WHERE a.x > b.y", "WHERE a.x BETWEEN 2 AND 5")
VIOLATED = "SELECT a.i, a.x, b.k, b.y FROM a JOIN b ON a.k = b.k WHERE a.x > 4 AND b.y < 2"


def definition(choice: random.Random, name: str) -> str:
    query = f"SELECT {choice.choice(COLUMNS)} {JOIN} {choice.choice(WHERE)}"
    kind = choice.choices(["MATERIALIZED", "EXTERNAL", "grouping", "distinct", "above"], [12, 1, 1, 1, 4])[0]
    match kind:
        case "grouping":
            return f"CREATE MATERIALIZED VIEW {name} AS SELECT b.k, COUNT(*) AS n, SUM(a.x) AS t {JOIN} GROUP BY b.k"
        case "distinct":
            return f"CREATE MATERIALIZED VIEW {name} AS SELECT DISTINCT b.y {JOIN} {choice.choice(WHERE)}"
        case "above":
            return f"CREATE MATERIALIZED VIEW {name} AS SELECT g.k AS of, g.n, a.i, b.k {JOIN} JOIN g ON g.k = b.y"
    return f"CREATE {kind} VIEW {name} AS {query}"


def change(choice: random.Random, tx: tm.Transaction) -> None:
    i, k, x, y = (choice.randint(0, most) for most in (9, 4, 7, 5))
    rows: dict[str, list[tuple[int | None, ...]]] = {"a": [(i, choice.choice([k, k, k, None]), x)], "b": [(k, y)]}
    text = choice.choice(
        [
            "a",
            "a",
            "b",
            f"DELETE FROM a WHERE i = {i}",
            f"DELETE FROM a WHERE x > {x} AND i < {i}",
            f"DELETE FROM b WHERE k = {k}",
            f"UPDATE a SET x = {x} WHERE i BETWEEN {i} AND {i + 3}",
            f"UPDATE a SET x = x + 1 WHERE i = {i}",
            f"UPDATE b SET y = {y} WHERE k = {k}",
        ]
    )
    if text in rows:  # with another row of the same key, if there is one
        tx.execute(f"DELETE FROM {text} WHERE {'i' if text == 'a' else 'k'} = {rows[text][0][0]}")
        tx.insert(text, rows[text])
    else:
        tx.execute(text)


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9))
def test_sharing_changes_no_rows(engine: str, seed: int) -> None:
    choice = random.Random(seed)
    with tm.connect(engine) as db:
        db.execute(SCHEMA)
        db.execute("CREATE MATERIALIZED VIEW g AS SELECT k, COUNT(*) AS n FROM a GROUP BY k")
        for number in range(choice.choice([1, 2, 2, 3, 5])):
            db.execute(definition(choice, f"v{number}"))
        is_asserted = choice.random() < 0.5
        if is_asserted:
            db.execute(f"CREATE ASSERTION never CHECK (NOT EXISTS ({VIOLATED}))")
        for _ in range(6):
            before, is_refused = bag_of(db.query("SELECT * FROM a")), False
            tx = db.transaction()
            for _ in range(choice.choices([1, 2, 3], [4, 2, 1])[0]):
                change(choice, tx)
            is_violated = is_asserted and tx.query(VIOLATED).num_rows > 0
            try:
                tx.commit()
            except tm.TidemarkError as error:
                assert error.code == "assertion"
                is_refused = True
            assert is_refused == is_violated
            if is_refused:
                assert bag_of(db.query("SELECT * FROM a")) == before
            check_invariant(db)
