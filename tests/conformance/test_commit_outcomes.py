"""What is told of a commit in which something fails that no engine foresees: before the commit point, after it, or when
nobody can know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)
SETUP = """
CREATE TABLE t (a INT PRIMARY KEY);
CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t;
INSERT INTO t VALUES (1);
"""
FAILURES = [KeyboardInterrupt, MemoryError, RuntimeError]


class Unreadable(OSError):
    """The storage cannot be read."""


@pytest.fixture
def filled(db: tm.Database) -> tm.Database:
    db.execute(SETUP)
    return db


@contextmanager
def committing(db: tm.Database, commit: Callable[[Callable[[Any], None], Any], None]) -> Iterator[None]:
    """Let a function stand in for the engine's commit; it gets that, too."""
    engine: Any = db._store.engine
    engine.commit = lambda given, real=engine.commit: commit(real, given)
    try:
        yield
    finally:
        del engine.commit


@contextmanager
def unreadable(db: tm.Database) -> Iterator[None]:
    def load() -> None:
        raise Unreadable("no such device")

    engine: Any = db._store.engine
    engine.load = load
    try:
        yield
    finally:
        del engine.load


def content(db: tm.Database) -> tuple[int, list[int], int]:
    found = sorted(row["a"] for row in db.query("SELECT a FROM t").to_pylist())
    return db.version, found, db.query("SELECT n FROM v").to_pylist()[0]["n"]


@pytest.mark.parametrize("failure", FAILURES)
def test_before_the_commit_point_nothing_happens(filled: tm.Database, failure: type[BaseException]) -> None:
    def fail(real: Callable[[Any], None], commit: Any) -> None:
        raise failure("before")

    with committing(filled, fail), pytest.raises(BaseException, match="before"):
        filled.execute("INSERT INTO t VALUES (2)")
    assert content(filled) == (3, [1], 1)
    filled.execute("INSERT INTO t VALUES (2)")
    assert content(filled) == (4, [1, 2], 2)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("statement", ["INSERT INTO t VALUES (2)", "CREATE TABLE u (b INT)", "DROP VIEW w"])
def test_after_the_commit_point_everything_is_done(
    filled: tm.Database, failure: type[BaseException], statement: str
) -> None:
    """Only an interrupt is told: all else has failed nobody."""
    filled.execute("CREATE VIEW w AS SELECT a FROM t")
    heard: list[int] = []

    def fail(real: Callable[[Any], None], commit: Any) -> None:
        real(commit)
        raise failure("after")

    with filled.subscribe("t", since=filled.version) as changes:
        with committing(filled, fail):
            if issubclass(failure, Exception):
                filled.execute(statement)
            else:
                with pytest.raises(failure, match="after"):
                    filled.execute(statement)
        assert filled.version == 5
        filled.execute("INSERT INTO t VALUES (3)")
        assert filled.version == 6
        while (change := changes.poll()) is not None:
            heard += [row["a"] for row in change.inserted.to_pylist()]
    assert heard == ([2, 3] if statement.startswith("INSERT") else [3])


@pytest.mark.parametrize("is_stored", [True, False])
def test_an_outcome_that_cannot_be_known_is_told_so(filled: tm.Database, is_stored: bool) -> None:
    def fail(real: Callable[[Any], None], commit: Any) -> None:
        if is_stored:
            real(commit)
        raise KeyboardInterrupt

    with unreadable(filled):
        with committing(filled, fail), pytest.raises(tm.TidemarkError) as caught:
            filled.execute("INSERT INTO t VALUES (2)")
        assert caught.value.code == "commit_unknown"
        assert caught.value.hint is not None
        assert "db.version" in caught.value.hint
        with pytest.raises(tm.TidemarkError) as again:
            filled.query("SELECT a FROM t")
        assert again.value.code == "commit_unknown"
        with pytest.raises(tm.TidemarkError):
            assert filled.version
    assert content(filled) == ((4, [1, 2], 2) if is_stored else (3, [1], 1))
    filled.execute("INSERT INTO t VALUES (3)")
    assert filled.version == (5 if is_stored else 4)


def test_an_engine_that_cannot_tell_is_not_believed(filled: tm.Database) -> None:
    def fail(real: Callable[[Any], None], commit: Any) -> None:
        raise tm.TidemarkError("commit_unknown", "the disk said something") from OSError("disk full")

    with committing(filled, fail), pytest.raises(tm.TidemarkError, match="disk full") as caught:
        filled.execute("INSERT INTO t VALUES (2)")
    assert caught.value.code == "storage_failed"
    assert content(filled) == (3, [1], 1)


def test_the_rows_of_a_transaction_that_is_open_survive_a_failure_beside_it(filled: tm.Database) -> None:
    """Memory is read again in the midst of it; its catalog and its pending changes are as good as before."""
    engine: Any = filled._store.engine

    def fail(*_: Any) -> None:
        raise MemoryError("beside")

    with filled.transaction() as tx:
        tx.insert("t", [(2,)])
        engine.fetch = fail
        with pytest.raises(BaseException, match="beside"):
            filled.query("SELECT a FROM t")
        del engine.fetch
        tx.insert("t", [(3,)])
    assert content(filled) == (4, [1, 2, 3], 3)


def test_a_transaction_that_nobody_holds_is_not_open(filled: tm.Database) -> None:
    """As one that an interrupt has left behind before anybody had it."""
    filled.transaction()
    filled.execute("INSERT INTO t VALUES (2)")
    assert content(filled) == (4, [1, 2], 2)


def test_notes_that_were_interrupted_are_read_again(filled: tm.Database) -> None:
    engine: Any = filled._store.engine
    real = engine.forget

    def fail(*given: Any) -> None:
        real(*given)
        raise KeyboardInterrupt

    engine.forget = fail
    with pytest.raises(KeyboardInterrupt):
        filled.subscribe("t", since=0, name="reader")
    del engine.forget
    assert [name for name, *_ in rows(filled.execute("SHOW CONSUMERS"))] == ["reader"]
