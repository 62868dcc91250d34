"""A block of a transaction whose end is interrupted: the next transaction begins all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidemark as tm
from tidemark.session.transaction import Transaction, TransactionStage


@pytest.fixture
def db(tmp_path: Path) -> tm.Database:
    database = tm.connect(f"duckdb:{tmp_path / 'data.duckdb'}")
    database.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    return database


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_the_next_transaction_does_not_find_it_open(db: tm.Database, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Though the program still holds it, as a variable does after the block."""
    tx = db.transaction()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt), tx:
        tx.insert("t", [(1,)])
        patched.setattr(Transaction, end, interrupted)
        if end == "rollback":
            raise KeyboardInterrupt
    assert tx.stage is not TransactionStage.ENDED
    with db.transaction() as other:
        other.insert("t", [(2,)])
    assert db.query("SELECT k FROM t").to_pylist() == [{"k": 2}]
    with pytest.raises(tm.TidemarkError, match="has ended"):
        tx.insert("t", [(3,)])
    db.close()


def test_one_that_is_in_its_block_is_told_to_be_open(db: tm.Database) -> None:
    with db.transaction() as tx:
        tx.insert("t", [(1,)])
        with pytest.raises(tm.TidemarkError, match="open already"):
            db.transaction()
    assert db.query("SELECT k FROM t").num_rows == 1
    db.close()
