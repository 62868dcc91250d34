"""The figures of snapshots, continual queries and the soak, for people and programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.bench.plot import COLOURS, Chart, Series
from tidemark.cli.bench.report import tenths

CLOCK: Final = "Times are by the clock, until the commit is durable; nothing else runs in the process."


@dataclass(frozen=True)
class Refreshed:
    """One refresh: after how many transactions, what it took, and what evaluating the definition takes."""

    lag: int
    milliseconds: float
    recompute_milliseconds: float
    rows_changed: int


@dataclass
class SnapshotReport:
    engine: str
    rows: int
    refreshed: list[Refreshed] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> pa.Table:
        found = self.refreshed
        return pa.table(
            {
                "transactions behind": pa.array([one.lag for one in found], pa.int64()),
                "refresh": tenths([one.milliseconds for one in found]),
                "recompute": tenths([one.recompute_milliseconds for one in found]),
                "times faster": tenths([one.recompute_milliseconds / one.milliseconds for one in found]),
                "rows changed": pa.array([one.rows_changed for one in found], pa.int64()),
            }
        )

    def chart(self) -> Chart:
        refresh = tuple((float(one.lag), one.milliseconds) for one in self.refreshed)
        again = tuple((float(one.lag), one.recompute_milliseconds) for one in self.refreshed)
        series = (
            Series("refresh", "Tidemark", refresh, COLOURS[0]),
            Series("recompute", "recompute", again, COLOURS[1]),
        )
        return Chart(f"{self.engine}: refresh of a snapshot over {self.rows:,} rows", "transactions behind", series)


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

    def table(self) -> pa.Table:
        return pa.table(
            {
                "continual queries": pa.array([0, self.queries], pa.int64()),
                "transactions": pa.array([self.transactions] * 2, pa.int64()),
                "ms for each": tenths([self.milliseconds_without, self.milliseconds]),
                "results": pa.array([0, self.results], pa.int64()),
                "creating, ms for each": tenths([None, self.creating_milliseconds / self.queries]),
            }
        )


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

    def table(self) -> pa.Table:
        found = self.readings
        return pa.table(
            {
                "transactions": pa.array([one.transactions for one in found], pa.int64()),
                "ms for each": tenths([one.milliseconds for one in found]),
                "memory, MB": tenths([one.memory_bytes / 1e6 for one in found]),
                "disk, MB": tenths([one.disk_bytes / 1e6 for one in found]),
                "log, MB": tenths([one.log_bytes / 1e6 for one in found]),
                "versions of the log": pa.array([one.versions_kept for one in found], pa.int64()),
            }
        )
