"""BACKUP TO: a copy of a database in use, whole and of one version, that opens like any other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.flips import RELATIONS, engine_of, flip, make
from tests.golden.database import HERE, history
from tests.golden.database import contents as golden_contents
from tests.support import check_invariant, rows
from tidemark.session.check import check
from tidemark.session.database import Database
from tidemark.storage.disk import copy_checked

LAKE = pytest.param("lake", marks=pytest.mark.spark)
KINDS = [LAKE, "duckdb"]


def contents(db: tm.Database) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: (rows(db.query(f"SELECT * FROM {name}")), rows(db.changes(name))) for name in RELATIONS
    }
    return found | {"version": db.version}


def copied(kind: str, path: Path) -> Path:
    """Where a copy must lie to be opened as the database itself is."""
    path.mkdir()
    return path / ("lake" if kind == "lake" else "file.duckdb")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def db(kind: str, tmp_path: Path) -> Iterator[Database]:
    make(kind, tmp_path)
    with Database(engine_of(kind, tmp_path)) as opened:
        yield opened


def test_a_copy_holds_and_tells_what_the_database_did(db: Database, kind: str, tmp_path: Path) -> None:
    expected = contents(db)
    db.backup(copied(kind, tmp_path / "copy"))
    db.execute("DELETE FROM item WHERE id < 50")
    with Database(engine_of(kind, tmp_path / "copy")) as copy:
        assert contents(copy) == expected
        copy.execute("INSERT INTO item VALUES (200, 2, 9, 'in the copy')")
        check_invariant(copy)
        assert copy.version == expected["version"] + 1
        ledger = copy.subscribe("total", name="ledger")
        assert ledger.poll(0) is not None
    assert (200,) not in rows(db.query("SELECT id FROM item"))
    check_invariant(db)
    target = f"spark:{tmp_path}/copy/lake" if kind == "lake" else f"duckdb:{tmp_path}/copy/file.duckdb"
    assert not check(target, audit=True).damage
    assert not [path.name for path in tmp_path.rglob("*.draft")]
    assert not [*(tmp_path / "lake" / "_tidemark").glob("backing/*")]


def test_a_copy_needs_a_place_where_nothing_is(db: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "file", tmp_path / "folder", tmp_path / "no" / "folder"):
        with pytest.raises(tm.TidemarkError) as caught:
            db.backup(place)
        assert caught.value.code == "backup"
    assert (tmp_path / "file").read_text() == "mine"


def test_no_copy_is_made_inside_a_transaction(db: Database, tmp_path: Path) -> None:
    with db.transaction() as tx:
        tx.execute("DELETE FROM item WHERE id = 2")
        with pytest.raises(tm.TidemarkError) as caught:
            db.backup(tmp_path / "copy")
        assert caught.value.code == "transaction"
    db.execute("BEGIN")
    with pytest.raises(tm.TidemarkError) as caught:
        db.execute(f"BACKUP TO '{tmp_path}/copy'")
    assert caught.value.code == "transaction"
    db.execute("ROLLBACK")
    with pytest.raises(tm.TidemarkError), db.transaction() as tx:
        tx.execute(f"BACKUP TO '{tmp_path}/copy'")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("number", sorted(path.name for path in HERE.iterdir() if path.name.isdecimal()))
def test_older_databases_are_backed_up_whole(number: str, kind: str, tmp_path: Path) -> None:
    """Rules, recursion, lagging views, consumers and altered tables are all there."""
    shutil.unpack_archive(HERE / number / f"{kind}.zip", tmp_path)
    source, copy = (
        (f"spark:{tmp_path}/golden", f"spark:{tmp_path}/copy")
        if kind == "lake"
        else (f"duckdb:{tmp_path}/golden.duckdb", f"duckdb:{tmp_path}/copy.duckdb")
    )
    with tm.connect(source) as db:
        db.backup(copy.partition(":")[2])
        expected = golden_contents(db), history(db), db.version
    with tm.connect(copy) as db:
        assert (golden_contents(db), history(db), db.version) == expected
        check_invariant(db)


@pytest.mark.spark
def test_a_lake_changes_while_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are dropped, merged and rewritten, and the table of transactions is compacted, before a byte is copied."""
    make("lake", tmp_path)
    (tmp_path / "copy").mkdir()
    with Database(engine_of("lake", tmp_path)) as db:
        expected = contents(db)
        is_changed = False

        def changing(source: Path, target: Path) -> tuple[int, int]:
            nonlocal is_changed
            if not is_changed:
                is_changed = True
                for number in range(10):
                    db.execute(f"UPDATE item SET price = price + {number} WHERE id < 40")
                db.execute("DROP MATERIALIZED VIEW dear; DROP MATERIALIZED VIEW named; DROP TABLE kind")
            return copy_checked(source, target)

        monkeypatch.setattr("tidemark.engines.spark.backup.copy_checked", changing)
        db.backup(tmp_path / "copy" / "lake")
        assert is_changed
    with Database(engine_of("lake", tmp_path / "copy")) as copy:
        assert contents(copy) == expected
        check_invariant(copy)


