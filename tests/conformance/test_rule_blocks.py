"""Which block a rule looks at, and what it finds: actions that wait, signals, definitions in between, snapshots."""

from __future__ import annotations

from typing import Any

import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)


def log(db: tm.Database) -> list[tuple[Any, ...]]:
    return rows(db.query("SELECT * FROM log"))


def test_actions_that_wait_for_the_end_are_all_considered_with_the_rows_of_then(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE TABLE log (k INT, v INT);
        CREATE RULE r FOR EACH (k) WHEN SELECT k, v FROM t WHERE v < 0 DO INSERT INTO log SELECT k, v FROM condition
            WITH (coupling = 'immediate', action_coupling = 'deferred');
        ACTIVATE RULE r; INSERT INTO t VALUES (1, 1), (2, 1), (3, 1)""")
    with db.transaction() as tx:
        for k, v in ((1, -1), (2, -1), (3, -1), (1, 1), (3, -7)):  # 1 became true first, and is false again
            tx.execute(f"UPDATE t SET v = {v} WHERE k = {k}")
    assert log(db) == [(2, -1), (3, -7)]


def test_a_signal_is_an_event_of_its_place_in_the_transaction(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT); CREATE TABLE log (w VARCHAR, k INT)")
    rules = {
        "a_then": ("INSERT ON t THEN SIGNAL s", "inserted", "deferred"),
        "a_until": ("ANY INSERT ON t UNTIL SIGNAL s", "inserted", "deferred"),
        "then_a": ("SIGNAL s THEN INSERT ON t", "inserted", "deferred"),
        "late": ("SIGNAL s", "t", "deferred"),
        "soon": ("SIGNAL s", "t", "immediate"),
    }
    for name, (events, relation, coupling) in rules.items():
        db.execute(f"""
            CREATE RULE {name} ON {events} WHEN SELECT k FROM {relation}
                DO INSERT INTO log SELECT '{name}', k FROM condition WITH (coupling = '{coupling}');
            ACTIVATE RULE {name}""")
    with db.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1)")
        tx.signal("s")
        tx.execute("INSERT INTO t VALUES (2)")
    found = [("a_then", 1), ("a_until", 1), ("late", 1), ("late", 2), ("soon", 1), ("then_a", 2)]
    assert log(db) == found
    with db.transaction() as tx:
        for _ in range(120):  # each is a beginning of its own, not one chain
            tx.signal("s")
    assert len(log(db)) == len(found) + 120 * 4 + 2  # what came after the first signal ends two of them, once


def test_definitions_in_the_middle_of_a_transaction_change_nothing_of_its_blocks(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE TABLE log (w VARCHAR, k INT);
        CREATE RULE i WHEN SELECT k FROM t WHERE v < 0 DO INSERT INTO log SELECT 'i', k FROM condition
            WITH (coupling = 'immediate');
        CREATE RULE e ON INSERT ON t DO INSERT INTO log SELECT 'e', k FROM inserted WITH (coupling = 'immediate');
        CREATE RULE d WHEN SELECT k FROM t WHERE v < 0 DO INSERT INTO log SELECT 'd', k FROM condition;
        ACTIVATE RULE i; ACTIVATE RULE d; ACTIVATE RULE e""")
    with db.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1, -1)")
        tx.execute("ALTER TABLE t ADD COLUMN n VARCHAR DEFAULT 'x'")
        tx.execute("INSERT INTO t VALUES (2, -2, 'b')")
        tx.execute("CREATE MATERIALIZED VIEW m AS SELECT k FROM t WHERE v < 0")
        tx.execute("CREATE RULE v ON INSERT OR DELETE ON m DO INSERT INTO log SELECT 'v', k FROM inserted")
        tx.execute("ACTIVATE RULE v")
        tx.execute("UPDATE t SET v = 1 WHERE k = 1; UPDATE t SET v = -1 WHERE k = 1; INSERT INTO t VALUES (3, -3, 'c')")
    assert log(db) == [*[("d", k) for k in (1, 2, 3)], *[("e", k) for k in (1, 2, 3)], *_i(1, 1, 2, 3), ("v", 3)]


def _i(*numbers: int) -> list[tuple[str, int]]:
    return [("i", number) for number in numbers]


