"""Refreshes of snapshots that lag behind by 1, 10, 100 … transactions.

The transactions take far longer than the refreshes, so the database is made once, kept beside the figures, and each run
measures on a copy of it. For each lag there are three snapshots: one that is always refreshed from the log, one that is
always evaluated as a whole, and one for which Tidemark chooses.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark.session import Database, connect
from tidemark_bench.harness.charts import COLOURS, Chart, Series
from tidemark_bench.harness.clock import answered, timed
from tidemark_bench.harness.database import target
from tidemark_bench.harness.run import Run, show, tenths, whole, words
from tidemark_bench.sales import CLOCK, DEFINITION, change, filled, must_be_equal

WAYS: Final = {"auto": "chosen", "incremental": "followed", "complete": "evaluated"}
WARM: Final = 3


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

    def show(self, display: Display) -> None:
        show(display, f"{self.engine}, {self.rows:,} rows: milliseconds", self.columns())

    def columns(self) -> dict[str, pa.Array]:
        found = self.refreshed
        return {
            "transactions behind": whole(one.lag for one in found),
            "refresh": tenths(one.milliseconds for one in found),
            "by": words(one.strategy for one in found),
            "differential": tenths(one.followed_milliseconds for one in found),
            "complete": tenths(one.evaluated_milliseconds for one in found),
            "query alone": tenths(one.query_milliseconds for one in found),
            "rows changed": whole(one.rows_changed for one in found),
        }

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


def run(engines: Sequence[str], rows: int, most: int, run: Run) -> None:
    run.measure(
        "snapshots",
        CLOCK,
        {},
        lambda: (Snapshots(rows, most, run).measured(engine) for engine in engines),
        lambda reports: [report.chart() for report in reports],
    )


class Snapshots:
    def __init__(self, rows: int, most: int, run: Run) -> None:
        self._rows, self._run = rows, run
        self._lags = [10**power for power in range(len(str(most))) if 10**power <= most]

    def measured(self, engine: str) -> SnapshotReport:
        report = SnapshotReport(engine, self._rows)
        kept = self._run.folder / f"snapshots-{engine}-{self._rows}-{self._lags[-1]}"
        if not (kept / "ready").exists():
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            with self._run.showing("filling tables"):
                self._make(engine, kept)
            (kept / "ready").touch()
        with self._run.place() as place:
            shutil.copytree(kept, place, dirs_exist_ok=True)
            database, opening = answered(partial(connect, target(engine, place)))
            with closing(database):
                report.opening_milliseconds = opening.milliseconds
                self._run.say(f"{engine}: opened in {opening.milliseconds:,.0f} ms, {database.version:,} versions")
                for number in range(WARM):
                    change(database, self._lags[-1] + number, self._rows)
                    for way in WAYS:
                        database.refresh(f"warm_{way}")
                for lag in self._lags:
                    report.refreshed.append(self._refreshed(database, lag))
        return report

    def _make(self, engine: str, folder: Path) -> None:
        """The tables, and behind them transactions and snapshots, the oldest first."""
        done, total = 0, self._lags[-1]
        with closing(filled(target(engine, folder), self._rows)) as database:
            for lag in reversed(self._lags):
                done = self._changed(database, done, total - lag)
                _create(database, str(lag))
            self._changed(database, done, total)
            _create(database, "warm", prefix="")

    def _changed(self, database: Database, done: int, until: int) -> int:
        for number in range(done, until):
            if number % 100 == 0:
                self._run.status.step(f"transactions, {number:,} of {self._lags[-1]:,}")
            change(database, number, self._rows)
        return until

    def _refreshed(self, database: Database, lag: int) -> Refreshed:
        spent, changed, strategy = dict[str, float](), 0, ""
        for way in WAYS:
            name, before = f"behind_{lag}_{way}", database.version
            spent[way] = timed(partial(database.refresh, name))
            must_be_equal(database, name)
            if way == "auto":
                changed = database.changes(name, since=before).num_rows
                strategy = database.trace(database.version).to_pylist()[0]["strategy"]
        query = min(timed(partial(database.query, DEFINITION)) for _ in range(3))
        said = ", ".join(f"{WAYS[way]} {milliseconds:,.1f} ms" for way, milliseconds in spent.items())
        self._run.say(f"{lag:,} behind: {said}; the query alone {query:,.1f} ms")
        return Refreshed(lag, spent["auto"], spent["incremental"], spent["complete"], query, changed, strategy)


def _create(database: Database, name: str, prefix: str = "behind_") -> None:
    for way in WAYS:
        options = "" if way == "auto" else f"WITH (strategy = '{way}') "
        database.execute(f"CREATE SNAPSHOT {prefix}{name}_{way} {options}AS {DEFINITION} REFRESH ON DEMAND")
