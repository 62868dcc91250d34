"""Transactions: own writes are read, rollback leaves no trace, constraints hold on the net effect."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import changes_at, rows, weights_of

ACCOUNTS = """
CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR NOT NULL, balance INT CHECK (balance BETWEEN 0 AND 1000));
CREATE MATERIALIZED VIEW wealth AS SELECT owner, SUM(balance) AS total FROM account GROUP BY owner;
INSERT INTO account VALUES (1, 'ann', 100), (2, 'ann', 50), (3, 'bob', 10);
"""


def state_of(db: tm.Database) -> object:
    return (db.version, rows(db.query("SELECT * FROM account")), rows(db.query("SELECT * FROM wealth")))


def test_a_transaction_reads_its_own_writes_derived_relations_included(db: tm.Database) -> None:
    db.execute(ACCOUNTS)
    with db.transaction() as tx:
        tx.execute("UPDATE account SET balance = balance + 5 WHERE owner = 'ann'")
        assert rows(tx.query("SELECT total FROM wealth WHERE owner = 'ann'")) == [(160,)]
        tx.insert("account", [{"id": 4, "owner": "cid", "balance": 1}])
        tx.delete("account", [(3, "bob", 10)])
        assert rows(tx.query("SELECT owner, total FROM wealth")) == [("ann", 160), ("cid", 1)]
        assert rows(db.query("SELECT count(*) FROM account")) == [(3,)], "db reads inside its open transaction"
    assert changes_at(db, "wealth") == {
        ("ann", 150): -1,
        ("ann", 160): 1,
        ("bob", 10): -1,
        ("cid", 1): 1,
    }


def test_an_exception_rolls_everything_back(db: tm.Database) -> None:
    db.execute(ACCOUNTS)
    before = state_of(db)
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        tx.execute("DELETE FROM account; CREATE TABLE other (a INT)")
        tx.execute("CREATE MATERIALIZED VIEW v2 AS SELECT a FROM other")
        assert rows(tx.query("SELECT * FROM wealth")) == []
        raise ZeroDivisionError
    assert state_of(db) == before
    with pytest.raises(tm.TidemarkError, match="unknown_relation"):
        db.query("SELECT * FROM other")


def test_a_failed_statement_dooms_the_transaction_until_rollback(db: tm.Database) -> None:
    db.execute(ACCOUNTS)
    before = state_of(db)
    db.execute("BEGIN; DELETE FROM account WHERE id = 1")
    with pytest.raises(tm.TidemarkError, match="unknown_column"):
        db.execute("DELETE FROM account WHERE nothing = 1")
    with pytest.raises(tm.TidemarkError, match="doomed"):
        db.query("SELECT 1")
    with pytest.raises(tm.TidemarkError, match="doomed"):
        db.execute("COMMIT")
    assert state_of(db) == before
    with pytest.raises(tm.TidemarkError) as caught, db.transaction() as tx:
        with pytest.raises(tm.TidemarkError):
            tx.execute("INSERT INTO account VALUES ('x', 'y', 'z')")
        tx.query("SELECT 1")
    assert caught.value.code == "doomed"
    assert state_of(db) == before


def test_begin_commit_and_rollback_as_statements(db: tm.Database) -> None:
    db.execute(ACCOUNTS)
    version = db.version
    db.execute("BEGIN; UPDATE account SET balance = 0; UPDATE account SET balance = 7 WHERE id = 3; COMMIT")
    assert db.version == version + 1
    assert rows(db.query("SELECT * FROM wealth")) == [("ann", 0), ("bob", 7)]
    db.execute("BEGIN; DELETE FROM account; ROLLBACK")
    assert db.version == version + 1
    assert rows(db.query("SELECT * FROM wealth")) == [("ann", 0), ("bob", 7)]
    for statement in ("COMMIT", "ROLLBACK"):
        with pytest.raises(tm.TidemarkError, match="no transaction is open"):
            db.execute(statement)
    db.execute("BEGIN; COMMIT; BEGIN; SELECT 1; COMMIT")
    assert db.version == version + 1, "a transaction without DML or DDL takes no version"


def test_constraints_hold_on_the_net_effect(db: tm.Database) -> None:
    db.execute(ACCOUNTS)
    with db.transaction() as tx:
        tx.execute("INSERT INTO account VALUES (1, 'eve', 5000)")
        tx.execute("UPDATE account SET balance = 50, id = 9 WHERE owner = 'eve'")
    assert changes_at(db, "account") == {(9, "eve", 50): 1}
    with db.transaction() as tx:
        tx.execute("UPDATE account SET id = 3 - id WHERE id < 3")
    assert changes_at(db, "account") == {(1, "ann", 100): -1, (2, "ann", 50): -1, (2, "ann", 100): 1, (1, "ann", 50): 1}


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("INSERT INTO account VALUES (1, 'eve', 1)", "primary_key"),
        ("INSERT INTO account VALUES (8, 'eve', 1), (8, 'eve', 1)", "primary_key"),
        ("UPDATE account SET id = 1", "primary_key"),
        ("INSERT INTO account VALUES (NULL, 'eve', 1)", "not_null"),
        ("INSERT INTO account (id, balance) VALUES (8, 1)", "not_null"),
        ("UPDATE account SET owner = NULL WHERE id = 1", "not_null"),
        ("UPDATE account SET balance = balance - 60 WHERE owner = 'ann'", "check"),
        ("INSERT INTO account VALUES (8, 'eve', 1001)", "check"),
        ("UPDATE account SET balance = balance * 2147483647", "overflow"),
        ("UPDATE account SET balance = 1 / (balance - 10)", "division_by_zero"),
    ],
)
def test_violations_are_refused_and_change_nothing(db: tm.Database, statement: str, code: str) -> None:
    db.execute(ACCOUNTS)
    before = state_of(db)
    with pytest.raises(tm.TidemarkError) as caught:
        db.execute(statement)
    assert caught.value.code == code
    assert state_of(db) == before


def test_a_null_passes_a_check(db: tm.Database) -> None:
    db.execute(ACCOUNTS)
    db.execute("INSERT INTO account VALUES (4, 'dan', NULL)")
    assert changes_at(db, "wealth") == {("dan", None): 1}


def test_rows_come_in_as_tuples_dicts_and_arrow(db: tm.Database) -> None:
    db.execute(ACCOUNTS)
    with db.transaction() as tx:
        tx.insert("account", [(4, "dan", 1)])
        tx.insert("account", [{"owner": "dan", "balance": None, "id": 5}])
        tx.insert("account", pa.table({"balance": pa.array([6], pa.int64()), "id": [6], "owner": ["eve"]}))
        tx.insert("account", [])
    assert changes_at(db, "account") == {(4, "dan", 1): 1, (5, "dan", None): 1, (6, "eve", 6): 1}
    with db.transaction() as tx:
        tx.delete("account", pa.table({"id": [6], "owner": ["eve"], "balance": [6]}))
        tx.delete("account", [(5, "dan", None)])
    assert changes_at(db, "account") == {(5, "dan", None): -1, (6, "eve", 6): -1}


@pytest.mark.parametrize(
    ("rows_", "code"),
    [
        ([(1, "x")], "columns"),
        ([{"id": 8, "owner": "x"}], "columns"),
        ([{"id": 8, "owner": "x", "balance": 1, "more": 2}], "columns"),
        (pa.table({"id": [8], "owner": ["x"]}), "columns"),
        (pa.table({"id": [8], "owner": ["x"], "balance": [1], "more": [1]}), "columns"),
        (pa.table({"id": ["8"], "owner": ["x"], "balance": [1]}), "type"),
        (pa.table({"id": [2**40], "owner": ["x"], "balance": [1]}), "type"),
        (pa.table({"id": [1.5], "owner": ["x"], "balance": [1]}), "type"),
        ([("eight", "x", 1)], "type"),
        ([(2**40, "x", 1)], "type"),
        ("text", "type"),
        (7, "type"),
        ([7], "type"),
    ],
)
def test_rows_that_do_not_fit_are_refused(db: tm.Database, rows_: object, code: str) -> None:
    db.execute(ACCOUNTS)
    before = state_of(db)
    with pytest.raises(tm.TidemarkError) as caught, db.transaction() as tx:
        tx.insert("account", rows_)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert state_of(db) == before


def test_deleting_an_absent_row_is_an_error(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, b VARCHAR)")
    db.execute("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (NULL, NULL)")
    for missing in ([(1, "y")], [(1, "x")] * 3, [(1, None)]):
        with pytest.raises(tm.TidemarkError, match="absent"), db.transaction() as tx:
            tx.delete("t", missing)
    with db.transaction() as tx:
        tx.delete("t", [(1, "x"), (None, None)])
        with pytest.raises(tm.TidemarkError, match="absent"):
            tx.delete("t", [(None, None)])
        tx.rollback()
    db.delete("t", [(None, None), (1, "x")])
    assert rows(db.query("SELECT * FROM t")) == [(1, "x")]


def test_definitions_are_transactional(db: tm.Database) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (1), (2)")
        tx.execute("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        tx.execute("CREATE VIEW plain AS SELECT a FROM v WHERE n > 1")
        assert rows(tx.query("SELECT * FROM plain")) == [(1,)]
        tx.execute("DELETE FROM t WHERE a = 2; CREATE MATERIALIZED VIEW w AS SELECT SUM(n) AS s FROM v")
        assert rows(tx.query("SELECT * FROM w")) == [(2,)]
    assert db.version == 1
    assert weights_of(db.changes("v").drop_columns(["_version"])) == {(1, 2): 1}
    db.execute("INSERT INTO t VALUES (5)")
    assert changes_at(db, "w") == {(2,): -1, (3,): 1}
    with db.transaction() as tx:
        tx.execute("DROP TABLE t CASCADE; CREATE TABLE t (a INT); INSERT INTO t VALUES (9)")
        tx.execute("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    assert rows(db.query("SELECT * FROM v")) == [(9, 1)]
    db.execute("INSERT INTO t VALUES (9)")
    assert changes_at(db, "v") == {(9, 1): -1, (9, 2): 1}
