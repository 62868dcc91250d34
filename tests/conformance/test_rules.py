"""Active rules: which instances they fire for, when, in which order, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)

INVENTORY = """
CREATE TABLE item (item INT PRIMARY KEY, quantity INT, max_stock INT, min_stock INT, consume_freq INT);
CREATE TABLE supplies (supplier INT, item INT, delivery_time INT, PRIMARY KEY (supplier, item));
CREATE TABLE orders (item INT, amount INT);
INSERT INTO item VALUES (1, 5000, 5000, 100, 20), (2, 7500, 7500, 200, 30);
INSERT INTO supplies VALUES (1, 1, 2), (2, 2, 3);
CREATE VIEW threshold AS SELECT i.item, i.consume_freq * s.delivery_time + i.min_stock AS threshold
    FROM item i JOIN supplies s ON s.item = i.item;
"""
MONITOR = """
CREATE RULE monitor_items FOR EACH (item)
    WHEN SELECT i.item, i.max_stock - i.quantity AS amount FROM item i JOIN threshold t ON t.item = i.item
         WHERE i.quantity < t.threshold
    DO INSERT INTO orders SELECT item, amount FROM condition {};
ACTIVATE RULE monitor_items;
"""


def orders(db: tm.Database) -> list[tuple[Any, ...]]:
    return rows(db.query("SELECT * FROM orders"))


def set_quantity(db: tm.Database, item: int, *quantities: int) -> None:
    with db.transaction() as tx:
        for quantity in quantities:
            tx.execute(f"UPDATE item SET quantity = {quantity} WHERE item = {item}")


def test_the_inventory_orders_exactly_once_when_stock_falls_below_140_and_290(db: tm.Database) -> None:
    db.execute(INVENTORY + MONITOR.format(""))
    set_quantity(db, 1, 140)
    set_quantity(db, 2, 290)
    assert orders(db) == []
    set_quantity(db, 1, 139)
    assert orders(db) == [(1, 4861)]
    set_quantity(db, 1, 100)
    set_quantity(db, 1, 300, 90)  # up and down again within one transaction: true before and after
    assert orders(db) == [(1, 4861)]
    set_quantity(db, 2, 100, 500)  # below and up again within one transaction: nothing
    assert orders(db) == [(1, 4861)]
    set_quantity(db, 2, 289)
    assert orders(db) == [(1, 4861), (2, 7211)]
    set_quantity(db, 1, 5000)
    set_quantity(db, 1, 139)
    assert orders(db) == [(1, 4861), (1, 4861), (2, 7211)]
    # The condition turns true by another influent, too.
    set_quantity(db, 2, 291)
    db.execute("UPDATE supplies SET delivery_time = 4 WHERE item = 2")
    assert (2, 7209) in orders(db)
    assert db.firings()["instances"].to_pylist() == [1, 1, 1, 1]


def test_a_nervous_rule_fires_again_when_a_derivation_is_added(db: tm.Database) -> None:
    db.execute(INVENTORY)
    db.execute("""
        CREATE RULE low WHEN SELECT item FROM item WHERE quantity < 140
            DO INSERT INTO orders SELECT item, 1 FROM condition WITH (semantics = 'nervous');
        CREATE RULE low_strict WHEN SELECT item FROM item WHERE quantity < 140
            DO INSERT INTO orders SELECT item, 2 FROM condition;
        ACTIVATE RULE low; ACTIVATE RULE low_strict""")
    set_quantity(db, 1, 139)
    set_quantity(db, 1, 120)
    db.execute("UPDATE item SET consume_freq = 21 WHERE item = 1")  # a column that the condition does not read
    assert orders(db) == [(1, 1), (1, 1), (1, 2)]


def test_what_is_true_already_does_not_fire_on_activation_and_inactive_rules_do_nothing(db: tm.Database) -> None:
    db.execute(INVENTORY + "UPDATE item SET quantity = 5 WHERE item = 1;")
    db.execute(MONITOR.format("").replace("ACTIVATE RULE monitor_items;", ""))
    db.execute("UPDATE item SET quantity = 5 WHERE item = 2")
    db.execute("ACTIVATE RULE monitor_items")
    db.execute("UPDATE item SET quantity = 4")
    assert orders(db) == []
    db.execute("DEACTIVATE RULE monitor_items; UPDATE item SET quantity = 4000; UPDATE item SET quantity = 4")
    assert orders(db) == []
    with db.transaction() as tx:
        tx.execute("UPDATE item SET quantity = 4000 WHERE item = 1")
        tx.execute("ACTIVATE RULE monitor_items")
        tx.execute("UPDATE item SET quantity = 3")
    assert orders(db) == [(1, 4997)]  # item 2 was true when the rule was activated, item 1 was not


def test_aggregates_and_negation_in_conditions_fire_exactly(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR, balance INT);
        CREATE TABLE alarm (owner VARCHAR, total BIGINT);
        CREATE RULE poor FOR EACH (owner) WHEN SELECT owner, SUM(balance) AS total FROM account
            GROUP BY owner HAVING SUM(balance) < 10 DO INSERT INTO alarm SELECT * FROM condition;
        CREATE RULE gone WHEN SELECT DISTINCT a.owner FROM alarm a
            WHERE NOT EXISTS (SELECT 1 FROM account c WHERE c.owner = a.owner)
            DO DELETE FROM alarm WHERE owner IN (SELECT owner FROM condition);
        ACTIVATE RULE poor; ACTIVATE RULE gone;
        INSERT INTO account VALUES (1, 'ann', 7), (2, 'ann', 8), (3, 'bob', 3)""")
    assert rows(db.query("SELECT * FROM alarm")) == [("bob", 3)]
    db.execute("UPDATE account SET balance = 1 WHERE id = 2")
    assert rows(db.query("SELECT * FROM alarm")) == [("ann", 8), ("bob", 3)]
    db.execute("UPDATE account SET balance = 0 WHERE id = 1")  # still poor
    assert rows(db.query("SELECT * FROM alarm")) == [("ann", 8), ("bob", 3)]
    db.execute("DELETE FROM account WHERE owner = 'bob'")
    assert rows(db.query("SELECT * FROM alarm")) == [("ann", 8)]


