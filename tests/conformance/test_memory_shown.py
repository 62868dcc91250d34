"""SHOW MEMORY: how the memory that a connection may take is divided, and how much of each part is used."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidemark as tm
from tidemark.storage.arrangements import shared

SPARK_VARIANTS = ("spark",)
SETUP = """
    CREATE TABLE t (k INT PRIMARY KEY, g INT);
    CREATE TABLE u (g INT, name VARCHAR);
    CREATE MATERIALIZED VIEW named AS SELECT k, name FROM t JOIN u ON t.g = u.g;
    INSERT INTO u VALUES (1, 'one'), (2, 'two');
    INSERT INTO t VALUES (1, 1), (2, 1), (3, 2);
"""


def shown(db: tm.Database) -> dict[str, tuple[int | None, ...]]:
    told = db.execute("SHOW MEMORY")
    assert told is not None and told.column_names == ["part", "bytes", "most_bytes", "entries"]
    return {row["part"]: (row["bytes"], row["most_bytes"], row["entries"]) for row in told.to_pylist()}


@pytest.mark.small
def test_every_part_is_there_with_what_it_uses(db: tm.Database) -> None:
    db.execute(SETUP)
    parts = shown(db)
    if db.engine == "reference":
        assert parts == {}
        return
    assert list(parts) == ["arrangements", "tail", "engine"]
    held = db.execute("SHOW ARRANGEMENTS")
    assert held is not None
    used, most, entries = parts["arrangements"]
    assert used == sum(held["bytes"].to_pylist()) and entries == held.num_rows
    assert most is not None and used is not None and used <= most
    assert parts["tail"][0] and parts["tail"][2], "the last changes are not merged yet"
    assert parts["engine"][0] is not None


def test_a_reader_beside_a_transaction_is_told_too(db: tm.Database) -> None:
    db.execute(SETUP)
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE k = 1")
        engine = db._store.engine
        with engine.snapshot() as snapshot:
            assert [one.part for one in snapshot.memory()] == [one.part for one in engine.memory()]


def test_it_cannot_stand_in_a_transaction(db: tm.Database) -> None:
    with pytest.raises(tm.TidemarkError) as caught, db.transaction() as tx:
        tx.execute("SHOW MEMORY")
    assert caught.value.code == "unsupported"


@pytest.mark.parametrize(("memory", "size"), [("2GB", 2 * 10**9), (600_000_000, 600_000_000), (0, 0)])
def test_limits_are_those_that_the_connection_was_given(memory: str | int, size: int, tmp_path: Path) -> None:
    with tm.connect(f"duckdb:{tmp_path}/x.duckdb", memory=memory) as db:
        db.execute(SETUP)
        parts, shares = shown(db), shared(size)
        assert parts["arrangements"][1] == shares.arrangements and parts["engine"][1] == shares.engine
        db.execute("CHECKPOINT")
        assert shown(db)["tail"][::2] == (0, 0)
