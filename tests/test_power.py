"""What survives a loss of power: with ``durability="power"`` files and folders are on the disk before their names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import tidemark as tm
from tests.support import rows
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.delta_log import read_append
from tidemark.engines.spark.session import IN_PROCESS
from tidemark.session.database import Database
from tidemark.storage import tide


class Watch:
    """What was synced and what came to be, in order, by path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, str]] = []
        fsync, link = os.fsync, os.link

        def synced(handle: int) -> None:
            self.steps.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))
            fsync(handle)

        def linked(source: str, target: str) -> None:
            self.steps.append(("link", os.fspath(target)))
            link(source, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "link", linked)

    def take(self) -> list[tuple[str, str]]:
        taken, self.steps = self.steps, []
        return taken


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Database]:
    with Database(SparkEngine(tmp_path / "lake", **IN_PROCESS, inline_rows=2, power=True)) as db:
        db.execute("CREATE TABLE t (a INT, b VARCHAR); CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 1")
        yield db


def entry_of(steps: list[tuple[str, str]]) -> int:
    """Where the entry comes to be in the log of transactions, which is the commit."""
    log = "/_tidemark/transactions/_delta_log/"
    [place] = [i for i, (what, path) in enumerate(steps) if what == "link" and path.endswith(".json") and log in path]
    return place


@pytest.mark.spark
def test_what_a_record_names_is_on_the_disk_before_the_record(lake: Database, watch: Watch, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    known = {path for path in root.rglob("*") if path.is_file()}
    lake.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    steps = watch.take()
    entry = entry_of(steps)
    before = [path for what, path in steps[:entry] if what == "sync"]
    new = {path for path in root.rglob("*.parquet") if path not in known}
    assert {path.relative_to(root).parts[0] for path in new} == {"tables", "_tidemark"}
    for path in new:
        is_drafted = path.parent.name == "transactions"  # written under another name, then linked
        assert is_drafted or str(path) in before
        assert str(path.parent) in before
    for folder in (root / "tables" / "t", root / "tables" / "v", root / "tables", root):
        assert str(folder) in before
    drafts = [path for path in before if path.endswith(".draft")]
    assert len(drafts) == 2  # the row of the transaction, and the entry of the log itself
    assert ("sync", str(root / "_tidemark" / "transactions" / "_delta_log")) in steps[entry:]


@pytest.mark.spark
def test_a_new_relation_is_on_the_disk_with_its_folders(lake: Database, watch: Watch, tmp_path: Path) -> None:
    lake.execute("INSERT INTO t VALUES (5, 'e'), (6, 'f'), (7, 'g')")
    watch.take()
    lake.execute("CREATE MATERIALIZED VIEW w AS SELECT a, b FROM t WHERE a > 5")
    steps = watch.take()
    before = [path for what, path in steps[: entry_of(steps)] if what == "sync"]
    folder = tmp_path / "lake" / "tables" / "w"
    files = list(folder.rglob("*.parquet"))
    assert files
    for path in (*files, folder, folder.parent):
        assert str(path) in before


@pytest.mark.spark
def test_without_it_a_commit_waits_for_no_disk(tmp_path: Path, watch: Watch) -> None:
    with Database(SparkEngine(tmp_path / "lake", **IN_PROCESS, inline_rows=2)) as db:
        db.execute("CREATE TABLE t (a INT)")
        watch.take()
        db.execute("INSERT INTO t VALUES (1), (2), (3), (4)")
        assert not [path for what, path in watch.take() if what == "sync"]


@pytest.mark.spark
def test_what_upkeep_replaces_goes_after_its_successor_is_on_the_disk(tmp_path: Path, watch: Watch) -> None:
    """Compaction removes rows of old commits from their files: also where a commit itself waits for no disk."""
    with Database(SparkEngine(tmp_path / "lake", **IN_PROCESS, compact_every=4)) as db:
        db.execute("CREATE TABLE t (a INT)")
        for number in range(8):
            db.execute(f"INSERT INTO t VALUES ({number})")
    table = tmp_path / "lake" / "_tidemark" / "transactions"
    steps = watch.take()
    synced = {
        path
        for (what, draft), (then, path) in pairwise(steps)
        if (what, then) == ("sync", "link") and draft.endswith(".draft")
    }
    points = {str(path) for path in (table / "_delta_log").glob("*.checkpoint.parquet")}
    assert points and points <= synced
    entries = {path: read_append(path.read_bytes()) for path in (table / "_delta_log").glob("*.json")}
    upkeep = {path: said for path, said in entries.items() if said is not None and said.removed}
    assert upkeep and {str(path) for path in upkeep} <= synced
    assert {str(table / str(said.path)) for said in upkeep.values()} <= synced


def test_a_duckdb_file_waits_for_the_names_beside_it(tmp_path: Path, watch: Watch) -> None:
    """DuckDB waits for the content of its log at each commit, but not for the folder in which it makes one."""
    path = tmp_path / "x.duckdb"
    for durability in ("power", "process"):
        with tm.connect(f"duckdb:{path}", options={"durability": durability}) as db:
            db.execute(f"CREATE TABLE {durability} (a INT)")
            folders = [what for what in watch.take() if what == ("sync", str(tmp_path))]
            assert len(folders) == (2 if durability == "power" else 1), "the tide, and DuckDB's own log"
            db.execute(f"INSERT INTO {durability} VALUES (1)")
            assert ("sync", str(tmp_path)) not in watch.take()
            assert rows(db.query(f"SELECT a FROM {durability}")) == [(1,)]


def test_a_commit_of_a_duckdb_file_is_on_the_disk_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, int]] = []

    def fdatasync(handle: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle).st_size))

    with tm.connect(f"duckdb:{tmp_path}/x.duckdb") as db:
        db.execute("CREATE TABLE t (a INT)")
        monkeypatch.setattr(tide, "_sync_data", fdatasync)
        db.execute("INSERT INTO t VALUES (1)")
        file = tmp_path / "x.duckdb.tide"
        assert synced == [(str(file), file.stat().st_size)]


@pytest.mark.parametrize(
    "options", [{"durability": "for ever"}, {"durability": None}, {"durabilty": "power"}, {"durability": ["power"]}]
)
def test_options_that_are_none_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(tm.TidemarkError) as caught:
        tm.connect("duckdb", options=options)
    assert caught.value.code == "option"


@pytest.mark.parametrize("target", ["duckdb", "reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_power_is_not_promised_for_what_ends_with_its_process(target: str) -> None:
    tm.connect(target, options={"durability": "process"}).close()
    with pytest.raises(tm.TidemarkError, match="does not survive its process") as caught:
        tm.connect(target, options={"durability": "power"})
    assert caught.value.code == "option"
