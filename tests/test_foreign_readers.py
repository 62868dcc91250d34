"""Other readers of a lake's published tables see a committed version, whole, at every moment, and each older one.

delta-kernel and delta-spark read in environments of their own (``scripts/readers.sh``). A test says why where these
cannot be had.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tidemark as tm

# In one process, since the first test makes the environments.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("readers")]

ROOT = Path(__file__).parent.parent
Read = Callable[[Path, int | None], Counter[str]]
"""The rows of a table, of one version if that is asked for."""
RELATIONS = ("item", "total", "latest")
SETUP = """
CREATE TABLE item (id INT PRIMARY KEY, grp VARCHAR, amount DECIMAL(12,2), day DATE, at TIMESTAMP, f DOUBLE,
    tags VARCHAR[]);
CREATE TABLE mark (last BIGINT);
CREATE MATERIALIZED VIEW total AS SELECT grp, COUNT(*) AS n, SUM(amount) AS amount FROM item GROUP BY grp;
CREATE MATERIALIZED VIEW latest AS SELECT i.id, m.last FROM item i CROSS JOIN mark m;
INSERT INTO mark VALUES (0);
"""


def counted(rows: list[list[Any]]) -> Counter[str]:
    """Rows as texts, since values of some types come as such from another process."""
    return Counter(json.dumps(row) for row in json.loads(json.dumps(rows, default=str)))


def of_table(rows: pa.Table) -> Counter[str]:
    return counted([list(row.values()) for row in rows.to_pylist()])


def by_delta_rs(table: Path, version: int | None) -> Counter[str]:
    return of_table(DeltaTable(str(table), version=version).to_pyarrow_table())


def prepared(reader: str) -> str:
    """What a reader needs, or a reason not to run the test."""
    done = subprocess.run(
        [ROOT / "scripts" / "readers.sh", reader],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"{reader}: " + " ".join(done.stderr.strip().splitlines()[-3:]))
    return done.stdout.strip()


@contextmanager
def process(*line: str) -> Iterator[Read]:
    """A reader in a process of its own."""
    running = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdin is not None and running.stdout is not None and running.stderr is not None

    def read(table: Path, version: int | None) -> Counter[str]:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write(json.dumps([str(table), version]) + "\n")
        running.stdin.flush()
        answer = running.stdout.readline()
        assert answer, "the reader has ended: " + "".join(said[-30:])
        return counted(json.loads(answer))

    said: list[str] = []
    threading.Thread(target=lambda lines: said.extend(lines), args=(running.stderr,), daemon=True).start()
    try:
        assert running.stdout.readline().strip() == "ready", "".join(said[-30:])
        yield read
    finally:
        running.kill()
        running.wait()


@contextmanager
def reader(name: str) -> Iterator[Read]:
    if name == "delta-rs":
        yield by_delta_rs
        return
    program = {"delta-kernel": "kernel_reader.py", "delta-spark": "delta_spark_reader.py"}[name]
    with process(prepared(name.partition("-")[2]), str(ROOT / "tests" / program)) as read:
        yield read


DELTA_SPARK = pytest.param("delta-spark", 4, marks=pytest.mark.spark)


class Writer:
    """Random commits, and what each relation holds after each: the model."""

    def __init__(self, lake: Path, seed: int) -> None:
        self.lake, self._random = lake, random.Random(seed)
        self.db = tm.connect(f"spark:{lake}", options={"publish": "commit", "run": "process"})
        self.db.execute(SETUP)
        self.held: dict[str, list[Counter[str]]] = {name: [] for name in RELATIONS}
        self.entries: list[tuple[str, int, Counter[str]]] = []
        self.note()

    def note(self) -> None:
        for name in RELATIONS:
            rows = of_table(self.db.query(f"SELECT * FROM {name}"))
            self.held[name].append(rows)
            self.entries.append((name, DeltaTable(str(self.table(name))).version(), rows))

    def table(self, name: str) -> Path:
        return self.lake / "tables" / name

    def commit(self) -> None:
        with self.db.transaction() as tx:
            for _ in range(self._random.randint(1, 3)):
                tx.execute(self._statement())
            tx.execute("UPDATE mark SET last = last + 1")

    def _statement(self) -> str:
        pick, number = self._random.choice, self._random.randint(1, 9)
        match self._random.randint(0, 3):
            case 0:
                return f"DELETE FROM item WHERE id = {number}"
            case 1:
                return f"UPDATE item SET amount = amount + 1, grp = '{pick('ab')}' WHERE id >= {number}"
        values = (
            pick(["NULL::VARCHAR", "'a'", "'ä𝄞'"]),
            pick(["NULL::DECIMAL(12,2)", "1.50"]),
            pick(["NULL::DATE", "DATE '0001-01-01'"]),
            pick(["NULL::TIMESTAMP", "TIMESTAMP '2020-01-01 12:00:00.000001'"]),
            pick(["NULL::DOUBLE PRECISION", "-1e300"]),
            pick(["NULL::VARCHAR[]", "ARRAY[]::VARCHAR[]", "ARRAY['x', NULL]"]),
        )
        is_new = f"NOT EXISTS (SELECT 1 FROM item WHERE id = {number})"
        return f"INSERT INTO item SELECT {number}, {', '.join(values)} WHERE {is_new}"


@pytest.mark.parametrize(("name", "seed"), [("delta-rs", 1), ("delta-kernel", 2), ("delta-kernel", 3), DELTA_SPARK])
def test_each_reader_sees_a_committed_version_while_somebody_commits(name: str, seed: int, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "lake", seed)
    found: list[tuple[str, int, int, Counter[str]]] = []
    done = threading.Event()

    def follow(read: Read) -> None:
        while True:
            is_last = done.is_set()
            for relation in RELATIONS:
                before = len(writer.held[relation])
                rows = read(writer.table(relation), None)
                found.append((relation, before, len(writer.held[relation]), rows))
            if is_last:
                return

    with reader(name) as read, writer.db, ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow, read)
        try:
            for _ in range(25):
                writer.commit()
                writer.note()
        finally:
            done.set()
        following.result()
        # Each older version is still there, too.
        for relation, entry, rows in writer.entries[:: len(writer.entries) // 6]:
            assert read(writer.table(relation), entry) == rows, (relation, entry)
    last = {relation: rows for relation, _, _, rows in found}
    assert last == {relation: writer.held[relation][-1] for relation in RELATIONS}
    for relation, before, after, rows in found:
        # Published before the commit is noted here, so that a reader may be one ahead.
        assert rows in writer.held[relation][before - 1 : after + 1], (relation, before, after)


@pytest.mark.parametrize("name", ["delta-rs", "delta-kernel"])
def test_each_reader_sees_every_published_version_again(name: str, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "lake", 7)
    with reader(name) as read:
        for _ in range(6):
            writer.commit()
            writer.note()
        writer.db.close()
        for relation, entry, rows in writer.entries:
            assert read(writer.table(relation), entry) == rows, (relation, entry)
