"""``AS OF VERSION n``: tables and views as they were, by logical rollback over the log, on every engine."""

from __future__ import annotations

import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)

SETUP = """
CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR, balance INT);
CREATE MATERIALIZED VIEW wealth AS SELECT owner, SUM(balance) AS total, COUNT(*) AS n FROM account GROUP BY owner;
CREATE VIEW rich AS SELECT owner FROM wealth WHERE total > 100;
INSERT INTO account VALUES (1, 'Ada', 100), (2, 'Ben', 5), (3, 'Ada', 7);
UPDATE account SET balance = 0 WHERE id = 3;
DELETE FROM account WHERE id = 1;
INSERT INTO account VALUES (4, NULL, 200), (5, 'Ben', 300);
"""
ACCOUNTS: dict[int, list[tuple[int, str | None, int]]] = {
    3: [],
    4: [(1, "Ada", 100), (2, "Ben", 5), (3, "Ada", 7)],
    5: [(1, "Ada", 100), (2, "Ben", 5), (3, "Ada", 0)],
    6: [(2, "Ben", 5), (3, "Ada", 0)],
    7: [(2, "Ben", 5), (3, "Ada", 0), (4, None, 200), (5, "Ben", 300)],
}
WEALTH = {3: [], 4: [("Ada", 107, 2), ("Ben", 5, 1)], 6: [("Ada", 0, 1), ("Ben", 5, 1)]}


def test_relations_are_read_as_they_were(db: tm.Database) -> None:
    db.execute(SETUP)
    for version, expected in ACCOUNTS.items():
        assert rows(db.query(f"SELECT * FROM account AS OF VERSION {version}")) == expected, version
    for version, totals in WEALTH.items():
        assert rows(db.query(f"SELECT * FROM wealth AS OF VERSION {version}")) == totals
    assert rows(db.query("SELECT * FROM rich AS OF VERSION 4")) == [("Ada",)]
    # Of the whole query, at its end; two versions beside each other; a division that the past allows.
    assert rows(db.query("SELECT w.n FROM account a JOIN wealth w ON a.owner = w.owner AS OF VERSION 6")) == [
        (1,),
        (1,),
    ]
    changed = """SELECT a.id FROM account AS OF VERSION 4 AS a LEFT JOIN account AS OF VERSION 5 b
                 ON a.id = b.id AND a.balance = b.balance WHERE b.id IS NULL"""
    assert rows(db.query(changed)) == [(3,)]
    assert rows(db.query("SELECT id, 700 / balance FROM account AS OF VERSION 4 WHERE id = 3")) == [(3, 100)]
    with pytest.raises(tm.TidemarkError) as error:
        db.query("SELECT 1 / balance FROM account AS OF VERSION 5")
    assert error.value.code == "division_by_zero"


def test_an_open_transaction_sees_the_past_as_it_was(db: tm.Database) -> None:
    db.execute(SETUP)
    with db.transaction() as tx:
        tx.execute("DELETE FROM account")
        assert rows(tx.query("SELECT * FROM account AS OF VERSION 6")) == ACCOUNTS[6]
        tx.execute("INSERT INTO account SELECT id, owner, balance + 1 FROM account AS OF VERSION 4 WHERE id < 3")
    assert rows(db.query("SELECT * FROM account")) == [(1, "Ada", 101), (2, "Ben", 6)]
    db.execute("ALTER TABLE account ADD COLUMN note VARCHAR DEFAULT 'none'")
    assert rows(db.query("SELECT id, note FROM account AS OF VERSION 4")) == [(i, "none") for i in (1, 2, 3)]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT * FROM account AS OF VERSION 0", "version"),
        ("SELECT * FROM account AS OF VERSION 99", "version"),
        ("SELECT * FROM wealth AS OF VERSION 1", "version"),
        ("SELECT * FROM account AS OF VERSION x", "version"),
        ("SELECT * FROM account AS OF VERSION 4.5", "version"),
        ("CREATE VIEW old AS SELECT * FROM account AS OF VERSION 4", "unsupported"),
        ("WITH a AS (SELECT 1 AS one) SELECT * FROM a AS OF VERSION 4", "unsupported"),
        ("SELECT * FROM account FOR SYSTEM_TIME AS OF 4", "version"),
        ("DELETE FROM account WHERE id = 1 AS OF VERSION 4", "unsupported"),
    ],
)
@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
def test_what_has_no_past_is_refused(db: tm.Database, sql: str, code: str) -> None:
    db.execute(SETUP)
    with pytest.raises(tm.TidemarkError) as error:
        db.execute(sql)
    assert error.value.code == code


def test_a_view_that_is_refreshed_on_read_is_what_it_was_though_nobody_read_it_then(db: tm.Database) -> None:
    db.execute(SETUP)
    db.execute("CREATE MATERIALIZED VIEW lazy WITH (refresh = 'on read') AS SELECT owner, balance FROM account")
    db.execute("CREATE VIEW above AS SELECT balance FROM lazy WHERE owner = 'Ben'")
    first = db.version
    db.execute("INSERT INTO account VALUES (6, 'Ben', 6)")
    db.execute("DELETE FROM account WHERE id = 2")
    last = db.version
    assert rows(db.query("SELECT * FROM above")) == [(6,), (300,)]
    for version, expected in ((first, [5, 300]), (first + 1, [5, 6, 300]), (last, [6, 300])):
        assert rows(db.query(f"SELECT balance FROM lazy AS OF VERSION {version} WHERE owner = 'Ben'")) == [
            (balance,) for balance in expected
        ]
        assert rows(db.query(f"SELECT * FROM above AS OF VERSION {version}")) == [(balance,) for balance in expected]
