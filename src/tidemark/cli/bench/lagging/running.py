"""Running many queries and the soak: each in a database of its own, whose answers are checked at the end."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from tidemark.cli.bench.clock import spent_on
from tidemark.cli.bench.lagging.figures import QueriesReport, Reading, SoakReport
from tidemark.cli.bench.lagging.sales import CUSTOMERS, DEFINITION, change, filled, must_be_equal
from tidemark.cli.show import Display
from tidemark.cli.status import Status
from tidemark.database import Database
from tidemark.errors import TidemarkError

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
