"""No engine holds a copy of a base table in Python: what is stored lies in DuckDB or in the lake's files.

Two measures, because neither sees everything. pyarrow tells how much memory it has given out, also for tables that only
another library still refers to; a walk over everything that can be reached from the database finds Arrow tables
whose memory somebody else gave out, and rows as Python objects.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import rows

pytestmark = pytest.mark.slow

ROWS = 1_000_000
KINDS = 100


def loaded(rows: int = ROWS) -> pa.Table:
    """Some 24 MB."""
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "kind": pa.array((number % KINDS for number in range(rows)), pa.int64()),
            "amount": pa.array(range(rows), pa.int64()),
        }
    )


def allocated_bytes() -> int:
    gc.collect()
    return int(pa.total_allocated_bytes())


def reachable(start: object) -> Iterator[Any]:
    """Each object that can be reached from this one; not by way of modules and classes, which everything reaches."""
    seen, waiting = {id(start)}, [start]
    while waiting:
        found = waiting.pop()
        yield found
        # A function refers to its module's names; only what it closes over is its own.
        referents = (
            [found.__closure__, found.__defaults__] if isinstance(found, FunctionType) else gc.get_referents(found)
        )
        for referent in referents:
            if id(referent) not in seen and not isinstance(referent, (ModuleType, type)):
                seen.add(id(referent))
                waiting.append(referent)


def arrow_bytes(objects: list[Any]) -> int:
    return sum(found.nbytes for found in objects if isinstance(found, (pa.Table, pa.RecordBatch, pa.ChunkedArray)))


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tm.Database]:
    if request.param == "duckdb":
        target, lake = "duckdb", None
    else:
        target, lake = request.getfixturevalue("spark"), str(tmp_path / "lake")
    # Rows that are arranged by what they are looked up by are kept on purpose, within this budget.
    with tm.connect(target, lake=lake, memory=0) as database:
        yield database


def test_a_loaded_table_is_not_kept_in_python(db: tm.Database) -> None:
    before = allocated_bytes()
    db.execute("""
        CREATE TABLE item (id BIGINT PRIMARY KEY, kind BIGINT, amount BIGINT);
        CREATE MATERIALIZED VIEW total AS SELECT kind, COUNT(*) AS items, SUM(amount) AS amount FROM item GROUP BY kind;
        CREATE MATERIALIZED VIEW dear AS SELECT id, amount FROM item WHERE amount >= 999990;
    """)
    table = loaded()
    size = table.nbytes
    db.insert("item", table)
    assert allocated_bytes() - before >= size, "pyarrow does not count what it gives out: this test shows nothing"
    del table

    for number in range(3):
        with db.transaction() as tx:
            tx.execute(f"UPDATE item SET amount = amount + 1 WHERE id = {number}")
            tx.insert("item", [(ROWS + number, 7, ROWS)])
            tx.delete("item", [(500 + number, (500 + number) % KINDS, 500 + number)])
    assert rows(db.query("SELECT COUNT(*) AS n FROM item")) == [(ROWS,)]
    assert rows(db.query("SELECT COUNT(*) AS n FROM dear")) == [(13,)]

    objects = list(reachable(db))
    assert len(objects) < ROWS // 10
    assert arrow_bytes(objects) < size // 10
    del objects
    assert allocated_bytes() - before < size // 10


def test_the_walk_finds_tables_and_rows_wherever_they_are_held() -> None:
    table, many = loaded(1000), [(number, str(number)) for number in range(1000)]
    with tm.connect("duckdb") as db:
        few = len(list(reachable(db)))
        setattr(db, "extra", {"held": lambda: (table, many)})  # noqa: B010
        objects = list(reachable(db))
        assert any(found is table for found in objects)
        assert arrow_bytes(objects) >= table.nbytes
        assert len(objects) >= few + 2000
