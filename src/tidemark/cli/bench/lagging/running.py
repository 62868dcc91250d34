"""Running the three: each in a database of its own, whose answers are checked at the end."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from tidemark.cli.bench.clock import spent_on
from tidemark.cli.bench.lagging.figures import QueriesReport, Reading, Refreshed, SnapshotReport, SoakReport
from tidemark.cli.show import Display
from tidemark.cli.status import Status
from tidemark.database import Database, connect
from tidemark.errors import TidemarkError

DEFINITION: Final = (
    "SELECT c.region, COUNT(*) AS sales, SUM(s.amount) AS amount FROM sale s JOIN customer c ON c.id = s.customer "
    "WHERE s.amount > 10 GROUP BY c.region"
)
CUSTOMERS: Final = 1000
SETUP: Final = """
CREATE TABLE customer (id INT PRIMARY KEY, region INT);
CREATE TABLE sale (id INT PRIMARY KEY, customer INT, amount INT);
"""


def filled(target: str, rows: int) -> Database:
    """A database with sales of customers."""
    database = connect(target)
    database.execute(SETUP)
    database.insert("customer", [(i, i % 50) for i in range(CUSTOMERS)])
    step = 200_000
    for start in range(0, rows, step):
        some = range(start, min(start + step, rows))
        database.insert("sale", [(i, i % CUSTOMERS, (i * 7919) % 1000) for i in some])
    return database


def change(database: Database, number: int, rows: int) -> None:
    """A small transaction: a sale comes, an old one goes or is corrected."""
    with database.transaction() as transaction:
        transaction.insert("sale", [(rows + number, number % CUSTOMERS, number % 1000)])
        if number % 3 == 0:
            old = rows + number - 30
            transaction.execute(f"DELETE FROM sale WHERE id = {old}")
        elif number % 3 == 1:
            transaction.execute(f"UPDATE sale SET amount = {number % 977} WHERE id = {(number * 31) % max(1, rows)}")


class Snapshots:
    """Refreshes of snapshots that lag behind by 1, 10, 100 … transactions."""

    def __init__(self, rows: int, most: int, folder: Path, display: Display, status: Status) -> None:
        self._rows, self._most, self._folder = rows, most, folder
        self._display, self._status = display, status

    def run(self, engine: str) -> SnapshotReport:
        report = SnapshotReport(engine, self._rows)
        lags = [10**power for power in range(len(str(self._most))) if 10**power <= self._most]
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="running-") as place:
            name = "data.duckdb" if engine == "duckdb" else "lake"
            with closing(filled(f"{engine}:{Path(place) / name}", self._rows)) as database:
                done, total = 0, lags[-1]
                for lag in reversed(lags):
                    while done < total - lag:
                        self._one(database, done, total)
                        done += 1
                    database.execute(f"CREATE SNAPSHOT s{lag} AS {DEFINITION} REFRESH ON DEMAND")
                while done < total:
                    self._one(database, done, total)
                    done += 1
                for lag in lags:
                    report.refreshed.append(self._refreshed(database, lag))
        return report

    def _one(self, database: Database, number: int, total: int) -> None:
        if number % 100 == 0:
            self._status.step(f"transactions, {number:,} of {total:,}")
        change(database, number, self._rows)

    def _refreshed(self, database: Database, lag: int) -> Refreshed:
        before = database.version
        spent = spent_on(partial(database.refresh, f"s{lag}"))
        again = min(spent_on(partial(database.query, DEFINITION)).milliseconds for _ in range(3))
        changed = database.changes(f"s{lag}", since=before).num_rows
        _must_be_equal(database, f"s{lag}")
        self._display.note(f"{lag:,} behind: {spent.milliseconds:,.1f} ms, recomputed in {again:,.1f} ms")
        return Refreshed(lag, spent.milliseconds, again, changed)


def _must_be_equal(database: Database, name: str) -> None:
    """Figures of wrong answers are worth nothing."""
    stored, expected = database.query(f"SELECT * FROM {name}"), database.query(DEFINITION)
    if sorted(stored.to_pylist(), key=str) != sorted(expected.to_pylist(), key=str):
        raise TidemarkError("internal", f"{name} differs from its definition")


TRIGGERS: Final = (
    "ON CHANGE",
    "ON CHANGE OF 5 ROWS",
    "EVERY '1 minute'",
    "WHEN ABS(SUM(new.amount) - SUM(old.amount)) > 500",
    "EVERY '1 minute' AND ON CHANGE",
    "AT '0 * * * *'",
)


def queries(count: int, transactions: int, folder: Path, display: Display, status: Status) -> QueriesReport:
    """Many continual queries over one stream, each with one of the triggers, beside the stream alone."""
    rows, times, results, creating = 20_000, list[float](), 0, 0.0
    for queries_there in (0, count):
        with (
            tempfile.TemporaryDirectory(dir=folder, prefix="running-") as place,
            closing(filled(f"duckdb:{Path(place) / 'data.duckdb'}", rows)) as database,
        ):
            if queries_there:
                with status.showing(f"creating {count:,} continual queries"):
                    creating = spent_on(partial(_create_queries, database, count)).milliseconds
                display.note(f"created {count:,} continual queries in {creating:,.0f} ms")
            change(database, 0, rows)
            with status.showing(f"{transactions:,} transactions beside {queries_there:,} continual queries"):
                started = time.perf_counter()
                for number in range(1, transactions + 1):
                    change(database, number, rows)
                times.append((time.perf_counter() - started) * 1000 / transactions)
            shown = database.execute("SHOW CONTINUAL QUERIES")
            results = 0 if shown is None else sum(shown["results"].to_pylist())
            if shown is not None and any(shown["error"].to_pylist()):
                raise TidemarkError("internal", f"a continual query failed: {shown['error'].drop_null()[0]}")
    return QueriesReport(count, transactions, times[1], times[0], results, creating)


def _create_queries(database: Database, count: int) -> None:
    with database.transaction() as transaction:
        for number in range(count):
            query = f"SELECT id, amount FROM sale WHERE customer = {number % CUSTOMERS}"
            transaction.execute(
                f"CREATE CONTINUAL QUERY q{number} AS {query} TRIGGER {TRIGGERS[number % len(TRIGGERS)]}"
            )


def soak(transactions: int, limit: int, folder: Path, display: Display, status: Status) -> SoakReport:
    """Small transactions without end, a log with a limit, and consumers of every kind that lag behind it."""
    report, rows = SoakReport(limit), 10_000
    with tempfile.TemporaryDirectory(dir=folder, prefix="running-") as place:
        path = Path(place) / "data.duckdb"
        with closing(filled(f"duckdb:{path}", rows)) as database:
            for name, policy in (("kept", "keep"), ("urged", "refresh"), ("invalid", "invalidate")):
                database.execute(f"CREATE SNAPSHOT {name} WITH (lag = '{policy}') AS {DEFINITION} REFRESH ON DEMAND")
            database.execute(f"CREATE CONTINUAL QUERY q AS {DEFINITION} TRIGGER ON CHANGE OF 20 ROWS")
            database.execute(f"ALTER LOG SET (versions = {limit})")
            every = max(1, transactions // 10)
            started = time.perf_counter()
            for number in range(1, transactions + 1):
                change(database, number, rows)
                if number % every == 0:
                    milliseconds = (time.perf_counter() - started) * 1000 / every
                    report.readings.append(_reading(database, number, milliseconds, path))
                    last = report.readings[-1]
                    display.note(f"{number:,} transactions: {last.disk_bytes / 1e6:,.1f} MB on disk")
                    started = time.perf_counter()
            report.consumers = _consumers(database)
            for name in ("kept", "urged", "invalid"):
                database.refresh(name)
                _must_be_equal(database, name)
    return report


def _reading(database: Database, number: int, milliseconds: float, path: Path) -> Reading:
    log = database.execute("SHOW LOG")
    assert log is not None
    files = (path, path.with_name(path.name + ".wal"))
    disk = sum(file.stat().st_size for file in files if file.exists())
    versions = max(log["versions"].to_pylist())
    return Reading(number, milliseconds, _memory(), disk, sum(log["bytes"].to_pylist()), versions)


def _consumers(database: Database) -> list[dict[str, Any]]:
    shown = database.execute("SHOW CONSUMERS")
    found: list[dict[str, Any]] = [] if shown is None else shown.to_pylist()
    return found


def _memory() -> int:
    """What the process has in memory now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
