"""Interrupts around the append that is a lake's commit point: files that a committed record names stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
import tidemark.storage.store as store
from tests.support import check_invariant
from tidemark.engines.spark import SparkEngine
from tidemark.storage.disk import write_new

pytestmark = pytest.mark.spark

FEW = {"inline_rows": 4}
MANY = [(number, number % 3) for number in range(20)]


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Callable[[], tm.Database]:
    return lambda: tm.Database(SparkEngine(str(tmp_path / "lake"), spark, **FEW))


@contextmanager
def appending(monkeypatch: pytest.MonkeyPatch, before: bool, failure: BaseException) -> Iterator[None]:
    """Let the next append of a record fail, before or after it is there."""
    failures = [failure]

    def write(path: Path, data: bytes, *, is_synced: bool) -> None:
        is_entry = path.suffix == ".json"
        if is_entry and before and failures:
            raise failures.pop()
        write_new(path, data, is_synced=is_synced)
        if is_entry and failures:
            raise failures.pop()

    with monkeypatch.context() as patched:
        patched.setattr(store, "write_new", write)
        yield


def checked(db: tm.Database, version: int, rows: int) -> None:
    assert db.version == version
    assert db.query("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": rows}]
    check_invariant(db)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("failure", [KeyboardInterrupt(), MemoryError(), OSError("no room")], ids=repr)
def test_a_commit_with_staged_files(
    lake: Callable[[], tm.Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: bool,
    failure: BaseException,
) -> None:
    db = lake()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, g INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
    with appending(monkeypatch, before, failure):
        if before or isinstance(failure, KeyboardInterrupt):
            with pytest.raises((KeyboardInterrupt, MemoryError, tm.TidemarkError)):
                db.insert("t", MANY)
        else:
            db.insert("t", MANY)
    version, rows = (2, 0) if before else (3, len(MANY))
    checked(db, version, rows)
    there = sorted(tmp_path.rglob("tables/t/part-*.parquet"))
    assert len(there) == (0 if before else 1), "files stay if a record names them, and go if none does"
    db.insert("t", [(100, 1)])
    db.insert("t", [(number + 200, 1) for number, _ in MANY])
    checked(db, version + 2, rows + 21)
    db.close()
    with lake() as again:
        checked(again, version + 2, rows + 21)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("failure", [KeyboardInterrupt(), MemoryError()], ids=repr)
def test_a_merge(
    lake: Callable[[], tm.Database], monkeypatch: pytest.MonkeyPatch, before: bool, failure: BaseException
) -> None:
    """A merge whose record is there, though its call failed, is not made again over what it made."""
    db = lake()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, g INT)")
    db.insert("t", MANY)
    db.execute("DELETE FROM t WHERE k < 3")
    engine: Any = db._store.engine
    with appending(monkeypatch, before, failure), pytest.raises(type(failure)), db._store.lock:
        engine.merge("t")
    checked(db, 3, 17)
    engine.merge("t")
    db.insert("t", [(100, 1)])
    checked(db, 4, 18)
    db.close()
    with lake() as again:
        checked(again, 4, 18)
