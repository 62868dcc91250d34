"""Sequences and closures of events follow the order inside a transaction, whenever their condition is asked."""

from __future__ import annotations

from typing import Any

import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)
COUPLINGS = ("immediate", "deferred", "detached", "detached_independent")
SETUP = """
CREATE TABLE e (k INT PRIMARY KEY, v INT); CREATE TABLE f (k INT PRIMARY KEY, v INT);
CREATE TABLE log (w VARCHAR, a INT, b INT);
"""


def log(db: tm.Database) -> list[tuple[Any, ...]]:
    found = rows(db.query("SELECT * FROM log"))
    db.execute("DELETE FROM log")
    return found


def watch(db: tm.Database, name: str, events: str, coupling: str = "deferred", query: str = "") -> None:
    """A rule that notes the rows of both events."""
    asked = query or "SELECT i.k AS a, j.k AS b FROM inserted_e i, inserted_f j"
    db.execute(f"""
        CREATE RULE {name} ON {events} WHEN {asked}
            DO INSERT INTO log SELECT '{name}', a, b FROM condition WITH (coupling = '{coupling}');
        ACTIVATE RULE {name}""")


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("events", ["INSERT ON e THEN INSERT ON f", "ANY INSERT ON e UNTIL INSERT ON f"])
def test_order_inside_a_transaction_decides(db: tm.Database, events: str, coupling: str) -> None:
    db.execute(SETUP)
    watch(db, "r", events, coupling)
    db.execute("BEGIN; INSERT INTO f VALUES (1, 0); INSERT INTO e VALUES (1, 0); COMMIT")
    assert log(db) == []
    db.execute("INSERT INTO f VALUES (2, 0)")  # the one that really follows
    assert log(db) == [("r", 1, 2)]
    db.execute("BEGIN; INSERT INTO e VALUES (3, 0); INSERT INTO f VALUES (3, 0); INSERT INTO f VALUES (4, 0); COMMIT")
    assert log(db) == [("r", 3, 3)]
    db.execute("INSERT INTO f VALUES (5, 0)")
    assert log(db) == []
    with db.transaction() as tx:
        for k in (10, 20):
            tx.execute(f"INSERT INTO e VALUES ({k}, 0)")
            tx.execute(f"INSERT INTO e VALUES ({k + 1}, 0)")
            tx.execute(f"INSERT INTO f VALUES ({k}, 0)")
    first = () if "THEN" in events else (("r", 10, 10), ("r", 20, 20))
    assert log(db) == sorted([*first, ("r", 11, 10), ("r", 21, 20)])


