"""The commit as a tuple of phases: their order, what is kept between them, and who hears of a commit."""

from __future__ import annotations

import gc
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import tidemark as tm
from tidemark.changes.consumers import Consumers
from tidemark.changes.results import Delivery
from tidemark.changes.retention import LogKeeper
from tidemark.rules.coupling import Reactions
from tidemark.rules.queue import Aftermath
from tidemark.session.commit import INSTALL, PREPARE
from tidemark.snapshots.refresh import Continual
from tidemark.snapshots.scheduler import Scheduler
from tidemark.state.events import Committed, Ended, Events, Settled
from tidemark.state.state import Store

NOT_DEFINED = (Aftermath, Reactions, Continual, Scheduler, Consumers, Delivery, LogKeeper)
"""What serves rules, relations that lag, and those who follow the log."""
UPDATE = "UPDATE t SET b = b + 1 WHERE a = 1"


@pytest.fixture
def db() -> Iterator[tm.Database]:
    with tm.connect("duckdb") as database:
        _define(database)
        yield database


def _define(database: tm.Database) -> None:
    database.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT CHECK (b > 0)); INSERT INTO t VALUES (1, 1), (2, 2)")
    database.execute("CREATE TABLE aside (a INT)")
    database.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(b) AS s FROM t")


@contextmanager
def phases(database: tm.Database) -> Iterator[list[str]]:
    """The names of the phases that run meanwhile."""
    found: list[str] = []

    @contextmanager
    def observe(phase: str) -> Iterator[None]:
        found.append(phase)
        yield

    database._store.observers.append(observe)
    yield found
    database._store.observers.remove(observe)


def files_run(action: Callable[[], object]) -> set[str]:
    """The files of which something was called."""
    found: set[str] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found


