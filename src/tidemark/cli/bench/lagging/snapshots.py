"""Refreshes of snapshots that lag behind by 1, 10, 100 … transactions.

The transactions take far longer than the refreshes, so the database is made once, kept beside the figures, and each run
measures on a copy of it. For each lag there are three snapshots: one that is always refreshed from the log, one that is
always evaluated as a whole, and one for which Tidemark chooses.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from tidemark.cli.bench.clock import spent_on
from tidemark.cli.bench.lagging.figures import Refreshed, SnapshotReport
from tidemark.cli.bench.lagging.sales import DEFINITION, change, filled, must_be_equal
from tidemark.cli.show import Display
from tidemark.cli.status import Status
from tidemark.database import Database, connect

WAYS: Final = {"auto": "chosen", "incremental": "followed", "complete": "evaluated"}
WARM: Final = 3


class Snapshots:
    def __init__(self, rows: int, most: int, folder: Path, display: Display, status: Status) -> None:
        self._rows, self._folder = rows, folder
        self._lags = [10**power for power in range(len(str(most))) if 10**power <= most]
        self._display, self._status = display, status

    def run(self, engine: str) -> SnapshotReport:
        report = SnapshotReport(engine, self._rows)
        kept = self._folder / f"snapshots-{engine}-{self._rows}-{self._lags[-1]}"
        if not (kept / "ready").exists():
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            self._make(engine, kept)
            (kept / "ready").touch()
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="running-") as place:
            shutil.copytree(kept, place, dirs_exist_ok=True)
            started = time.perf_counter()
            with closing(connect(_target(engine, Path(place)))) as database:
                report.opening_milliseconds = (time.perf_counter() - started) * 1000
                self._display.note(
                    f"{engine}: opened in {report.opening_milliseconds:,.0f} ms, {database.version:,} versions"
                )
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
        with closing(filled(_target(engine, folder), self._rows)) as database:
            for lag in reversed(self._lags):
                done = self._changed(database, done, total - lag)
                _create(database, str(lag))
            self._changed(database, done, total)
            _create(database, "warm", prefix="")

    def _changed(self, database: Database, done: int, until: int) -> int:
        for number in range(done, until):
            if number % 100 == 0:
                self._status.step(f"transactions, {number:,} of {self._lags[-1]:,}")
            change(database, number, self._rows)
        return until

    def _refreshed(self, database: Database, lag: int) -> Refreshed:
        spent, changed, strategy = dict[str, float](), 0, ""
        for way in WAYS:
            name, before = f"behind_{lag}_{way}", database.version
            spent[way] = spent_on(partial(database.refresh, name)).milliseconds
            must_be_equal(database, name)
            if way == "auto":
                changed = database.changes(name, since=before).num_rows
                strategy = database.trace(database.version).to_pylist()[0]["strategy"]
        query = min(spent_on(partial(database.query, DEFINITION)).milliseconds for _ in range(3))
        said = ", ".join(f"{WAYS[way]} {milliseconds:,.1f} ms" for way, milliseconds in spent.items())
        self._display.note(f"{lag:,} behind: {said}; the query alone {query:,.1f} ms")
        return Refreshed(lag, spent["auto"], spent["incremental"], spent["complete"], query, changed, strategy)


def _target(engine: str, folder: Path) -> str:
    return f"{engine}:{folder / ('data.duckdb' if engine == 'duckdb' else 'lake')}"


def _create(database: Database, name: str, prefix: str = "behind_") -> None:
    for way in WAYS:
        options = "" if way == "auto" else f"WITH (strategy = '{way}') "
        database.execute(f"CREATE SNAPSHOT {prefix}{name}_{way} {options}AS {DEFINITION} REFRESH ON DEMAND")