def test_events_see_inserted_deleted_and_updated(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT);
        CREATE TABLE log (what VARCHAR, k INT, x INT, y INT);
        CREATE RULE i ON INSERT ON t DO INSERT INTO log SELECT 'i', k, a, b FROM inserted;
        CREATE RULE d ON DELETE ON t DO INSERT INTO log SELECT 'd', k, a, b FROM deleted;
        CREATE RULE u ON UPDATE OF a ON t DO INSERT INTO log SELECT 'u', new_k, old_a, new_a FROM updated;
        CREATE RULE big ON INSERT OR UPDATE ON t FOR EACH (k)
            WHEN SELECT k, a FROM inserted WHERE a > 100
            DO INSERT INTO log SELECT 'big', k, a, CAST(NULL AS INT) FROM condition;
        ACTIVATE RULE i; ACTIVATE RULE d; ACTIVATE RULE u; ACTIVATE RULE big;
        INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)""")
    assert rows(db.query("SELECT * FROM log")) == [("i", 1, 1, 1), ("i", 2, 2, 2)]
    db.execute("DELETE FROM log; UPDATE t SET b = 9 WHERE k = 1")
    assert rows(db.query("SELECT * FROM log")) == []
    with db.transaction() as tx:
        tx.execute("UPDATE t SET a = 5 WHERE k = 1")
        tx.execute("UPDATE t SET a = 500 WHERE k = 1")
        tx.execute("DELETE FROM t WHERE k = 2")
        tx.execute("INSERT INTO t VALUES (3, 3, 3)")
        tx.execute("DELETE FROM t WHERE k = 3")
    assert rows(db.query("SELECT * FROM log")) == [("big", 1, 500, None), ("d", 2, 2, 2), ("u", 1, 1, 500)]


def test_events_on_several_tables_and_on_views(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE a (x INT); CREATE TABLE b (y INT); CREATE TABLE log (w VARCHAR, n BIGINT);
        CREATE MATERIALIZED VIEW v AS SELECT x, COUNT(*) AS n FROM a JOIN b ON x = y GROUP BY x;
        CREATE RULE two ON INSERT ON a OR INSERT ON b WHEN SELECT (SELECT COUNT(*) FROM inserted_a) * 10
            + (SELECT COUNT(*) FROM inserted_b) AS n DO INSERT INTO log SELECT 'ab', n FROM condition;
        CREATE RULE watch ON INSERT OR UPDATE OF n ON v WHEN SELECT x, n FROM inserted
            DO INSERT INTO log SELECT 'v', n FROM condition;
        ACTIVATE RULE two; ACTIVATE RULE watch""")
    db.execute("INSERT INTO a VALUES (1), (2)")
    db.execute("BEGIN; INSERT INTO a VALUES (3); INSERT INTO b VALUES (1); COMMIT")
    db.execute("INSERT INTO b VALUES (1)")
    assert rows(db.query("SELECT * FROM log")) == [("ab", 1), ("ab", 11), ("ab", 20), ("v", 1), ("v", 2)]


