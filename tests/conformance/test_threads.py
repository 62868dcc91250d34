"""Threads and tasks: changes take turns, reading waits for nobody and sees the last committed version."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import rows
from tidemark.state.snapshot import snapshot_of

SPARK_VARIANTS = ("spark",)
PATIENCE = 120.0

STOCK = """
CREATE TABLE stock (item INT PRIMARY KEY, amount INT);
CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(amount) AS amount FROM stock;
INSERT INTO stock VALUES (1, 10), (2, 20);
"""


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8, "worker") as executor:
        yield executor


def result(future: Future[object]) -> object:
    return future.result(PATIENCE)


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(tm.TidemarkError) as caught:
        action()
    return caught.value.code


def test_changes_of_six_threads_wait_their_turn(db: tm.Database) -> None:
    db.execute(STOCK)
    refused: list[Exception] = []

    def work(number: int) -> None:
        for step in range(12):
            key = 100 * (number + 1) + step
            try:
                match step % 4:
                    case 0:
                        db.insert("stock", [(key, 1)])
                    case 1:
                        with db.transaction() as tx:
                            tx.execute(f"INSERT INTO stock VALUES ({key}, 0)")
                            tx.execute(f"UPDATE stock SET amount = amount + 1 WHERE item = {key}")
                    case 2:
                        db.execute(
                            f"BEGIN; INSERT INTO stock VALUES ({key}, 5); UPDATE stock SET amount = 1 "
                            f"WHERE item = {key}; COMMIT"
                        )
                    case 3:
                        db.execute(f"INSERT INTO stock VALUES ({key}, 1)")
            except Exception as error:
                refused.append(error)

    working = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join(PATIENCE)
    assert not refused and not any(thread.is_alive() for thread in working)
    assert rows(db.query("SELECT n, amount FROM total")) == [(2 + 72, 30 + 72)]
    assert db.version == 3 + 72


@contextmanager
def at_work(db: tm.Database) -> Iterator[None]:
    """While another thread is in the middle of a statement: its transaction has changed something and commits."""
    inside, go_on = threading.Event(), threading.Event()

    def wait(instances: pa.Table) -> None:
        inside.set()
        assert go_on.wait(PATIENCE)

    db.register("wait", wait)
    db.execute("CREATE RULE slow WHEN SELECT item FROM stock WHERE amount < 0 DO CALL wait; ACTIVATE RULE slow")
    thread = threading.Thread(target=db.execute, args=("INSERT INTO stock VALUES (3, -1)",))
    thread.start()
    assert inside.wait(PATIENCE)
    try:
        yield
    finally:
        go_on.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()


def shown(what: str) -> Callable[[tm.Database], object]:
    return lambda db: sorted(map(str, rows(db.execute(f"SHOW {what}"))))


READING: dict[str, Callable[[tm.Database], object]] = {
    "query": lambda db: rows(db.query("SELECT * FROM total")),
    "execute": lambda db: rows(db.execute("SELECT item FROM stock ORDER BY item")),
    "join": lambda db: rows(db.query("SELECT s.item, t.n FROM stock s JOIN total t ON s.amount < t.amount")),
    "as of": lambda db: rows(db.query("SELECT * FROM stock AS OF VERSION 2")),
    "changes": lambda db: sorted(map(str, db.changes("total").to_pylist())),
    "paired": lambda db: sorted(map(str, db.changes("stock", paired=True).to_pylist())),
    "version": lambda db: db.version,
    "audit": lambda db: db.audit("total").num_rows,
    "AUDIT": lambda db: rows(db.execute("AUDIT total")),
    "explain": lambda db: db.explain("total"),
    "EXPLAIN": lambda db: rows(db.execute("EXPLAIN total")),
    "classify": lambda db: str(db.classify("total", "DELETE FROM stock WHERE item = 5")),
    "EFFECT": lambda db: rows(db.execute("EXPLAIN EFFECT OF DELETE FROM stock ON total")),
    "advise": lambda db: str(db.advise("total", "DELETE FROM stock WHERE item = :p")),
    "why": lambda db: str(db.why("total", {"n": 2})),
    "why_not": lambda db: str(db.why_not("stock", {"item": 3})),
    "trace": lambda db: db.trace(3).num_rows,
    "firings": lambda db: db.firings().num_rows,
    "dead letters": lambda db: db.dead_letters().num_rows,
    "as_rules": lambda db: db.as_rules("total"),
    **{
        f"SHOW {what}": shown(what)
        for what in ("TABLES", "VIEWS", "RULES", "ASSERTIONS", "LOG", "CONSUMERS", "SNAPSHOTS", "CONTINUAL QUERIES")
    },
}


def test_reading_waits_for_nobody_and_sees_what_was_committed(db: tm.Database, threads: ThreadPoolExecutor) -> None:
    db.execute(STOCK)
    db.execute("CREATE SNAPSHOT early AS SELECT item FROM stock REFRESH ON DEMAND")
    subscription = db.subscribe("total")
    assert subscription.poll() is not None
    with at_work(db):
        beside = {name: result(threads.submit(read, db)) for name, read in READING.items()}
        assert result(threads.submit(subscription.poll)) is None
        opened = db.subscribe("stock")
        first = opened.poll()
        assert first is not None and sorted(first.inserted.column("item").to_pylist()) == [1, 2]
        with pytest.raises(tm.TidemarkError, match="unknown_relation"):
            db.query("SELECT * FROM nothing")
    assert beside["query"] == [(2, 30)] and beside["execute"] == [(1,), (2,)] and beside["audit"] == 0
    change = subscription.poll(PATIENCE)
    assert change is not None and rows(change.inserted) == [(3, 29)]
    change = opened.poll(PATIENCE)
    assert change is not None and rows(change.inserted) == [(3, -1)]
    opened.close()
    db.execute("DELETE FROM stock WHERE item = 3; DEACTIVATE RULE slow")
    alone = {name: read(db) for name, read in READING.items()}
    moved = {"version", "firings", "changes", "paired", "SHOW LOG", "SHOW RULES", "SHOW CONSUMERS", "SHOW VIEWS"}
    assert {n: v for n, v in beside.items() if n not in moved} == {n: v for n, v in alone.items() if n not in moved}


def test_reading_beside_an_open_transaction_sees_the_last_committed_version(
    db: tm.Database, threads: ThreadPoolExecutor
) -> None:
    db.execute(STOCK)
    with db.transaction() as tx:
        tx.execute("DELETE FROM stock WHERE item = 1")
        assert rows(tx.query("SELECT * FROM total")) == [(1, 20)]
        assert result(threads.submit(lambda: rows(db.query("SELECT * FROM total")))) == [(2, 30)]
        assert rows(db.query("SELECT * FROM total")) == [(2, 30)], "through the database itself, too"
    assert result(threads.submit(lambda: rows(db.query("SELECT * FROM total")))) == [(1, 20)]


def test_begin_belongs_to_the_caller_who_began(db: tm.Database, threads: ThreadPoolExecutor) -> None:
    db.execute(STOCK)
    db.execute("BEGIN; DELETE FROM stock")
    other = ThreadPoolExecutor(1)
    assert result(other.submit(lambda: rows(db.query("SELECT * FROM total")))) == [(2, 30)]
    assert result(other.submit(lambda: code_of(lambda: db.execute("COMMIT")))) == "transaction"
    assert result(other.submit(lambda: code_of(lambda: db.execute("ROLLBACK")))) == "transaction"
    waiting = other.submit(db.insert, "stock", [(7, 7)])
    time.sleep(0.1)
    assert not waiting.done()
    assert rows(db.query("SELECT * FROM total")) == [(0, None)]
    assert code_of(lambda: db.transaction()) == "transaction"
    db.execute("COMMIT")
    waiting.result(PATIENCE)
    assert rows(db.query("SELECT * FROM total")) == [(1, 7)]
    other.shutdown()


def test_who_waits_too_long_is_told_who_has_the_turn(db: tm.Database, threads: ThreadPoolExecutor) -> None:
    db.execute(STOCK)
    db._turns.seconds = 0.2
    with db.transaction() as tx:
        tx.execute("DELETE FROM stock WHERE item = 1")
        future = threads.submit(db.insert, "stock", [(9, 9)])
        with pytest.raises(tm.TidemarkError) as caught:
            future.result(PATIENCE)
        assert caught.value.code == "busy" and "MainThread" in caught.value.message
    assert rows(db.query("SELECT item FROM stock")) == [(2,)]


@pytest.mark.parametrize("how", ["BEGIN", "transaction"])
def test_what_a_thread_that_ended_left_open_is_rolled_back(db: tm.Database, how: str) -> None:
    db.execute(STOCK)
    kept: list[tm.Transaction] = []

    def leave() -> None:
        if how == "BEGIN":
            db.execute("BEGIN; DELETE FROM stock")
        else:
            kept.append(db.transaction())
            kept[0].execute("DELETE FROM stock")

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join(PATIENCE)
    db.insert("stock", [(3, 3)])
    assert rows(db.query("SELECT * FROM total")) == [(3, 33)]
    for left in kept:
        assert code_of(lambda left=left: left.execute("DELETE FROM stock")) == "transaction"  # type: ignore[misc]


def test_a_transaction_can_be_handed_to_another_thread(db: tm.Database, threads: ThreadPoolExecutor) -> None:
    db.execute(STOCK)
    tx = db.transaction()
    tx.insert("stock", [(3, 3)])
    threads.submit(tx.insert, "stock", [(4, 4)]).result(PATIENCE)
    assert result(threads.submit(lambda: rows(tx.query("SELECT n FROM total")))) == [(4,)]
    threads.submit(tx.commit).result(PATIENCE)
    assert rows(db.query("SELECT n FROM total")) == [(4,)]
    db.insert("stock", [(5, 5)])


def test_closing_tells_those_who_wait(db: tm.Database, threads: ThreadPoolExecutor) -> None:
    with tm.connect("duckdb") if db.engine == "spark" else tm.connect(db.engine) as other:
        other.execute(STOCK)
        other.execute("BEGIN; DELETE FROM stock")
        waiting = [threads.submit(other.insert, "stock", [(9, 9)]) for _ in range(3)]
        deadline = time.monotonic() + PATIENCE
        while len(other._turns._waiting) < 3 and time.monotonic() < deadline:
            time.sleep(0.005)
        threads.submit(other.close).result(PATIENCE)
        for future in waiting:
            with pytest.raises(tm.TidemarkError) as caught:
                future.result(PATIENCE)
            assert caught.value.code == "closed"
        assert code_of(lambda: other.query("SELECT 1")) == "closed"
        assert code_of(lambda: other.execute("COMMIT")) in ("closed", "transaction")


def test_tasks_are_callers_of_their_own(db: tm.Database) -> None:
    db.execute(STOCK)
    told: list[str] = []

    async def first(begun: asyncio.Event, told_off: asyncio.Event) -> None:
        with db.transaction() as tx:
            tx.insert("stock", [(3, 3)])
            begun.set()
            await told_off.wait()

    async def second(begun: asyncio.Event, told_off: asyncio.Event) -> None:
        await begun.wait()
        assert rows(db.query("SELECT n FROM total")) == [(2,)], "reading is outside of the other's transaction"
        told.append(code_of(lambda: db.insert("stock", [(4, 4)])))
        later = asyncio.create_task(asyncio.to_thread(db.insert, "stock", [(5, 5)]))
        await asyncio.sleep(0.01)
        told_off.set()
        await later

    async def main() -> None:
        begun, told_off = asyncio.Event(), asyncio.Event()
        await asyncio.gather(first(begun, told_off), second(begun, told_off))

    asyncio.run(main())
    assert told == ["busy"]
    assert rows(db.query("SELECT item FROM stock")) == [(1,), (2,), (3,), (5,)]


def test_a_view_that_is_refreshed_on_read_is_exact_beside_a_transaction(
    db: tm.Database, threads: ThreadPoolExecutor
) -> None:
    db.execute(STOCK)
    db.execute("CREATE MATERIALIZED VIEW late WITH (refresh = 'on read') AS SELECT SUM(amount) AS amount FROM stock")
    db.execute("INSERT INTO stock VALUES (3, 3)")
    with db.transaction() as tx:
        tx.execute("INSERT INTO stock VALUES (4, 4)")
        assert result(threads.submit(lambda: rows(db.query("SELECT * FROM late")))) == [(33,)]
    assert rows(db.query("SELECT * FROM late")) == [(37,)]


def test_functions_that_are_told_may_change_the_database_while_others_wait(
    db: tm.Database, threads: ThreadPoolExecutor
) -> None:
    db.execute(STOCK)
    db.execute("CREATE TABLE heard (item INT); CREATE TABLE asked (n BIGINT)")
    db.listen("low", lambda channel, instances: db.insert("heard", instances))
    db.execute("CREATE RULE low WHEN SELECT item FROM stock WHERE amount < 0 DO NOTIFY low; ACTIVATE RULE low")
    db.execute("CREATE CONTINUAL QUERY q AS SELECT n FROM total TRIGGER ON CHANGE")
    db.on_result("q", lambda found: db.insert("asked", [(found.number,)]))
    working = [threads.submit(db.insert, "stock", [(10 + n, -n - 1)]) for n in range(6)]
    for future in working:
        future.result(PATIENCE)
    assert rows(db.query("SELECT item FROM heard")) == [(10 + n,) for n in range(6)]
    assert rows(db.query("SELECT n FROM asked")) == [(n + 1,) for n in range(6)]


def test_a_snapshot_stays_as_it_was_whatever_is_redefined(db: tm.Database, threads: ThreadPoolExecutor) -> None:
    db.execute(STOCK)
    version = db.version
    with snapshot_of(db._store) as before:
        for statement in (
            "INSERT INTO stock VALUES (3, 3)",
            "ALTER TABLE stock ADD COLUMN colour VARCHAR DEFAULT 'red'",
            "DROP VIEW total",
            "DROP TABLE stock",
            "CREATE TABLE stock (other VARCHAR)",
            "INSERT INTO stock VALUES ('x')",
        ):
            threads.submit(db.execute, statement).result(PATIENCE)
        reader = db._reader(before)
        assert before.version == version
        assert rows(reader.query("SELECT * FROM stock")) == [(1, 10), (2, 20)]
        assert rows(reader.query("SELECT * FROM total")) == [(2, 30)]
        assert before.engine.changes("stock", 0).num_rows == 2
        assert before.engine.rows("stock") == 2
    with snapshot_of(db._store) as after:
        assert rows(db._reader(after).query("SELECT * FROM stock")) == [("x",)]
        assert after.version == version + 6