def test_a_snapshot_changes_when_it_is_refreshed_and_rules_see_that(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT PRIMARY KEY); CREATE TABLE log (w VARCHAR, k INT);
        CREATE SNAPSHOT s AS SELECT k FROM t WHERE k > 0 REFRESH ON DEMAND;
        CREATE RULE c WHEN SELECT k FROM s DO INSERT INTO log SELECT 'c', k FROM condition;
        CREATE RULE e ON INSERT ON s DO INSERT INTO log SELECT 'e', k FROM inserted WITH (coupling = 'immediate');
        CREATE RULE a WHEN SELECT k FROM s WHERE k = 1 DO INSERT INTO log SELECT 'a', k FROM condition
            WITH (action_coupling = 'detached');
        ACTIVATE RULE c; ACTIVATE RULE e; ACTIVATE RULE a; INSERT INTO t VALUES (1), (2)""")
    assert log(db) == []
    db.execute("REFRESH s")
    assert log(db) == [("a", 1), ("c", 1), ("c", 2), ("e", 1), ("e", 2)]
    db.execute("REFRESH s; CREATE RULE no WHEN SELECT k FROM s DO INSERT INTO t VALUES (1); ACTIVATE RULE no")
    db.execute("INSERT INTO t VALUES (3)")
    with pytest.raises(tm.TidemarkError):
        db.execute("REFRESH s")
    assert len(log(db)) == 5 and rows(db.query("SELECT * FROM s")) == [(1,), (2,)]


def test_a_nervous_rule_looks_into_plain_views_and_unions(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE a (k INT, v INT, w INT); CREATE TABLE b (k INT, v INT); CREATE TABLE log (w VARCHAR, k INT);
        CREATE VIEW low AS SELECT k, v FROM a WHERE v < 10; CREATE VIEW lower AS SELECT k FROM low WHERE v < 9""")
    for name, query in {
        "view": "SELECT k FROM lower",
        "part": "SELECT x.k FROM (SELECT k FROM a WHERE v < 10) x JOIN b ON b.k = x.k",
        "both": "SELECT k FROM lower UNION SELECT k FROM b WHERE v < 5",
        "pad": "SELECT b.k FROM b LEFT JOIN a ON a.k = b.k",
        "none": "SELECT b.k FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.k = b.k AND a.v > 5)",
    }.items():
        db.execute(f"""CREATE RULE {name} WHEN {query} DO INSERT INTO log SELECT '{name}', k FROM condition
            WITH (semantics = 'nervous'); ACTIVATE RULE {name}""")
    db.execute("INSERT INTO a VALUES (1, 5, 0); INSERT INTO b VALUES (1, 1); DELETE FROM log")
    found = []
    for change in (
        "UPDATE a SET v = 4",
        "UPDATE a SET w = 4",
        "UPDATE b SET v = 2",
        "INSERT INTO a VALUES (1, 7, 7)",
        "DELETE FROM a WHERE v = 7",
    ):
        db.execute(change)
        found.append([name for name, _ in log(db)])
        db.execute("DELETE FROM log")
    assert found == [["both", "part", "view"], [], ["both"], ["both", "pad", "part", "view"], ["none"]]


def test_views_over_what_rules_did_are_kept_true(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT); CREATE TABLE log (n BIGINT);
        CREATE RULE r WHEN SELECT k FROM t DO NOTIFY x; ACTIVATE RULE r;
        CREATE MATERIALIZED VIEW f AS SELECT rule, COUNT(*) AS n FROM _firings GROUP BY rule;
        CREATE RULE often WHEN SELECT n FROM f WHERE n > 1 AND rule = 'r' DO INSERT INTO log SELECT n FROM condition;
        ACTIVATE RULE often; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)""")
    assert rows(db.query("SELECT * FROM f")) == [("often", 1), ("r", 2)]
    assert log(db) == [(2,)]


def test_immediate_rules_may_stand_deep_inside_one_another_but_not_without_an_end(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (n INT);
        CREATE RULE r WHEN SELECT n FROM t WHERE n > 0 DO INSERT INTO t SELECT n - 1 FROM condition
            WITH (coupling = 'immediate');
        ACTIVATE RULE r""")
    db.execute("INSERT INTO t VALUES (50)")
    assert db.query("SELECT n FROM t").num_rows == 51
    with pytest.raises(tm.TidemarkError) as caught:
        db.execute("INSERT INTO t VALUES (500)")
    assert caught.value.code == "cascade" and caught.value.message.startswith("rules set each other off")
    assert db.query("SELECT n FROM t").num_rows == 51


