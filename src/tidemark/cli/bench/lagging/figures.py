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
    """Refreshes after so many transactions: as Tidemark chooses, from the log, and by evaluating the definition; and
    what the query takes that does no more than read the tables."""

    lag: int
    milliseconds: float
    followed_milliseconds: float
    evaluated_milliseconds: float
    query_milliseconds: float
    rows_changed: int
    strategy: str


@dataclass
class SnapshotReport:
    engine: str
    rows: int
    opening_milliseconds: float = 0.0
    refreshed: list[Refreshed] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> pa.Table:
        found = self.refreshed
        return pa.table(
            {
                "transactions behind": pa.array([one.lag for one in found], pa.int64()),
                "refresh": tenths([one.milliseconds for one in found]),
                "by": [one.strategy for one in found],
                "differential": tenths([one.followed_milliseconds for one in found]),
                "complete": tenths([one.evaluated_milliseconds for one in found]),
                "query alone": tenths([one.query_milliseconds for one in found]),
                "rows changed": pa.array([one.rows_changed for one in found], pa.int64()),
            }
        )

    def chart(self) -> Chart:
        def series(name: str, kind: str, values: list[float], colour: str) -> Series:
            lags = [float(one.lag) for one in self.refreshed]
            return Series(name, kind, tuple(zip(lags, values, strict=True)), colour)

        found = self.refreshed
        shown = (
            series("as chosen", "Tidemark", [one.milliseconds for one in found], COLOURS[0]),
            series("complete", "recompute", [one.evaluated_milliseconds for one in found], COLOURS[1]),
            series("differential", "by hand", [one.followed_milliseconds for one in found], COLOURS[2]),
        )
        return Chart(f"{self.engine}: refresh of a snapshot over {self.rows:,} rows", "transactions behind", shown)


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
