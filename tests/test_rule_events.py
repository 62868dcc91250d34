"""Events outside the database: signals, times and delays; and rules that outlive a rollback."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

import tidemark as tm
from tests.support import rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.reference import ReferenceEngine


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.time = dt.datetime(2030, 1, 1)

    def __call__(self) -> dt.datetime:
        return self.time

    def pass_(self, **span: float) -> None:
        self.time += dt.timedelta(**span)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["reference", "duckdb"])
def db(request: pytest.FixtureRequest, clock: Clock) -> Iterator[tm.Database]:
    engine: Any = ReferenceEngine() if request.param == "reference" else DuckDBEngine()
    with tm.Database(engine, clock=clock) as database:
        database.execute("""
            CREATE TABLE stock (item INT PRIMARY KEY, quantity INT); CREATE TABLE log (what VARCHAR, item INT);
            INSERT INTO stock VALUES (1, 5), (2, 500)""")
        yield database


def log(db: tm.Database) -> list[tuple[Any, ...]]:
    return rows(db.query("SELECT * FROM log"))


@pytest.mark.parametrize("coupling", ["immediate", "deferred", "detached"])
def test_a_signal_fires_for_what_is_true_when_it_comes(db: tm.Database, coupling: str) -> None:
    db.execute(f"""
        CREATE RULE count ON SIGNAL stocktaking
            WHEN SELECT s.payload, k.item FROM signal s, stock k WHERE k.quantity < 100
            DO INSERT INTO log SELECT payload, item FROM condition WITH (coupling = '{coupling}');
        ACTIVATE RULE count""")
    version = db.version
    db.signal("nothing")
    assert db.version == version
    db.signal("stocktaking", "a")
    db.signal("stocktaking", {"by": "ann"})
    assert log(db) == [("a", 1), ('{"by": "ann"}', 1)]
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        tx.signal("stocktaking", "b")
        raise ZeroDivisionError
    assert len(log(db)) == 2


def test_times_come_once_or_again_and_again_while_the_rule_is_watched(db: tm.Database, clock: Clock) -> None:
    db.execute("""
        CREATE RULE once ON AT '2030-01-01 12:00' DO INSERT INTO log VALUES ('once', 0);
        CREATE RULE hourly ON EVERY '1 hour' WHEN SELECT item FROM stock WHERE quantity < 100
            DO INSERT INTO log SELECT 'hourly', item FROM condition;
        ACTIVATE RULE once; ACTIVATE RULE hourly""")
    assert db.run_due() == 0
    clock.pass_(minutes=61)
    assert db.run_due() == 1 and db.run_due() == 0
    clock.pass_(hours=3)  # hours that were missed are made up for once
    assert db.run_due() == 1
    assert log(db) == [("hourly", 1)] * 2
    clock.pass_(hours=10)
    db.run_due()
    assert log(db) == [("hourly", 1)] * 3 + [("once", 0)]
    db.execute("DEACTIVATE RULE hourly")
    clock.pass_(hours=10)
    assert db.run_due() == 0
    db.execute("ACTIVATE RULE hourly")
    clock.pass_(hours=1)
    assert db.run_due() == 1


def test_a_rule_may_wait_after_its_event(db: tm.Database, clock: Clock) -> None:
    db.execute("""
        CREATE RULE late ON AFTER '30 minutes' UPDATE OF quantity ON stock
            WHEN SELECT k.item FROM inserted i JOIN stock k ON k.item = i.item WHERE k.quantity < 100
            DO INSERT INTO log SELECT 'still low', item FROM condition;
        ACTIVATE RULE late""")
    db.execute("UPDATE stock SET quantity = 4 WHERE item = 1; UPDATE stock SET quantity = 6 WHERE item = 2")
    clock.pass_(minutes=10)
    db.execute("UPDATE stock SET quantity = 600 WHERE item = 2")
    assert db.run_due() == 0
    clock.pass_(minutes=21)
    assert db.run_due() == 2
    assert log(db) == [("still low", 1)]


def test_an_independent_condition_is_asked_even_after_a_rollback(db: tm.Database) -> None:
    db.execute("""
        CREATE RULE tried ON UPDATE ON stock WHEN SELECT new_item, new_quantity FROM updated WHERE new_quantity < 0
            DO INSERT INTO log SELECT 'tried', new_item FROM condition WITH (coupling = 'detached_independent');
        CREATE RULE dependent ON UPDATE ON stock DO INSERT INTO log VALUES ('dependent', 0)
            WITH (coupling = 'detached');
        ACTIVATE RULE tried; ACTIVATE RULE dependent;
        CREATE ASSERTION positive CHECK (NOT EXISTS (SELECT item FROM stock WHERE quantity < 0))""")
    db.execute("BEGIN; UPDATE stock SET quantity = -1 WHERE item = 1; ROLLBACK")
    assert log(db) == [("tried", 1)]
    with pytest.raises(tm.TidemarkError, match="positive"):
        db.execute("UPDATE stock SET quantity = -2 WHERE item = 2")
    assert log(db) == [("tried", 1), ("tried", 2)]
    db.execute("UPDATE stock SET quantity = 3 WHERE item = 2")
    assert log(db)[0] == ("dependent", 0)


@pytest.mark.parametrize(
    "events",
    [
        "EVERY '1 month'",
        "AT 'noon'",
        "AFTER '1 day' EVERY '1 day'",
        "AT '2030-01-01' THEN EVERY '1 day'",
        "EVERY 'now and then'",
        "TRUNCATE ON stock",
    ],
)
def test_events_that_cannot_be_are_refused(db: tm.Database, events: str) -> None:
    with pytest.raises(tm.TidemarkError):
        db.execute(f"CREATE RULE r ON {events} DO NOTIFY x")


@pytest.mark.parametrize("coupling", ["immediate", "deferred"])
def test_a_sequence_fires_when_its_second_event_comes_after_its_first(db: tm.Database, coupling: str) -> None:
    db.execute(f"""
        CREATE RULE bounce ON DELETE ON stock THEN INSERT ON stock
            WHEN SELECT d.item FROM deleted d JOIN inserted i ON i.item = d.item
            DO INSERT INTO log SELECT 'came back', item FROM condition WITH (coupling = '{coupling}');
        ACTIVATE RULE bounce""")
    db.execute("INSERT INTO stock VALUES (3, 3)")
    db.execute("DELETE FROM stock WHERE item = 3")
    assert log(db) == []
    db.execute("INSERT INTO stock VALUES (3, 4)")
    assert log(db) == [("came back", 3)]
    db.execute("DELETE FROM stock WHERE item = 3; DELETE FROM stock WHERE item = 2; INSERT INTO stock VALUES (3, 4)")
    assert len(log(db)) == 1  # the latest deletion counts, and that was of item 2


def test_a_closure_collects_events_until_its_end(db: tm.Database) -> None:
    db.execute("""
        CREATE RULE day ON ANY INSERT ON stock UNTIL SIGNAL evening
            WHEN SELECT item FROM inserted DO INSERT INTO log SELECT 'today', item FROM condition;
        ACTIVATE RULE day""")
    db.signal("evening")
    assert log(db) == []
    for item in (3, 4):
        db.execute(f"INSERT INTO stock VALUES ({item}, 1)")
    db.execute("BEGIN; INSERT INTO stock VALUES (9, 1); ROLLBACK")
    db.signal("evening")
    assert log(db) == [("today", 3), ("today", 4)]
    db.signal("evening")
    assert len(log(db)) == 2
    assert db.execute("SHOW RULES")["events"].to_pylist() == ["ANY INSERT ON stock UNTIL SIGNAL evening"]  # type: ignore[index]


def test_each_timer_goes_on_as_its_own_event_says(db: tm.Database, clock: Clock) -> None:
    db.execute("""
        CREATE RULE r ON AT '2030-01-01 00:30' OR EVERY '1 hour' OR EVERY '2 hours' DO INSERT INTO log VALUES ('r', 0);
        ACTIVATE RULE r""")
    done = []
    for _ in range(8):
        clock.pass_(minutes=30)
        done.append(db.run_due())
    assert done == [1, 1, 0, 2, 0, 1, 0, 2]


def test_timers_delays_and_beginnings_end_with_what_is_watched(db: tm.Database, clock: Clock) -> None:
    create = """
        CREATE RULE hourly ON EVERY '1 hour' DO INSERT INTO log VALUES ('hourly', 0);
        CREATE RULE late ON AFTER '1 hour' INSERT ON stock DO INSERT INTO log VALUES ('late', 0);
        CREATE RULE seq ON INSERT ON stock THEN SIGNAL s DO INSERT INTO log VALUES ('seq', 0);
        ACTIVATE RULE hourly; ACTIVATE RULE late; ACTIVATE RULE seq"""
    db.execute(create + "; INSERT INTO stock VALUES (3, 3); DROP RULE hourly; DROP RULE late; DROP RULE seq")
    db.execute(create)
    db.signal("s")
    clock.pass_(hours=1)
    assert db.run_due() == 1 and log(db) == [("hourly", 0)]
    with db.transaction() as tx:
        for _ in range(2):
            tx.execute("INSERT INTO stock VALUES (4, 4); DELETE FROM stock WHERE item = 4")
            for name in ("hourly", "late", "seq"):
                tx.execute(f"DEACTIVATE RULE {name}; ACTIVATE RULE {name}")
    db.execute("BEGIN; INSERT INTO stock VALUES (5, 5); DEACTIVATE RULE seq; DEACTIVATE RULE late; COMMIT")
    db.execute("ACTIVATE RULE seq; ACTIVATE RULE late")
    db.signal("s")
    clock.pass_(hours=1)
    assert db.run_due() == 1 and log(db) == [("hourly", 0)] * 2


@pytest.mark.parametrize("payload", [{"at": dt.datetime(2030, 1, 1)}, b"x", {1, 2}, float("nan"), object()])
def test_payloads_that_are_no_json_are_refused(db: tm.Database, payload: object) -> None:
    db.execute("CREATE RULE r ON SIGNAL s DO INSERT INTO log VALUES ('s', 0); ACTIVATE RULE r")
    with pytest.raises(tm.TidemarkError, match="payload"):
        db.signal("s", payload)
    with pytest.raises(tm.TidemarkError, match="name is a text"):
        db.signal(payload)  # type: ignore[arg-type]
    with pytest.raises(tm.TidemarkError, match="a function"):
        db.register("f", payload)  # type: ignore[arg-type]
    with pytest.raises(tm.TidemarkError, match="a function"):
        db.listen("c", payload)  # type: ignore[arg-type]
    with pytest.raises(tm.TidemarkError, match="version"):
        db.firings(since=payload)  # type: ignore[arg-type]
    assert log(db) == []


def test_times_may_begin_and_end_sequences_and_closures(db: tm.Database, clock: Clock) -> None:
    db.execute("""
        CREATE RULE digest ON ANY INSERT ON stock UNTIL EVERY '1 day' WHEN SELECT item FROM inserted
            DO INSERT INTO log SELECT 'digest', item FROM condition;
        CREATE RULE morning ON AT '2030-01-01 18:00' THEN INSERT ON stock WHEN SELECT item FROM inserted
            DO INSERT INTO log SELECT 'late', item FROM condition;
        ACTIVATE RULE digest; ACTIVATE RULE morning""")
    db.execute("INSERT INTO stock VALUES (3, 3); INSERT INTO stock VALUES (4, 4)")
    clock.pass_(hours=20)
    assert db.run_due() == 1 and log(db) == []
    db.execute("INSERT INTO stock VALUES (5, 5); INSERT INTO stock VALUES (6, 6)")
    assert log(db) == [("late", 5)]
    clock.pass_(hours=20)
    assert db.run_due() == 1
    assert log(db) == [("digest", 3), ("digest", 4), ("digest", 5), ("digest", 6), ("late", 5)]
    clock.pass_(hours=24)
    db.run_due()
    assert len(log(db)) == 5


def test_a_rule_may_wait_after_a_signal(db: tm.Database, clock: Clock) -> None:
    db.execute("""
        CREATE RULE late ON AFTER '1 hour' SIGNAL s WHEN SELECT s.payload, k.item FROM signal s, stock k
            WHERE k.quantity < 100 DO INSERT INTO log SELECT payload, item FROM condition;
        ACTIVATE RULE late""")
    db.signal("s", "now")
    assert db.run_due() == 0
    clock.pass_(hours=1)
    assert db.run_due() == 1 and log(db) == [("now", 1)]


def test_an_event_does_not_come_after_itself(db: tm.Database) -> None:
    db.execute("""
        CREATE RULE pair ON INSERT ON stock THEN INSERT ON stock WHEN SELECT item FROM inserted
            DO INSERT INTO log SELECT 'pair', item FROM condition;
        CREATE RULE twice ON SIGNAL s THEN SIGNAL s WHEN SELECT payload FROM signal
            DO INSERT INTO log SELECT payload, 0 FROM condition;
        ACTIVATE RULE pair; ACTIVATE RULE twice""")
    db.execute("INSERT INTO stock VALUES (3, 3)")
    db.signal("s", "a")
    assert log(db) == []
    db.execute("INSERT INTO stock VALUES (4, 4)")
    db.signal("s", "b")
    assert log(db) == [("a", 0), ("b", 0), ("pair", 3), ("pair", 4)]
    db.execute("INSERT INTO stock VALUES (5, 5)")
    assert log(db)[-2:] == [("pair", 4), ("pair", 5)] and len(log(db)) == 6


def test_immediate_rules_see_time_pass_and_views_redefined(db: tm.Database, clock: Clock) -> None:
    db.execute("""
        CREATE TABLE bill (id INT PRIMARY KEY, due TIMESTAMP);
        CREATE MATERIALIZED VIEW few AS SELECT item FROM stock WHERE quantity < 10;
        CREATE RULE late WHEN SELECT id FROM bill WHERE due < NOW() DO INSERT INTO log SELECT 'late', id FROM condition
            WITH (coupling = 'immediate');
        CREATE RULE few WHEN SELECT item FROM few DO INSERT INTO log SELECT 'few', item FROM condition
            WITH (coupling = 'immediate');
        ACTIVATE RULE late; ACTIVATE RULE few; INSERT INTO bill VALUES (1, TIMESTAMP '2030-01-02 00:00')""")
    assert log(db) == []
    clock.pass_(days=2)
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW few AS SELECT item FROM stock WHERE quantity < 1000")
    assert log(db) == [("few", 2), ("late", 1)]
    clock.pass_(days=2)
    db.tick()
    assert len(log(db)) == 2


@pytest.mark.parametrize("watched", ["ON INSERT ON _firings", "WHEN SELECT rule FROM _firings"])
def test_rules_watch_what_rules_did_at_the_end_of_transactions(db: tm.Database, watched: str) -> None:
    db.execute("CREATE RULE first ON INSERT ON stock DO INSERT INTO log VALUES ('first', 0); ACTIVATE RULE first")
    db.execute(f"CREATE RULE then {watched} DO INSERT INTO log VALUES ('then', 0); DROP RULE then")
    with pytest.raises(tm.TidemarkError, match="at the end of"):
        db.execute(f"CREATE RULE then {watched} DO NOTIFY x WITH (coupling = 'immediate')")


def test_a_closure_grows_by_what_each_transaction_adds(db: tm.Database) -> None:
    db.execute("""
        CREATE RULE day ON ANY INSERT ON stock UNTIL SIGNAL evening WHEN SELECT item FROM inserted
            DO INSERT INTO log SELECT 'day', item FROM condition;
        ACTIVATE RULE day""")
    sizes = []
    for item in range(10, 30):
        db.execute(f"INSERT INTO stock VALUES ({item}, 0)")
        added = db.changes("_detached", since=db.version - 1)
        assert added["_weight"].to_pylist() == [1]
        sizes.append(len(added["payload"][0].as_py()))
    assert max(sizes) == min(sizes)
    with db.transaction() as tx:
        tx.execute("INSERT INTO stock VALUES (30, 0)")
        tx.execute("DEACTIVATE RULE day; ACTIVATE RULE day; INSERT INTO stock VALUES (31, 0)")
    db.execute("INSERT INTO stock VALUES (32, 0)")
    db.signal("evening")
    assert log(db) == [("day", 31), ("day", 32)]
    assert db.query("SELECT * FROM _detached").num_rows == 0
