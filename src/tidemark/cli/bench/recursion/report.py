"""The figures of a recursion as tables for people."""

from __future__ import annotations

import pyarrow as pa

from tidemark.cli.bench.recursion.figures import RecursionReport
from tidemark.cli.bench.report import tenths
from tidemark.cli.show import Display
from tidemark.cli.text import counted, size


def show(report: RecursionReport, display: Display) -> None:
    where = f"{report.engine}, closure of {counted(report.rows, 'row')} over {counted(report.edges, 'edge')}"
    display.result(f"{where}: medians in milliseconds", table(report), is_expandable=False)
    kept, told = report.bytes_of_closure, report.bytes_of_external
    display.note(f"{report.engine}: the materialized view takes {size(kept)} on disk, the external one {size(told)}")


def table(report: RecursionReport) -> pa.Table:
    """A row for each size of transaction."""
    found = report.measurements
    anew = report.recomputation
    hands = [m.hand.milliseconds if m.hand is not None else None for m in found]
    columns = {
        "edges out and in": pa.array([m.edges for m in found], pa.int64()),
        "transaction": tenths([m.transaction.milliseconds for m in found]),
        "of processors": tenths([m.transaction.processor_milliseconds for m in found]),
        "on the closure": tenths([m.middle("on_view_milliseconds") for m in found]),
        "by hand": tenths(hands),
        "anew": tenths([None if anew is None else anew.milliseconds] * len(found)),
        "strategy": pa.array([m.strategy for m in found], pa.string()),
        "rows changed": pa.array([round(m.middle("rows_out")) for m in found], pa.int64()),
        "rows read": pa.array([round(m.middle("rows_read")) for m in found], pa.int64()),
        "external": tenths([m.without_content.milliseconds for m in found]),
        "rows rederived": pa.array([round(m.rederived) for m in found], pa.int64()),
    }
    return pa.table({name: column for name, column in columns.items() if column.null_count < max(1, len(column))})
