"""BLAKELEY chapter 7: the snapshot of 7.3.2 refreshed from new values alone, and from the log; Procedure 7.1
corrected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.documents.new_values import Stamped, deleted_ids, refresh
from tests.effort import examples
from tests.support import rows, weights_of
from tidemark.algebra.plans import Stored
from tidemark.sql.catalog.catalog import View

R1 = [(10, 20, 1, 81), (11, 30, 3, 82), (12, 40, 4, 96), (13, 50, 7, 84)]
R2 = [(20, 500, 8, 83), (30, 550, 9, 85), (30, 552, 10, 90), (40, 570, 11, 91)]
SNAPSHOT = [(11, 550, 3, 9), (11, 552, 3, 10), (12, 570, 4, 11)]
DEFINITION = "SELECT h, k, tid1, tid2 FROM r1 JOIN r2 ON i = j WHERE h > 10"


def database(r1: list[Any], r2: list[Any], engine: str = "duckdb") -> tm.Database:
    db = tm.connect(engine)
    db.execute(
        f"""CREATE TABLE r1 (h INT, i INT, tid1 INT NOT NULL, ts1 INT NOT NULL);
            CREATE TABLE r2 (j INT, k INT, tid2 INT NOT NULL, ts2 INT NOT NULL);
            CREATE TABLE s (h INT, k INT, tid1 INT NOT NULL, tid2 INT NOT NULL);
            CREATE VIEW e AS {DEFINITION}"""
    )
    db.insert("r1", r1)
    db.insert("r2", r2)
    return db


def sources(db: tm.Database) -> list[Stamped]:
    schemas = {name: db._store.catalog.relations[name].schema for name in ("r1", "r2")}
    return [Stamped("r1", schemas["r1"], 2, 3, 2), Stamped("r2", schemas["r2"], 2, 3, 3)]


def refreshed(db: tm.Database, tau: int) -> dict[tuple[int, ...], int]:
    """The change of the snapshot by Procedures 7.1 and 7.2."""
    view, table = db._store.catalog.relations["e"], db._store.catalog.relations["s"]
    assert isinstance(view, View)
    plan = refresh(view.plan, Stored("s", table.schema), sources(db), tau)
    return weights_of(db._store.engine.evaluate(plan, {}))


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_the_example_of_7_3_2(engine: str) -> None:
    db = database(R1, R2, engine)
    db.insert("s", db.query("SELECT * FROM e"))
    assert rows(db.query("SELECT * FROM s")) == SNAPSHOT
    db.execute("DELETE FROM r1 WHERE tid1 IN (1, 3)")
    snapshot = Stored("s", db._store.catalog.relations["s"].schema)
    ids = db._store.engine.evaluate(deleted_ids(snapshot, sources(db)[0], 100), {})
    assert weights_of(ids) == {(3,): 1}, "T_d = {3, 4} − {4, 7}"
    assert refreshed(db, 100) == {(11, 550, 3, 9): -1, (11, 552, 3, 10): -1}


def test_the_same_snapshot_from_the_log() -> None:
    db = database(R1, R2)
    db.execute(f"CREATE SNAPSHOT snap AS {DEFINITION} REFRESH ON DEMAND")
    assert rows(db.query("SELECT * FROM snap")) == SNAPSHOT
    db.execute("DELETE FROM r1 WHERE tid1 IN (1, 3)")
    db.execute("REFRESH snap")
    assert rows(db.query("SELECT * FROM snap")) == [(12, 570, 4, 11)]


def test_a_tuple_id_that_was_given_away_again() -> None:
    """With T_1 as the text has it, the rows of the deleted tuple 3 would stay: its id is there, but of a new row."""
    db = database(R1, R2)
    db.insert("s", db.query("SELECT * FROM e"))
    db.execute("DELETE FROM r1 WHERE tid1 = 3")
    db.insert("r1", [(99, 40, 3, 101)])  # inserted, not modified
    change = refreshed(db, 100)
    assert change == {(11, 550, 3, 9): -1, (11, 552, 3, 10): -1, (99, 570, 3, 11): 1}


VALUES = st.integers(8, 14)
ROWS = st.dictionaries(st.integers(1, 6), st.tuples(VALUES, VALUES), max_size=6)


@settings(max_examples=examples(40), deadline=None)
@given(ROWS, ROWS, ROWS, ROWS)
def test_procedures_7_1_and_7_2_give_the_new_snapshot(
    old1: dict[int, tuple[int, int]],
    old2: dict[int, tuple[int, int]],
    new1: dict[int, tuple[int, int]],
    new2: dict[int, tuple[int, int]],
) -> None:
    """Any state, any later state, tuple-ids reused at will: a row that is as it was keeps its time."""

    def stamped(before: dict[int, tuple[int, int]], now: dict[int, tuple[int, int]]) -> list[tuple[int, ...]]:
        return [(*row, tid, 50 if before.get(tid) == row else 150) for tid, row in now.items()]

    db = database(stamped(old1, old1), stamped(old2, old2), "reference")
    db.insert("s", db.query("SELECT * FROM e"))
    db.sync("r1", stamped(old1, new1))
    db.sync("r2", stamped(old2, new2))
    change = refreshed(db, 100)
    content = {row: 1 for row in rows(db.query("SELECT * FROM s"))}
    for row, weight in change.items():
        content[row] = content.get(row, 0) + weight
    assert {row: weight for row, weight in content.items() if weight} == {
        row: 1 for row in rows(db.query("SELECT * FROM e"))
    }
