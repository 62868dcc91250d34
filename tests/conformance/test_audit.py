"""AUDIT tells what is stored wrong, whoever stored it: it evaluates the definition in another way than the fill did."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import weights_of
from tidemark.algebra.types import WEIGHT
from tidemark.storage.commit import Commit

VIEWS = {
    "joined": "SELECT t.a, s.c FROM t JOIN s ON s.a = t.a",
    "grouped": "SELECT a, COUNT(*) AS c FROM t GROUP BY a",
    "first": "SELECT a, b AS c FROM t ORDER BY b LIMIT 2",
    "recursive": "WITH RECURSIVE r AS (SELECT a, b AS c FROM t UNION SELECT r.a, t.b FROM r JOIN t ON t.a = r.c) "
    "SELECT a, c FROM r",
    "subquery": "SELECT a, b AS c FROM t WHERE NOT EXISTS (SELECT * FROM s WHERE s.a = t.a AND s.c > 5)",
}


def damage(db: tm.Database, view: str, row: tuple[int, int], weight: int) -> None:
    """Store or remove a row behind the back of all that keeps the view true."""
    store(db, view, (*row, weight))


def store(db: tm.Database, view: str, *rows: tuple[object, ...]) -> None:
    """The same of rows that have their weights behind them."""
    schema = db._store.catalog.relations[view].schema.weighted
    assert schema.names[-1] == WEIGHT
    given = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
    engine = db._store.engine
    version = db.version if not hasattr(engine, "version") else engine.version
    engine.commit(Commit(version + 1, dt.datetime.now(dt.UTC), {view: given}))


@pytest.mark.parametrize("view", VIEWS)
def test_a_row_too_many_and_a_row_too_few_are_told(db: tm.Database, view: str) -> None:
    db.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE s (a INT, c INT)")
    db.insert("t", [(1, 2), (2, 3), (2, 0)])
    db.insert("s", [(1, 2), (2, 2)])
    db.execute(f"CREATE MATERIALIZED VIEW v AS {VIEWS[view]}")
    assert db.audit("v").num_rows == 0
    damage(db, "v", (9, 9), 1)
    assert weights_of(db.audit("v")) == {(9, 9): 1}
    damage(db, "v", (9, 9), -1)
    row = db.query("SELECT * FROM v").to_pylist()[0]
    present = (row["a"], row["c"])
    damage(db, "v", present, -1)
    assert weights_of(db.audit("v"))[present] == -1
    damage(db, "v", present, 1)
    assert db.audit("v").num_rows == 0


def test_an_audit_neither_asks_what_the_engine_keeps_nor_what_it_does_by_itself(
    db: tm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fills and follows views is not asked for their audit: where it is wrong, the audit would be so too."""
    engine = db._store.engine
    if engine.name == "reference":
        return  # it has one way, which is to be right
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (2, 3)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")

    def refuse(*_: object) -> pa.Table:
        raise AssertionError("an audit goes another way")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "evaluate", refuse)
        patched.setattr(engine, "fetch", refuse)
        assert db.audit("v").num_rows == 0


def test_sums_of_doubles_are_compared_closely_beside_arrays_and_numbers_that_are_none(db: tm.Database) -> None:
    """What is equal has one form, in which it can be looked up: a tuple for an array, one NaN."""
    db.execute("CREATE TABLE t (a INT[], n DOUBLE, d DOUBLE)")
    db.insert("t", [([1, 2], float("nan"), 0.5), (None, -0.0, 0.25), ([1, 2], float("nan"), 1.0)])
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, n, SUM(d) AS s FROM t GROUP BY a, n")
    stored, close = ([1, 2], float("nan"), 1.5), ([1, 2], float("nan"), 1.5 + 1e-15)
    store(db, "v", (*stored, -1), (*close, 1), ([3], 1.0, 2.0, 1))
    assert db.audit("v").select(["a", "s", WEIGHT]).to_pylist() == [{"a": [3], "s": 2.0, WEIGHT: 1}]
    store(db, "v", (*stored, 1), (*close, -1), ([3], 1.0, 2.0, -1))
    assert db.audit("v").num_rows == 0
