"""Large changes are written before they are followed: nobody else sees them, and they are gone if the commit fails."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import AHEAD, Bag, bag_of, changes_at, check_invariant, rows
from tidemark.engines.duckdb import DuckDBEngine

TABLES = """
    CREATE TABLE sale (id INT PRIMARY KEY, shop INT, amount DECIMAL(12,2), price DOUBLE);
    CREATE TABLE shop (shop INT PRIMARY KEY, name VARCHAR, town INT);
"""
VIEWS = {
    "by_shop": "SELECT shop, COUNT(*) AS sales, SUM(amount) AS amount, MAX(amount) AS most FROM sale GROUP BY shop",
    "by_town": "SELECT town, SUM(amount) AS amount FROM sale JOIN shop ON sale.shop = shop.shop GROUP BY town",
    "names": "SELECT id, name, amount FROM sale JOIN shop ON sale.shop = shop.shop WHERE amount > 3",
    "mean": "SELECT shop, AVG(price) AS price FROM sale GROUP BY shop",
    "idle": "SELECT name FROM shop WHERE NOT EXISTS (SELECT 1 FROM sale WHERE sale.shop = shop.shop)",
    "best": "SELECT id, amount FROM sale ORDER BY amount DESC, id LIMIT 3",
    "big": "SELECT shop FROM by_shop WHERE sales > 2",
}
Sale = tuple[int, int, Decimal, float]


def sales(numbers: range) -> list[Sale]:
    return [(n, n % 7, Decimal(n % 10) + Decimal("0.50"), n / 3) for n in numbers]


def filled(db: tm.Database) -> tm.Database:
    db.execute(TABLES)
    db.insert("shop", [(n, f"shop {n}", n // 3) for n in range(9)])
    db.insert("sale", sales(range(60)))
    for name, text in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    return db


@pytest.fixture
def db() -> Iterator[tm.Database]:
    with filled(tm.Database(DuckDBEngine(limits=AHEAD))) as database:
        yield database


def change(tx: tm.Transaction) -> None:
    tx.execute("DELETE FROM sale WHERE id < 20")
    tx.insert("sale", sales(range(100, 140)))
    tx.execute("UPDATE shop SET town = 5 WHERE shop = 2")


def difference(before: Bag, after: Bag) -> dict[tuple[object, ...], int]:
    return {row: after[row] - before[row] for row in before | after if after[row] != before[row]}


def contents(db: tm.Database) -> dict[str, Bag]:
    return {name: bag_of(db.query(f"SELECT * FROM {name}")) for name in (*VIEWS, "sale", "shop")}


def test_views_and_their_changes_are_exact_whichever_way_each_node_goes(db: tm.Database) -> None:
    before = contents(db)
    with db.transaction() as tx:
        change(tx)
    check_invariant(db)
    after = contents(db)
    assert after != before
    for name in VIEWS:
        assert changes_at(db, name) == difference(before[name], after[name])
    strategies = {line["strategy"] for line in db.trace(db.version).to_pylist()}
    assert {"complete", "differential"} <= strategies


def test_the_trace_says_what_both_ways_would_cost(db: tm.Database) -> None:
    with db.transaction() as tx:
        change(tx)
    lines = {line["node"]: line for line in db.trace(db.version).to_pylist()}
    [reason] = [line["reason"] for name, line in lines.items() if line["strategy"] == "complete" and "by_town" in name]
    assert reason.startswith("its differentials would cost more, some ")


def test_a_view_that_is_declared_incremental_or_approximate_keeps_its_promise(db: tm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW kept WITH (strategy = 'incremental') AS {VIEWS['by_town']}")
    with db.transaction() as tx:
        change(tx)
    lines = db.trace(db.version).to_pylist()
    assert not [line for line in lines if line["strategy"] == "complete" and line["node"].startswith(("kept", "mean"))]
    check_invariant(db)


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        ("CREATE ASSERTION few CHECK (NOT EXISTS (SELECT 1 FROM by_shop WHERE sales > 12))", "assertion"),
        ("CREATE MATERIALIZED VIEW ratio AS SELECT id, 1 / (id - 120) AS r FROM sale", "division_by_zero"),
    ],
)
def test_nothing_is_left_of_what_was_written_if_the_commit_is_refused(
    db: tm.Database, definition: str, code: str
) -> None:
    db.execute(definition)
    before, version = contents(db), db.version
    with pytest.raises(tm.TidemarkError) as refused, db.transaction() as tx:
        change(tx)
        tx.insert("sale", sales(range(200, 240)))
    assert refused.value.code == code
    assert (contents(db), db.version) == (before, version)
    db.execute("DELETE FROM sale WHERE id > 30")
    check_invariant(db)


def test_who_reads_meanwhile_sees_what_was_committed(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    engine = db._store.engine
    assert engine.ahead is not None
    write = engine.ahead.write

    def written(relation: str, delta: pa.Table, key: tuple[int, ...]) -> None:
        write(relation, delta, key)
        with engine.snapshot() as snapshot:
            seen.append((snapshot.version, snapshot.rows(relation)))

    monkeypatch.setattr(engine.ahead, "write", written)
    version = db.version
    db.execute("DELETE FROM sale WHERE id < 50")
    assert seen
    assert seen[0] == (version, 60)
    assert rows(db.query("SELECT COUNT(*) FROM sale")) == [(10,)]


def test_what_was_written_ahead_is_there_when_the_database_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with filled(tm.Database(DuckDBEngine(str(path), limits=AHEAD))) as db:
        db.execute("INSERT INTO sale VALUES (70, 1, 2.50, 1)")
        with db.transaction() as tx:
            change(tx)
        after = contents(db)
    with tm.Database(DuckDBEngine(str(path))) as db:
        assert contents(db) == after
        for name in VIEWS:
            assert not db.audit(name).num_rows
