"""Definitions that change under data and views: ALTER TABLE … ADD COLUMN, CREATE OR REPLACE VIEW, DROP … CASCADE."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

import tidemark as tm
from tests.support import changes_at, check_invariant, rows

SPARK_VARIANTS = ("spark",)

SHOP = """
CREATE TABLE item (id INT PRIMARY KEY, kind VARCHAR, price INT);
CREATE VIEW dear AS SELECT id, kind, price FROM item WHERE price >= 10;
CREATE MATERIALIZED VIEW per_kind AS SELECT kind, COUNT(*) AS n, SUM(price) AS total FROM item GROUP BY kind;
CREATE MATERIALIZED VIEW whole AS SELECT * FROM item;
CREATE MATERIALIZED VIEW dear_kinds AS SELECT kind, COUNT(*) AS n FROM dear GROUP BY kind;
CREATE MATERIALIZED VIEW large AS SELECT kind FROM per_kind WHERE n > 1;
INSERT INTO item VALUES (1, 'a', 5), (2, 'a', 15), (3, 'b', 25), (4, NULL, NULL);
"""


def refused(db: tm.Database, sql: str, code: str, *words: str) -> None:
    version = db.version
    with pytest.raises(tm.TidemarkError) as caught:
        db.execute(sql)
    assert caught.value.code == code, str(caught.value)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert db.version == version


# ALTER TABLE … ADD COLUMN


def test_existing_rows_take_the_default_and_so_do_the_changes_that_were_logged(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (1), (2)")
    db.execute("DELETE FROM t WHERE a = 2")
    db.execute("ALTER TABLE t ADD COLUMN b VARCHAR DEFAULT 'x' NOT NULL")
    assert db.version == 4
    assert rows(db.query("SELECT * FROM t")) == [(1, "x"), (1, "x")]
    assert rows(db.changes("t").drop_columns(["_time"])) == [(1, "x", 2, 2), (2, "x", 2, 1), (2, "x", 3, -1)]
    assert db.changes("t").column_names == ["a", "b", "_version", "_weight", "_time"]
    db.execute("INSERT INTO t (a) VALUES (3); INSERT INTO t VALUES (3, 'y')")
    db.execute("UPDATE t SET b = 'z' WHERE a = 1")
    assert rows(db.query("SELECT * FROM t")) == [(1, "z"), (1, "z"), (3, "x"), (3, "y")]
    assert changes_at(db, "t") == {(1, "x"): -2, (1, "z"): 2}
    with pytest.raises(tm.TidemarkError, match="not_null"):
        db.execute("INSERT INTO t VALUES (4, NULL)")
    db.delete("t", [(3, "y")])
    db.insert("t", [(5, "five")])
    assert rows(db.query("SELECT b FROM t WHERE a = 5")) == [("five",)]


def test_a_view_keeps_the_columns_and_the_content_that_it_had(db: tm.Database) -> None:
    db.execute(SHOP)
    before = {view: rows(db.query(f"SELECT * FROM {view}")) for view in ("per_kind", "whole", "dear_kinds", "large")}
    db.execute("ALTER TABLE item ADD COLUMN stock INT DEFAULT 7, ADD COLUMN note VARCHAR")
    for view, content in before.items():
        assert rows(db.query(f"SELECT * FROM {view}")) == content
        assert changes_at(db, view) == {}
    assert db.trace(db.version).num_rows == 0
    assert rows(db.query("SELECT * FROM item WHERE id = 1")) == [(1, "a", 5, 7, None)]
    db.execute("UPDATE item SET stock = 8")
    for view in before:
        assert changes_at(db, view) == {}
    db.execute("INSERT INTO item VALUES (5, 'b', 1, 2, 'three')")
    assert changes_at(db, "per_kind") == {("b", 1, 25): -1, ("b", 2, 26): 1}
    assert changes_at(db, "large") == {("b",): 1}
    assert changes_at(db, "whole") == {(5, "b", 1): 1}
    db.execute("CREATE MATERIALIZED VIEW stocked AS SELECT * FROM item JOIN whole USING (id, kind, price)")
    assert db.query("SELECT * FROM stocked").column_names == ["id", "kind", "price", "stock", "note"]


def test_names_in_a_view_mean_what_they_meant_when_a_new_column_has_the_same_name(db: tm.Database) -> None:
    db.execute("CREATE TABLE l (a INT, b INT); CREATE TABLE r (a INT, c INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT l.a, c, b FROM l NATURAL JOIN r")
    db.execute("INSERT INTO l VALUES (1, 2); INSERT INTO r VALUES (1, 3)")
    db.execute("ALTER TABLE l ADD COLUMN c INT DEFAULT 9")
    db.execute("INSERT INTO r VALUES (1, 4)")
    assert changes_at(db, "v") == {(1, 4, 2): 1}
    assert rows(db.query("SELECT l.a, c, b FROM l NATURAL JOIN r")) == []


@pytest.mark.parametrize(
    ("type", "default", "value"),
    [
        ("BOOLEAN", "TRUE", True),
        ("SMALLINT", "-3", -3),
        ("BIGINT", "5000000000", 5_000_000_000),
        ("DECIMAL(12,2)", "1.5", Decimal("1.50")),
        ("DOUBLE PRECISION", "2.5e-3", 0.0025),
        ("VARCHAR(10)", "'it''s'", "it's"),
        ("DATE", "'2024-02-29'", dt.date(2024, 2, 29)),
        ("TIMESTAMP", "'2024-02-29 01:02:03.456789'", dt.datetime(2024, 2, 29, 1, 2, 3, 456789)),
        ("INT", "1 + 2", 3),
        ("INT", "NULL", None),
    ],
)
def test_a_default_of_each_type(db: tm.Database, type: str, default: str, value: object) -> None:
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    db.execute(f"ALTER TABLE t ADD COLUMN b {type} DEFAULT {default}")
    db.execute("INSERT INTO t (a) VALUES (2)")
    db.execute("INSERT INTO t (a) SELECT a + 2 FROM t WHERE a = 1")
    assert rows(db.query("SELECT a, b FROM t")) == [(1, value), (2, value), (3, value)]
    assert rows(db.changes("t").drop_columns(["_version", "_time"])) == [(1, value, 1), (2, value, 1), (3, value, 1)]
    db.execute("DELETE FROM t WHERE a = 1")


def test_a_column_may_be_added_in_the_middle_of_a_transaction(db: tm.Database) -> None:
    db.execute(SHOP)
    with db.transaction() as tx:
        tx.execute("INSERT INTO item VALUES (5, 'c', 50); DELETE FROM item WHERE id = 1")
        tx.execute("ALTER TABLE item ADD COLUMN stock INT DEFAULT 1")
        tx.execute("UPDATE item SET stock = 2 WHERE id IN (2, 5)")
        assert rows(tx.query("SELECT id, stock FROM item")) == [(2, 2), (3, 1), (4, 1), (5, 2)]
        assert rows(tx.query("SELECT kind, n FROM per_kind")) == [(None, 1), ("a", 1), ("b", 1), ("c", 1)]
        tx.execute("CREATE MATERIALIZED VIEW stocks AS SELECT kind, SUM(stock) AS s FROM item GROUP BY kind")
        tx.execute("ALTER TABLE item ADD COLUMN more VARCHAR DEFAULT 'm'")
        tx.execute("CREATE MATERIALIZED VIEW mores AS SELECT more, COUNT(*) AS n FROM item GROUP BY more")
        assert rows(tx.query("SELECT * FROM stocks")) == [(None, 1), ("a", 2), ("b", 1), ("c", 2)]
        tx.delete("item", [(3, "b", 25, 1, "m")])
    assert changes_at(db, "item") == {
        (1, "a", 5, 1, "m"): -1,
        (2, "a", 15, 1, "m"): -1,
        (2, "a", 15, 2, "m"): 1,
        (3, "b", 25, 1, "m"): -1,
        (5, "c", 50, 2, "m"): 1,
    }
    assert rows(db.query("SELECT * FROM stocks")) == [(None, 1), ("a", 2), ("c", 2)]
    assert rows(db.query("SELECT * FROM mores")) == [("m", 3)]


def test_a_table_that_is_new_in_the_transaction_can_be_altered_in_it(db: tm.Database) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE t (a INT DEFAULT 4); INSERT INTO t VALUES (1)")
        tx.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        tx.execute("ALTER TABLE t ADD COLUMN b INT DEFAULT 2")
        tx.execute("INSERT INTO t (b) VALUES (3)")
        assert rows(tx.query("SELECT * FROM v")) == [(1,), (4,)]
    assert rows(db.query("SELECT * FROM t")) == [(1, 2), (4, 3)]
    assert rows(db.query("SELECT * FROM v")) == [(1,), (4,)]


def test_constraints_of_a_new_column_hold_for_the_rows_that_are_there(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (5)")
    refused(db, "ALTER TABLE t ADD COLUMN b INT NOT NULL", "not_null", "'b'")
    refused(db, "ALTER TABLE t ADD COLUMN b INT DEFAULT 3 CHECK (b <= a)", "check", "a=1", "b <= a")
    refused(db, "ALTER TABLE t ADD COLUMN b VARCHAR(2) DEFAULT 'long'", "check", "length")
    db.execute("BEGIN; ALTER TABLE t ADD COLUMN b INT DEFAULT 3 CHECK (12 / (a - 1) >= b); DELETE FROM t WHERE a = 1")
    db.execute("COMMIT")
    refused(db, "INSERT INTO t VALUES (13, 2)", "check")
    db.execute("INSERT INTO t VALUES (2, 12)")
    db.execute("DELETE FROM t; ALTER TABLE t ADD COLUMN c INT NOT NULL; INSERT INTO t VALUES (5, 1, 1)")
    refused(db, "INSERT INTO t (a, b) VALUES (5, 1)", "not_null", "'c'")


def test_alterations_that_are_refused(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM t")
    for sql, code in (
        ("ALTER TABLE t DROP COLUMN a", "unsupported"),
        ("ALTER TABLE t RENAME COLUMN a TO b", "unsupported"),
        ("ALTER TABLE t RENAME TO u", "unsupported"),
        ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 3", "unsupported"),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)", "unsupported"),
        ("ALTER TABLE t ADD COLUMN b INT FIRST", "unsupported"),
        ("ALTER TABLE t ADD COLUMN b INT PRIMARY KEY", "unsupported"),
        ("ALTER TABLE t ADD COLUMN b INT UNIQUE", "unsupported"),
        ("ALTER VIEW v ADD COLUMN b INT", "unsupported"),
        ("ALTER SEQUENCE s", "syntax"),
        ("ALTER TABLE v ADD COLUMN b INT", "not_a_table"),
        ("ALTER TABLE nothing ADD COLUMN b INT", "unknown_relation"),
        ("ALTER TABLE t ADD COLUMN A INT", "duplicate_column"),
        ('ALTER TABLE t ADD COLUMN "A" INT', "duplicate_column"),
        ("ALTER TABLE t ADD COLUMN _weight INT", "reserved_name"),
        ("ALTER TABLE t ADD COLUMN b INT DEFAULT a", "unknown_column"),
        ("ALTER TABLE t ADD COLUMN b INT DEFAULT 'x'", "type"),
        ("ALTER TABLE t ADD COLUMN b INT DEFAULT 1 / 0", "division_by_zero"),
        ("ALTER TABLE t ADD COLUMN b INT CHECK (c > 0)", "unknown_column"),
    ):
        refused(db, sql, code)
    db.execute("ALTER TABLE IF EXISTS nothing ADD COLUMN b INT; ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT")
    assert db.query("SELECT * FROM t").column_names == ["a"]


def test_a_subscription_goes_on_over_a_new_column(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    with db.subscribe("t", since=1) as subscription:
        db.execute("ALTER TABLE t ADD COLUMN b INT DEFAULT 2; INSERT INTO t VALUES (3, 4)")
        first, second = subscription.poll(0), subscription.poll(0)
        assert first is not None and rows(first.inserted) == [(1, 2)]
        assert second is not None and rows(second.inserted) == [(3, 4)] and second.version == 4


# CREATE OR REPLACE VIEW


def test_a_replaced_view_changes_by_the_difference_and_so_does_what_stands_on_it(db: tm.Database) -> None:
    db.execute(SHOP)
    subscription = db.subscribe("per_kind", since=db.version)
    db.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW per_kind AS "
        "SELECT kind, COUNT(price) AS n, SUM(price * 2) AS total FROM item WHERE id <> 1 GROUP BY kind"
    )
    assert changes_at(db, "per_kind") == {
        ("a", 2, 20): -1,
        ("a", 1, 30): 1,
        ("b", 1, 25): -1,
        ("b", 1, 50): 1,
        (None, 1, None): -1,
        (None, 0, None): 1,
    }
    assert changes_at(db, "large") == {("a",): -1}
    change = subscription.poll(0)
    assert change is not None and change.version == db.version and change.inserted.num_rows == 3
    check_invariant(db)
    db.execute("INSERT INTO item VALUES (5, 'b', 5)")
    assert changes_at(db, "per_kind") == {("b", 1, 50): -1, ("b", 2, 60): 1}
    assert changes_at(db, "large") == {("b",): 1}
    assert len(rows(db.changes("per_kind", since=6))) == 3 + 6 + 2


def test_replacing_a_plain_view_derives_anew_what_stands_on_it(db: tm.Database) -> None:
    db.execute(SHOP)
    db.execute("CREATE MATERIALIZED VIEW dear_ids AS SELECT id FROM dear")
    db.execute("CREATE OR REPLACE VIEW dear AS SELECT id, kind, price FROM item WHERE price >= 25 OR price IS NULL")
    assert changes_at(db, "dear_kinds") == {("a", 1): -1, (None, 1): 1}
    assert changes_at(db, "dear_ids") == {(2,): -1, (4,): 1}
    assert changes_at(db, "per_kind") == {}
    db.execute("UPDATE item SET price = 30 WHERE id = 1")
    assert changes_at(db, "dear_kinds") == {("a", 1): 1}
    db.execute("CREATE OR REPLACE VIEW dear AS SELECT 1 AS one, id, price, kind FROM item WHERE id <> 3")
    assert changes_at(db, "dear_kinds") == {("a", 1): -1, ("a", 2): 1, ("b", 1): -1}


def test_a_view_with_other_columns_begins_anew_and_what_stands_on_it_goes_on(db: tm.Database) -> None:
    db.execute(SHOP)
    refused(
        db,
        "CREATE OR REPLACE MATERIALIZED VIEW per_kind AS SELECT kind, COUNT(*) AS m FROM item GROUP BY kind",
        "dependents",
        "'large'",
        "CASCADE",
    )
    subscription = db.subscribe("per_kind", since=db.version)
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW per_kind AS SELECT kind, id AS n, price FROM item WHERE id < 3")
    assert rows(db.changes("per_kind").drop_columns(["_time"])) == [
        ("a", 1, 5, db.version, 1),
        ("a", 2, 15, db.version, 1),
    ]
    with pytest.raises(tm.TidemarkError, match="other columns"):
        subscription.poll(0)
    assert changes_at(db, "large") == {}
    db.execute("INSERT INTO item VALUES (0, 'z', 0); UPDATE item SET kind = 'q' WHERE id = 2")
    assert rows(db.query("SELECT * FROM large")) == [("q",)]
    assert len(rows(db.changes("large"))) == 3


def test_columns_that_are_added_at_the_end_are_not_seen_by_what_stands_on_the_view(db: tm.Database) -> None:
    db.execute(
        "CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2);"
        "CREATE VIEW plain AS SELECT a FROM t; CREATE MATERIALIZED VIEW v AS SELECT a FROM t;"
        "CREATE MATERIALIZED VIEW w AS SELECT * FROM plain NATURAL JOIN v"
    )
    db.execute("CREATE OR REPLACE VIEW plain AS SELECT a, b FROM t")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a, b + 1 AS b FROM t")
    assert rows(db.query("SELECT * FROM w")) == [(1,)]
    db.execute("INSERT INTO t VALUES (2, 3)")
    assert changes_at(db, "w") == {(2,): 1}
    assert rows(db.query("SELECT * FROM v")) == [(1, 3), (2, 4)]


def test_columns_that_what_stands_on_the_view_needs_cannot_go(db: tm.Database) -> None:
    db.execute(SHOP)
    for sql, words in (
        ("CREATE OR REPLACE VIEW dear AS SELECT id, price FROM item", ("'dear_kinds'", "no longer be valid")),
        ("CREATE OR REPLACE VIEW dear AS SELECT id, id AS kind FROM item", ("'dear_kinds'", "change its columns")),
    ):
        refused(db, sql, "dependents", "DROP VIEW dear CASCADE", *words)
    for sql, code in (
        ("CREATE OR REPLACE VIEW per_kind AS SELECT 1 AS one", "wrong_kind"),
        ("CREATE OR REPLACE MATERIALIZED VIEW dear AS SELECT 1 AS one", "wrong_kind"),
        ("CREATE OR REPLACE VIEW item AS SELECT 1 AS one", "wrong_kind"),
        ("CREATE OR REPLACE MATERIALIZED VIEW per_kind AS SELECT kind, n, total FROM per_kind", "cycle"),
        ("CREATE OR REPLACE MATERIALIZED VIEW per_kind AS SELECT kind, 1 AS n, 2 AS total FROM large", "cycle"),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS dear AS SELECT 1 AS one", "syntax"),
        ("CREATE OR REPLACE TABLE item (a INT)", "syntax"),
        ("CREATE OR REPLACE MATERIALIZED VIEW whole AS SELECT id / 0 AS id, kind, price FROM item", "division_by_zero"),
    ):
        refused(db, sql, code)
    db.execute("CREATE OR REPLACE VIEW fresh AS SELECT 1 AS one")
    assert rows(db.query("SELECT * FROM fresh")) == [(1,)]


def test_a_view_may_be_replaced_by_one_that_reads_what_came_after_it(db: tm.Database) -> None:
    db.execute(SHOP)
    with db.transaction() as tx:
        tx.execute("CREATE TABLE extra (kind VARCHAR, n INT); INSERT INTO extra VALUES ('a', 7), ('c', 1)")
        tx.execute("CREATE MATERIALIZED VIEW sums AS SELECT kind, SUM(n) AS n FROM extra GROUP BY kind")
        tx.execute("INSERT INTO item VALUES (6, 'c', 4)")
        tx.execute(
            "CREATE OR REPLACE MATERIALIZED VIEW per_kind AS "
            "SELECT kind, sums.n + 0 AS n, SUM(price) AS total FROM sums JOIN item USING (kind) GROUP BY kind, sums.n"
        )
        assert rows(tx.query("SELECT * FROM per_kind")) == [("a", 7, 20), ("c", 1, 4)]
        assert rows(tx.query("SELECT * FROM large")) == [("a",)]
        tx.execute("UPDATE extra SET n = 9 WHERE kind = 'c'")
        assert rows(tx.query("SELECT * FROM large")) == [("a",), ("c",)]
    assert changes_at(db, "large") == {("c",): 1}
    assert rows(db.query("SELECT * FROM per_kind")) == [("a", 7, 20), ("c", 9, 4)]
    db.execute("DELETE FROM extra WHERE kind = 'a'")
    assert changes_at(db, "large") == {("a",): -1}


def test_replacing_by_the_same_definition_changes_nothing(db: tm.Database) -> None:
    db.execute(SHOP)
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW whole AS SELECT * FROM item")
    assert changes_at(db, "whole") == {} and len(rows(db.changes("whole"))) == 4
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW whole WITH (strategy = 'complete') AS SELECT * FROM item")
    db.execute("DELETE FROM item WHERE id = 1")
    assert changes_at(db, "whole") == {(1, "a", 5): -1}


def test_replacing_and_altering_follow_each_other(db: tm.Database) -> None:
    db.execute(SHOP)
    db.execute("ALTER TABLE item ADD COLUMN stock INT DEFAULT 1")
    db.execute("CREATE OR REPLACE VIEW dear AS SELECT id, kind, price, stock FROM item WHERE stock > 0")
    assert changes_at(db, "dear_kinds") == {("a", 1): -1, ("a", 2): 1, (None, 1): 1}
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW whole AS SELECT * FROM item")
    assert db.query("SELECT * FROM whole").column_names == ["id", "kind", "price", "stock"]
    db.execute("ALTER TABLE item ADD COLUMN other INT; INSERT INTO item VALUES (7, 'b', 8, 9, 10)")
    assert changes_at(db, "whole") == {(7, "b", 8, 9): 1}
    with db.transaction() as tx:
        tx.execute("ALTER TABLE item ADD COLUMN last INT DEFAULT 3")
        tx.execute("CREATE OR REPLACE MATERIALIZED VIEW large AS SELECT kind FROM item WHERE last = 3 AND id > 2")
        tx.execute("UPDATE item SET last = 4 WHERE id = 3")
        assert rows(tx.query("SELECT * FROM large")) == [(None,), ("b",)]
    assert changes_at(db, "large") == {(None,): 1, ("a",): -1}
    check_invariant(db)


def test_a_failed_replacement_leaves_the_database_as_it_was(db: tm.Database) -> None:
    db.execute(SHOP)
    before = rows(db.query("SELECT * FROM per_kind"))
    with pytest.raises(tm.TidemarkError), db.transaction() as tx:
        tx.execute("ALTER TABLE item ADD COLUMN stock INT DEFAULT 1")
        tx.execute("CREATE OR REPLACE VIEW dear AS SELECT id, kind, price FROM item WHERE price > stock")
        tx.execute("INSERT INTO item VALUES (1, 'again', 1, 1)")
    assert db.query("SELECT * FROM item").column_names == ["id", "kind", "price"]
    assert rows(db.query("SELECT * FROM per_kind")) == before
    db.execute("INSERT INTO item VALUES (9, 'a', 1)")
    assert changes_at(db, "per_kind") == {("a", 2, 20): -1, ("a", 3, 21): 1}


# DROP … CASCADE


def test_drop_names_all_that_stands_on_a_relation_or_drops_it(db: tm.Database) -> None:
    db.execute(SHOP)
    refused(db, "DROP TABLE item", "dependents", "dear, per_kind, whole, dear_kinds, large", "CASCADE")
    refused(db, "DROP VIEW dear", "dependents", "dear_kinds")
    db.execute("DROP MATERIALIZED VIEW per_kind CASCADE")
    assert rows(db.execute("SHOW VIEWS")) == [
        ("dear", False, None, None),
        ("dear_kinds", True, 2, 8),
        ("whole", True, 4, 8),
    ]
    db.execute("DROP TABLE item CASCADE")
    assert rows(db.execute("SHOW VIEWS")) == [] and rows(db.execute("SHOW TABLES")) == []


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("INT", "1", "0"), ("BOOLEAN", "TRUE", "FALSE")),
        (("BOOLEAN", "TRUE", "FALSE"), ("DECIMAL(10,2)", "1", "0")),
        (("DECIMAL(10,2)", "1", "0"), ("BOOLEAN", "TRUE", "FALSE")),
    ],
)
def test_a_table_created_anew_with_keys_of_another_type_is_looked_up_by_those(
    db: tm.Database, first: tuple[str, str, str], then: tuple[str, str, str]
) -> None:
    for type_, one, other in (first, then):
        db.execute(f"CREATE TABLE r (k {type_}, x INT); CREATE TABLE q (k {type_}, y INT)")
        db.execute(f"INSERT INTO q VALUES ({one}, 1), ({other}, 2)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT q.y, r.x FROM q JOIN r ON q.k = r.k")
        db.execute(f"INSERT INTO r VALUES ({one}, 7), ({other}, 8), ({other}, 9)")
        assert rows(db.query("SELECT * FROM v")) == [(1, 7), (2, 8), (2, 9)]
        if type_ == first[0]:
            db.execute("DROP MATERIALIZED VIEW v; DROP TABLE r; DROP TABLE q")
