"""The figures of many views as a table for people."""

from __future__ import annotations

import statistics

import pyarrow as pa

from tidemark.cli.bench.many.figures import ManyReport, Side
from tidemark.cli.bench.report import tenths
from tidemark.cli.show import Display
from tidemark.cli.text import counted


def show(report: ManyReport, display: Display) -> None:
    title = f"{report.engine}, {counted(report.many.views, 'view')}: medians in milliseconds for one changed row"
    display.result(title, transactions(report), is_expandable=False)
    display.note(
        f"a transaction that matters to 3 of {counted(report.many.views, 'view')} takes {report.ratio:.2f} times as "
        f"long as with 3 views in all ({report.processor_ratio:.2f} times by the time of the processors)"
    )
    display.result("creating the views and opening the database: milliseconds", others(report), is_expandable=False)


def transactions(report: ManyReport) -> pa.Table:
    """A row for each of the two databases."""
    sides = (report.few, report.many)
    return pa.table(
        {
            "views": pa.array([side.views for side in sides], pa.int64()),
            "transaction": tenths([side.transaction.milliseconds for side in sides]),
            "of processors": tenths([side.transaction.processor_milliseconds for side in sides]),
            "steps": _whole(sides, "steps"),
            "nodes affected": _whole(sides, "nodes"),
            "nodes left out": _whole(sides, "others"),
        }
    )


def others(report: ManyReport) -> pa.Table:
    """What the number of views costs beside transactions."""
    sides = (report.few, report.many)
    return pa.table(
        {
            "views": pa.array([side.views for side in sides], pa.int64()),
            "creating them": tenths([side.creating_milliseconds for side in sides]),
            "each": tenths([side.creating_milliseconds / side.views for side in sides]),
            "first change": tenths([side.first.milliseconds if side.first else None for side in sides]),
            "opening": tenths([side.opened.milliseconds if side.opened else None for side in sides]),
            "first change then": tenths(
                [side.first_after_opening.milliseconds if side.first_after_opening else None for side in sides]
            ),
        }
    )


def _whole(sides: tuple[Side, ...], figure: str) -> pa.Array:
    found = (statistics.median(getattr(sample, figure) for sample in side.samples) for side in sides)
    return pa.array([round(value) for value in found], pa.int64())
