"""``db.sync``: a table brought to the state that a source gives, with the exact net change below every view."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import tidemark as tm
from tests.support import changes_at, rows

SPARK_VARIANTS = ("spark",)

SETUP = """
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR);
CREATE TABLE bag (x INT, y DECIMAL(6, 2));
CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, NULL);
INSERT INTO bag VALUES (1, 1.5), (1, 1.5), (NULL, NULL);
"""


def test_the_whole_state(db: tm.Database) -> None:
    db.execute(SETUP)
    assert db.sync("t", [(1, "x"), (2, "y"), (4, None)]) == tm.Synced(inserted=2, deleted=2)
    assert changes_at(db, "t") == {(2, "x"): -1, (2, "y"): 1, (3, None): -1, (4, None): 1}
    assert changes_at(db, "v") == {("x", 2): -1, ("x", 1): 1, ("y", 1): 1}
    assert db.sync("t", db.query("SELECT * FROM t")) == tm.Synced(0, 0)
    assert db.sync("bag", [(1, Decimal("1.50")), (None, None), (None, None), (2, None)]) == tm.Synced(2, 1)
    assert rows(db.query("SELECT COUNT(*) FROM bag")) == [(4,)]
    with db.transaction() as tx:
        tx.insert("t", [(9, "z")])
        assert tx.sync("t", [(9, "z"), (1, "x")]).deleted == 2
    assert rows(db.query("SELECT * FROM t")) == [(1, "x"), (9, "z")]


def test_what_was_written_and_what_is_present(db: tm.Database) -> None:
    db.execute(SETUP)
    # 1 is as it was and not sent, 2 was deleted and its key given away, 3 is gone, 5 is new.
    synced = db.sync("t", changed=[(2, "new"), (5, "five")], present=[(1,), (2,), (5,)])
    assert synced == tm.Synced(inserted=2, deleted=2)
    assert rows(db.query("SELECT * FROM t")) == [(1, "x"), (2, "new"), (5, "five")]
    assert db.sync("t", changed=[(5, "five")], present=[(1,), (2,), (5,)]) == tm.Synced(0, 0)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("t", {}),
        ("t", {"changed": []}),
        ("t", {"state": [], "present": []}),
        ("bag", {"changed": [], "present": []}),
        ("v", {"state": []}),
    ]
    for table, given in wrong:
        with pytest.raises(tm.TidemarkError):
            db.sync(table, **given)
    with pytest.raises(tm.TidemarkError) as error:
        db.sync("t", [(1, "x"), (1, "y")])
    assert error.value.code == "primary_key"


def test_what_was_written_must_be_present(db: tm.Database) -> None:
    db.execute(SETUP)
    with pytest.raises(tm.TidemarkError, match="its key is not present") as refused:
        db.sync("t", changed=[(1, "y"), (9, "z")], present=[(1,), (2,)])
    assert refused.value.code == "absent"
    assert rows(db.query("SELECT a, b FROM t")) == [(1, "x"), (2, "x"), (3, None)]
