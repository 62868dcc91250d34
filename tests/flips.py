"""Single flipped bits in stored databases, and what becomes of them.

    python -m tests.flips --kind lake --seed 1 --count 300

flips one bit at a time, at seeded places of every file of a lake or of a DuckDB file, and lets a process of its own
open it, read everything, change something and read again. Every answer must be right, or a ``TidemarkError`` with the
code ``damaged`` or another that says that this is no database of ours; nothing else. A table says how it went.

The processes are forked from one that has imported everything, so that a segmentation fault is seen, and costs little.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tidemark as tm
from tests.support import rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.engine import Engine
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.session import IN_PROCESS
from tidemark.session.database import Database

TOLD: Final = ("damaged", "not_a_database", "format")
HARMLESS, AT_OPEN, AT_READ, WRONG, RAW, CRASHED = (
    "harmless",
    "noticed at open",
    "noticed at read",
    "WRONG",
    "RAW ERROR",
    "CRASHED",
)
HEAD_BYTES: Final = 12 * 1024
"""A quarter of the flips goes to the beginning of a file, where headers are."""
BAD: Final = (WRONG, RAW, CRASHED)
RELATIONS: Final = ("item", "kind", "dear", "total", "named", "path")

DEFINITIONS: Final = """
CREATE TABLE item (id INT PRIMARY KEY, kind INT, price DECIMAL(12,2), name VARCHAR);
CREATE TABLE kind (id INT PRIMARY KEY, label VARCHAR);
CREATE MATERIALIZED VIEW dear AS SELECT id, name, price FROM item WHERE price > 5;
CREATE MATERIALIZED VIEW total AS SELECT kind, COUNT(*) AS n, SUM(price) AS price, MAX(price) AS most FROM item
    GROUP BY kind;
CREATE MATERIALIZED VIEW named AS SELECT i.id, k.label FROM item i LEFT JOIN kind k ON k.id = i.kind;
CREATE MATERIALIZED VIEW path (x, y) AS DATALOG $$
    path(x,y) :- item(x,y,_,_).
    path(x,z) :- path(x,y), item(y,z,_,_). $$;
"""


def engine_of(kind: str, path: Path) -> Engine:
    """An engine on the database; a lake stages files and compacts soon, and needs no Java."""
    if kind == "lake":
        return SparkEngine(
            path / "lake",
            **IN_PROCESS,
            inline_rows=3,
            compact_every=8,
            merge_rows=12,
            merge_minimum=4,
            forget_every=1,
        )
    return DuckDBEngine(str(path / "file.duckdb"))


def make(kind: str, path: Path) -> None:
    """A database with everything in it that is stored in a form of its own."""
    with Database(engine_of(kind, path)) as db:
        db.execute(DEFINITIONS)
        db.execute("INSERT INTO kind VALUES (1, 'one'), (2, 'two'), (3, NULL)")
        for start in range(0, 60, 6):
            values = ", ".join(f"({i}, {i % 5}, {i % 11}.25, 'thing number {i}')" for i in range(start, start + 6))
            db.execute(f"INSERT INTO item VALUES {values}")
        db.execute("UPDATE item SET price = price + 1 WHERE id < 20")
        db.execute("DELETE FROM item WHERE id % 7 = 0")
        db.subscribe("total", name="ledger").poll()
        db.execute("UPDATE kind SET label = 'ONE' WHERE id = 1")
        db.execute("INSERT INTO item VALUES (100, 1, 7.75, 'the last')")
        if kind == "wal":
            os._exit(0)  # what stands in the write-ahead log stays there


def made(kind: str, path: Path) -> dict[str, Any]:
    make(kind, path)
    return {}


def answers(db: tm.Database) -> dict[str, Any]:
    """All that can be asked, and the same again after a change."""
    said: dict[str, Any] = {"version": db.version}
    for moment in ("before", "after"):
        for name in RELATIONS:
            said[f"{moment} {name}"] = rows(db.query(f"SELECT * FROM {name}"))
            said[f"{moment} changes of {name}"] = rows(db.changes(name).drop_columns(["_time"]))
            said[f"{moment} audit of {name}"] = rows(db.audit(name)) if name not in ("item", "kind") else []
        if moment == "before":
            db.execute("UPDATE item SET price = price * 2 WHERE id = 100")
            db.execute("DELETE FROM item WHERE id = 1")
    return said


def look(kind: str, path: Path) -> dict[str, Any]:
    """What a process says that opens the database."""
    stage = "open"
    try:
        with Database(engine_of(kind, path)) as db:
            stage = "read"
            found = answers(db)
        return {"answers": json.loads(json.dumps(found, default=str))}
    except tm.TidemarkError as error:
        return {"stage": stage, "code": error.code, "message": error.message}
    except Exception as error:
        return {"stage": stage, "raw": f"{type(error).__name__}: {str(error)[:200]}"}


def serve() -> None:
    """Fork a process for each line of the standard input, a kind and a folder, and say what it said."""
    for line in sys.stdin:
        kind, folder = line.rstrip("\n").split(" ", 1)
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                said = json.dumps(made(kind, Path(folder[1:])) if folder[0] == "+" else look(kind, Path(folder)))
            except BaseException as error:
                said = json.dumps({"stage": "read", "raw": f"{type(error).__name__}: {str(error)[:200]}"})
            with os.fdopen(writer, "w") as answer:
                answer.write(said)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            said = answer.read()
        _, status = os.waitpid(child, 0)
        crash = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        print(json.dumps({"crash": crash}) if crash else said or "{}", flush=True)


class Looker:
    """The process that forks others, which look."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.flips", "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, kind: str, folder: str) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(kind, folder, file=self._process.stdin, flush=True)
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextmanager
def looking() -> Iterator[Looker]:
    looker = Looker()
    try:
        yield looker
    finally:
        looker.close()


