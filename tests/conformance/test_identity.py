"""A row that an UPDATE changed is the same row, also if its key is another: for rules, changes and subscribers."""

from __future__ import annotations

from typing import Any

import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)
Pair = tuple[Any, Any]


def told(db: tm.Database, relation: str = "t", since: int | None = None) -> list[Pair]:
    """The pairs of the last version, or since one, as (old, new)."""
    found = db.changes(relation, since=db.version - 1 if since is None else since, paired=True).to_pylist()
    return sorted((_cells(change["old"]), _cells(change["new"])) for change in found)


def _cells(row: dict[str, Any] | None) -> tuple[Any, ...]:
    return () if row is None else tuple(row.values())


SETUP = """
CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR); CREATE TABLE log (ok INT, ov VARCHAR, nk INT, nv VARCHAR);
CREATE RULE r ON UPDATE ON t DO INSERT INTO log SELECT * FROM updated WITH (coupling = '{coupling}');
ACTIVATE RULE r; INSERT INTO t VALUES (1, 'x'), (2, 'y');
"""


@pytest.mark.parametrize("coupling", ["immediate", "deferred", "detached"])
def test_an_update_of_keys_pairs_the_same_rows(db: tm.Database, coupling: str) -> None:
    db.execute(SETUP.format(coupling=coupling))
    with db.subscribe("t", since=db.version, paired=True) as subscription:
        version = db.version
        db.execute("UPDATE t SET k = k + 1")
        expected = [((1, "x"), (2, "x")), ((2, "y"), (3, "y"))]
        assert rows(db.query("SELECT * FROM log")) == [(1, "x", 2, "x"), (2, "y", 3, "y")]
        assert [pair for pair in told(db, since=version) if pair] == expected
        change = subscription.poll(0)
        assert change is not None and change.updated is not None
        assert sorted((_cells(c["old"]), _cells(c["new"])) for c in change.updated.to_pylist()) == expected
        assert change.inserted.num_rows == change.deleted.num_rows == 0


def both(db: tm.Database, *statements: str) -> list[Pair]:
    """What one transaction told, by rules (in the table log) and by changes alike."""
    db.execute("DELETE FROM log")
    with db.transaction() as tx:
        for statement in statements:
            tx.execute(statement)
    version = db.version
    noted = [(row[:2], row[2:]) for row in rows(db.query("SELECT * FROM log"))]
    found = told(db, since=version - 1)
    assert sorted(pair for pair in found if all(pair)) == noted
    return found


CASES: list[tuple[list[str], list[Pair]]] = [
    (["UPDATE t SET k = 5 WHERE k = 1", "UPDATE t SET k = 6 WHERE k = 5"], [((1, "x"), (6, "x"))]),
    (["UPDATE t SET k = 5 WHERE k = 1", "UPDATE t SET k = 1 WHERE k = 5"], []),
    (["DELETE FROM t WHERE k = 1", "INSERT INTO t VALUES (1, 'z')"], [((1, "x"), (1, "z"))]),
    (["DELETE FROM t WHERE k = 1", "INSERT INTO t VALUES (1, 'x')"], []),
    (["INSERT INTO t VALUES (7, 'n')", "UPDATE t SET k = 8 WHERE k = 7"], [((), (8, "n"))]),
    (["UPDATE t SET k = 5 WHERE k = 1", "DELETE FROM t WHERE k = 5"], [((1, "x"), ())]),
    (["UPDATE t SET k = 5 WHERE k = 1", "INSERT INTO t VALUES (1, 'n')"], [((), (1, "n")), ((1, "x"), (5, "x"))]),
    (["DELETE FROM t WHERE k = 2", "UPDATE t SET k = 2 WHERE k = 1"], [((1, "x"), (2, "x")), ((2, "y"), ())]),
    (["UPDATE t SET k = 3 - k"], [((1, "x"), (2, "x")), ((2, "y"), (1, "y"))]),
    (["UPDATE t SET k = 3 - k", "UPDATE t SET v = 'z'"], [((1, "x"), (2, "z")), ((2, "y"), (1, "z"))]),
    # equal but for the key, so that rows cross in the net change
    (["UPDATE t SET v = 'x'", "UPDATE t SET k = k + 1"], [((1, "x"), (2, "x")), ((2, "y"), (3, "x"))]),
    # a key that stands twice for a while
    (
        ["UPDATE t SET k = 2 WHERE k = 1", "UPDATE t SET k = 1 WHERE v = 'y'"],
        [((1, "x"), (2, "x")), ((2, "y"), (1, "y"))],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "expected"), CASES, ids=range(len(CASES)))