def test_priorities_then_creation_decide_and_what_became_false_is_dropped(db: tm.Database) -> None:
    db.execute(
        """
        CREATE TABLE t (k INT); CREATE TABLE log (n INT, who VARCHAR);
        CREATE RULE first WHEN SELECT k FROM t WHERE k > 0
            DO INSERT INTO log SELECT (SELECT COUNT(*) FROM log), 'first' FROM condition;
        CREATE RULE second WHEN SELECT k FROM t WHERE k > 0
            DO INSERT INTO log SELECT (SELECT COUNT(*) FROM log), 'second' FROM condition;
        CREATE RULE mend WHEN SELECT k FROM t WHERE k < 0
            DO DELETE FROM t WHERE k IN (SELECT k FROM condition) WITH (priority = 10);
        CREATE RULE late WHEN SELECT k FROM t WHERE k < 0 DO INSERT INTO log SELECT -1, 'late' FROM condition;
        ACTIVATE RULE second; ACTIVATE RULE late; ACTIVATE RULE first; ACTIVATE RULE mend;
        INSERT INTO t VALUES (1), (-1)""".replace(
            "(SELECT COUNT(*) FROM log)", "CAST((SELECT COUNT(*) FROM log) AS INT)"
        )
    )
    assert rows(db.query("SELECT * FROM log")) == [(0, "first"), (1, "second")]
    assert rows(db.query("SELECT * FROM t")) == [(1,)]


