"""The figures of the ladder as a table for people."""

from __future__ import annotations

import pyarrow as pa

from tidemark.cli.bench.ladder.figures import LadderReport, on_view, rows_read, transaction
from tidemark.cli.bench.ladder.workload import RUNGS
from tidemark.cli.bench.report import tenths
from tidemark.cli.show import Display
from tidemark.cli.text import counted

MEANS = {
    "autonomous": "V1 kept from its own content and the change, beside differentials",
    "irrelevant": "lines that V1's filter throws away, beside V1 without filters",
}


def show(report: LadderReport, display: Display) -> None:
    where = f"{report.engine}, scale {report.scale:g}, {counted(report.lineitems, 'lineitem')}"
    for rung in RUNGS:
        found = table(report, rung)
        if found.num_rows:
            display.result(f"{where}: {MEANS[rung]}; medians in milliseconds", found, is_expandable=False)


def table(report: LadderReport, rung: str) -> pa.Table:
    """A row for each size of transaction; what stands after the word *without* is without the rung."""
    found = [comparison for comparison in report.comparisons if comparison.rung == rung]
    mine, others = [c.with_it for c in found], [c.without_it for c in found]
    return pa.table(
        {
            "rows changed": pa.array([c.rows for c in found], pa.int64()),
            "on the view": tenths([on_view(samples) for samples in mine]),
            "without": tenths([on_view(samples) for samples in others]),
            "times faster": tenths([on_view(b) / max(on_view(a), 0.001) for a, b in zip(mine, others, strict=True)]),
            "transaction": tenths([transaction(samples).milliseconds for samples in mine]),
            "without it": tenths([transaction(samples).milliseconds for samples in others]),
            "base rows read": pa.array([rows_read(samples) for samples in mine], pa.int64()),
            "read without": pa.array([rows_read(samples) for samples in others], pa.int64()),
        }
    )
