"""Several processes share a lake: readers follow a writer that is stopped, overtaken, continued and killed.

``python -m tests.sharing --minutes 5`` prints its seed and what came of each round, and fails if anything was lost or
doubled, or if a reader saw what never was. ``--rate 20`` has the writer commit so many transactions a second, and tells
how far behind two readers are.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests import sharing_worker
from tests.support import rows
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.backup import check_lake
from tidemark.session.database import Database

LONGEST = 120.0


@dataclass
class Worker:
    """A process, and all that it has said."""

    process: subprocess.Popen[bytes]
    said: Path

    @classmethod
    def begun(cls, folder: Path, role: str, lake: Path, *arguments: str) -> Worker:
        said = folder / f"{role}-{secrets.token_hex(6)}"
        command = [sys.executable, "-m", "tests.sharing_worker", role, str(lake), *arguments]
        with open(said, "wb") as out, open(f"{said}.err", "wb") as errors:
            return cls(subprocess.Popen(command, stdout=out, stderr=errors), said)

    @property
    def lines(self) -> list[str]:
        text = self.said.read_text()
        return text[: text.rfind("\n") + 1].splitlines()

    @property
    def acknowledged(self) -> list[int]:
        return [int(line) for line in self.lines if line.isdigit()]

    def failure(self) -> str:
        return Path(f"{self.said}.err").read_text()[-3000:]

    def until(self, line: str) -> bool:
        """Wait for a line; whether it came before the process ended."""
        end = time.monotonic() + LONGEST
        while line not in self.lines:
            if self.process.poll() is not None or time.monotonic() > end:
                return line in self.lines
            time.sleep(0.02)
        return True

    def signal(self, number: int) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()


@dataclass
class Sharing:
    """A lake with its processes."""

    folder: Path
    seed: int
    pause: float = 0.0
    writer: Worker | None = None
    readers: list[Worker] = field(default_factory=list)
    done: list[Worker] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.lake = self.folder / "lake"

    def write(self, *more: str) -> Worker:
        begun = Worker.begun(self.folder, "write", self.lake, str(self.random.randrange(10**6)), str(self.pause), *more)
        self.done.append(begun)
        return begun

    def read(self) -> None:
        self.readers.append(Worker.begun(self.folder, "read", self.lake, str(self.random.randrange(10**6))))

    def begin(self, readers: int) -> None:
        self.writer = self.write()
        assert self.writer.until("ready"), self.writer.failure()
        for _ in range(readers):
            self.read()
        for one in self.readers:
            assert one.until("ready"), one.failure()

    def round(self) -> None:
        """Let the writer go on for a while, and then lose its place, or its life."""
        assert self.writer is not None
        time.sleep(self.random.random() * 1.5)
        if self.random.random() < 0.4:
            self.counts["killed"] += 1
            self.writer.kill()
            self.writer = self.write()
            assert self.writer.until("ready"), self.writer.failure()
        else:
            self.overtake()
        if self.readers and self.random.random() < 0.2:
            self.counts["readers killed"] += 1
            self.readers.pop(0).kill()
            self.read()
        for one in self.readers:
            assert one.process.poll() is None, one.failure()

    def overtake(self) -> None:
        assert self.writer is not None
        stopped = self.writer
        stopped.signal(signal.SIGSTOP)
        try:
            while True:
                taker = self.write("takeover")
                if taker.until("ready"):
                    break
                assert taker.lines[-1:] == ["in_use"], taker.failure()  # it stands in the midst of a removal
                self.counts["in the midst of a removal"] += 1
                stopped.signal(signal.SIGCONT)
                time.sleep(0.05)
                stopped.signal(signal.SIGSTOP)
            if self.random.random() < 0.5:
                time.sleep(self.random.random())
        finally:
            stopped.signal(signal.SIGCONT)
        self.counts["overtaken"] += 1
        assert stopped.until("fenced"), f"it was not told: {stopped.lines[-3:]} {stopped.failure()}"
        stopped.process.wait(LONGEST)
        self.writer = taker

    def end(self) -> int:
        """Nothing is lost, nothing doubled, nothing damaged; how many transactions there are."""
        for one in (*self.readers, *self.done):
            one.kill()
        for one in self.readers:
            assert "Error" not in one.failure().replace("KeyboardInterrupt", ""), one.failure()
        acknowledged = [number for one in self.done for number in one.acknowledged]
        twice = [number for number, times in Counter(acknowledged).items() if times > 1]
        assert not twice, f"{twice} were acknowledged twice"
        with Database(SparkEngine(self.lake, **sharing_worker.SMALL)) as db:
            count = sharing_worker.check(db, self.random)
            assert count >= max(acknowledged, default=0), f"{count} of {max(acknowledged)} are there"
            assert all(not db.audit(view).num_rows for view in ("totals", "summary"))
            assert rows(db.query("SELECT COUNT(*) FROM done")) == [(count,)]
        found = check_lake(str(self.lake), lambda name: None)
        assert not found.damage, found.damage
        return count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sharing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rate", type=float, default=0.0, help="no rounds: so many transactions a second, and the lag")
    chosen = parser.parse_args()
    seed = secrets.randbelow(10**6) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    end = time.monotonic() + chosen.minutes * 60
    with tempfile.TemporaryDirectory(prefix="tidemark-sharing-") as folder:
        sharing = Sharing(Path(folder), seed, pause=max(0.0, 1 / chosen.rate - 0.015) if chosen.rate else 0.0)
        try:
            sharing.begin(readers=2)
            began, before = time.monotonic(), len(sharing.done[0].acknowledged)
            while time.monotonic() < end:
                if chosen.rate:
                    time.sleep(1)
                else:
                    sharing.round()
                    print(dict(sharing.counts), sharing.done[-1].acknowledged[-1:], flush=True)
            rate = (len(sharing.done[0].acknowledged) - before) / (time.monotonic() - began)
            if chosen.rate:
                print(f"{rate:.1f} transactions a second; for each reader: transactions seen, lag in ms (half, 95 %)")
                print(*(one.lines[-1] for one in sharing.readers), sep="\n")
        finally:
            for one in (*sharing.readers, *sharing.done):
                one.signal(signal.SIGCONT)
                if sys.exc_info()[0] is not None:
                    one.kill()
        print(f"{sharing.end()} transactions, all as they should be: {dict(sharing.counts)}")


if __name__ == "__main__":
    main()