@pytest.mark.spark
def test_what_is_damaged_is_not_copied(tmp_path: Path) -> None:
    make("lake", tmp_path)
    with Database(engine_of("lake", tmp_path)) as db:
        for file in (tmp_path / "lake" / "tables" / "item").glob("*.parquet"):
            flip(file, 1000)
        with pytest.raises(tm.TidemarkError, match="cannot be copied") as caught:
            db.backup(tmp_path / "copy")
    assert caught.value.code == "damaged"
    assert not (tmp_path / "copy").exists()
    assert not [*tmp_path.glob(".copy*")]


@pytest.mark.spark
def test_a_file_system_without_hard_links_is_copied_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make("lake", tmp_path)
    (tmp_path / "copy").mkdir()

    def refuse(source: object, target: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with Database(engine_of("lake", tmp_path)) as db:
        expected = contents(db)
        monkeypatch.setattr(os, "link", refuse)
        db.backup(tmp_path / "copy" / "lake")
        monkeypatch.undo()
    with Database(engine_of("lake", tmp_path / "copy")) as copy:
        assert contents(copy) == expected


def test_a_database_in_memory_becomes_a_file(tmp_path: Path) -> None:
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
        db.backup(tmp_path / "t.duckdb")
        db.execute("INSERT INTO t VALUES (2)")
    with tm.connect(f"duckdb:{tmp_path}/t.duckdb") as db:
        assert (rows(db.query("SELECT a FROM t")), db.version) == ([(1,)], 2)


def test_the_reference_engine_has_nothing_to_copy(tmp_path: Path) -> None:
    with tm.connect("reference") as db, pytest.raises(tm.TidemarkError) as caught:
        db.backup(tmp_path / "copy")
    assert caught.value.code == "unsupported"


def test_a_statement_writes_only_where_it_may(tmp_path: Path) -> None:
    (tmp_path / "yes").mkdir()
    (tmp_path / "yes" / "out").symlink_to(tmp_path)
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT)")
        with pytest.raises(tm.TidemarkError, match="allow_paths") as caught:
            db.execute(f"BACKUP TO '{tmp_path}/yes/x.duckdb'")
        assert caught.value.code == "not_allowed"
    with tm.connect("duckdb", allow_paths=[tmp_path / "yes"]) as db:
        db.execute("CREATE TABLE t (a INT)")
        for place in (f"{tmp_path}/x.duckdb", f"{tmp_path}/yes/../x.duckdb", f"{tmp_path}/yes/out/x.duckdb"):
            with pytest.raises(tm.TidemarkError) as caught:
                db.execute(f"BACKUP TO '{place}'")
            assert caught.value.code == "not_allowed"
        assert db.execute(f"BACKUP TO '{tmp_path}/yes/x.duckdb'") is None
        assert db.version == 1
    assert os.listdir(tmp_path) == ["yes"]
    with pytest.raises(tm.TidemarkError, match="a list of paths"):
        tm.connect("duckdb", allow_paths="/")


@pytest.mark.parametrize(
    "text", ["BACKUP", "BACKUP TO", "BACKUP TO x", "BACKUP TO ''", "BACKUP 'x'", "BACKUP TO 'x' y"]
)
def test_a_backup_names_one_path(text: str) -> None:
    with tm.connect("duckdb", allow_paths=["/"]) as db, pytest.raises(tm.TidemarkError) as caught:
        db.execute(text)
    assert caught.value.code == "syntax"
