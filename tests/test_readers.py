"""Readers beside a writer, and a writer that loses its place: in one process, and in several (``tests/sharing.py``)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.effort import IS_QUICK
from tests.sharing import Sharing
from tests.sharing_worker import SMALL
from tests.support import rows
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.backup import check_lake
from tidemark.engines.spark.delta_log import read_append
from tidemark.engines.spark.reader import LakeReader
from tidemark.session.database import Database
from tidemark.session.reading import ReadOnlyDatabase
from tidemark.storage.publishing import Rhythm

Opened = tuple[tm.Database, tm.Database]


def writer(folder: Path, **options: Any) -> Database:
    return Database(SparkEngine(folder / "lake", **{"in_process_rows": 10**12, **options}))


def reader(folder: Path) -> ReadOnlyDatabase:
    return ReadOnlyDatabase(LakeReader(folder / "lake", in_process_rows=10**12))


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Opened]:
    with writer(tmp_path) as db:
        db.execute(
            """CREATE TABLE t (a INT PRIMARY KEY, b INT);
            CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
            INSERT INTO t VALUES (1, 1), (2, 1)"""
        )
        with reader(tmp_path) as other:
            yield db, other


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(tm.TidemarkError) as caught:
        action()
    return caught.value.code


def listed(folder: Path) -> list[tuple[str, int, int]]:
    """All that lies below a folder, with what would change if it was written."""
    found = ((path, path.stat()) for path in folder.rglob("*") if path.is_file())
    return sorted((str(path), about.st_mtime_ns, about.st_size) for path, about in found)


@pytest.mark.spark
def test_a_reader_sees_each_version_and_writes_nothing(both: Opened, tmp_path: Path) -> None:
    db, other = both
    before = listed(tmp_path)
    assert rows(other.query("SELECT * FROM v")) == [(1, 2)]
    following = other.subscribe("v", since=other.version)
    assert other.explain("v") and other.audit("v").num_rows == 0
    assert rows(other.query("SELECT a FROM t AS OF VERSION 2")) == []
    for word in ("TABLES", "VIEWS", "VERSIONS", "LOG", "CONSUMERS", "PUBLICATIONS", "MEMORY", "RULES"):
        assert other.execute(f"SHOW {word}") is not None
    assert listed(tmp_path) == before
    db.execute("INSERT INTO t VALUES (3, 2)")
    assert rows(other.query("SELECT * FROM v")) == [(1, 2), (2, 1)]
    assert other.version == db.version and other.trace(other.version).equals(db.trace(db.version))
    change = following.poll(0)
    assert change is not None and (change.version, rows(change.inserted)) == (db.version, [(2, 1)])
    assert rows(other.changes("t")) == rows(db.changes("t"))
    db.execute("CREATE TABLE u (x INT); INSERT INTO u VALUES (7); ALTER TABLE u ADD COLUMN y INT DEFAULT 1")
    assert rows(other.query("SELECT * FROM u")) == [(7, 1)]
    db.execute("INSERT INTO t VALUES (4, 2)")
    change = following.poll(0)
    assert change is not None and rows(change.deleted) == [(2, 1)]


@pytest.mark.spark
def test_a_transaction_of_a_reader_stays_at_its_version(both: Opened) -> None:
    db, other = both
    with other.transaction() as first:
        db.execute("INSERT INTO t VALUES (3, 2)")
        with other.transaction() as second:
            assert rows(first.query("SELECT COUNT(*) FROM t")) == [(2,)]
            assert rows(second.query("SELECT COUNT(*) FROM t")) == [(3,)]
        other.execute("BEGIN")
        db.execute("DELETE FROM t")
        assert rows(other.execute("SELECT COUNT(*) FROM t")) == [(3,)]
        other.execute("COMMIT")
        assert rows(other.query("SELECT COUNT(*) FROM t")) == [(0,)]
    other.transaction()
    other.close()  # does not wait for what is open


WRITING: dict[str, Callable[[tm.Database], object]] = {
    **{
        sql: lambda db, sql=sql: db.execute(sql)  # type: ignore[misc]
        for sql in (
            "INSERT INTO t VALUES (9, 9)",
            "UPDATE t SET b = 2",
            "DELETE FROM t WHERE FALSE",
            "CREATE TABLE z (a INT)",
            "DROP TABLE t",
            "ALTER TABLE t ADD COLUMN c INT",
            "CREATE VIEW w AS SELECT 1 AS one",
            "ALTER LOG SET (versions = 3)",
            "CHECKPOINT",
            "PUBLISH",
            "REFRESH v",
            "EXPLAIN ANALYZE INSERT INTO t VALUES (9, 9)",
            "BEGIN; INSERT INTO t VALUES (9, 9)",
        )
    },
    "insert": lambda db: db.insert("t", [(9, 9)]),
    "delete": lambda db: db.delete("t", [(1, 1)]),
    "sync": lambda db: db.sync("t", [(9, 9)]),
    "executemany": lambda db: db.executemany("INSERT INTO t VALUES (?, ?)", [(9, 9)]),
    "in a transaction": lambda db: db.transaction().insert("t", [(9, 9)]),
    "a subscriber with a name": lambda db: db.subscribe("v", name="ledger"),
    "pull": lambda db: db.pull(),
    "run_due": lambda db: db.run_due(),
    "signal": lambda db: db.signal("s"),
    "tick": lambda db: db.tick(),
    "checkpoint": lambda db: db.checkpoint(),
}


@pytest.mark.spark
def test_whatever_would_change_a_lake_is_refused(both: Opened, tmp_path: Path) -> None:
    _, other = both
    before = listed(tmp_path)
    for what, action in WRITING.items():
        with pytest.raises(tm.TidemarkError) as caught:
            action(other)
        assert caught.value.code == "read_only", what
        if what.startswith("BEGIN"):
            other.execute("ROLLBACK")
    assert listed(tmp_path) == before


@pytest.mark.parametrize("what", WRITING)
def test_whatever_would_change_a_file_is_refused(what: str, tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path}/x.duckdb"
    with tm.connect(target) as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    with tm.connect(target, read_only=True) as db:
        assert code_of(lambda: WRITING[what](db)) in ("read_only", "unsupported")


@pytest.mark.spark
def test_a_version_whose_files_were_replaced_is_read_from_what_is_there(tmp_path: Path) -> None:
    with writer(tmp_path, **SMALL) as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE b > 3")
        for n in range(0, 100, 10):
            db.insert("t", [(n + i, i) for i in range(10)])
        with reader(tmp_path) as other, other.transaction() as tx:
            before = rows(tx.query("SELECT * FROM v")), other.changes("t").num_rows
            for n in range(40):
                db.execute(f"DELETE FROM t WHERE a = {2 * n}; UPDATE t SET b = 9 WHERE a = {2 * n + 1}")
                db.execute(f"INSERT INTO t VALUES ({1000 + n}, {n})")
            db.checkpoint()
            db._store.engine._sweep(db._store.engine._transactions.rows())  # type: ignore[attr-defined]
            assert tx.store.engine._lost()  # type: ignore[attr-defined]
            assert rows(tx.query("SELECT * FROM v")) == before[0]
            assert rows(tx.query("SELECT COUNT(*), SUM(b) FROM t")) == [(100, 450)]
            assert rows(other.query("SELECT * FROM v")) == rows(db.query("SELECT * FROM v"))


@pytest.mark.spark
def test_a_reader_that_was_away_for_long_goes_on(tmp_path: Path) -> None:
    with writer(tmp_path, **SMALL) as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        with reader(tmp_path) as other:
            following = other.subscribe("v")
            for n in range(60):
                db.insert("t", [(n,)])
            db.execute("CREATE VIEW w AS SELECT n + 1 AS n FROM v")
            found = [change.version for change in iter(lambda: following.poll(0), None)]
            assert len(found) == 61
            assert rows(other.query("SELECT * FROM w")) == [(61,)]
            assert other.version == db.version


@pytest.mark.spark
@pytest.mark.parametrize("data", [b"", b'{"add":', b'{"commitInfo":{}}\n'])
def test_an_entry_that_never_came_to_be_is_not_followed(data: bytes, both: Opened, tmp_path: Path) -> None:
    db, other = both
    held = rows(other.query("SELECT * FROM t"))
    log = tmp_path / "lake" / "_tidemark" / "transactions" / "_delta_log"
    torn = log / f"{1 + max(int(path.stem) for path in log.glob('*.json') if path.stem.isdigit()):020d}.json"
    torn.write_bytes(data)
    assert rows(other.query("SELECT * FROM t")) == held
    with reader(tmp_path) as another:
        assert rows(another.query("SELECT * FROM t")) == held
    torn.unlink()
    db.execute("INSERT INTO t VALUES (3, 3)")
    assert rows(other.query("SELECT COUNT(*) FROM t")) == [(3,)]


@pytest.mark.spark
def test_an_overtaken_writer_is_fenced_and_harms_nothing(tmp_path: Path) -> None:
    first = writer(tmp_path, **SMALL)
    first.execute("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1)")
    assert code_of(lambda: writer(tmp_path)) == "in_use"
    held = first.transaction()
    held.insert("t", [(2,)])
    with writer(tmp_path, takeover=True, **SMALL) as second:
        second.execute("INSERT INTO t VALUES (3)")
        assert code_of(held.commit) == "fenced"
        second.execute("DROP TABLE t; CREATE TABLE t (a INT); INSERT INTO t VALUES (4), (5)")
        before = listed(tmp_path)
        for action in (
            lambda: first.execute("INSERT INTO t VALUES (6)"),
            lambda: first.execute("DROP TABLE t"),
            first.checkpoint,
            first.publish,
            lambda: first.execute("CREATE TABLE other (a INT)"),
        ):
            assert code_of(action) == "fenced"
        first.close()
        assert listed(tmp_path) == before
        assert code_of(lambda: writer(tmp_path)) == "in_use"  # the lock tells of the successor
        second.execute("INSERT INTO t VALUES (7)")
        assert rows(second.query("SELECT * FROM t")) == [(4,), (5,), (7,)]
    with writer(tmp_path) as third:  # it was closed, so that nobody need be asked
        assert rows(third.query("SELECT * FROM t")) == [(4,), (5,), (7,)]
    assert not check_lake(str(tmp_path / "lake"), lambda name: None).damage


def overtaken_after_commit(first: tm.Database, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Database]:
    """Let the next transaction of a writer be its last: another one takes its place right after its commit point."""
    engine: Any = first._store.engine
    follow, found = engine._after_commit, list[Database]()

    def overtaken(*arguments: Any) -> None:
        if not found:
            found.append(writer(folder, takeover=True, publish=EACH))
            found[0].execute("INSERT INTO t (a, b) VALUES (100, 1)")
        follow(*arguments)

    monkeypatch.setattr(engine, "_after_commit", overtaken)
    return found


EACH = Rhythm(versions=1)
LAST = {
    "rows": "INSERT INTO t VALUES (2, 2)",
    "a table": "CREATE TABLE u (a INT)",
    "no table": "DROP TABLE x",
    "a view": "CREATE MATERIALIZED VIEW w AS SELECT a FROM t",
    "another view": "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a + 1 AS a FROM t",
    "a column": "ALTER TABLE t ADD COLUMN c INT",
}


@pytest.mark.spark
@pytest.mark.parametrize("publish", [EACH, Rhythm(seconds=1.0), Rhythm()], ids=["commit", "1s", "close"])
@pytest.mark.parametrize("last", LAST)
def test_what_was_committed_before_a_writer_was_overtaken_is_told_as_committed(
    last: str, publish: Rhythm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = writer(tmp_path, publish=publish)
    first.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE TABLE x (a INT)")
    first.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t; INSERT INTO t VALUES (1, 1)")
    before = first.version
    overtaking = overtaken_after_commit(first, tmp_path, monkeypatch)
    first.execute(LAST[last])
    (second,) = overtaking
    assert first.version == before + 1 and second.version == before + 2
    held = rows(first.query("SELECT * FROM t"))
    for _ in range(2):
        for action in (
            lambda: first.execute("INSERT INTO t (a, b) VALUES (3, 3)"),
            lambda: first.insert("t", [{name: 7 for name in first.table("t").columns}]),
            lambda: first.execute("CREATE TABLE z (a INT)"),
            lambda: first.execute("ALTER LOG SET (versions = 30)"),
            first.checkpoint,
            first.publish,
        ):
            assert code_of(action) == "fenced"
            assert rows(first.query("SELECT * FROM t")) == held
    assert first.audit("v").num_rows == 0 and first.changes("t").num_rows == len(held)
    first.close()
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text for text in told if "another writer has taken over" in text] == told and len(told) == 1
    assert not any(record.exc_info for record in caplog.records)
    with second:
        assert second.audit("v").num_rows == 0
        second.execute("INSERT INTO t (a, b) VALUES (8, 8)")
        assert second.changes("t").num_rows == len(held) + 2
    assert not check_lake(str(tmp_path / "lake"), lambda name: None).damage


@pytest.mark.spark
def test_a_writer_interrupted_and_overtaken_learns_what_it_has_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = writer(tmp_path)
    first.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    engine: Any = first._store.engine
    follow, overtaking = engine._transactions._sealed, list[Database]()

    def interrupted(*arguments: Any) -> None:
        follow(*arguments)
        if not overtaking:
            overtaking.append(writer(tmp_path, takeover=True, **SMALL))
            raise KeyboardInterrupt

    monkeypatch.setattr(engine._transactions, "_sealed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        first.execute("INSERT INTO t VALUES (1, 1)")
    assert rows(first.query("SELECT * FROM v")) == [(1,)]
    assert code_of(lambda: first.execute("INSERT INTO t VALUES (2, 1)")) == "fenced"
    assert rows(first.query("SELECT * FROM v")) == [(1,)]
    first.close()
    with overtaking.pop() as second:
        assert rows(second.query("SELECT * FROM v")) == [(1,)]


@pytest.mark.spark
def test_reads_of_a_fenced_writer_are_never_told_that_it_is_fenced(tmp_path: Path) -> None:
    first = writer(tmp_path, **SMALL)
    first.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE gone (a INT); INSERT INTO t VALUES (1, 1)")
    first.execute("CREATE MATERIALIZED VIEW late WITH (refresh = 'on read') AS SELECT a FROM t")
    first.execute("INSERT INTO gone VALUES (1), (2), (3), (4), (5), (6), (7), (8); INSERT INTO t VALUES (2, 2)")
    first.execute("CHECKPOINT")
    with writer(tmp_path, takeover=True, **SMALL) as second:
        second.execute("DROP TABLE gone; INSERT INTO t VALUES (3, 3)")
        assert rows(first.query("SELECT a FROM late")) == [(1,), (2,)]
        assert rows(first.query("SELECT a FROM t")) == [(1,), (2,)]
        assert code_of(lambda: first.query("SELECT a FROM gone WHERE a > 1")) == "version"
        assert code_of(lambda: first.execute("UPDATE gone SET a = 3 WHERE a > 1")) == "fenced"
        assert code_of(lambda: first.execute("UPDATE gone SET a = 3 WHERE a > 1")) == "fenced"
        assert rows(first.query("SELECT a FROM late")) == [(1,), (2,)]
    first.close()


@pytest.mark.spark
@pytest.mark.parametrize("asked", ["_has_last", "compact_if_due"])
def test_a_store_that_does_not_answer_after_the_commit_point_undoes_nothing(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer(tmp_path, **{**SMALL, "compact_every": 10**6}) as db:
        db.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        engine: Any = db._store.engine
        load, left = engine._opened_transactions, ["ask", "load"]

        def silent(*_: object, **__: object) -> bool:
            monkeypatch.undo()
            monkeypatch.setattr(engine, "_opened_transactions", unread)
            raise tm.TidemarkError("storage_failed", "the store did not answer")

        def unread() -> object:
            if left.pop() == "load" and asked == "compact_if_due":
                raise tm.TidemarkError("storage_failed", "the store did not answer")
            return load()

        store, put = engine._lake.store, engine._lake.store.put_new

        def put_and_fall_silent(path: Path, data: bytes, *, is_synced: bool) -> None:
            put(path, data, is_synced=is_synced)
            if path.suffix == ".json":
                monkeypatch.setattr(engine._transactions, asked, silent)

        monkeypatch.setattr(store, "put_new", put_and_fall_silent)
        db.insert("t", [(n,) for n in range(30)])
        assert rows(db.query("SELECT n FROM v")) == [(30,)]
        db.insert("t", [(30,)])
        assert rows(db.query("SELECT n FROM v")) == [(31,)]
    with writer(tmp_path) as db:
        assert rows(db.query("SELECT COUNT(*), SUM(a) FROM t")) == [(31, 465)]
        assert db.audit("v").num_rows == 0


@pytest.mark.spark
@pytest.mark.parametrize("is_late", [False, True], ids=["before it looks", "between its look and its append"])
def test_a_writer_whose_next_place_is_free_again_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """Its successor has compacted, and removed the entry at which it would have met the other epoch."""
    first = writer(tmp_path, **SMALL)
    first.execute("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1)")
    log = tmp_path / "lake" / "_tidemark" / "transactions" / "_delta_log"
    free = log / f"{max(int(path.stem) for path in log.glob('*.json')) + 1:020d}.json"

    def go_on() -> tm.Database:
        found = writer(tmp_path, takeover=True, **SMALL)
        for number in range(2, 40):
            found.execute(f"INSERT INTO t VALUES ({number})")
        assert not free.exists()
        return found

    overtaking: list[tm.Database] = []
    if is_late:
        transactions: Any = first._store.engine._transactions  # type: ignore[attr-defined]
        skip = transactions._skip_own

        def skip_and_stop() -> None:
            skip()
            overtaking.append(go_on())

        monkeypatch.setattr(transactions, "_skip_own", skip_and_stop)
    else:
        overtaking.append(go_on())
    assert code_of(lambda: first.execute("INSERT INTO t VALUES (100)")) == "fenced"
    assert not free.exists()
    if not is_late:
        assert code_of(first.publish) == "fenced"
    first.close()
    with overtaking.pop() as second:
        assert rows(second.query("SELECT * FROM t")) == [(number,) for number in range(1, 40)]
    assert not check_lake(str(tmp_path / "lake"), lambda name: None).damage


@pytest.mark.spark
def test_every_entry_tells_the_epoch_of_its_writer(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        with writer(tmp_path) as db:
            db.execute(f"CREATE TABLE t{number} (a INT)")
    log = tmp_path / "lake" / "_tidemark" / "transactions" / "_delta_log"
    found = [read_append(path.read_bytes()) for path in sorted(log.glob("*.json"))]
    epochs = [one.epoch for one in found if one is not None]
    assert len(epochs) == len(found) and epochs == sorted(epochs) and set(epochs) == {1, 2, 3}
    assert [path.name for path in (tmp_path / "lake" / "_tidemark").glob("seals*")] == ["seals-3"]


def test_what_cannot_be_read_only_is_refused(tmp_path: Path) -> None:
    for target in ("duckdb", "reference"):
        assert code_of(lambda target=target: tm.connect(target, read_only=True)) == "option"  # type: ignore[misc]
    assert code_of(lambda: tm.connect("duckdb", takeover=True)) == "option"
    assert code_of(lambda: tm.connect("duckdb:x", read_only=1)) == "type"  # type: ignore[arg-type]
    assert code_of(lambda: tm.connect(f"duckdb:{tmp_path}/none.duckdb", read_only=True)) == "not_a_database"
    assert not list(tmp_path.iterdir())


@pytest.mark.spark
def test_a_lake_that_is_not_there_is_not_made_by_a_reader(tmp_path: Path) -> None:
    assert code_of(lambda: tm.connect("spark", read_only=True)) == "option"
    assert code_of(lambda: tm.connect(f"spark:{tmp_path}/none", read_only=True)) == "not_a_database"
    assert code_of(lambda: tm.connect(f"spark:{tmp_path}/none", read_only=True, takeover=True)) == "option"
    assert not list(tmp_path.iterdir())


def test_a_file_is_read_when_nobody_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with tm.connect(f"duckdb:{path}") as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
        assert code_of(lambda: tm.connect(f"duckdb:{path}", read_only=True)) == "in_use"
    killed = os.fork()
    if not killed:  # a tail is left behind
        left = tm.connect(f"duckdb:{path}")
        left.execute("INSERT INTO t VALUES (2)")
        os._exit(0)
    os.waitpid(killed, 0)
    before = listed(tmp_path)
    assert path.with_name("x.duckdb.tide").exists()
    with tm.connect(f"duckdb:{path}", read_only=True) as db, tm.connect(f"duckdb:{path}", read_only=True) as other:
        assert rows(db.query("SELECT a FROM t")) == rows(other.query("SELECT a FROM t")) == [(1,), (2,)]
        assert db.changes("t").num_rows == 2
    assert listed(tmp_path) == before
    with tm.connect(f"duckdb:{path}") as db:
        assert rows(db.query("SELECT a FROM t")) == [(1,), (2,)]


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="processes are stopped by signals")
def test_processes_share_a_lake(tmp_path: Path) -> None:
    sharing = Sharing(tmp_path, seed=7)
    try:
        sharing.begin(readers=1 if IS_QUICK else 2)
        sharing.overtake()
        for _ in range(0 if IS_QUICK else 4):
            sharing.round()
    finally:
        for one in (*sharing.readers, *sharing.done):
            one.kill()
    assert sharing.end() > 0
