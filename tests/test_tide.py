"""The tide beside a DuckDB file: whatever is cut off, flipped, lost or put in its place, a version that was
acknowledged is there or its loss is told, and one that was not is there whole or not at all."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidemark as tm
from tests.support import check_invariant, rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.duckdb.tail import Tail
from tidemark.engines.limits import DuckDBLimits
from tidemark.session.check import check
from tidemark.storage import tide as tides
from tidemark.storage.tide import HEADER_BYTES, Tide

SETUP = """
CREATE TABLE item (id INT PRIMARY KEY, kind VARCHAR, price DOUBLE PRECISION);
CREATE TABLE log (what VARCHAR);
CREATE MATERIALIZED VIEW kinds AS SELECT kind, COUNT(*) AS n, SUM(price) AS price FROM item GROUP BY kind;
INSERT INTO item VALUES (1, 'a', 1.5), (2, 'b', 2.5);
"""
ID = bytes(range(16))


def filled(folder: Path) -> tm.Database:
    """A database with a few versions that its tables do not have."""
    db = tm.connect(f"duckdb:{folder}/x.duckdb", memory="1GB")  # with less the tables would be read, and so be merged
    db.execute(SETUP)
    db.execute("INSERT INTO item VALUES (3, 'a', 3.5)")
    db.execute("UPDATE item SET price = 9 WHERE id = 1; INSERT INTO log VALUES ('x'), ('x')")
    return db


def left(db: tm.Database, source: Path, target: Path) -> Path:
    """What a process that dies at this moment leaves behind."""
    target.mkdir()
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, target)
    return target


def content(db: tm.Database) -> tuple[Any, ...]:
    names = ("item", "log", "kinds")
    changes = [rows(db.changes(name).drop_columns(["_time"])) for name in names]
    return (db.version, *(rows(db.query(f"SELECT * FROM {name}")) for name in names), *changes)


def opened(folder: Path) -> tm.Database:
    return tm.connect(f"duckdb:{folder}/x.duckdb")


def refused(folder: Path) -> str:
    with pytest.raises(tm.TidemarkError) as caught:
        opened(folder)
    assert caught.value.code == "damaged", caught.value
    return caught.value.message


def ends(data: bytes) -> list[int]:
    """Where each record ends."""
    found, place = [], HEADER_BYTES
    while (record := tides._record_at(data, place)) is not None:
        place += tides._FRAME.size + len(record.body)
        found.append(place)
    assert place == len(data)
    return found


@pytest.fixture
def crashed(tmp_path: Path) -> tuple[Path, tuple[Any, ...], tuple[Any, ...]]:
    """What is left of a database, its content before the last version, and at the end."""
    folder = tmp_path / "first"
    folder.mkdir()
    with filled(folder) as db:
        crash = left(db, folder, tmp_path / "crash")
        tide = (crash / "x.duckdb.tide").read_bytes()
        last = content(db)
    before = tmp_path / "before"
    shutil.copytree(crash, before)
    (before / "x.duckdb.tide").write_bytes(marking(tide[: ends(tide)[-2]], last[0] - 1))
    with opened(before) as db:
        assert db.version == last[0] - 1
        first = content(db)
    return crash, first, last


def marking(data: bytes, version: int) -> bytes:
    mark = tides._mark(version)
    return data[: tides._MARK_AT] + mark + data[tides._MARK_AT + len(mark) :]


def with_tide(crash: Path, folder: Path, data: bytes) -> Path:
    shutil.copytree(crash, folder)
    (folder / "x.duckdb.tide").write_bytes(data)
    return folder


def test_what_a_process_leaves_is_all_there_and_goes_on(crashed: Any) -> None:
    crash, _, last = crashed
    for _ in range(2):
        with opened(crash) as db:
            assert content(db) == last
            check_invariant(db)
    with opened(crash) as db:
        db.execute("DELETE FROM item WHERE id = 3; DELETE FROM log")
        check_invariant(db)
    assert sorted(path.name for path in crash.iterdir()) == ["x.duckdb"]


def test_a_record_that_was_not_written_to_its_end_is_cut_off_and_told(
    crashed: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At every byte of the last one, which was not acknowledged; some of what is left is opened as a database."""
    crash, before, _ = crashed
    data = marking((crash / "x.duckdb.tide").read_bytes(), before[0])
    start, end = ends(data)[-2:]
    path = tmp_path / "cut"
    id_ = data[12:28]
    for cut in range(start, end):
        path.write_bytes(data[:cut])
        tide = Tide(path, id_)
        versions = [record.version for record in tide.read(before[0] + 1 - len(ends(data)))]
        tide.close()
        assert versions[-1] == before[0]
        assert path.stat().st_size == start
    caplog.clear()
    for number, cut in enumerate((start, start + 1, (start + end) // 2, end - 1)):
        folder = with_tide(crash, tmp_path / str(number), data[:cut])
        with caplog.at_level(logging.WARNING, "tidemark"), opened(folder) as db:
            assert content(db) == before
            check_invariant(db)
        assert ("is cut off" in caplog.text) == (cut > start)


def test_a_version_that_was_acknowledged_is_not_cut_off(crashed: Any, tmp_path: Path) -> None:
    """At every byte of all that is written."""
    crash, _, last = crashed
    data = (crash / "x.duckdb.tide").read_bytes()
    path, stored = tmp_path / "cut", last[0] - len(ends(data))
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        tide = Tide(path, data[12:28])
        with pytest.raises(tm.TidemarkError) as caught:
            tide.read(stored)
        tide.close()
        assert caught.value.code == "damaged"
        assert str(path) in caught.value.message
    assert "x.duckdb.tide" in refused(with_tide(crash, tmp_path / "x", data[:-1]))


def test_a_flipped_bit_is_told_or_does_no_harm(crashed: Any, tmp_path: Path) -> None:
    """Each byte; in the mark alone, which only helps to notice another damage, one does no harm."""
    crash, _, last = crashed
    data = (crash / "x.duckdb.tide").read_bytes()
    path, stored = tmp_path / "flipped", last[0] - len(ends(data))
    whole = Tide(crash / "x.duckdb.tide", data[12:28])
    right = whole.read(stored)
    whole.close()
    for byte in range(len(data)):
        flipped = bytearray(data)
        flipped[byte] ^= 1 << byte % 8
        path.write_bytes(flipped)
        tide = Tide(path, data[12:28])
        try:
            assert tide.read(stored) == right
            assert tides._MARK_AT <= byte < HEADER_BYTES
        except tm.TidemarkError as error:
            assert error.code == "damaged", error
            assert not tides._MARK_AT <= byte < HEADER_BYTES
        tide.close()
        assert path.read_bytes() == flipped, "nothing is cut off what is damaged"
    last_end = ends(data)[-2]
    for number, byte in enumerate((3, 20, HEADER_BYTES + 5, last_end + 2, last_end + 30, len(data) - 1)):
        flipped = bytearray(data)
        flipped[byte] ^= 4
        assert "x.duckdb.tide" in refused(with_tide(crash, tmp_path / str(number), bytes(flipped)))


def test_a_damaged_record_before_a_whole_one_is_no_torn_one(crashed: Any, tmp_path: Path) -> None:
    """Also if the mark is lost, so that nothing tells what was acknowledged."""
    crash, *_ = crashed
    data = bytearray(marking((crash / "x.duckdb.tide").read_bytes(), 0))
    data[HEADER_BYTES + 40] ^= 1
    assert "is not as it was written" in refused(with_tide(crash, tmp_path / "x", bytes(data)))


def test_check_tells_of_a_damaged_tide(crashed: Any) -> None:
    crash, *_ = crashed
    assert not check(f"duckdb:{crash}/x.duckdb").damage
    db = opened(crash)
    db.execute("INSERT INTO log VALUES ('w')")
    left(db, crash, crash / "again")
    db.close()
    tide = crash / "again" / "x.duckdb.tide"
    os.truncate(tide, tide.stat().st_size - 1)
    assert "x.duckdb.tide is damaged" in " ".join(check(f"duckdb:{crash}/again/x.duckdb").damage)


def test_a_missing_tide_is_told(crashed: Any) -> None:
    crash, *_ = crashed
    (crash / "x.duckdb.tide").unlink()
    for _ in range(2):
        assert "x.duckdb.tide is missing" in refused(crash)


def test_the_tide_of_another_database_is_told(crashed: Any, tmp_path: Path) -> None:
    crash, *_ = crashed
    other = tmp_path / "other"
    other.mkdir()
    with filled(other) as db:
        foreign = left(db, other, tmp_path / "foreign")
    for _ in range(2):
        message = refused(with_tide(crash, tmp_path / "x", (foreign / "x.duckdb.tide").read_bytes()))
        assert "x.duckdb.tide belongs to another database" in message
        shutil.rmtree(tmp_path / "x")


def test_a_tide_with_a_gap_is_told(crashed: Any, tmp_path: Path) -> None:
    crash, *_ = crashed
    data = (crash / "x.duckdb.tide").read_bytes()
    first, second, *_ = ends(data)
    for number, gapped in enumerate((data[:HEADER_BYTES] + data[first:], data[:first] + data[second:])):
        message = refused(with_tide(crash, tmp_path / str(number), gapped))
        assert "x.duckdb.tide" in message and "does not follow it" in message


def test_an_older_file_beside_a_later_tide_is_told_or_brought_up_to_date(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    filled(folder).close()
    older = tmp_path / "older"
    shutil.copytree(folder, older)
    with opened(folder) as db:
        db.execute("INSERT INTO item VALUES (10, 'c', 1)")
        whole = left(db, folder, tmp_path / "whole")
        last = content(db)
        db.execute("CREATE TABLE later (a INT); INSERT INTO later VALUES (1)")
        later = left(db, folder, tmp_path / "later")
    for path in (whole, later):
        (path / "x.duckdb.wal").unlink(missing_ok=True)
        shutil.copy(older / "x.duckdb", path)
    with opened(whole) as db:
        assert content(db) == last
    assert "x.duckdb.tide" in refused(later)


def test_a_tide_without_its_database_is_told_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    with filled(folder) as db:
        crash = left(db, folder, tmp_path / "crash")
    for path in crash.glob("x.duckdb*"):
        if path.suffix != ".tide":
            path.unlink()
    assert "x.duckdb.tide is there" in refused(crash)
    assert [path.name for path in crash.iterdir()] == ["x.duckdb.tide"]


def test_a_backup_is_another_database(tmp_path: Path) -> None:
    """Put in the place of the old one, it does not take what came after it for its own."""
    folder = tmp_path / "first"
    folder.mkdir()
    with filled(folder) as db:
        db.backup(tmp_path / "copy.duckdb")
        expected = content(db)
        db.execute("INSERT INTO item VALUES (10, 'c', 1)")
        crash = left(db, folder, tmp_path / "crash")
    (crash / "x.duckdb.wal").unlink(missing_ok=True)
    shutil.copy(tmp_path / "copy.duckdb", crash / "x.duckdb")
    assert "belongs to another database" in refused(crash)
    (crash / "x.duckdb.tide").unlink()
    with opened(crash) as db:
        assert content(db) == expected


def test_any_client_reads_the_last_version_of_a_closed_file(tmp_path: Path) -> None:
    with filled(tmp_path) as db:
        expected = content(db)
    assert [path.name for path in tmp_path.iterdir()] == ["x.duckdb"]
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as reader:
        assert sorted(reader.execute("SELECT * FROM item").fetchall()) == expected[1]
        assert sorted(reader.execute("SELECT * FROM kinds").fetchall()) == expected[3]
        assert reader.execute("SELECT version FROM _tidemark.format").fetchall() == [(1,)]


def test_an_earlier_tidemark_refuses_a_file_that_belongs_to_a_tide(crashed: Any) -> None:
    crash, *_ = crashed
    with duckdb.connect(str(crash / "x.duckdb"), read_only=False) as reader:
        assert reader.execute("SELECT version FROM _tidemark.format").fetchall() == [(2,)]


# CHECKPOINT


def test_a_checkpoint_leaves_one_file_that_is_complete(tmp_path: Path) -> None:
    """A copy of that file alone is read by any client, and opened as the last version; then the tide begins again."""
    folder = tmp_path / "first"
    folder.mkdir()
    with filled(folder) as db:
        for number in range(2):
            db.execute("CHECKPOINT")
            expected = content(db)
            assert [path.name for path in folder.iterdir()] == ["x.duckdb"]
            copy = tmp_path / f"copy {number}"
            copy.mkdir()
            shutil.copy(folder / "x.duckdb", copy)
            with duckdb.connect(str(copy / "x.duckdb"), read_only=True) as reader:
                assert sorted(reader.execute("SELECT * FROM item").fetchall()) == expected[1]
                assert reader.execute("SELECT version FROM _tidemark.format").fetchall() == [(1,)]
            with opened(copy) as copied:
                assert content(copied) == expected
            db.execute(f"INSERT INTO item VALUES ({20 + number}, 'd', 1); UPDATE item SET price = 0")
            assert (folder / "x.duckdb.tide").exists()
            with opened(left(db, folder, tmp_path / f"later {number}")) as later:
                assert content(later) == content(db)
                check_invariant(later)


def test_a_checkpoint_waits_for_those_who_read_what_was_before(tmp_path: Path) -> None:
    with filled(tmp_path) as db:
        db.execute("INSERT INTO log VALUES ('y')")
        with db._store.engine.snapshot():
            db.execute("CREATE TABLE other (a INT)")
            db._turns.seconds = 0.1
            with pytest.raises(tm.TidemarkError, match="others read an earlier version") as caught:
                db.checkpoint()
            assert caught.value.code == "busy"
            db.execute("INSERT INTO log VALUES ('z')")
            expected = content(db)
            crash = left(db, tmp_path, tmp_path / "crash")
        db.checkpoint()
        assert not list(tmp_path.glob("x.duckdb.*"))
    for folder in (tmp_path, crash):
        with opened(folder) as db:
            assert content(db) == expected


def test_a_process_that_dies_at_any_step_of_a_checkpoint_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    with filled(folder) as db:
        expected, copies = content(db), list[Path]()
        merge, remove = Tail.merge, Tide.remove

        def merging(self: Tail, *, is_last: bool = False) -> None:
            merge(self, is_last=is_last)
            copies.append(left(db, folder, tmp_path / f"{len(copies)} merged"))

        def removing(self: Tide) -> None:
            copies.append(left(db, folder, tmp_path / f"{len(copies)} written"))
            remove(self)
            copies.append(left(db, folder, tmp_path / f"{len(copies)} removed"))

        monkeypatch.setattr(Tail, "merge", merging)
        monkeypatch.setattr(Tide, "remove", removing)
        db.execute("INSERT INTO log VALUES ('y')")
        expected = content(db)
        db.execute("CHECKPOINT")
        monkeypatch.undo()
    assert {copy.name.split()[1] for copy in copies} == {"merged", "written", "removed"}
    for copy in copies[-3:]:
        with opened(copy) as db:
            assert content(db) == expected
            check_invariant(db)


# Failing disks


def full(handle: int, data: Any, place: int) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_record_that_cannot_be_written_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it is written, then the disk is full."""
    write = os.pwrite

    def half(handle: int, data: Any, place: int) -> int:
        monkeypatch.setattr(os, "pwrite", full)
        return write(handle, data[: len(data) // 2], place)

    with filled(tmp_path) as db:
        before, size = content(db), (tmp_path / "x.duckdb.tide").stat().st_size
        monkeypatch.setattr(os, "pwrite", half)
        with pytest.raises(tm.TidemarkError, match="disk is full") as caught:
            db.execute("INSERT INTO item VALUES (11, 'd', 1)")
        monkeypatch.undo()
        assert caught.value.code == "storage_failed"
        assert (tmp_path / "x.duckdb.tide").stat().st_size == size
        assert content(db) == before
        db.execute("INSERT INTO item VALUES (12, 'd', 1)")
        assert db.version == before[0] + 1
        check_invariant(db)


@pytest.mark.parametrize("lasts", [False, True])
def test_a_disk_that_does_not_say_what_it_has_is_asked_again(
    lasts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is written, its sync fails, and so does cutting it off: what is stored decides."""

    def fails(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with filled(tmp_path) as db:
        before = content(db)
        monkeypatch.setattr(tides, "_sync_data", fails)
        monkeypatch.setattr(os, "ftruncate", fails)
        if lasts:
            monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(tm.TidemarkError) as caught:
            db.execute("INSERT INTO log VALUES ('y')")
            raise tm.TidemarkError("committed", "it was found")
        monkeypatch.undo()
        assert caught.value.code == ("commit_unknown" if lasts else "committed")
        assert db.version == before[0] + 1
        assert rows(db.query("SELECT * FROM log WHERE what = 'y'")) == [("y",)]
        check_invariant(db)


@pytest.mark.parametrize("place", ["", "durable.duckdb"])
def test_a_merge_that_was_interrupted_at_its_end_is_not_done_again_after_the_next_commit(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tm.connect(f"duckdb:{tmp_path / place}" if place else "duckdb") as db:
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, n INT)")
        db.execute("INSERT INTO t VALUES (1, 1)")
        tail = db._store.engine._tail  # type: ignore[attr-defined]

        def interrupted() -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(tail, "_drop", interrupted)
            tail.merge()
        db.execute("INSERT INTO t VALUES (2, 2)")
        assert rows(db.query("SELECT * FROM t")) == [(1, 1), (2, 2)]


def test_a_merge_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(tmp_path) as db:
        expected = content(db)
        db.execute("INSERT INTO log VALUES ('z')")

        def fails(*_: Any) -> Any:
            raise duckdb.IOException("IO Error: No space left on device")

        monkeypatch.setattr("tidemark.engines.duckdb.commits.write_plain", fails)
        with pytest.raises(tm.TidemarkError) as caught:
            db.query("SELECT * FROM log")
        assert caught.value.code == "storage_failed"
        db.execute("INSERT INTO log VALUES ('z')")
        crash = left(db, tmp_path, tmp_path / "crash")
        db.close()
        monkeypatch.undo()
    for folder in (tmp_path, crash):
        with opened(folder) as db:
            assert db.version == expected[0] + 2
            assert rows(db.query("SELECT * FROM log")) == [("x",), ("x",), ("z",), ("z",)]
            check_invariant(db)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_process_that_dies_at_any_step_of_a_merge_loses_nothing(
    is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it leaves is copied before and after each thing that a merge does, with a tide that is cut and one that is
    not."""
    folder = tmp_path / "first"
    folder.mkdir()
    limits = DuckDBLimits(tail_commits=4, tide_bytes=0 if is_large else 1_000_000)
    copies: list[tuple[Path, int]] = []
    version = 0

    def keep(moment: str) -> None:
        copies.append((left(db, folder, tmp_path / f"{len(copies)} {moment}"), version))

    def copying(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
            keep(f"before {name}")
            result = original(self, *arguments, **named)
            keep(f"after {name}")
            return result

        monkeypatch.setattr(owner, name, wrapped)

    with tm.Database(DuckDBEngine(str(folder / "x.duckdb"), limits=limits)) as db:
        db.execute(SETUP)
        version = first = db.version
        for owner, name in ((Tail, "_apply"), (Tail, "_drop"), (Tail, "gather"), (Tide, "append"), (Tide, "cut")):
            copying(owner, name)
        for number in range(9):
            db.execute(f"INSERT INTO item VALUES ({100 + number}, 'k{number % 3}', 1)")
            version = db.version
        db.close()
        monkeypatch.undo()
    assert len(copies) > 25
    for copy, least in copies:
        with opened(copy) as db:
            assert least <= db.version <= least + 1, copy.name
            assert db.query("SELECT id FROM item").num_rows == 2 + db.version - first, copy.name
            check_invariant(db)


def test_a_tide_of_the_first_format_becomes_one_of_the_second_before_it_is_added_to(tmp_path: Path) -> None:
    """An earlier Tidemark, which knows no rows in the heads of records, must refuse it then."""
    first = tmp_path / "x.tide"
    older = struct.pack("<8sI16s", b"tidemark", 1, ID)
    tide = Tide(first, ID)
    tide.begin(0)
    tide.append(1, b"one")
    tide.mark(1)
    tide.close()
    data = bytearray(first.read_bytes())
    data[:32] = (older + struct.pack("<I", zlib.crc32(older))).ljust(32, b"\0")
    first.write_bytes(data)
    tide = Tide(first, ID)
    assert [record.body for record in tide.read(0)] == [b"one"]
    assert struct.unpack_from("<I", first.read_bytes(), 8) == (2,)
    tide.append(2, b"two")
    tide.mark(2)
    tide.close()
    assert [record.body for record in Tide(first, ID).read(0)] == [b"one", b"two"]


def test_a_record_holds_every_value_as_it_is(tmp_path: Path) -> None:
    values = (
        "INSERT INTO t VALUES (DOUBLE PRECISION 'NaN', 12345678901234567890.123, DATE '0001-01-01', "
        "TIMESTAMP '9999-12-31 23:59:59.999999', ARRAY[1, NULL], ROW('ü', NULL)),"
        "(DOUBLE PRECISION '-Infinity', NULL, NULL, NULL, NULL, NULL)"
    )
    with opened(tmp_path) as db:
        db.execute(
            "CREATE TABLE t (a DOUBLE PRECISION, b DECIMAL(38,3), c DATE, d TIMESTAMP, e INT[], "
            "f STRUCT(x VARCHAR, y INT))"
        )
        db.execute(values)
        crash = left(db, tmp_path, tmp_path / "crash")
        expected = rows(db.query("SELECT * FROM t")), rows(db.changes("t").drop_columns(["_time"]))
    with opened(crash) as db:
        assert (rows(db.query("SELECT * FROM t")), rows(db.changes("t").drop_columns(["_time"]))) == expected


def test_zeros_and_numbers_that_are_none_leave_as_they_came() -> None:
    """Equal values may differ in their bits; they cancel in a tail as they do in a table."""
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a DOUBLE PRECISION, n INT)")
        db.execute("INSERT INTO t VALUES (0.0 * -1, 1), (DOUBLE PRECISION 'NaN', 2), (5, 3)")
        db.insert("t", [(-0.0, 4), (float("nan"), 5)])
        db.execute("UPDATE t SET n = n + 10 WHERE a = 0")
        db.delete("t", [(0.0, 11), (0.0, 14), (float("nan"), 2)])
        assert rows(db.query("SELECT n FROM t")) == [(3,), (5,)]
        check_invariant(db)


def test_a_look_up_beside_the_tail_that_fails_half_way_counts_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    with tm.connect("duckdb", memory=0) as db:
        db.execute("CREATE TABLE r (k INT, x INT); CREATE TABLE q (k INT, y INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT q.k, q.y, r.x FROM q JOIN r ON q.k = r.k")
        db.execute("INSERT INTO r VALUES (1, 10)")
        db.execute("INSERT INTO q VALUES (3, 3)")
        db.execute("INSERT INTO r VALUES (1, 20)")
        db.execute("INSERT INTO r VALUES (1, 30)")
        calls = []

        def once(entry: Any, relation: str) -> Any:
            calls.append(relation)
            if len(calls) == 2:
                raise MemoryError
            return entry.changed[relation].bag

        with monkeypatch.context() as patched:
            patched.setattr("tidemark.engines.duckdb.tail._bag_in", once)
            with pytest.raises(tm.TidemarkError):
                db.execute("INSERT INTO q VALUES (1, 5)")
        assert len(calls) == 2, "the failure came where it was meant to"
        db.execute("INSERT INTO q VALUES (1, 5)")
        assert rows(db.query("SELECT * FROM v")) == [(1, 5, 10), (1, 5, 20), (1, 5, 30)]
        check_invariant(db)