def test_cascades_run_to_their_end_and_endless_ones_are_stopped_with_their_chain(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (n INT PRIMARY KEY);
        CREATE RULE down WHEN SELECT n FROM t WHERE n > 0 DO INSERT INTO t SELECT n - 1 FROM condition;
        ACTIVATE RULE down; INSERT INTO t VALUES (5)""")
    assert [n for (n,) in rows(db.query("SELECT n FROM t"))] == [0, 1, 2, 3, 4, 5]
    db.execute("""
        CREATE TABLE p (n INT); CREATE TABLE q (n INT);
        CREATE RULE pq WHEN SELECT n FROM p DO INSERT INTO q SELECT n + 1 FROM condition WITH (cascade_limit = 5);
        CREATE RULE qp WHEN SELECT n FROM q DO INSERT INTO p SELECT n + 1 FROM condition WITH (cascade_limit = 5);
        ACTIVATE RULE pq; ACTIVATE RULE qp""")
    version = db.version
    with pytest.raises(tm.TidemarkError, match="pq → qp → pq") as caught:
        db.execute("INSERT INTO p VALUES (1)")
    assert caught.value.code == "cascade"
    assert db.version == version and rows(db.query("SELECT * FROM p")) == []


TRANSFER = """
CREATE TABLE account (id INT PRIMARY KEY, balance INT);
CREATE TABLE audit (id INT, balance INT);
INSERT INTO account VALUES (1, 100), (2, 0);
CREATE RULE overdrawn WHEN SELECT id, balance FROM account WHERE balance < 0
    DO INSERT INTO audit SELECT id, balance FROM condition WITH (coupling = '{}', action_coupling = '{}');
ACTIVATE RULE overdrawn;
"""


def transfer(db: tm.Database, *, mended: bool, rolled_back: bool = False) -> None:
    """Account 1 is overdrawn for a moment, or at the end too."""
    tx = db.transaction()
    tx.execute("UPDATE account SET balance = balance - 150 WHERE id = 1")
    tx.execute("UPDATE account SET balance = balance + 150 WHERE id = 2")
    if mended:
        tx.execute("UPDATE account SET balance = balance + 60 WHERE id = 1")
    if rolled_back:
        tx.rollback()
    else:
        tx.commit()


@pytest.mark.parametrize(
    ("coupling", "action", "when_mended", "when_overdrawn", "when_rolled_back"),
    [
        ("immediate", "immediate", 1, 1, 0),
        ("immediate", "deferred", 0, 1, 0),
        ("deferred", "deferred", 0, 1, 0),
        ("immediate", "detached", 1, 1, 0),
        ("deferred", "detached", 0, 1, 0),
        ("detached", "immediate", 0, 1, 0),
        ("detached", "detached", 0, 1, 0),
        ("immediate", "detached_independent", 1, 1, 1),
    ],
)
def test_coupling_modes_differ_as_documented(
    db: tm.Database, coupling: str, action: str, when_mended: int, when_overdrawn: int, when_rolled_back: int
) -> None:
    db.execute(TRANSFER.format(coupling, action))
    found = []
    for mended, rolled_back in ((True, False), (False, False), (False, True)):
        transfer(db, mended=mended, rolled_back=rolled_back)
        found.append(len(rows(db.query("SELECT * FROM audit"))))
        db.execute("DELETE FROM audit; UPDATE account SET balance = 100 WHERE id = 1")
    assert found == [when_mended, when_overdrawn, when_rolled_back]
    assert db.dead_letters().num_rows == 0


def test_a_failing_action_rolls_its_transaction_back(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT); CREATE TABLE u (k INT PRIMARY KEY CHECK (k < 10));
        CREATE RULE copy WHEN SELECT k FROM t DO INSERT INTO u SELECT k FROM condition;
        ACTIVATE RULE copy; INSERT INTO t VALUES (1)""")
    with pytest.raises(tm.TidemarkError):
        db.execute("INSERT INTO t VALUES (20)")
    assert rows(db.query("SELECT * FROM t")) == rows(db.query("SELECT * FROM u")) == [(1,)]


def test_detached_failures_are_tried_again_and_end_as_dead_letters(db: tm.Database) -> None:
    calls: list[tuple[list[Any], str]] = []

    def order(instances: pa.Table, key: str) -> None:
        calls.append((instances.to_pylist(), key))
        if len(calls) < 4:
            raise ValueError("no answer")

    db.register("order_item", order)
    db.execute("""
        CREATE TABLE t (k INT);
        CREATE RULE r WHEN SELECT k FROM t DO CALL order_item
            WITH (action_coupling = 'detached', retries = 1, backoff = 0);
        ACTIVATE RULE r; INSERT INTO t VALUES (7)""")
    assert [c[0] for c in calls] == [[{"k": 7}]] * 2 and len({key for _, key in calls}) == 1
    [letter] = db.dead_letters().to_pylist()
    assert "no answer" in letter["error"] and letter["attempts"] == 2
    db.replay(letter["id"])
    assert db.dead_letters().num_rows == 0 and len(calls) == 4
    outcomes = [outcome.partition(":")[0] for outcome in db.firings()["outcome"].to_pylist()]
    assert sorted(outcomes) == ["dead", "done", "failed", "failed"]


