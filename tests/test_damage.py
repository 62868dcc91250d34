"""One flipped bit, one lost file: every answer is right, or an error that says what is damaged."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

import tidemark as tm
from tests import flips
from tests.flips import BAD, DEFINITIONS, RELATIONS, answers, engine_of, flip, looking, make
from tests.golden.database import HERE
from tests.support import rows
from tidemark.cli.main import app
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.seals import Seals
from tidemark.engines.spark.transactions import Transactions
from tidemark.session.check import check
from tidemark.session.database import Database

LAKE = pytest.param("lake", marks=pytest.mark.spark)
KINDS = [LAKE, "duckdb"]
LOG = Path("lake", "_tidemark", "transactions", "_delta_log")


def target_of(kind: str, path: Path) -> str:
    return f"spark:{path}/lake" if kind == "lake" else f"duckdb:{path}/file.duckdb"


def contents(db: tm.Database) -> dict[str, list[Any]]:
    return {name: rows(db.query(f"SELECT * FROM {name}")) for name in RELATIONS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LAKE, "duckdb", "wal"])
def test_a_flipped_bit_never_gives_a_wrong_answer(kind: str, tmp_path: Path) -> None:
    with looking() as looker:
        found = list(flips.flips(kind, seed=15, count=48, work=tmp_path, looker=looker))
    assert not [one for one in found if one.outcome in BAD]
    assert Counter(one.outcome for one in found)[flips.HARMLESS] < len(found) - 10


@pytest.mark.spark
def test_every_answer_of_a_lake_is_refused_where_its_file_is_damaged(tmp_path: Path) -> None:
    make("lake", tmp_path)
    files = sorted((tmp_path / "lake" / "tables" / "item").glob("*.parquet"))
    for file in files:
        flip(file, 8 * (file.stat().st_size // 2))
    with Database(engine_of("lake", tmp_path)) as db:
        assert rows(db.query("SELECT id FROM kind WHERE id = 1")) == [(1,)]
        with pytest.raises(tm.TidemarkError, match=r"tables/item/(part|base)-[\w-]+\.parquet is damaged") as caught:
            db.query("SELECT * FROM item")
    assert caught.value.code == "damaged"


@pytest.mark.spark
def test_a_file_of_another_size_is_told(tmp_path: Path) -> None:
    make("lake", tmp_path)
    for file in (tmp_path / "lake" / "tables" / "item").glob("*.parquet"):
        with open(file, "ab") as opened:
            opened.write(b"x")
    with Database(engine_of("lake", tmp_path)) as db, pytest.raises(tm.TidemarkError, match="bytes instead of"):
        contents(db)


@pytest.mark.spark
def test_a_lost_newest_entry_of_the_table_of_transactions_is_told(tmp_path: Path) -> None:
    make("lake", tmp_path)
    newest = max((tmp_path / LOG).glob("*.json"))
    newest.unlink()
    with pytest.raises(tm.TidemarkError, match=f"{newest.name} is damaged: it is missing") as caught:
        Database(engine_of("lake", tmp_path))
    assert caught.value.code == "damaged"


def seals_of(folder: Path) -> Path:
    """The file of seals of the last writer."""
    (found,) = (folder / "lake" / "_tidemark").glob("seals-*")
    return found


@pytest.mark.spark
@pytest.mark.parametrize("lost", ["seals", "transactions/_delta_log", "transactions"])
def test_a_lake_that_lost_what_it_knows_is_refused(lost: str, tmp_path: Path) -> None:
    make("lake", tmp_path)
    path = seals_of(tmp_path) if lost == "seals" else tmp_path / "lake" / "_tidemark" / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(tm.TidemarkError) as caught:
        Database(engine_of("lake", tmp_path))
    assert caught.value.code == "damaged"


@pytest.mark.spark
@pytest.mark.parametrize("cut", [0, 1, 10, 150, 400])
def test_a_process_that_dies_before_it_has_sealed_its_commit_leaves_no_damage(cut: int, tmp_path: Path) -> None:
    """The last lines of the seals are not there, or not all of the last one."""
    make("lake", tmp_path)
    with Database(engine_of("lake", tmp_path)) as db:
        db.execute("INSERT INTO kind VALUES (9, 'nine')")
        expected = contents(db), db.version
    seals = seals_of(tmp_path)
    os.truncate(seals, seals.stat().st_size - cut)
    for _ in range(2):
        with Database(engine_of("lake", tmp_path)) as db:
            assert (contents(db), db.version) == expected


@pytest.mark.spark
def test_a_process_that_dies_at_any_step_of_its_upkeep_leaves_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lake is copied before and after everything that seals, while commits, merges and compactions go on."""
    copies: list[tuple[Path, int]] = []
    version = 6

    def keep(moment: str) -> None:
        copy = tmp_path / f"{len(copies)} {moment}"
        shutil.copytree(tmp_path / "lake", copy / "lake", ignore=shutil.ignore_patterns("lock"))
        copies.append((copy, version))

    def copying(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def wrapped(self: Any, *arguments: Any) -> Any:
            keep(f"before {name}")
            result = original(self, *arguments)
            keep(f"after {name}")
            return result

        monkeypatch.setattr(owner, name, wrapped)

    with Database(engine_of("lake", tmp_path)) as db:
        db.execute(DEFINITIONS)
        copying(Seals, "put")
        copying(Seals, "forget_missing")
        copying(Transactions, "_seal")
        for number in range(9):
            db.execute(f"INSERT INTO item VALUES ({number}, {number % 3}, 6.5, 'x')")
            version = db.version
    monkeypatch.undo()
    assert len(copies) > 40
    for copy, least in copies[:: max(1, len(copies) // 40)]:
        with Database(engine_of("lake", copy)) as db:
            assert least <= db.version <= least + 1, copy.name
            done = db.version - 6
            assert len(db.query("SELECT id FROM item")) == done, copy.name
            assert not any(db.audit(name).num_rows for name in RELATIONS[2:])


@pytest.mark.spark
def test_damage_in_what_is_only_for_other_readers_is_told_and_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make("lake", tmp_path)
    with Database(engine_of("lake", tmp_path)) as db:
        expected = contents(db)
    flip(tmp_path / "lake" / "tables" / "item" / "_delta_log" / f"{0:020d}.json", 100)
    with caplog.at_level(logging.WARNING, "tidemark"), Database(engine_of("lake", tmp_path)) as db:
        assert contents(db) == expected
    assert "could not publish item" in caplog.text
    assert len(check(target_of("lake", tmp_path)).damage) == 1
    shutil.rmtree(tmp_path / "lake" / "tables" / "item" / "_delta_log")
    with Database(engine_of("lake", tmp_path)) as db:
        assert contents(db) == expected
    assert not check(target_of("lake", tmp_path)).damage


@pytest.mark.parametrize("lost", ["end", "all"])
def test_a_write_ahead_log_that_ends_too_early_is_told(lost: str, tmp_path: Path) -> None:
    """DuckDB itself takes it for the end, and drops what was committed after it: definitions, which no tide has."""
    program = (
        "import os; import tidemark as tm; from tests.flips import DEFINITIONS;"
        f"db = tm.connect('duckdb:{tmp_path}/file.duckdb'); db.execute(DEFINITIONS); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    log = tmp_path / "file.duckdb.wal"
    os.truncate(log, log.stat().st_size - 3) if lost == "end" else log.unlink()
    for _ in range(2):
        with pytest.raises(tm.TidemarkError) as caught:
            tm.connect(f"duckdb:{tmp_path}/file.duckdb")
        assert caught.value.code in (("damaged",) if lost == "end" else ("damaged", "not_a_database"))


def test_a_mark_that_an_earlier_tidemark_left_is_compared_and_goes(tmp_path: Path) -> None:
    target, mark = f"duckdb:{tmp_path}/file.duckdb", tmp_path / "file.duckdb.mark"

    def marked(version: int) -> None:
        said = b"%020d" % version
        mark.write_bytes(b"%s %08x\n" % (said, zlib.crc32(said)))

    make("duckdb", tmp_path)
    with tm.connect(target) as db:
        version = db.version
    marked(version + 1)
    with pytest.raises(tm.TidemarkError, match=f"version {version + 1} was committed") as caught:
        tm.connect(target)
    assert caught.value.code == "damaged"
    marked(version)
    with tm.connect(target) as db:
        assert db.version == version
    assert not mark.exists()


def test_a_mark_beside_a_new_database_or_a_broken_mark_is_no_alarm(tmp_path: Path) -> None:
    target, mark = f"duckdb:{tmp_path}/file.duckdb", tmp_path / "file.duckdb.mark"
    for written in (b"%020d 00000000\n" % 7, b"%020d %08x\n" % (7, zlib.crc32(b"%020d" % 7))):
        mark.write_bytes(written)
        with tm.connect(target) as db:
            db.execute("CREATE TABLE t (a INT)")
        assert not mark.exists()
        (tmp_path / "file.duckdb").unlink()


@pytest.mark.parametrize("share", [0.95, 0.8, 0.6, 0.4, 0.2])
def test_a_file_that_was_cut_off_answers_rightly_or_tells(share: float, tmp_path: Path) -> None:
    target, file = f"duckdb:{tmp_path}/file.duckdb", tmp_path / "file.duckdb"
    with tm.connect(target) as db:
        db.execute("CREATE TABLE t (a INT, b VARCHAR)")
        db.insert("t", [(n, str(n * 7919 % 1_000_003) * 3) for n in range(40_000)])
        expected = rows(db.query("SELECT COUNT(*), SUM(a), MAX(b), MIN(b) FROM t"))
    os.truncate(file, int(file.stat().st_size * share))
    try:
        with tm.connect(target) as db:
            assert rows(db.query("SELECT COUNT(*), SUM(a), MAX(b), MIN(b) FROM t")) == expected
            assert db.changes("t").num_rows == 40_000
    except tm.TidemarkError as error:
        assert error.code == "damaged", error


# tidemark check


@pytest.mark.parametrize("kind", KINDS)
def test_check_finds_nothing_where_nothing_is_damaged(kind: str, tmp_path: Path) -> None:
    make(kind, tmp_path)
    report = check(target_of(kind, tmp_path), audit=True)
    assert report.damage == report.unverified == ()
    assert report.checked > 10 and report.relations >= len(RELATIONS)
    shown = CliRunner().invoke(app, ["check", "--audit", target_of(kind, tmp_path)])
    assert shown.exit_code == 0
    assert "nothing is damaged" in shown.output and f"at version {report.version}, views audited" in shown.output


@pytest.mark.spark
def test_check_lists_every_file_of_a_lake_that_is_damaged(tmp_path: Path) -> None:
    make("lake", tmp_path)
    tables = tmp_path / "lake" / "tables"
    with Database(engine_of("lake", tmp_path)) as db:
        relations = cast(SparkEngine, db._store.engine)._relations
        hurt = [tables / name / relations[name].files[-1].path for name in ("item", "total")]
    flip(hurt[0], 1000)
    hurt[1].unlink()
    shown = CliRunner().invoke(app, ["check", target_of("lake", tmp_path)])
    assert shown.exit_code == 1
    text = " ".join(shown.output.split())
    assert all(f"tables/{file.relative_to(tables)}" in text.replace(" ", "") for file in hurt)
    assert "its checksum is not the one it was written with" in text and "it is missing" in text


def test_check_lists_the_tables_of_a_file_that_are_damaged(tmp_path: Path) -> None:
    make("duckdb", tmp_path)
    file = tmp_path / "file.duckdb"
    with looking() as looker:
        right = flips.look_at_copy("duckdb", tmp_path, tmp_path.with_name("copy"), looker)
        bit = next(  # the first block whose damage shows in an answer, not at opening
            bit
            for bit in range(8 * 300_000, 8 * file.stat().st_size, 8 * 100_000)
            if flips.outcome(
                flips.look_at_copy("duckdb", tmp_path, tmp_path.with_name("copy"), looker, Path(file.name), bit),
                right["answers"],
            )
            == flips.AT_READ
        )
    flip(file, bit)
    report = check(f"duckdb:{file}")
    assert report.damage
    assert CliRunner().invoke(app, ["check", f"duckdb:{file}"]).exit_code == 1


def test_check_finds_rows_that_somebody_else_wrote(tmp_path: Path) -> None:
    """Every block has its checksum, but there is a duplicate key, and the log does not tell of it."""
    import duckdb

    make("duckdb", tmp_path)
    with duckdb.connect(str(tmp_path / "file.duckdb")) as connection:
        connection.execute("INSERT INTO item SELECT * FROM item WHERE id = 2")
        connection.execute("DELETE FROM dear WHERE id = 17")
    report = check(f"duckdb:{tmp_path}/file.duckdb", audit=True)
    found = "\n".join(report.damage)
    assert "item: 1 duplicate key" in found
    assert "item: its log does not add up to its content: 1 rows differ" in found
    assert "dear: " in found


@pytest.mark.spark
def test_check_says_what_cannot_be_verified_of_an_older_lake(tmp_path: Path) -> None:
    shutil.unpack_archive(HERE / "1" / "lake.zip", tmp_path)
    first = check(f"spark:{tmp_path}/golden")
    assert not first.damage
    assert "earlier Tidemark" in first.unverified[0]
    second = check(f"spark:{tmp_path}/golden")
    assert not second.damage
    assert any("without checksums" in line for line in second.unverified)


def test_check_refuses_what_is_not_stored() -> None:
    for target in ("duckdb", "duckdb:/nowhere/x.duckdb", "reference"):
        assert CliRunner().invoke(app, ["check", target]).exit_code == 1
    with pytest.raises(tm.TidemarkError, match="stores nothing"):
        check("duckdb")


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_answers_after_it_was_checked(kind: str, tmp_path: Path) -> None:
    make(kind, tmp_path)
    check(target_of(kind, tmp_path), audit=True)
    with Database(engine_of(kind, tmp_path)) as db:
        assert answers(db)["version"] == db.version - 2


@pytest.mark.spark
def test_a_disk_without_room_for_a_seal_fails_no_commit_and_leaves_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a line is written, then nothing; when there is room again, all that has no seal gets one."""
    make("lake", tmp_path)
    write = os.write
    with Database(engine_of("lake", tmp_path)) as db:
        monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[: len(data) // 2]))
        db.execute("INSERT INTO kind VALUES (8, 'eight')")
        monkeypatch.undo()
        db.execute("INSERT INTO kind VALUES (9, 'nine')")
    for _ in range(2):
        with Database(engine_of("lake", tmp_path)) as db:
            assert len(db.query("SELECT id FROM kind WHERE id > 7")) == 2
