"""``tidemark bench --client``, as people start it."""

from __future__ import annotations

from pathlib import Path

from tidemark.cli.bench.client import running
from tidemark.cli.bench.lagging.figures import CLOCK
from tidemark.cli.bench.report import as_json
from tidemark.cli.show import Display
from tidemark.cli.status import Status


def run(rows: int, transactions: int, folder: Path, display: Display, progress: Display, status: Status) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    progress.note(CLOCK)
    with status.showing("filling tables"):
        report = running.run(rows, transactions, folder, progress, status)
    title = f"duckdb, {rows:,} rows, {transactions:,} transactions"
    display.result(f"{title}: bytes in all", report.bytes_table(), is_expandable=False)
    display.result(f"{title}: milliseconds for one refresh", report.times_table(), is_expandable=False)
    path = folder / "client.json"
    path.write_text(as_json([report], {"rows": rows, "transactions": transactions}, CLOCK) + "\n")
    display.note(f"all figures are in {path}")