def test_notify_reaches_listeners_when_the_transaction_commits(db: tm.Database) -> None:
    heard: list[Any] = []
    db.listen("low", lambda channel, instances: heard.append((channel, instances.to_pylist(), db.version)))
    db.execute("""
        CREATE TABLE t (k INT); CREATE RULE r WHEN SELECT k FROM t DO NOTIFY low; ACTIVATE RULE r""")
    tx = db.transaction()
    tx.insert("t", [(1,), (1,), (2,)])
    assert heard == []
    tx.commit()
    assert [(c, sorted(i["k"] for i in found), v) for c, found, v in heard] == [("low", [1, 2], db.version)]


def test_parameters_groups_and_show(db: tm.Database) -> None:
    db.execute(INVENTORY)
    db.execute("""
        CREATE RULE low(:item, :least) WHEN SELECT item FROM item WHERE item = :item AND quantity < :least
            DO INSERT INTO orders SELECT item, :least FROM condition WITH (group = 'stock');
        ACTIVATE RULE low(1, 140); ACTIVATE RULE low(1, 100); ACTIVATE RULE low(2, 290)""")
    db.execute("UPDATE item SET quantity = 120")
    assert orders(db) == [(1, 140), (2, 290)]
    db.execute("UPDATE item SET quantity = 90")
    assert orders(db) == [(1, 100), (1, 140), (2, 290)]
    db.execute("DEACTIVATE RULE low(1, 100); UPDATE item SET quantity = 5000; UPDATE item SET quantity = 90")
    assert len(orders(db)) == 5
    [shown] = db.execute("SHOW RULES").to_pylist()  # type: ignore[union-attr]
    assert (shown["name"], shown["state"], shown["firings"]) == ("low", "low(1, 140), low(2, 290)", 5)
    db.execute("DEACTIVATE RULES stock; UPDATE item SET quantity = 5000; UPDATE item SET quantity = 90")
    assert len(orders(db)) == 5


def test_assertions_reject_with_the_violating_rows(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE dept (id INT PRIMARY KEY, budget INT);
        CREATE TABLE emp (id INT PRIMARY KEY, dept INT, salary INT);
        INSERT INTO dept VALUES (1, 100); INSERT INTO emp VALUES (1, 1, 60);
        CREATE ASSERTION affordable CHECK (NOT EXISTS (
            SELECT d.id, SUM(e.salary) AS total FROM dept d JOIN emp e ON e.dept = d.id
            GROUP BY d.id, d.budget HAVING SUM(e.salary) > d.budget))""")
    with pytest.raises(tm.TidemarkError, match="'id': 1, 'total': 110") as caught:
        db.execute("INSERT INTO emp VALUES (2, 1, 50)")
    assert caught.value.code == "assertion"
    db.execute("BEGIN; INSERT INTO emp VALUES (2, 1, 50); UPDATE dept SET budget = 200; COMMIT")
    with pytest.raises(tm.TidemarkError, match="affordable"):
        db.execute("UPDATE dept SET budget = 50")
    with pytest.raises(tm.TidemarkError, match="assertion"):
        db.execute("CREATE ASSERTION poor CHECK (NOT EXISTS (SELECT id FROM emp WHERE salary > 55))")
    assert db.execute("SHOW ASSERTIONS").to_pylist() == [  # type: ignore[union-attr]
        {"name": "affordable", "on_violation": "reject", "violations": 0}
    ]
    db.execute("DROP ASSERTION affordable; UPDATE dept SET budget = 50")


def test_an_assertion_is_not_looked_at_for_changes_that_can_violate_nothing(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE emp (id INT PRIMARY KEY, dept INT, salary INT);
        CREATE TABLE dept (id INT PRIMARY KEY, least INT);
        INSERT INTO dept VALUES (1, 10), (2, 20); INSERT INTO emp VALUES (1, 1, 15), (2, 2, 25), (3, 2, 30);
        CREATE ASSERTION paid CHECK (NOT EXISTS (
            SELECT e.id FROM emp e JOIN dept d ON e.dept = d.id WHERE e.salary < d.least));
        CREATE ASSERTION placed CHECK (NOT EXISTS (
            SELECT e.id FROM emp e WHERE NOT EXISTS (SELECT 1 FROM dept d WHERE d.id = e.dept)))""")

    def looked_at() -> dict[str, tuple[str, int]]:
        trace = db.trace(db.version).to_pylist()
        return {step["node"].partition("-")[0]: (step["strategy"], step["rows_read"]) for step in trace}

    db.execute("DELETE FROM emp WHERE id = 3")
    assert looked_at()["assertion paid"] == ("irrelevant", 0)
    db.execute("INSERT INTO dept VALUES (3, 50)")
    assert looked_at()["assertion placed"] == ("irrelevant", 0)
    assert looked_at()["assertion paid"][0] == "differential"
    with pytest.raises(tm.TidemarkError, match="placed"):
        db.execute("DELETE FROM dept WHERE id = 2")
    with pytest.raises(tm.TidemarkError, match="paid"):
        db.execute("UPDATE dept SET least = 16 WHERE id = 1")
    with pytest.raises(tm.TidemarkError, match="paid"):
        db.execute("BEGIN; DELETE FROM emp WHERE id = 2; INSERT INTO emp VALUES (4, 1, 9); COMMIT")