def test_rules_are_considered_after_each_statement_of_an_action_whatever_it_changes(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE s (c INT); CREATE TABLE other (c INT); CREATE TABLE log (w VARCHAR, c INT);
        CREATE RULE clean WHEN SELECT c FROM s DO BEGIN
            INSERT INTO other SELECT c FROM condition; DELETE FROM s WHERE c IN (SELECT c FROM condition); END
            WITH (coupling = 'immediate', priority = 1);
        CREATE RULE gone ON DELETE ON s DO INSERT INTO log SELECT 'gone', c FROM deleted WITH (coupling = 'immediate');
        ACTIVATE RULE clean; ACTIVATE RULE gone; INSERT INTO s VALUES (1)""")
    assert log(db) == [("gone", 1)]


def test_what_was_set_off_before_the_last_rule_was_deactivated_is_done(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE s (c INT); CREATE TABLE log (w VARCHAR, c INT);
        CREATE RULE r WHEN SELECT c FROM s DO INSERT INTO log SELECT 'r', c FROM condition
            WITH (coupling = 'immediate', action_coupling = 'detached');
        ACTIVATE RULE r; BEGIN; INSERT INTO s VALUES (1); DEACTIVATE RULE r; COMMIT""")
    assert log(db) == [("r", 1)]
    db.execute("ACTIVATE RULE r; BEGIN; INSERT INTO s VALUES (2); DROP RULE r; COMMIT")
    assert log(db) == [("r", 1)]


def test_what_happened_hides_tables_of_the_same_name_from_rules_but_not_from_views(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE inserted (k INT, z INT); CREATE TABLE condition (q INT);
        CREATE TABLE t (k INT); CREATE TABLE log (w VARCHAR, k INT);
        INSERT INTO inserted VALUES (100, 1); INSERT INTO condition VALUES (7);
        CREATE VIEW vi AS SELECT k FROM inserted; CREATE VIEW vc AS SELECT q FROM condition;
        CREATE RULE a ON INSERT ON t WHEN SELECT i.k + vi.k AS k FROM inserted i, vi
            DO INSERT INTO log SELECT 'a', k FROM condition;
        CREATE RULE b ON INSERT ON t DO INSERT INTO log SELECT 'b', i.k + vi.k FROM inserted i, vi;
        CREATE RULE c WHEN SELECT k FROM t DO INSERT INTO log SELECT 'c', c.k + vc.q FROM condition c, vc;
        CREATE RULE d WHEN SELECT q FROM condition DO INSERT INTO log SELECT 'd', q FROM condition;
        ACTIVATE RULE a; ACTIVATE RULE b; ACTIVATE RULE c; ACTIVATE RULE d;
        INSERT INTO t VALUES (1); INSERT INTO condition VALUES (8)""")
    assert log(db) == [("a", 101), ("b", 101), ("c", 8), ("d", 8)]


@pytest.mark.parametrize("semantics", ["strict", "nervous"])
def test_what_one_statement_takes_and_the_next_brings_back_became_true(db: tm.Database, semantics: str) -> None:
    db.execute(f"""
        CREATE TABLE t (k INT, g INT); CREATE TABLE u (g INT, w INT); CREATE TABLE log (k INT, w INT);
        INSERT INTO t VALUES (1, 1), (2, 1), (3, 2); INSERT INTO u VALUES (1, 10), (2, 20);
        CREATE RULE i WHEN SELECT t.k, u.w FROM t JOIN u ON t.g = u.g DO INSERT INTO log SELECT k, w FROM condition
            WITH (coupling = 'immediate', semantics = '{semantics}');
        ACTIVATE RULE i""")
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE k = 1")
        tx.execute("INSERT INTO t VALUES (1, 1)")
    assert log(db) == [(1, 10)]
    with db.transaction() as tx:
        tx.execute("DELETE FROM u")
        tx.execute("DELETE FROM t WHERE k = 1")
        tx.execute("INSERT INTO u VALUES (1, 10)")
        tx.execute("DELETE FROM u")
        tx.execute("INSERT INTO u VALUES (2, 20), (1, 10)")
    assert log(db) == [(1, 10), (2, 10), (2, 10), (3, 20)]
