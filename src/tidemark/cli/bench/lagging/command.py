"""``tidemark bench --snapshots``, ``--continual`` and ``--soak``, as people start them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidemark.cli.bench.lagging import running
from tidemark.cli.bench.lagging.figures import CLOCK
from tidemark.cli.bench.lagging.snapshots import Snapshots
from tidemark.cli.bench.plot import drawing
from tidemark.cli.bench.report import as_json
from tidemark.cli.show import Display
from tidemark.cli.status import Status


def snapshots(
    engines: Sequence[str],
    rows: int,
    most: int,
    folder: Path,
    display: Display,
    progress: Display,
    status: Status,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    progress.note(CLOCK)
    found = []
    for engine in engines:
        with status.showing("filling tables"):
            report = Snapshots(rows, most, folder, progress, status).run(engine)
        display.result(f"{engine}, {rows:,} rows: milliseconds", report.table(), is_expandable=False)
        found.append(report)
    (folder / "snapshots.svg").write_text(drawing([report.chart() for report in found]))
    _written(found, folder / "snapshots.json", display)


def continual(
    queries: int, transactions: int, folder: Path, display: Display, progress: Display, status: Status
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    progress.note(CLOCK)
    report = running.queries(queries, transactions, folder, progress, status)
    display.result("duckdb: transactions beside continual queries", report.table(), is_expandable=False)
    _written([report], folder / "continual.json", display)


def soak(transactions: int, limit: int, folder: Path, display: Display, progress: Display, status: Status) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    progress.note(CLOCK)
    report = running.soak(transactions, limit, folder, progress, status)
    display.result(f"duckdb: a log of {limit:,} versions", report.table(), is_expandable=False)
    _written([report], folder / "soak.json", display)


def _written(reports: Sequence[Any], path: Path, display: Display) -> None:
    path.write_text(as_json(reports, {}, CLOCK) + "\n")
    display.note(f"all figures are in {path}")