def test_assertions_report_violations_and_clear_them_when_mended(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE emp (id INT PRIMARY KEY, boss INT, salary INT); INSERT INTO emp VALUES (1, NULL, 10);
        CREATE ASSERTION modest CHECK (NOT EXISTS (SELECT e.id, b.id AS boss FROM emp e JOIN emp b ON e.boss = b.id
            WHERE e.salary > b.salary)) ON VIOLATION REPORT;
        INSERT INTO emp VALUES (2, 1, 20), (3, 1, 5)""")
    assert rows(db.query("SELECT * FROM modest")) == [(2, 1)]
    db.execute("UPDATE emp SET salary = 30 WHERE id = 1")
    assert rows(db.query("SELECT * FROM modest")) == []


def test_a_deferred_rule_may_mend_what_an_assertion_forbids(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT PRIMARY KEY, v INT);
        CREATE ASSERTION small CHECK (NOT EXISTS (SELECT k FROM t WHERE v > 10));
        CREATE RULE clip WHEN SELECT k FROM t WHERE v > 10
            DO UPDATE t SET v = 10 WHERE k IN (SELECT k FROM condition);
        ACTIVATE RULE clip; INSERT INTO t VALUES (1, 50)""")
    assert rows(db.query("SELECT * FROM t")) == [(1, 10)]


