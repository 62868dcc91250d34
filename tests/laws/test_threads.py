"""Random threads doing random transactions: the history is serial by version, and nobody's reads go back in time.

The model is the log of acknowledged transactions in the order of their versions: replayed, it gives the content at
each version, whichever threads did what. Every read names the version that it must have seen by what it saw: a table
has one row for each version in which it was changed.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

import tidemark as tm
from tests.support import rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.reference import ReferenceEngine

SCRIPT = """
CREATE TABLE account (id INT PRIMARY KEY, balance INT);
CREATE TABLE done (number INT PRIMARY KEY, thread INT);
CREATE MATERIALIZED VIEW wealth AS SELECT SUM(balance) AS total, COUNT(*) AS n FROM account;
CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM done;
INSERT INTO account VALUES (0, 100), (1, 100), (2, 100), (3, 100), (4, 100);
"""


@dataclass
class Seen:
    """What one thread was told, in its own order."""

    moved: list[tuple[int, int, int, int]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)


class Worker:
    """A thread that moves money between accounts, each time with a row that says so, and looks now and then."""

    def __init__(self, db: tm.Database, number: int, seed: int, steps: int) -> None:
        self.db, self.number, self.steps = db, number, steps
        self.random, self.seen = random.Random(f"{seed}-{number}"), Seen()
        self.thread = threading.Thread(target=self._run, name=f"worker {number}")

    def _run(self) -> None:
        for step in range(self.steps):
            try:
                self.random.choice((self._move, self._move, self._look, self._fail, self._follow))(step)
            except BaseException as error:
                self.seen.errors.append(error)

    def _move(self, step: int) -> None:
        source, target = self.random.sample(range(5), 2)
        amount, key = self.random.randint(1, 9), 1000 * self.number + step
        texts = (
            f"UPDATE account SET balance = balance - {amount} WHERE id = {source}",
            f"UPDATE account SET balance = balance + {amount} WHERE id = {target}",
            f"INSERT INTO done VALUES ({key}, {self.number})",
        )
        if self.random.random() < 0.5:
            with self.db.transaction() as tx:
                for text in texts:
                    tx.execute(text)
                    self._must_be_own(tx.query, key, text is texts[-1])
        else:
            self.db.execute("BEGIN")
            for text in texts:
                self.db.execute(text)
                self._must_be_own(self.db.query, key, text is texts[-1])
            self.db.execute("COMMIT")
        self.seen.moved.append((key, source, target, amount))

    def _must_be_own(self, query: Callable[[str], object], key: int, is_last: bool) -> None:
        """Inside a transaction its own writes are seen."""
        found = query(f"SELECT number FROM done WHERE number = {key}")
        if len(rows(found)) != int(is_last):
            self.seen.faults.append(f"{key} was {'not ' if is_last else ''}seen inside its transaction")

    def _fail(self, step: int) -> None:
        try:
            with self.db.transaction() as tx:
                tx.execute("DELETE FROM account")
                raise LookupError
        except LookupError:
            pass

    def _look(self, step: int) -> None:
        """One statement sees one version: money is neither lost nor made, and views are what tables are."""
        before = self.db.version
        both = rows(
            self.db.query(
                "SELECT w.total, w.n, c.n, (SELECT SUM(balance) FROM account), (SELECT COUNT(*) FROM done) "
                "FROM wealth w CROSS JOIN counted c"
            )
        )
        ((total, accounts, moves, summed, there),) = both
        if (total, accounts, summed) != (500, 5, 500) or moves != there:
            self.seen.faults.append(f"torn: {both}")
        self.seen.counts.append(moves)
        self.seen.versions += [before, self.db.version]

    def _follow(self, step: int) -> None:
        """The log, read at once, is net per version and adds up to what a version held."""
        found = self.db.changes("done")
        versions = Counter(found.column("_version").to_pylist())
        if versions and max(versions.values()) > 1:
            self.seen.faults.append(f"two transactions in one version: {versions}")
        self.seen.counts.append(found.num_rows)


def run(db: tm.Database, seed: int, threads: int, steps: int) -> None:
    db.execute(SCRIPT)
    first = db.version
    told: list[int] = []
    subscription = db.subscribe("done", since=first)
    follower = threading.Thread(target=lambda: told.extend(change.version for change in subscription))
    follower.start()
    workers = [Worker(db, number, seed, steps) for number in range(threads)]
    for worker in workers:
        worker.thread.start()
    for worker in workers:
        worker.thread.join(300)
    assert not any(worker.thread.is_alive() for worker in workers), f"seed {seed}: somebody waits for ever"
    for worker in workers:
        seen = worker.seen
        assert not seen.errors and not seen.faults, (seed, worker.number, seen.errors, seen.faults)
        assert seen.counts == sorted(seen.counts), f"seed {seed}: reads of {worker.number} went back in time"
        assert seen.versions == sorted(seen.versions)
    moved = {move[0]: move for worker in workers for move in worker.seen.moved}
    assert db.version == first + len(moved), "each acknowledged transaction took one version, and nothing else did"
    serial = [row["number"] for row in db.changes("done").to_pylist()]
    assert sorted(serial) == sorted(moved)
    balances = dict.fromkeys(range(5), 100)
    for version, key in enumerate(serial, first + 1):
        _, source, target, amount = moved[key]
        balances[source] -= amount
        balances[target] += amount
        if version % 7 == 0:
            assert dict(rows(db.query(f"SELECT * FROM account AS OF VERSION {version}"))) == balances
    assert dict(rows(db.query("SELECT * FROM account"))) == balances
    for worker in workers:
        mine = [key for key in serial if key // 1000 == worker.number]
        assert mine == [move[0] for move in worker.seen.moved], "each thread's transactions are in its own order"
    for view in ("wealth", "counted"):
        assert db.audit(view).num_rows == 0
    deadline = threading.Event()
    while len(told) < len(moved) and not deadline.wait(0.01) and follower.is_alive():
        pass
    db.close()
    follower.join(60)
    assert told == list(range(first + 1, first + 1 + len(moved))), "and a subscriber hears of each, in order"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["reference", "duckdb", "duckdb by statements"])
def test_random_threads(kind: str, seed: int) -> None:
    engine = ReferenceEngine() if kind == "reference" else DuckDBEngine(by_statements=kind != "duckdb")
    run(tm.Database(engine), seed, threads=4, steps=12)


@pytest.mark.spark
def test_random_threads_on_spark(spark: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    run(tm.connect(spark, lake=str(tmp_path_factory.mktemp("lakes") / "lake")), seed=1, threads=3, steps=5)