@dataclass(frozen=True)
class Flip:
    """One flipped bit, and what became of it."""

    file: str
    bit: int
    outcome: str
    said: str


def flips(kind: str, seed: int, count: int, work: Path, looker: Looker) -> Iterator[Flip]:
    """Flip bits of one database, one after the other, each in a copy of its own."""
    whole = work / "whole"
    whole.mkdir()
    looker.ask(kind, f"+{whole}")
    right = look_at_copy(kind, whole, work / "copy", looker)
    assert "answers" in right, right
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file() and path.stat().st_size)
    chosen = random.Random(seed)
    for number in range(count):
        # Every file gets its turn, and large ones more than that.
        sizes = [(whole / file).stat().st_size for file in files]
        file = files[number % len(files)] if number % 2 else chosen.choices(files, sizes)[0]
        size = (whole / file).stat().st_size
        bit = chosen.randrange((size if number % 4 else min(size, HEAD_BYTES)) * 8)
        found = look_at_copy(kind, whole, work / "copy", looker, file, bit)
        yield Flip(str(file), bit, outcome(found, right["answers"]), shown(found))


def look_at_copy(
    kind: str, whole: Path, copy: Path, looker: Looker, file: Path | None = None, bit: int = 0
) -> dict[str, Any]:
    shutil.copytree(whole, copy)
    try:
        if file is not None:
            flip(copy / file, bit)
        return looker.ask(kind, str(copy))
    finally:
        shutil.rmtree(copy)


def flip(path: Path, bit: int) -> None:
    with open(path, "r+b") as opened:
        opened.seek(bit // 8)
        byte = opened.read(1)[0]
        opened.seek(bit // 8)
        opened.write(bytes([byte ^ 1 << bit % 8]))


def outcome(found: dict[str, Any], right: dict[str, Any]) -> str:
    if "crash" in found:
        return CRASHED
    if "raw" in found or not ("code" in found or "answers" in found):
        return RAW
    if "answers" in found:
        return HARMLESS if found["answers"] == right else WRONG
    if found["code"] not in TOLD:
        return RAW
    return AT_OPEN if found["stage"] == "open" else AT_READ


def shown(found: dict[str, Any]) -> str:
    if "answers" in found:
        return "answers"
    return json.dumps(found)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--serve", action="store_true")
    options.add_argument("--kind", choices=("lake", "duckdb", "wal"), default="lake")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--verbose", action="store_true")
    chosen = options.parse_args()
    if chosen.serve:
        serve()
        return
    table = Counter[str]()
    with tempfile.TemporaryDirectory() as folder, looking() as looker:
        for found in flips(chosen.kind, chosen.seed, chosen.count, Path(folder), looker):
            table[found.outcome] += 1
            if found.outcome in BAD or chosen.verbose:
                print(found.outcome, found.file, found.bit, found.said, flush=True)
    print(f"{chosen.kind}, seed {chosen.seed}: {sum(table.values())} flips", dict(table))
    if any(table[outcome] for outcome in BAD):
        sys.exit(1)


if __name__ == "__main__":
    main()
