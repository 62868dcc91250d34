"""What rules do apart from the transaction, or outside the database: in which order, how often, and who may stop it."""

from __future__ import annotations

import json
import threading
from typing import Any

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)


def log(db: tm.Database) -> list[tuple[Any, ...]]:
    return rows(db.query("SELECT * FROM log"))


def test_what_one_transaction_detaches_is_done_by_priority_then_by_creation(db: tm.Database) -> None:
    heard: list[str] = []
    db.execute("CREATE TABLE t (k INT)")
    for number in range(6):
        db.listen(f"c{number}", lambda channel, found: heard.append(channel))
        db.execute(f"""CREATE RULE r{number} WHEN SELECT k FROM t DO NOTIFY c{number}
            WITH (action_coupling = 'detached', priority = {-(number % 2)}); ACTIVATE RULE r{number}""")
    db.execute("INSERT INTO t VALUES (1)")
    assert heard == ["c0", "c2", "c4", "c1", "c3", "c5"]


def test_each_call_has_a_key_of_its_own_and_a_repeated_one_the_same(db: tm.Database) -> None:
    keys: list[tuple[str, str]] = []

    def order(name: str, key: str) -> None:
        keys.append((name, key))
        if len([one for one in keys if one[0] == "apart"]) == 1 and name == "apart":
            raise ValueError("no answer")

    for name in ("now", "apart", "again"):
        db.register(name, lambda found, key, name=name: order(name, key))
    db.execute("""
        CREATE TABLE t (k INT); CREATE ASSERTION small CHECK (NOT EXISTS (SELECT k FROM t WHERE k > 5));
        CREATE RULE now WHEN SELECT k FROM t DO CALL now WITH (coupling = 'immediate');
        CREATE RULE apart WHEN SELECT k FROM t WHERE k = 3 DO BEGIN CALL again; CALL apart; END
            WITH (action_coupling = 'detached', backoff = 0);
        ACTIVATE RULE now; ACTIVATE RULE apart""")
    db.execute("BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT")
    with pytest.raises(tm.TidemarkError, match="small"):
        db.execute("INSERT INTO t VALUES (9)")
    db.execute("INSERT INTO t VALUES (3)")
    of = {name: [key for one, key in keys if one == name] for name in ("now", "apart", "again")}
    assert len(of["now"]) == len(set(of["now"])) == 4, "a call that was rolled back has another key than the next one"
    assert len(of["apart"]) == len(of["again"]) == 2
    assert len({*of["apart"], *of["again"]}) == 2, "both attempts have the same keys"


def test_a_function_cannot_change_the_database_that_calls_it(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT); CREATE TABLE u (k INT); CREATE TABLE log (k INT)")
    read: list[int] = []
    functions = {
        "writes": lambda found: db.execute("INSERT INTO u VALUES (1)"),
        "begins": lambda found: db.transaction().__enter__().execute("INSERT INTO u VALUES (1)"),
        "inserts": lambda found: db.insert("u", [(1,)]),
        "defines": lambda found: db.execute("CREATE TABLE z (a INT)"),
        "drops": lambda found: db.execute("DROP RULE drops"),
        "signals": lambda found: db.signal("s"),
        "ends": lambda found: db.execute("COMMIT"),
        "gives_up": lambda found: db.execute("ROLLBACK"),
    }
    db.execute("CREATE RULE on_s ON SIGNAL s DO INSERT INTO u VALUES (2); ACTIVATE RULE on_s")
    for name, function in functions.items():
        db.register(name, function)
        db.execute(f"CREATE RULE {name} WHEN SELECT k FROM t DO CALL {name} WITH (coupling = 'immediate')")
        db.execute(f"ACTIVATE RULE {name}")
        for statements in ("INSERT INTO t VALUES (1)", "BEGIN; INSERT INTO t VALUES (1); COMMIT"):
            version = db.version
            if name in ("ends", "gives_up") and not statements.startswith("BEGIN"):
                continue
            with pytest.raises(tm.TidemarkError, match="cannot change the database") as caught:
                db.execute(statements)
            if statements.startswith("BEGIN"):
                db.execute("ROLLBACK")
            assert caught.value.code == "transaction" and db.version == version
        db.execute(f"DROP RULE {name}")
    assert rows(db.query("SELECT * FROM t")) == rows(db.query("SELECT * FROM u")) == []
    db.register("reads", lambda found: read.append(db.query("SELECT * FROM u").num_rows))
    db.execute("CREATE RULE reads WHEN SELECT k FROM t DO CALL reads; ACTIVATE RULE reads; INSERT INTO t VALUES (1)")
    assert read == [0]