def test_a_block_pairs_what_rows_were_with_what_they_are(
    db: tm.Database, statements: list[str], expected: list[Pair]
) -> None:
    db.execute(SETUP.format(coupling="deferred"))
    assert both(db, *statements) == expected


def test_rows_that_only_their_keys_tell_apart(db: tm.Database) -> None:
    """Their net change is the first key and the last one, and still each has moved."""
    db.execute("CREATE TABLE t (k INT PRIMARY KEY); CREATE TABLE log (o INT, n INT)")
    db.execute("CREATE RULE r ON UPDATE OF k ON t DO INSERT INTO log SELECT * FROM updated; ACTIVATE RULE r")
    db.execute("INSERT INTO t VALUES (1), (2), (3)")
    with db.subscribe("t", since=db.version, paired=True) as subscription:
        db.execute("UPDATE t SET k = k + 1")
        assert told(db, since=db.version - 1) == [((n,), (n + 1,)) for n in (1, 2, 3)]
        assert rows(db.query("SELECT * FROM log")) == [(1, 2), (2, 3), (3, 4)]
        assert rows(db.changes("t", since=db.version - 1).drop_columns(["_version", "_time"])) == [(1, -1), (4, 1)]
        db.execute("UPDATE t SET k = CASE k WHEN 2 THEN 3 WHEN 3 THEN 2 ELSE k END")
        assert db.changes("t", since=db.version - 1).num_rows == 0
        assert told(db, since=db.version - 1) == [((2,), (3,)), ((3,), (2,))]
        first, second = subscription.poll(0), subscription.poll(0)
        assert first is not None and first.updated is not None and first.updated.num_rows == 3
        assert second is not None and second.updated is not None and second.updated.num_rows == 2


def test_net_over_versions_follows_rows_through_their_keys(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR); INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    net = db.subscribe("t", since=db.version, paired=True, precision="net")
    many = db.subscribe("t", since=db.version, batch=4)
    db.execute("UPDATE t SET k = k + 1; UPDATE t SET k = k + 1")
    assert many.poll(0) is None  # three rows
    db.execute("BEGIN; DELETE FROM t WHERE k = 5; INSERT INTO t VALUES (5, 'n'), (1, 'm'); COMMIT")
    assert many.poll(0) is not None
    change = net.poll(0)
    assert change is not None and change.updated is not None and change.deleted.num_rows == 0
    assert rows(change.inserted) == [(1, "m")]
    assert sorted((_cells(c["old"]), _cells(c["new"])) for c in change.updated.to_pylist()) == [
        ((1, "x"), (3, "x")), ((2, "y"), (4, "y")), ((3, "z"), (5, "n")),
    ]  # fmt: skip
    assert [c["key"] for c in change.updated.to_pylist()] == [{"k": c["old"]["k"]} for c in change.updated.to_pylist()]