def test_what_a_transaction_undoes_is_no_event_of_a_sequence(db: tm.Database) -> None:
    db.execute(SETUP)
    for coupling in ("deferred", "detached", "immediate"):
        watch(db, coupling, "INSERT ON e THEN INSERT ON f", coupling)
    undone = "INSERT INTO e VALUES (1, 0); INSERT INTO f VALUES (1, 0); DELETE FROM e WHERE k = 1"
    db.execute(f"BEGIN; {undone}; COMMIT")
    assert log(db) == [("immediate", 1, 1)]  # considered when it was there
    db.execute("INSERT INTO f VALUES (2, 0)")
    assert log(db) == []
    with db.transaction() as tx:  # an event is where it became true for good
        tx.execute("INSERT INTO e VALUES (3, 0); INSERT INTO f VALUES (3, 0); UPDATE e SET v = 1 WHERE k = 3")
        tx.execute("DELETE FROM f WHERE k = 3; DELETE FROM e WHERE k = 3; INSERT INTO f VALUES (3, 1)")
        tx.execute("INSERT INTO e VALUES (3, 2)")
    assert log(db) == [("immediate", 3, 3)]
    db.execute("INSERT INTO f VALUES (4, 0)")
    assert log(db) == [(name, 3, 4) for name in ("deferred", "detached", "immediate")]


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_updates_and_deletions_begin_and_end_sequences_in_order(db: tm.Database, coupling: str) -> None:
    db.execute(SETUP + "INSERT INTO e VALUES (1, 0), (2, 0), (3, 0); INSERT INTO f VALUES (1, 0), (2, 0), (3, 0)")
    watch(
        db,
        "r",
        "UPDATE OF v ON e THEN DELETE ON f OR UPDATE ON f",
        coupling,
        "SELECT u.new_k AS a, d.k AS b FROM updated_e u, deleted_f d",
    )
    db.execute("BEGIN; DELETE FROM f WHERE k = 1; UPDATE e SET v = 1 WHERE k = 1; COMMIT")
    assert log(db) == []
    db.execute("BEGIN; UPDATE f SET v = 5 WHERE k = 2; UPDATE e SET v = 9 WHERE k = 2; COMMIT")
    assert log(db) == [("r", 1, 2)]
    db.execute("BEGIN; UPDATE e SET k = 30 WHERE k = 3; DELETE FROM f WHERE k = 3; COMMIT")  # v of 3 is what it was
    assert log(db) == [("r", 2, 3)]
    db.execute("BEGIN; UPDATE e SET k = 3, v = 1 WHERE k = 30; DELETE FROM f WHERE k = 2; COMMIT")
    assert log(db) == [("r", 3, 2)]


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_what_begins_and_ends_in_one_statement_is_in_order(db: tm.Database, coupling: str) -> None:
    """Views over one table change together: then the first comes before the second."""
    db.execute(SETUP)
    db.execute("CREATE MATERIALIZED VIEW low AS SELECT k FROM e WHERE v < 5")
    db.execute("CREATE EXTERNAL VIEW odd AS SELECT k FROM e WHERE v % 2 = 1")
    watch(
        db,
        "r",
        "INSERT ON low THEN INSERT ON odd",
        coupling,
        "SELECT i.k AS a, j.k AS b FROM inserted_low i, inserted_odd j",
    )
    db.execute("INSERT INTO e VALUES (1, 3)")
    assert log(db) == [("r", 1, 1)]
    db.execute("BEGIN; INSERT INTO e VALUES (2, 7); INSERT INTO e VALUES (3, 4); COMMIT")
    assert log(db) == []
    db.execute("BEGIN; INSERT INTO e VALUES (5, 7); INSERT INTO e VALUES (6, 0); INSERT INTO e VALUES (7, 9); COMMIT")
    assert log(db) == sorted([("r", 3, 5), ("r", 6, 7)])
    db.execute(
        "BEGIN; UPDATE e SET v = 8 WHERE k = 1; INSERT INTO e VALUES (8, 2); UPDATE e SET v = 11 WHERE k = 1; COMMIT"
    )
    assert log(db) == ([("r", 8, 1)] if coupling == "immediate" else [])  # net, 1 was odd all the time


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_signals_stand_among_the_events_of_tables(db: tm.Database, coupling: str) -> None:
    db.execute(SETUP)
    watch(db, "a", "INSERT ON e THEN SIGNAL s", coupling, "SELECT k AS a, 0 AS b FROM inserted")
    watch(db, "b", "SIGNAL s THEN INSERT ON f", coupling, "SELECT k AS a, 0 AS b FROM inserted")
    watch(db, "c", "ANY INSERT ON e OR SIGNAL s UNTIL INSERT ON f", coupling)
    watch(db, "d", "ANY INSERT ON e UNTIL SIGNAL s", coupling, "SELECT k AS a, 0 AS b FROM inserted")
    with db.transaction() as tx:
        tx.execute("INSERT INTO f VALUES (1, 0)")
        tx.signal("s")
        tx.execute("INSERT INTO e VALUES (1, 0)")
    assert log(db) == []
    with db.transaction() as tx:
        tx.execute("INSERT INTO e VALUES (2, 0)")
        tx.signal("s")
        tx.execute("INSERT INTO f VALUES (2, 0); INSERT INTO f VALUES (3, 0); INSERT INTO e VALUES (3, 0)")
        tx.signal("s")
        tx.signal("s")
    assert log(db) == [
        ("a", 2, 0), ("a", 3, 0), ("b", 2, 0), ("c", 1, 2), ("c", 2, 2), ("d", 1, 0), ("d", 2, 0), ("d", 3, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_actions_of_rules_are_events_of_their_place(db: tm.Database, coupling: str) -> None:
    db.execute(SETUP + "CREATE TABLE start (k INT)")
    watch(db, "r", "INSERT ON e THEN INSERT ON f", coupling)
    db.execute("""
        CREATE RULE second_first ON INSERT ON start WHEN SELECT k FROM inserted WHERE k < 5
            DO BEGIN INSERT INTO f SELECT k, 0 FROM condition; INSERT INTO e SELECT k, 0 FROM condition; END;
        CREATE RULE first_second ON INSERT ON start WHEN SELECT k FROM inserted WHERE k > 5
            DO BEGIN INSERT INTO e SELECT k, 0 FROM condition; INSERT INTO f SELECT k, 0 FROM condition; END;
        ACTIVATE RULE second_first; ACTIVATE RULE first_second""")
    db.execute("INSERT INTO start VALUES (1)")
    assert log(db) == []
    db.execute("INSERT INTO start VALUES (7)")
    assert log(db) == [("r", 7, 7)]
    db.execute("BEGIN; INSERT INTO start VALUES (2), (8); INSERT INTO e VALUES (9, 0); COMMIT")
    assert log(db) == [("r", 8, 8), ("r", 9, 2)]  # what the check phase does comes after all statements


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_a_rollback_leaves_a_sequence_where_it_was(db: tm.Database, coupling: str) -> None:
    db.execute(SETUP + "INSERT INTO e VALUES (1, 0)")
    watch(db, "r", "INSERT ON e THEN INSERT ON f", coupling)
    db.execute("BEGIN; INSERT INTO e VALUES (2, 0); ROLLBACK")
    db.execute("INSERT INTO f VALUES (1, 0)")
    assert log(db) == []
    db.execute("INSERT INTO e VALUES (3, 0); BEGIN; INSERT INTO e VALUES (4, 0); INSERT INTO f VALUES (2, 0); ROLLBACK")
    assert log(db) == ([("r", 4, 2)] if coupling == "detached_independent" else [])
    db.execute("BEGIN; INSERT INTO f VALUES (2, 0); INSERT INTO e VALUES (4, 0); ROLLBACK")
    assert log(db) == ([("r", 3, 2)] if coupling == "detached_independent" else [])
    db.execute("INSERT INTO f VALUES (5, 0)")
    assert log(db) == [("r", 3, 5)]


def test_a_view_in_a_sequence_need_not_have_a_value_after_each_statement(db: tm.Database) -> None:
    db.execute(SETUP + "CREATE MATERIALIZED VIEW v AS SELECT k, 10 / v AS w FROM e")
    watch(db, "r", "INSERT ON v THEN INSERT ON f", query="SELECT i.k AS a, j.k AS b FROM inserted_v i, inserted_f j")
    db.execute("BEGIN; INSERT INTO e VALUES (1, 0); UPDATE e SET v = 1; INSERT INTO f VALUES (1, 1); COMMIT")
    assert log(db) == [("r", 1, 1)]
    db.execute("BEGIN; INSERT INTO f VALUES (2, 1); INSERT INTO e VALUES (2, 0); UPDATE e SET v = 1; COMMIT")
    assert log(db) == []


def test_a_sequence_may_be_watched_from_the_middle_of_a_transaction(db: tm.Database) -> None:
    db.execute(SETUP + "CREATE MATERIALIZED VIEW v AS SELECT k FROM e")
    db.execute("""
        CREATE RULE r ON INSERT ON v THEN INSERT ON f WHEN SELECT i.k AS a, j.k AS b FROM inserted_v i, inserted_f j
            DO INSERT INTO log SELECT 'r', a, b FROM condition;
        CREATE RULE u ON UPDATE ON e DO INSERT INTO log SELECT 'u', old_k, new_k FROM updated""")
    with db.transaction() as tx:
        tx.execute("INSERT INTO e VALUES (1, 0); INSERT INTO e VALUES (2, 0); UPDATE e SET k = 3 - k")
        tx.execute("ACTIVATE RULE r; ACTIVATE RULE u; INSERT INTO f VALUES (1, 0); INSERT INTO e VALUES (5, 0)")
        tx.execute("ALTER TABLE e ADD COLUMN w INT DEFAULT 7; ALTER TABLE f ADD COLUMN w INT")
        tx.execute("INSERT INTO f VALUES (2, 0, 0); UPDATE e SET k = 6, w = 8 WHERE k = 1")
    assert log(db) == [("r", 5, 2), ("u", 1, 6)]