def test_definitions_under_rules_are_protected_and_may_grow(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE TABLE log (k INT, v INT);
        CREATE VIEW w AS SELECT k, v FROM t WHERE v > 0;
        CREATE RULE r ON INSERT ON t WHEN SELECT * FROM w DO INSERT INTO log SELECT k, v FROM condition;
        ACTIVATE RULE r""")
    with pytest.raises(tm.TidemarkError, match="needed by the rule r"):
        db.execute("DROP VIEW w")
    db.execute("ALTER TABLE t ADD COLUMN note VARCHAR; INSERT INTO t VALUES (1, 1, 'a'), (2, -1, 'b')")
    db.execute("CREATE OR REPLACE VIEW w AS SELECT k, v FROM t WHERE v < 0")
    db.execute("INSERT INTO t VALUES (3, 1, 'a'), (4, -1, 'b')")
    assert rows(db.query("SELECT * FROM log")) == [(1, 1), (4, -1)]
    db.execute("DROP TABLE t CASCADE")
    assert db.execute("SHOW RULES").num_rows == 0  # type: ignore[union-attr]


def test_transactions_that_do_not_influence_a_rule_cost_it_nothing(db: tm.Database) -> None:
    db.execute(INVENTORY + MONITOR.format("") + "CREATE TABLE other (a INT)")
    db.execute("INSERT INTO other VALUES (1)")
    assert db.trace(db.version).num_rows == 0
    db.execute("""CREATE RULE dear WHEN SELECT item FROM item WHERE item = 7 AND quantity < 10
        DO NOTIFY dear; ACTIVATE RULE dear""")
    db.execute("UPDATE item SET quantity = 6000 WHERE item = 1")
    steps = {step["node"]: step["strategy"] for step in db.trace(db.version).to_pylist()}
    assert steps["rule dear"] == "irrelevant"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("CREATE RULE r WHEN SELECT nothing FROM item DO NOTIFY x", "unknown_column"),
        ("CREATE RULE r FOR EACH (b) WHEN SELECT item FROM item DO NOTIFY x", "unknown_column"),
        ("CREATE RULE r WHEN SELECT item FROM item DO SELECT 1", "syntax"),
        ("CREATE RULE r DO NOTIFY x", "syntax"),
        ("CREATE RULE r ON INSERT ON nothing DO NOTIFY x", "unknown_relation"),
        ("CREATE RULE r ON INSERT ON threshold DO NOTIFY x", "not_materialized"),
        ("CREATE RULE r WHEN SELECT item FROM item DO NOTIFY x WITH (coupling = 'soon')", "unsupported"),
        ("CREATE RULE r WHEN SELECT item FROM item DO INSERT INTO condition VALUES (1)", "not_a_table"),
        ("CREATE RULE r WHEN SELECT item FROM item WHERE item = :p DO NOTIFY x", "unknown_parameter"),
        ("ACTIVATE RULE nobody", "unknown_rule"),
    ],
)
@pytest.mark.parametrize("engine", ["reference"], indirect=True)
def test_what_a_rule_cannot_be_is_refused(db: tm.Database, statement: str, code: str) -> None:
    db.execute(INVENTORY)
    with pytest.raises(tm.TidemarkError) as caught:
        db.execute(statement)
    assert caught.value.code == code


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_eighty_assertions_are_watched_at_once_and_only_those_that_matter_are_looked_at(db: tm.Database) -> None:
    db.execute("CREATE TABLE part (id INT PRIMARY KEY, kind INT, weight INT); CREATE TABLE kind (kind INT, limit_ INT)")
    with db.transaction() as tx:
        for kind in range(80):
            tx.execute(f"""CREATE ASSERTION light_{kind} CHECK (NOT EXISTS (SELECT p.id, k.limit_ FROM part p
                JOIN kind k ON k.kind = p.kind WHERE p.kind = {kind} AND k.kind = {kind} AND p.weight > k.limit_))""")
        tx.insert("kind", [(kind, 10 * kind) for kind in range(80)])
    db.execute("INSERT INTO part VALUES (1, 7, 70), (2, 8, 80)")
    steps = db.trace(db.version).to_pylist()
    assert len([step for step in steps if step["strategy"] != "irrelevant"]) <= 4
    with pytest.raises(tm.TidemarkError, match=r"light_7.*'id': 1"):
        db.execute("UPDATE part SET weight = 71 WHERE id = 1")


@pytest.mark.parametrize("engine", ["reference"], indirect=True)
def test_what_rules_keep_cannot_be_changed_by_statements(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT); CREATE RULE r WHEN SELECT k FROM t DO NOTIFY x")
    for statement in ("DELETE FROM _firings", "DROP TABLE _detached"):
        with pytest.raises(tm.TidemarkError, match="reserved_name"):
            db.execute(statement)
    assert db.execute("SHOW TABLES")["name"].to_pylist() == ["t"]  # type: ignore[index]


def test_an_update_that_cannot_be_told_is_refused_as_an_event(db: tm.Database) -> None:
    """Of a view without a key: of a table without one statements say which row became which."""
    db.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE seen (a INT)")
    db.execute("CREATE MATERIALIZED VIEW bag AS SELECT a, b FROM t")
    with pytest.raises(tm.TidemarkError, match="cannot be told from a deletion and an insertion") as caught:
        db.execute(
            "CREATE RULE r ON UPDATE OF b ON bag WHEN SELECT a FROM inserted"
            " DO INSERT INTO seen SELECT a FROM condition"
        )
    assert caught.value.code == "no_key"
