"""``kill -9`` of processes that write and read a lake on an object store, again and again, with seeds.

    python -m tests.bucket_kills --kills 200 [--pauses 20] [--seed N]

After each kill of the writer the lake is opened, often by a machine that has never seen it: all that was acknowledged
is there, whole, perhaps with the transaction that was being committed, and all views are what their definitions say. A
reader beside it has seen whole transactions, in their order, and is killed, too.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from deltalake import DeltaTable

import tidemark as tm
from tests.object_server import ObjectServer, object_server
from tests.support import bag_of
from tests.test_crash import check_after_crash, killed_after


@dataclass(frozen=True)
class Told:
    kills: int
    transactions: int
    reads: int


def kill_again_and_again(server: ObjectServer, connect: Callable[[str], tm.Database], *, kills: int, seed: int) -> Told:
    """``connect`` goes by the environment, as the workers do. Before half of the openings the cache is lost."""
    generator, url, last, seen = random.Random(seed), server.url(), 0, 0
    for number in range(1, kills + 1):
        commits, pause = generator.randint(0, 6), generator.uniform(0, 0.2)
        reader = _reading(f"spark:{url}") if last else None
        acknowledged = killed_after(f"spark:{url}", last + 1, commits, pause, options=("commit",))
        if reader is not None:
            seen += _killed(reader, acknowledged)
        if generator.random() < 0.5:
            shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]) / "tidemark", ignore_errors=True)
        with connect(url) as db:
            last = check_after_crash(db, acknowledged)
            check_published(db, server, url)
        if number % 10 == 0:
            print(f"{number} kills, {last} transactions, {seen} reads", flush=True)
    return Told(kills, last, seen)


def overtake_again_and_again(
    server: ObjectServer, connect: Callable[[str], tm.Database], *, times: int, seed: int
) -> None:
    """Stop a writer at some moment, take its place, commit, and let it go on: it is fenced, and harms nothing."""
    generator, url, last = random.Random(seed), server.url(), 0
    for _ in range(times):
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.crash_worker", f"spark:{url}", str(last + 1), "commit"],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == "ready"
        seen = [int(worker.stdout.readline()) for _ in range(generator.randint(1, 6))]
        time.sleep(generator.uniform(0, 0.3))
        worker.send_signal(signal.SIGSTOP)
        with connect(url) as db:
            last = check_after_crash(db, max(seen[-1], db.query("SELECT * FROM done").num_rows)) + 1
            with db.transaction() as tx:
                tx.insert("done", [(last,)])
                tx.insert("line", [(last, part, part) for part in range(3)])
                tx.execute(f"DELETE FROM line WHERE n = {last - 5} AND part = 0")
            worker.send_signal(signal.SIGCONT)
            later, errors = worker.communicate(timeout=300)
            assert "[fenced]" in errors, errors
            assert all(int(number) < last for number in later.split())
            check_after_crash(db, last)
        with connect(url) as db:
            assert check_after_crash(db, last) == last
            check_published(db, server, url)


def _reading(target: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bucket_reader", target],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _killed(reader: subprocess.Popen[str], acknowledged: int) -> int:
    """Kill a reader; how often it has read."""
    assert reader.stdout is not None
    first = reader.stdout.readline().strip()
    seen = [reader.stdout.readline().strip()]
    reader.kill()
    seen += [line.strip() for line in reader.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    reader.wait()
    assert first == "ready", first
    assert all(text.isdigit() for text in seen), seen
    numbers = [int(text) for text in seen]
    assert numbers == sorted(numbers)
    assert numbers[-1] <= acknowledged + 1
    return len(numbers)


def check_published(db: tm.Database, server: ObjectServer, url: str) -> None:
    """Other programs see what is there, whatever was published when the process was killed."""
    for name in ("done", "line", "totals", "summary"):
        found = DeltaTable(f"{url}/tables/{name}", storage_options=server.of_delta).to_pyarrow_table()
        assert bag_of(found) == bag_of(db.query(f"SELECT * FROM {name}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pauses", type=int, default=0, help="so often a writer is stopped and overtaken before")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}, {chosen.kills} kills", flush=True)
    began = time.monotonic()
    with object_server() as server, TemporaryDirectory() as cache:
        os.environ.update({**server.environment, "XDG_CACHE_HOME": cache})

        def connect(url: str) -> tm.Database:
            return tm.connect(f"spark:{url}", takeover=True)

        if chosen.pauses:
            overtake_again_and_again(server, connect, times=chosen.pauses, seed=chosen.seed)
            print(f"{chosen.pauses} writers overtaken", flush=True)
        told = kill_again_and_again(server, connect, kills=chosen.kills, seed=chosen.seed)
    seconds = time.monotonic() - began
    found = f"{told.kills} kills, {told.transactions} transactions, {told.reads} reads"
    print(f"{found}, none lost, none torn, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