def propagations(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []
    whole = Store.propagate

    def counted(self: Store, *arguments: object, **named: object) -> object:
        found.append(arguments)
        return whole(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "propagate", counted)
    return found


def test_each_phase_runs_once_and_in_order(db: tm.Database) -> None:
    with phases(db) as found:
        db.execute(UPDATE)
    assert found == [phase.__name__ for phase in (*PREPARE, *INSTALL)]


def test_what_is_refused_installs_nothing(db: tm.Database) -> None:
    with phases(db) as found, pytest.raises(tm.TidemarkError, match="violates CHECK"):
        db.execute("UPDATE t SET b = -1")
    assert found == ["advance_clock", "run_rules", "check_constraints"]


def test_a_transaction_that_does_nothing_has_no_phase(db: tm.Database) -> None:
    with phases(db) as found, db.transaction():
        pass
    assert found == []


def test_what_nobody_has_defined_does_not_run(db: tm.Database) -> None:
    db.execute(UPDATE)
    ran = files_run(lambda: db.execute(UPDATE))
    assert inspect.getsourcefile(Store) in ran
    assert not ran & {inspect.getsourcefile(kind) for kind in NOT_DEFINED}


def test_what_is_defined_in_a_transaction_runs_from_its_commit_on(db: tm.Database) -> None:
    db.execute("BEGIN; CREATE CONTINUAL QUERY q AS SELECT sum(b) AS s FROM t TRIGGER ON CHANGE; COMMIT")
    assert inspect.getsourcefile(Continual) in files_run(lambda: db.execute(UPDATE))
    assert db.query("SELECT * FROM q").to_pylist() == [{"s": 4}]
    db.execute("DROP CONTINUAL QUERY q")
    assert inspect.getsourcefile(Continual) not in files_run(lambda: db.execute(UPDATE))


def test_what_was_defined_before_runs_when_the_database_is_opened_again(tmp_path: Path) -> None:
    with tm.connect(f"duckdb:{tmp_path / 'a.duckdb'}") as database:
        _define(database)
        database.execute("CREATE RULE r ON UPDATE ON t DO INSERT INTO aside VALUES (1)")
        database.execute("ACTIVATE RULE r")
    with tm.connect(f"duckdb:{tmp_path / 'a.duckdb'}") as database:
        ran = files_run(lambda: database.execute(UPDATE))
        assert {inspect.getsourcefile(Reactions), inspect.getsourcefile(Aftermath)} <= ran
        assert database.query("SELECT * FROM aside").num_rows == 1


def test_what_was_derived_for_a_read_is_kept_by_the_commit(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with db.transaction() as transaction:
        transaction.execute(UPDATE)
        found = propagations(monkeypatch)
        assert transaction.query("SELECT * FROM v").to_pylist() == [{"s": 4}]
        transaction.insert("aside", [(1,)])  # which no view reads
    assert len(found) == 1
    assert db.query("SELECT * FROM aside").num_rows == 1
    assert db.changes("aside").num_rows == 1


def test_what_was_derived_before_another_change_is_derived_anew(
    db: tm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with db.transaction() as transaction:
        transaction.execute(UPDATE)
        found = propagations(monkeypatch)
        transaction.query("SELECT * FROM v")
        transaction.execute(UPDATE)
    assert len(found) == 2
    assert db.query("SELECT * FROM v").to_pylist() == [{"s": 5}]


def test_a_constraint_that_was_violated_for_a_while_is_checked_again(db: tm.Database) -> None:
    with db.transaction() as transaction:
        transaction.execute("UPDATE t SET b = -1 WHERE a = 1")
        assert transaction.query("SELECT * FROM v").to_pylist() == [{"s": 1}]
        transaction.execute("UPDATE t SET b = 3 WHERE a = 1")
    assert db.query("SELECT * FROM v").to_pylist() == [{"s": 5}]
    with pytest.raises(tm.TidemarkError, match="violates CHECK"), db.transaction() as transaction:
        transaction.query("SELECT * FROM v")
        transaction.execute("UPDATE t SET b = -1 WHERE a = 1")
        transaction.query("SELECT * FROM v")


def test_a_handler_that_fails_fails_no_commit(db: tm.Database, caplog: pytest.LogCaptureFixture) -> None:
    settled: list[Settled] = []

    def fail(event: Committed) -> None:
        raise RuntimeError("a fault of the handler")

    db._store.events.on(Committed, fail)
    db._store.events.on(Settled, lambda event: settled.append(event))
    version = db.version
    with caplog.at_level(logging.WARNING):
        db.execute(UPDATE)
    assert db.version == version + 1 and [one.version for one in settled] == [version + 1]
    assert "what follows it was made up for" in caplog.text
    assert db.query("SELECT * FROM v").to_pylist() == [{"s": 4}]


def test_what_a_handler_asks_for_is_done_when_the_commit_is_over(db: tm.Database) -> None:
    def hear(event: Committed) -> Callable[[], object] | None:
        if "t" not in event.pending:
            return None
        return lambda: seen.append(db.query("SELECT * FROM v").to_pylist())

    seen: list[object] = []
    db._store.events.on(Committed, hear)
    db.execute(UPDATE)
    assert seen == [[{"s": 4}]]


class TestEvents:
    def test_handlers_hear_in_order_of_what_concerns_them(self) -> None:
        events, heard = Events(), list[str]()
        events.on(Ended, lambda event: heard.append("first"))
        events.on(Ended, lambda event: heard.append("never"), when=lambda event: event.transaction is None)
        events.on(Ended, lambda event: lambda: heard.append("afterwards"))
        events.on(Settled, lambda event: heard.append("of another kind"))
        actions = events.tell(Ended("a transaction"))
        assert heard == ["first"]
        for action in actions:
            action()
        assert heard == ["first", "afterwards"]

    def test_hearers_are_forgotten_with_who_holds_them(self) -> None:
        class Hearer:
            def hear(self, event: object) -> None:
                heard.append(event)

        events, heard = Events(), list[object]()
        hearer = Hearer()
        events.hearers.add(hearer)
        events.tell(Settled(1, is_outermost=True))
        del hearer
        gc.collect()
        events.tell(Settled(2, is_outermost=True))
        assert heard == [Settled(1, is_outermost=True)]
