"""Running many queries and the soak: each in a database of its own, whose answers are checked at the end."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark.errors import TidemarkError
from tidemark.session import Database
from tidemark_bench.harness.clock import timed
from tidemark_bench.harness.database import target
from tidemark_bench.harness.run import Run, show, tenths, whole
from tidemark_bench.sales import CLOCK, CUSTOMERS, DEFINITION, change, filled, must_be_equal

TRIGGERS: Final = (
    "ON CHANGE",
    "ON CHANGE OF 5 ROWS",
    "EVERY '1 minute'",
    "WHEN ABS(SUM(new.amount) - SUM(old.amount)) > 500",
    "EVERY '1 minute' AND ON CHANGE",
    "AT '0 * * * *'",
)
POLICIES: Final = {"kept": "keep", "urged": "refresh", "invalid": "invalidate"}
"""Snapshots of the soak, and what happens to each when the log no longer reaches back to it."""


@dataclass(frozen=True)
class QueriesReport:
    """Transactions beside so many continual queries, and beside none."""

    queries: int
    transactions: int
    milliseconds: float
    milliseconds_without: float
    results: int
    creating_milliseconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def show(self, display: Display) -> None:
        show(display, "duckdb: transactions beside continual queries", self.columns())

    def columns(self) -> dict[str, pa.Array]:
        return {
            "continual queries": whole([0, self.queries]),
            "transactions": whole([self.transactions] * 2),
            "ms for each": tenths([self.milliseconds_without, self.milliseconds]),
            "results": whole([0, self.results]),
            "creating, ms for each": tenths([None, self.creating_milliseconds / self.queries]),
        }


@dataclass(frozen=True)
class Reading:
    """How the database was after so many transactions."""

    transactions: int
    milliseconds: float
    memory_bytes: int
    disk_bytes: int
    log_bytes: int
    versions_kept: int


@dataclass
class SoakReport:
    limit: int
    readings: list[Reading] = field(default_factory=list)
    consumers: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def show(self, display: Display) -> None:
        show(display, f"duckdb: a log of {self.limit:,} versions", self.columns())

    def columns(self) -> dict[str, pa.Array]:
        found = self.readings
        return {
            "transactions": whole(one.transactions for one in found),
            "ms for each": tenths(one.milliseconds for one in found),
            "memory, MB": tenths(one.memory_bytes / 1e6 for one in found),
            "disk, MB": tenths(one.disk_bytes / 1e6 for one in found),
            "log, MB": tenths(one.log_bytes / 1e6 for one in found),
            "versions of the log": whole(one.versions_kept for one in found),
        }


def run(queries: int, transactions: int, run: Run) -> None:
    run.measure("continual", CLOCK, {}, lambda: [beside_queries(queries, transactions, run)])


def run_soak(transactions: int, limit: int, run: Run) -> None:
    run.measure("soak", CLOCK, {}, lambda: [soak(transactions, limit, run)])


def beside_queries(count: int, transactions: int, run: Run) -> QueriesReport:
    """Many continual queries over one stream, each with one of the triggers, beside the stream alone."""
    rows, times, results, creating = 20_000, list[float](), 0, 0.0
    for queries_there in (0, count):
        with run.place() as place, closing(filled(target("duckdb", place), rows)) as database:
            if queries_there:
                with run.showing(f"creating {count:,} continual queries"):
                    creating = timed(partial(_create_queries, database, count))
                run.say(f"created {count:,} continual queries in {creating:,.0f} ms")
            change(database, 0, rows)
            with run.showing(f"{transactions:,} transactions beside {queries_there:,} continual queries"):
                numbers = range(1, transactions + 1)
                times.append(timed(partial(_change_all, database, numbers, rows)) / transactions)
            shown = database.execute("SHOW CONTINUAL QUERIES")
            results = 0 if shown is None else sum(shown["results"].to_pylist())
            if shown is not None and any(shown["error"].to_pylist()):
                raise TidemarkError("internal", f"a continual query failed: {shown['error'].drop_null()[0]}")
    return QueriesReport(count, transactions, times[1], times[0], results, creating)


def _change_all(database: Database, numbers: range, rows: int) -> None:
    for number in numbers:
        change(database, number, rows)


def _create_queries(database: Database, count: int) -> None:
    with database.transaction() as transaction:
        for number in range(count):
            query = f"SELECT id, amount FROM sale WHERE customer = {number % CUSTOMERS}"
            transaction.execute(
                f"CREATE CONTINUAL QUERY q{number} AS {query} TRIGGER {TRIGGERS[number % len(TRIGGERS)]}"
            )


def soak(transactions: int, limit: int, run: Run) -> SoakReport:
    """Small transactions without end, a log with a limit, and consumers of every kind that lag behind it."""
    report, rows, every = SoakReport(limit), 10_000, max(1, transactions // 10)
    with run.place() as place, closing(filled(target("duckdb", place), rows)) as database:
        for name, policy in POLICIES.items():
            database.execute(f"CREATE SNAPSHOT {name} WITH (lag = '{policy}') AS {DEFINITION} REFRESH ON DEMAND")
        database.execute(f"CREATE CONTINUAL QUERY q AS {DEFINITION} TRIGGER ON CHANGE OF 20 ROWS")
        database.execute(f"ALTER LOG SET (versions = {limit})")
        for start in range(1, transactions + 1, every):
            numbers = range(start, min(start + every, transactions + 1))
            milliseconds = timed(partial(_change_all, database, numbers, rows)) / every
            if len(numbers) == every:
                last = _reading(database, numbers[-1], milliseconds, place / "data.duckdb")
                report.readings.append(last)
                run.say(f"{numbers[-1]:,} transactions: {last.disk_bytes / 1e6:,.1f} MB on disk")
        report.consumers = _consumers(database)
        for name in POLICIES:
            database.refresh(name)
            must_be_equal(database, name)
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
