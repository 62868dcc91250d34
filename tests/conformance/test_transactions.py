"""Transactions: own writes are read, rollback leaves no trace, constraints hold on the net effect."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import changes_at, rows, weights_of

SPARK_VARIANTS = ("spark",)

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
        tx.insert("account", rows_)
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


def test_a_table_is_dropped_and_made_again_below_nested_groupings(db: tm.Database) -> None:
    """States of the same name must not survive when what they were derived from is another table now."""
    definitions = (
        "CREATE TABLE t (a INT, b INT);"
        "CREATE MATERIALIZED VIEW g AS SELECT n, COUNT(*) AS m FROM "
        "(SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS q GROUP BY n;"
    )
    db.execute(definitions + "INSERT INTO t VALUES (1, 1), (1, 2), (2, 1)")
    with db.transaction() as tx:
        tx.execute("DROP TABLE t CASCADE;" + definitions + "INSERT INTO t VALUES (7, 7)")
    assert rows(db.query("SELECT * FROM g")) == [(1, 1)]
    db.execute("INSERT INTO t VALUES (7, 8)")
    assert rows(db.query("SELECT * FROM g")) == [(2, 1)]


def test_only_the_transaction_itself_sees_what_it_did(db: tm.Database) -> None:
    db.execute(ACCOUNTS)
    before = rows(db.query("SELECT * FROM wealth"))
    with db.transaction() as tx:
        tx.execute("DELETE FROM account WHERE owner = 'ann'")
        assert rows(tx.query("SELECT owner FROM wealth")) == [("bob",)]
        assert rows(db.query("SELECT * FROM wealth")) == before, "db reads the current version"
        with pytest.raises(tm.TidemarkError, match="a transaction is open"):
            db.execute("DELETE FROM account")
        with pytest.raises(tm.TidemarkError, match="a transaction is open"):
            db.transaction()
    assert rows(db.query("SELECT owner FROM wealth")) == [("bob",)]


def test_a_transaction_that_begin_opened_is_the_connection_s_own(db: tm.Database) -> None:
    db.execute(ACCOUNTS)
    db.execute("BEGIN; DELETE FROM account WHERE owner = 'ann'")
    db.insert("account", [(7, "gil", 70)])
    db.delete("account", [(3, "bob", 10)])
    assert rows(db.query("SELECT * FROM wealth")) == [("gil", 70)]
    assert rows(db.execute("SELECT owner FROM account")) == [("gil",)]
    db.execute("ROLLBACK")
    assert rows(db.query("SELECT owner FROM wealth")) == [("ann",), ("bob",)]


def test_not_a_number_and_negative_zero_have_one_value_each(db: tm.Database) -> None:
    db.execute("CREATE TABLE f (x DOUBLE PRECISION, y DOUBLE PRECISION)")
    db.execute("CREATE MATERIALIZED VIEW g AS SELECT x, COUNT(*) AS n FROM f GROUP BY x")
    db.execute("CREATE MATERIALIZED VIEW j AS SELECT a.y, b.y AS z FROM f a JOIN f b ON a.x = b.x WHERE a.y > b.y")
    nan = float("nan")
    db.insert("f", [(nan, 1.0), (nan, 2.0), (-0.0, 3.0), (0.0, 4.0)])
    shown = [(str(x), n) for x, n in zip(*(c.to_pylist() for c in db.query("SELECT * FROM g").columns), strict=True)]
    assert sorted(shown) == [("0.0", 2), ("nan", 2)]
    assert changes_at(db, "j") == {(2.0, 1.0): 1, (4.0, 3.0): 1}
    db.delete("f", [(nan, 1.0), (0.0, 3.0)])
    assert changes_at(db, "j") == {(2.0, 1.0): -1, (4.0, 3.0): -1}
    db.execute("DELETE FROM f WHERE x = 0 OR x > 1000000")
    assert db.query("SELECT * FROM g").num_rows == 0 and db.query("SELECT * FROM f").num_rows == 0


def test_a_second_begin_fails_and_dooms_the_open_transaction(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    db.execute("BEGIN; INSERT INTO t VALUES (2)")
    with pytest.raises(tm.TidemarkError) as caught:
        db.execute("BEGIN")
    assert caught.value.code == "transaction"
    for statement in ("SELECT * FROM t", "INSERT INTO t VALUES (3)", "EXPLAIN t", "SHOW TABLES"):
        with pytest.raises(tm.TidemarkError) as caught:
            db.execute(statement)
        assert caught.value.code == "doomed", statement
    with pytest.raises(tm.TidemarkError) as caught:
        db.query("SELECT * FROM t")
    assert caught.value.code == "doomed"
    db.execute("ROLLBACK")
    assert rows(db.query("SELECT * FROM t")) == [(1,)]


def test_every_statement_that_fails_in_an_open_transaction_dooms_it(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE SNAPSHOT s AS SELECT a FROM t REFRESH ON DEMAND")
    for statement in (
        "BEGIN",
        "REFRESH s",
        "ALTER LOG SET (versions = 10)",
        "EXPLAIN nothing",
        "AUDIT nothing",
        "AUDIT t",
        "EXPLAIN WHY (1) IN nothing",
        "EXPLAIN EFFECT OF DELETE FROM nothing ON s",
        "SELECT nothing",
        "SELEC",
    ):
        db.execute("BEGIN; INSERT INTO t VALUES (2)")
        with pytest.raises(tm.TidemarkError):
            db.execute(statement)
        with pytest.raises(tm.TidemarkError) as caught:
            db.query("SELECT * FROM t")
        assert caught.value.code == "doomed", statement
        db.execute("ROLLBACK")


def test_a_transaction_with_a_key_is_done_once(db: tm.Database) -> None:
    db.execute(ACCOUNTS)

    def deposit(key: str, amount: int) -> int | None:
        with db.transaction(idempotency_key=key) as tx:
            tx.execute("UPDATE account SET balance = balance + ? WHERE id = 1", [amount])
            tx.execute(f"INSERT INTO account VALUES ({amount}, 'new', 1)")
            tx.upsert("account", [(2, "ann", 50 + amount)])
            tx.executemany("DELETE FROM account WHERE id = ?", [(3,)])
            found = tx.sync("account", tx.query("SELECT * FROM account WHERE id <> 7"))
            assert found.inserted == 0
            assert tx.query("SELECT * FROM account").num_rows
        return tx.version

    first = deposit("a", 5)
    assert first == db.version
    after = state_of(db)
    assert deposit("a", 5) == first
    assert deposit("a", 900) == first
    assert state_of(db) == after
    assert deposit("b", 6) == db.version == first + 1
    assert rows(db.query("SELECT balance FROM account WHERE id = 1")) == [(111,)]
    assert deposit("a", 5) == first


def test_a_key_is_kept_if_its_transaction_is(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    with pytest.raises(tm.TidemarkError), db.transaction(idempotency_key="k") as tx:
        tx.insert("t", [(1,), (1,)])
    with pytest.raises(KeyError), db.transaction(idempotency_key="k") as tx:
        tx.insert("t", [(1,)])
        raise KeyError
    with db.transaction(idempotency_key="k") as tx:
        pass
    assert tx.version is None
    with db.transaction(idempotency_key="k") as tx:
        tx.insert("t", [(1,)])
    with db.transaction(idempotency_key="k") as again:
        again.execute("CREATE TABLE other (a INT); INSERT INTO other VALUES (1)")
        with pytest.raises(tm.TidemarkError):
            again.query("SELECT * FROM other")
        again.rollback()
    assert (tx.version, again.version) == (db.version, db.version)
    assert rows(db.query("SELECT * FROM t")) == [(1,)]
    for wrong in ("", "\ud800", 7):
        with pytest.raises(tm.TidemarkError) as error:
            db.transaction(idempotency_key=wrong)  # type: ignore[arg-type]
        assert error.value.code == "type"
    db.insert("t", [(2,)])


@pytest.mark.parametrize("target", ["duckdb:{}/x.duckdb", pytest.param("spark:{}/lake", marks=pytest.mark.spark)])
def test_a_key_is_durable_and_forgotten_after_a_day(target: str, tmp_path: Path) -> None:
    now = [dt.datetime(2026, 1, 1)]

    def once(key: str) -> tuple[int | None, int]:
        with tm.connect(target.format(tmp_path), clock=lambda: now[0]) as db:
            db.execute("CREATE TABLE IF NOT EXISTS t (a INT)")
            with db.transaction(idempotency_key=key) as tx:
                tx.insert("t", [(1,)])
            return tx.version, db.query("SELECT * FROM t").num_rows

    first, count = once("k")
    now[0] += dt.timedelta(hours=24)
    assert once("k") == (first, count)
    now[0] += dt.timedelta(minutes=1)
    assert once("other")[1] == count + 1
    version, count = once("k")
    assert version != first and count == 3
