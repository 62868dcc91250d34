"""Commits numbered transactions, and goes on whenever Ctrl-C comes, as a program does that catches it.

Run as a program with the target of a database, a number of transactions and a number of interrupts. The target
``forced:`` with a path is a lake of which Spark reads all that is stored. It goes on until it has felt so many
interrupts, says so, and then until so many transactions are there. At the end it checks everything, closes, and says
how many there were of each; whatever else happens is a failure.
"""

from __future__ import annotations

import os
import signal
import sys

import tidemark as tm
from tests.support import check_invariant, rows
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.session import ON_SPARK

SETUP = """
CREATE TABLE done (n INT PRIMARY KEY);
CREATE TABLE line (n INT, part INT);
CREATE MATERIALIZED VIEW totals AS SELECT d.n, COUNT(*) AS parts FROM done d JOIN line l ON l.n = d.n GROUP BY d.n;
"""


def commit(db: tm.Database, number: int) -> None:
    match number % 3:
        case 0:
            with db.transaction() as tx:
                tx.insert("done", [(number,)])
                tx.insert("line", [(number, part) for part in range(3)])
        case 1:
            values = ", ".join(f"({number}, {part})" for part in range(3))
            db.execute(f"BEGIN; INSERT INTO done VALUES ({number}); INSERT INTO line VALUES {values}; COMMIT")
        case _:
            db.execute("BEGIN")
            db.insert("done", [(number,)])
            db.insert("line", [(number, part) for part in range(3)])
            db.execute("COMMIT")


def rolled_back(db: tm.Database) -> None:
    """End the transaction that BEGIN opened, if it did."""
    try:
        db.execute("ROLLBACK")
    except tm.TidemarkError as error:
        if error.code != "transaction":
            raise


class Worker:
    """Commits one number after the other. After an interrupt it looks whether the last one is there: until then that
    one is tried, and may be there or not."""

    def __init__(self, db: tm.Database) -> None:
        self._db, self.number, self.is_tried = db, 1, False
        self.is_at_work, self.interrupts = False, 0

    def pressed(self, *_: object) -> None:
        """Ctrl-C is pressed. Between two attempts, where nothing of Tidemark runs, it does not count."""
        if self.is_at_work:
            raise KeyboardInterrupt

    def attempt(self) -> None:
        try:
            self.is_at_work = True
            if self.is_tried:
                rolled_back(self._db)
            if not self.is_tried or not rows(self._db.query(f"SELECT n FROM done WHERE n = {self.number}")):
                self.is_tried = True
                commit(self._db, self.number)
            self.is_at_work = False
            self.number, self.is_tried = self.number + 1, False
        except KeyboardInterrupt:
            self.is_at_work = False
            self.interrupts += 1


def opened(target: str) -> tm.Database:
    kind, _, path = target.partition(":")
    return tm.Database(SparkEngine(path, **ON_SPARK)) if kind == "forced" else tm.connect(target)


def main(target: str, count: int, interrupts: int) -> None:
    db = opened(target)
    db.execute(SETUP)
    worker = Worker(db)
    signal.signal(signal.SIGINT, worker.pressed)
    print("ready", flush=True)
    while worker.interrupts < interrupts:
        worker.attempt()
    print("enough", flush=True)
    while worker.number <= count or worker.is_tried:
        worker.attempt()
    check_invariant(db)
    done = worker.number - 1
    assert rows(db.query("SELECT n, parts FROM totals")) == [(number, 3) for number in range(1, done + 1)]
    db.close()
    assert signal.getsignal(signal.SIGINT) == worker.pressed, "nobody else has changed the handler"
    print("done", done, worker.interrupts, flush=True)
    os._exit(0)  # while Python ends, no handler is there any more, and a signal would be the end


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
