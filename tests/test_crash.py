"""``kill -9`` in the middle of commits, again and again: nothing acknowledged is lost, nothing half done is seen."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.foreign import Foreign
from tests.support import bag_of, check_invariant, rows

pytestmark = pytest.mark.slow

WORKER = Path(__file__).parent / "crash_worker.py"


def killed_after(
    target: str, first: int, commits: int, seconds: float, program: Path = WORKER, options: tuple[str, ...] = ()
) -> int:
    """Let a worker commit so often, and a moment more, kill it, and give the last number that it acknowledged."""
    worker = subprocess.Popen(
        [sys.executable, "-m", f"tests.{program.stem}", target, str(first), *options],
        cwd=program.parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline().strip() == "ready"
    seen = [int(worker.stdout.readline()) for _ in range(commits)]
    time.sleep(seconds)
    worker.kill()
    # Numbers printed before the kill were acknowledged too; the pipe keeps them.
    later = [int(line) for line in worker.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    worker.wait()
    return (seen + later)[-1] if seen or later else first - 1


def check_after_crash(db: tm.Database, acknowledged: int) -> int:
    """All that was acknowledged is there, whole; perhaps the one that was being committed is there too, whole."""
    numbers = [n for (n,) in rows(db.query("SELECT n FROM done"))]
    assert numbers == list(range(1, len(numbers) + 1)), "transactions are there without gaps"
    assert acknowledged <= len(numbers) <= acknowledged + 1
    parts = dict(rows(db.query("SELECT n, COUNT(*) AS parts FROM line GROUP BY n")))
    last = len(numbers)
    assert parts == {n: 2 if n <= last - 5 else 3 for n in numbers}, "each transaction is there in all its tables"
    check_invariant(db)
    return last


def crash_again_and_again(target: str, reopen: Callable[[], tm.Database], times: int, longest: float) -> None:
    """``longest`` is about the time of one commit, so that the kills fall anywhere in one."""
    generator = random.Random(20240229)
    last = 0
    for _ in range(times):
        acknowledged = killed_after(target, last + 1, generator.randint(1, 6), generator.uniform(0, longest))
        with reopen() as db:
            last = check_after_crash(db, acknowledged)
    assert last >= times, "the workers hardly committed anything: the test proves nothing"


def test_duckdb_survives_kill_9_in_the_middle_of_commits(tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    crash_again_and_again(target, lambda: tm.connect(target), times=12, longest=0.15)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_survives_kill_9_in_the_middle_of_commits(tmp_path: Path, spark: Any) -> None:
    """The worker runs Spark of its own; what it left is opened with the session of the tests."""
    lake = str(tmp_path / "lake")
    crash_again_and_again(f"spark:{lake}", lambda: tm.connect(spark, lake=lake), times=3, longest=0.5)


def check_lagging_after_crash(db: tm.Database, acknowledged: int) -> int:
    """Content, tidemark, results and what the log was cut to are of one moment, whichever that was."""
    numbers = [n for (n,) in rows(db.query("SELECT n FROM done"))]
    assert numbers == list(range(1, len(numbers) + 1))
    assert acknowledged <= len(numbers) <= acknowledged + 1
    for name in ("parts", "news"):
        assert db.audit(name).num_rows == 0
        db.refresh(name)
        assert db.audit(name).num_rows == 0
    assert rows(db.query("SELECT * FROM parts")) == rows(
        db.query("SELECT part, COUNT(*) AS n, SUM(n) AS total FROM done GROUP BY part")
    )
    assert rows(db.query("SELECT * FROM news")) == rows(db.query("SELECT n, part FROM done WHERE part > 0"))
    shown = db.execute("SHOW CONTINUAL QUERIES")
    last = db._continual.results_of("news")
    assert shown is not None and shown["results"].to_pylist() == [max(last)], "the last result is there"
    return len(numbers)


def test_what_lags_and_its_log_survive_kill_9(tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    generator, last = random.Random(20270101), 0
    for _ in range(6):
        worker = WORKER.with_name("crash_lagging_worker.py")
        acknowledged = killed_after(target, last + 1, generator.randint(2, 9), generator.uniform(0, 0.3), worker)
        with tm.connect(target) as db:
            last = check_lagging_after_crash(db, acknowledged)
    assert last >= 6, "the workers hardly committed anything: the test proves nothing"


def check_pulled_after_crash(db: tm.Database, sale: Foreign, bonus: Foreign) -> None:
    """What was committed is whole; another pull takes what is missing, once."""
    check_invariant(db)
    db.pull()
    assert bag_of(db.query("SELECT * FROM sale")) == sale.content()
    assert bag_of(db.query("SELECT * FROM bonus")) == bonus.content()
    check_invariant(db)
    assert db.pull() == 0


def test_pulls_survive_kill_9(tmp_path: Path) -> None:
    worker, folder = Path(__file__).parent / "crash_pull_worker.py", tmp_path / "foreign"
    target, generator, last = f"duckdb:{tmp_path / 'data.duckdb'}", random.Random(20240301), 0
    for _ in range(8):
        last = killed_after(target, last + 1, generator.randint(1, 3), generator.uniform(0, 0.15), worker)
        with tm.connect(target, allow_paths=[folder]) as db:
            check_pulled_after_crash(db, Foreign(folder / "sale"), Foreign(folder / "bonus"))
    assert last >= 8