def test_a_function_that_hangs_is_left_behind_and_cannot_use_the_database(db: tm.Database) -> None:
    ends, told = threading.Event(), list[str]()

    def hang(found: pa.Table) -> None:
        try:
            db.query("SELECT * FROM t")
        except tm.TidemarkError as error:
            told.append(error.code)
        ends.wait(30)

    db.register("hang", hang)
    db.execute("""
        CREATE TABLE t (k INT); CREATE RULE r WHEN SELECT k FROM t DO CALL hang
            WITH (action_coupling = 'detached', timeout = 0.2, retries = 0);
        ACTIVATE RULE r; INSERT INTO t VALUES (1)""")
    [letter] = db.dead_letters().to_pylist()
    assert "took longer than 0.2 seconds" in letter["error"] and told == ["transaction"]
    assert json.loads(letter["payload"]) == {"condition": [{"k": 1}]}
    threads = [thread for thread in threading.enumerate() if thread.name == "tidemark hang"]
    assert threads and all(thread.daemon for thread in threads), "the process can end while it hangs"
    ends.set()
    db.discard(letter["id"])
    assert db.dead_letters().num_rows == 0
    with pytest.raises(tm.TidemarkError, match="no dead letter"):
        db.replay(letter["id"])


def test_what_was_set_off_is_done_though_the_rule_is_deactivated_but_not_when_it_is_dropped(db: tm.Database) -> None:
    calls: list[list[Any]] = []

    def order(found: pa.Table) -> None:
        calls.append(found.to_pylist())
        if len(calls) % 2:
            raise ValueError("no answer")

    db.register("order_item", order)
    db.execute("""
        CREATE TABLE t (k INT);
        CREATE RULE r(:k) WHEN SELECT k FROM t WHERE k > :k DO CALL order_item
            WITH (action_coupling = 'detached', retries = 0);
        ACTIVATE RULE r(-5); INSERT INTO t VALUES (7); DEACTIVATE RULE r""")
    [letter] = db.dead_letters().to_pylist()
    db.replay(letter["id"])
    assert calls == [[{"k": 7}]] * 2 and db.dead_letters().num_rows == 0
    db.execute("ACTIVATE RULE r(0); INSERT INTO t VALUES (8)")
    assert db.dead_letters().num_rows == 1
    db.execute("""DROP RULE r; CREATE RULE r(:k) WHEN SELECT k FROM t WHERE k > :k DO CALL order_item
        WITH (action_coupling = 'detached', retries = 0)""")
    assert db.dead_letters().num_rows == 0 and db.run_due() == 0


def test_independent_rules_hear_of_every_end_that_is_no_commit(db: tm.Database) -> None:
    db.execute("""
        CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE TABLE log (k INT);
        CREATE MATERIALIZED VIEW q AS SELECT k, 10 / v AS q FROM t;
        CREATE RULE e ON INSERT ON t DO INSERT INTO log SELECT k FROM inserted
            WITH (coupling = 'detached_independent');
        ACTIVATE RULE e""")
    db.execute("BEGIN; INSERT INTO t VALUES (1, 1); CREATE TABLE z (a INT); ROLLBACK")
    for script in ("INSERT INTO t VALUES (2, 0)", "BEGIN; INSERT INTO t VALUES (3, 1); SELECT zz FROM t"):
        with pytest.raises(tm.TidemarkError):
            db.execute(script)
    with pytest.raises(tm.TidemarkError, match="rolled back"):
        db.execute("COMMIT")
    db.execute("BEGIN; INSERT INTO t VALUES (4, 0); ROLLBACK")
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (5, 1)")
        raise ZeroDivisionError
    db.execute("""BEGIN; CREATE RULE new ON INSERT ON t DO INSERT INTO log VALUES (-1)
        WITH (coupling = 'immediate', action_coupling = 'detached_independent');
        ACTIVATE RULE new; INSERT INTO t VALUES (6, 1); ROLLBACK""")
    assert log(db) == [(1,), (2,), (3,), (4,), (5,), (6,)]
    assert rows(db.query("SELECT * FROM t")) == []