def test_triggers_count_a_row_with_another_key_once(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10), (2, 20);
        CREATE CONTINUAL QUERY three AS SELECT COUNT(*) AS n FROM t TRIGGER ON CHANGE OF 3 ROWS IN t DELIVER COMPLETE;
        CREATE CONTINUAL QUERY more AS SELECT COUNT(*) AS n FROM t
            TRIGGER WHEN SUM(ABS(new.v - old.v)) > 0 IN t DELIVER COMPLETE""")
    three, more = db.results("three", after=0), db.results("more", after=0)
    db.execute("UPDATE t SET k = k + 1")
    assert three.poll(0) is None and more.poll(0) is None
    db.execute("UPDATE t SET v = 21 WHERE k = 3; INSERT INTO t VALUES (1, 0)")
    assert three.poll(0) is not None and more.poll(0) is not None


def test_a_table_without_a_key_has_updates_inside_a_block(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE h (a INT, b INT); CREATE TABLE log (w VARCHAR, oa INT, ob INT, na INT, nb INT);
        INSERT INTO h VALUES (1, 1), (1, 1), (2, 2)""")
    for coupling in ("immediate", "deferred", "detached"):
        db.execute(f"""
            CREATE RULE {coupling} ON UPDATE OF a ON h DO INSERT INTO log SELECT '{coupling}', * FROM updated
                WITH (coupling = '{coupling}');
            ACTIVATE RULE {coupling}""")
    with db.transaction() as tx:
        tx.execute("UPDATE h SET a = a + 1; UPDATE h SET b = 7; UPDATE h SET a = 2 WHERE a = 3; DELETE FROM log")
        tx.insert("h", [(9, 9)])
        tx.execute("UPDATE h SET a = 8 WHERE a = 9")
    assert rows(db.query("SELECT * FROM log WHERE w <> 'immediate'")) == [
        (w, 1, 1, 2, 7) for w in ("deferred", "deferred", "detached", "detached")
    ]
    assert rows(db.query("SELECT * FROM log WHERE w = 'immediate'")) == [("immediate", 9, 9, 8, 9)]
    db.execute("""
        CREATE RULE came ON INSERT OR DELETE ON h DO INSERT INTO log SELECT 'came', a, b, 0, 0 FROM inserted;
        DEACTIVATE RULE immediate; DEACTIVATE RULE deferred; DEACTIVATE RULE detached; ACTIVATE RULE came;
        UPDATE h SET a = a + 1; DELETE FROM log; UPDATE h SET a = a + 1""")
    assert rows(db.query("SELECT * FROM log")) == []  # an update is no insertion, whoever else watches
    with pytest.raises(tm.TidemarkError, match="no_key"):
        db.changes("h", paired=True)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM h")
    with pytest.raises(tm.TidemarkError) as caught:
        db.execute("CREATE RULE no ON UPDATE ON v DO NOTIFY x")
    assert caught.value.code == "no_key" and caught.value.hint


def test_a_view_of_one_row_is_updated(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT PRIMARY KEY); CREATE TABLE log (o BIGINT, n BIGINT);
        CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n FROM t;
        CREATE RULE r ON UPDATE ON total DO INSERT INTO log SELECT * FROM updated; ACTIVATE RULE r;
        INSERT INTO t VALUES (1), (2)""")
    assert rows(db.query("SELECT * FROM log")) == [(0, 2)]


def test_keys_of_several_columns_and_other_columns_that_come(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (b VARCHAR, v INT, a DATE, PRIMARY KEY (a, b))")
    db.execute("INSERT INTO t VALUES ('x', 1, DATE '2030-01-01'), ('x', 1, DATE '2030-01-02')")
    db.execute("UPDATE t SET a = CAST(a + INTERVAL '1 day' AS DATE)")
    db.execute("ALTER TABLE t ADD COLUMN w INT DEFAULT 5; UPDATE t SET b = 'y' WHERE a = DATE '2030-01-02'")
    found = db.changes("t", since=2, paired=True).to_pylist()
    assert {(c["_change"], c["old"]["a"].day, c["new"]["a"].day, c["new"]["b"], c["new"]["w"]) for c in found} == {
        ("updated", 1, 2, "x", 5), ("updated", 2, 3, "x", 5), ("updated", 2, 2, "y", 5),
    }  # fmt: skip


def test_what_is_known_of_keys_goes_with_the_log_and_with_the_table(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 1)")
    for _ in range(3):
        db.execute("UPDATE t SET k = k + 1")
    db.execute("ALTER LOG SET (versions = 2)")
    assert [c["_version"] for c in db.changes("t", since=db.version - 2, paired=True).to_pylist()] == [4, 4, 5, 5]
    assert db._store.engine.changes("_moved t", 0)["_version"].to_pylist() == [4, 4, 4, 5, 5, 5]
    db.execute("DROP TABLE t; CREATE TABLE t (k VARCHAR PRIMARY KEY); INSERT INTO t VALUES ('a'), ('b')")
    assert db._store.moved == frozenset()
    db.execute("UPDATE t SET k = k || '!'")
    assert told(db, since=db.version - 1) == [(("a",), ("a!",)), (("b",), ("b!",))]


def test_many_rows_with_other_keys(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    db.insert("t", [(n, n % 3) for n in range(30_000)])
    db.execute("UPDATE t SET k = k + 3")
    found = db.changes("t", since=db.version - 1, paired=True)
    assert found.num_rows == 30_000
    assert all(c["old"]["k"] + 3 == c["new"]["k"] and c["old"]["v"] == c["new"]["v"] for c in found.to_pylist())
