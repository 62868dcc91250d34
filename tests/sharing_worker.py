"""One process of several that share a lake: a writer of numbered transactions, or a reader that checks what it sees.

What the lake holds follows from how many transactions there are, so that every version can be checked. Run as a program
with a role, a folder and a seed; meant to be stopped, overtaken and killed at any instant. With the small thresholds
here merges, compactions, publications and sweeps come at every few transactions; a writer that pauses between
transactions has those of every day.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections import Counter
from random import Random
from typing import Any, Final

import tidemark as tm
from tests.support import rows
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.reader import LakeReader
from tidemark.session.database import Database
from tidemark.session.reading import ReadOnlyDatabase
from tidemark.storage.publishing import Rhythm

SMALL: Final[dict[str, Any]] = {
    "compact_every": 4,
    "merge_rows": 24,
    "merge_minimum": 6,
    "many_files": 2,
    "inline_rows": 4,
    "recent_bytes": 4_000,
    "sweep_after_seconds": 0,
    "keep_merged_seconds": 0,
    "keep_feed_seconds": 0,
    "keep_publications": 3,
    "checkpoint_every": 2,
    "forget_every": 2,
    "in_process_rows": 10**12,
}
SETUP: Final = """
CREATE TABLE done (n INT PRIMARY KEY);
CREATE TABLE line (n INT, part INT, amount INT);
CREATE MATERIALIZED VIEW totals AS
    SELECT d.n, COUNT(*) AS parts, SUM(amount) AS amount FROM done d JOIN line l ON l.n = d.n GROUP BY d.n;
CREATE MATERIALIZED VIEW summary AS SELECT parts, COUNT(*) AS transactions FROM totals GROUP BY parts;
"""
QUIET: Final = 60.0
"""A reader that has seen nothing new for so many seconds ends."""


def lines(count: int) -> Counter[tuple[int, int, int]]:
    """The rows of ``line`` after so many transactions: later ones take the first part of earlier ones away."""
    return Counter((n, part, n + part) for n in range(1, count + 1) for part in range(3) if part or n > count - 5)


def totals(count: int) -> Counter[tuple[int, int, int]]:
    found: dict[int, list[int]] = {}
    for n, _, amount in lines(count):
        found.setdefault(n, []).append(amount)
    return Counter((n, len(amounts), sum(amounts)) for n, amounts in found.items())


def run(db: tm.Database, number: int) -> None:
    with db.transaction() as tx:
        tx.insert("done", [(number,)])
        tx.insert("line", [(number, part, number + part) for part in range(3)])
        if number > 5:
            tx.execute(f"DELETE FROM line WHERE n = {number - 5} AND part = 0")


def write(folder: str, seed: int, pause: float, takeover: bool) -> None:
    """Commit transactions without end, and say each one that was acknowledged."""
    random = Random(seed)
    thresholds = {"in_process_rows": 10**12} if pause else {**SMALL, "publish": Rhythm(versions=3)}
    options: dict[str, Any] = {**thresholds, "takeover": takeover}
    try:
        db = Database(SparkEngine(folder, **options))
        if not db.version:
            db.execute(SETUP)
        print("ready", flush=True)
        number = db.query("SELECT COUNT(*) AS n FROM done").column("n")[0].as_py()
        while True:
            number += 1
            run(db, number)
            print(number, flush=True)
            if not pause and random.random() < 0.1:
                db.execute("DROP MATERIALIZED VIEW IF EXISTS passing")
                db.execute("CREATE MATERIALIZED VIEW passing AS SELECT COUNT(*) AS n FROM done")
            if random.random() < 0.05:
                db.execute("ALTER LOG SET (versions = 30)")
            time.sleep(pause)
    except tm.TidemarkError as error:
        print(error.code, flush=True)
        if error.code not in ("fenced", "in_use"):
            raise


def check(db: tm.Database, random: Random) -> int:
    """Compare what one version holds with what it should."""
    with db.transaction() as tx:
        count: int = tx.query("SELECT COUNT(*) AS n FROM done").column("n")[0].as_py()
        if random.random() < 0.3:
            time.sleep(random.random() * 0.2)  # the writer goes on, and files of this version go
        assert rows(tx.query("SELECT n FROM done")) == [(n,) for n in range(1, count + 1)]
        assert Counter(rows(tx.query("SELECT * FROM line"))) == lines(count), count
        assert Counter(rows(tx.query("SELECT * FROM totals"))) == totals(count), count
        parts = Counter(parts for _, parts, _ in totals(count))
        assert Counter(dict(rows(tx.query("SELECT * FROM summary")))) == parts, count
    return count


def read(folder: str, seed: int) -> None:
    """Follow until nothing comes any more; say what was seen."""
    random, held = Random(seed), Counter[tuple[Any, ...]]()
    lags = list[float]()
    with ReadOnlyDatabase(LakeReader(folder, in_process_rows=10**12)) as db:
        following = db.subscribe("totals")
        print("ready", flush=True)
        last, seen = time.monotonic(), 0
        while time.monotonic() - last < QUIET:
            try:
                change = following.poll(0.2)
                while change is not None:
                    last = time.monotonic()
                    assert change.time is not None
                    lags.append((dt.datetime.now(dt.UTC).replace(tzinfo=None) - change.time).total_seconds())
                    held.update(rows(change.inserted))
                    held.subtract(rows(change.deleted))
                    change = following.poll(0)
                known = len(+held)
                assert +held == totals(known) and not -held, f"the subscriber holds {held}"
            except tm.TidemarkError as error:
                if error.code != "version":  # it was away for longer than the log is kept
                    raise
                following.close()
                following, held = db.subscribe("totals"), Counter()
            try:
                count = check(db, random)
                assert count >= seen, f"{count} after {seen}"
                seen = count
                if random.random() < 0.05:
                    assert not db.audit("totals").num_rows
            except tm.TidemarkError as error:
                if error.code != "version":
                    raise
            if len(lags) > 1:
                told = sorted(lags[1:])
                print(f"{seen} {told[len(told) // 2] * 1000:.0f} {told[len(told) * 95 // 100] * 1000:.0f}", flush=True)


if __name__ == "__main__":
    role, place, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if role == "read":
        read(place, number)
    else:
        write(place, number, float(sys.argv[4]), sys.argv[5:] == ["takeover"])
