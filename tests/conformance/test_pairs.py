"""Changes in pairs of old and new rows, by a key of the relation."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)

SETUP = """
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR);
CREATE TABLE sale (id INT PRIMARY KEY, customer INT, amount INT);
CREATE MATERIALIZED VIEW named AS SELECT s.id, c.name, s.amount FROM sale s JOIN customer c ON c.id = s.customer;
CREATE MATERIALIZED VIEW total AS SELECT customer, SUM(amount) AS amount FROM sale GROUP BY customer;
CREATE MATERIALIZED VIEW all_sales AS SELECT COUNT(*) AS n FROM sale;
CREATE MATERIALIZED VIEW amounts AS SELECT amount FROM sale;
INSERT INTO customer VALUES (1, 'Ada'), (2, 'Ben');
INSERT INTO sale VALUES (10, 1, 5), (11, 1, 6), (12, 2, 7), (13, NULL, 8);
"""


def pairs(db: tm.Database, relation: str, since: int) -> set[tuple[Any, ...]]:
    found = db.changes(relation, since=since, paired=True)
    assert found.column_names == ["_version", "_change", "key", "old", "new", "_time"]
    shown = []
    for change in found.to_pylist():
        key, old, new = (None if part is None else tuple(part.values()) for part in list(change.values())[2:5])
        shown.append((change["_version"], change["_change"], key, old, new))
    assert [version for version, *_ in shown] == sorted(version for version, *_ in shown)
    assert len(set(shown)) == len(shown)
    return set(shown)


def test_old_and_new_rows_are_paired_by_the_key(db: tm.Database) -> None:
    db.execute(SETUP)
    start = db.version
    with db.transaction() as tx:
        tx.execute("UPDATE customer SET name = 'Adele' WHERE id = 1; UPDATE sale SET amount = 60 WHERE id = 11")
        tx.execute(
            "DELETE FROM sale WHERE id = 12; INSERT INTO sale VALUES (14, 2, 9); INSERT INTO sale VALUES (15, NULL, 1)"
        )
    at = db.version
    assert pairs(db, "named", start) == {
        (at, "updated", (10,), (10, "Ada", 5), (10, "Adele", 5)),
        (at, "updated", (11,), (11, "Ada", 6), (11, "Adele", 60)),
        (at, "deleted", (12,), (12, "Ben", 7), None),
        (at, "inserted", (14,), None, (14, "Ben", 9)),
    }
    assert pairs(db, "total", start) == {
        (at, "updated", (1,), (1, 11), (1, 65)),
        (at, "updated", (2,), (2, 7), (2, 9)),
        (at, "updated", (None,), (None, 8), (None, 9)),
    }
    assert pairs(db, "all_sales", start) == {(at, "updated", (), (4,), (5,))}
    assert pairs(db, "customer", start) == {(at, "updated", (1,), (1, "Ada"), (1, "Adele"))}
    db.execute("DELETE FROM sale WHERE customer = 1")
    assert pairs(db, "total", at) == {(db.version, "deleted", (1,), (1, 65), None)}
    assert len(pairs(db, "named", 0)) == 3 + 4 + 2
    found = db.changes("total", since=db.version, paired=True)
    assert found.num_rows == 0 and found.schema.field("old").type == pa.struct(
        [("customer", pa.int32()), ("amount", pa.int64())]
    )


def test_a_subscription_in_pairs(db: tm.Database) -> None:
    db.execute(SETUP)
    with db.subscribe("total", paired=True) as subscription:
        first = subscription.poll(0)
        assert first is not None and first.updated is not None
        assert rows(first.inserted) == [(None, 8), (1, 11), (2, 7)]
        assert first.deleted.num_rows == first.updated.num_rows == 0
        db.execute("BEGIN; UPDATE sale SET amount = 1 WHERE id = 11; DELETE FROM sale WHERE id = 12; COMMIT")
        second = subscription.poll(0)
        assert second is not None and second.updated is not None
        assert second.inserted.num_rows == 0 and rows(second.deleted) == [(2, 7)]
        assert second.updated.to_pylist() == [
            {"key": {"customer": 1}, "old": {"customer": 1, "amount": 11}, "new": {"customer": 1, "amount": 6}}
        ]
    unpaired = db.subscribe("total", since=db.version - 1).poll(0)
    assert unpaired is not None and unpaired.updated is None and unpaired.deleted.num_rows == 2


def test_what_has_no_key_cannot_be_paired(db: tm.Database) -> None:
    db.execute(SETUP + "CREATE TABLE heap (a INT); CREATE VIEW plain AS SELECT id FROM sale")
    for relation, why in (("amounts", "leaves out"), ("heap", "no PRIMARY KEY")):
        for ask in (db.changes, db.subscribe):
            with pytest.raises(tm.TidemarkError, match=why) as caught:
                ask(relation, paired=True)
            assert caught.value.code == "no_key" and caught.value.hint
    with pytest.raises(tm.TidemarkError, match="not_materialized"):
        db.changes("plain", paired=True)


def test_rows_that_the_key_does_not_tell_apart_come_one_by_one(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT); CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t")
    db.execute("INSERT INTO t VALUES (1, 1), (1, 1), (1, 2), (3, 4)")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a, CAST(SUM(b) AS INT) AS b FROM t GROUP BY a")
    found = db.changes("v", paired=True).to_pylist()
    shown = [(c["_version"], c["_change"], *((r["b"] if r else None) for r in (c["old"], c["new"]))) for c in found]
    assert sorted(shown, key=str) == sorted(
        [
            (3, "inserted", None, 1),
            (3, "inserted", None, 1),
            (3, "inserted", None, 2),
            (3, "inserted", None, 4),
            (4, "deleted", 1, None),
            (4, "deleted", 1, None),
            (4, "deleted", 2, None),
            (4, "inserted", None, 4),
        ],
        key=str,
    )


def test_pairs_over_a_table_that_got_a_column(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1)")
    db.execute("ALTER TABLE t ADD COLUMN b VARCHAR DEFAULT 'x'; UPDATE t SET b = 'y'")
    assert pairs(db, "t", 0) == {(2, "inserted", (1,), None, (1, "x")), (4, "updated", (1,), (1, "x"), (1, "y"))}
