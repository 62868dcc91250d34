"""The figures as a table for people and as JSON for programs."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from collections.abc import Sequence
from decimal import Decimal
from importlib import metadata
from typing import Any, Protocol

import pyarrow as pa

from tidemark.cli.bench.figures import CLOCK, Report
from tidemark.cli.show import Display
from tidemark.cli.text import counted

LIBRARIES = ("tidemark", "duckdb", "pyspark", "deltalake", "pyarrow")


def show(report: Report, display: Display) -> None:
    title = f"{report.engine}, scale {report.scale:g}, {counted(report.lineitems, 'lineitem')}: medians in milliseconds"
    display.result(title, table(report), is_expandable=False)
    display.result("where the time of a transaction goes: medians in milliseconds", parts(report), is_expandable=False)


def table(report: Report) -> pa.Table:
    """A row for each size of transaction. Columns that do not apply to the engine are left out."""
    found = report.measurements
    again = report.recomputation("v1") + report.recomputation("v2")
    columns = {
        "rows changed": pa.array([m.rows for m in found], pa.int64()),
        "Tidemark": tenths([m.milliseconds for m in found]),
        "of it V1": tenths([m.median("v1_milliseconds") for m in found]),
        "of it V2": tenths([m.median("v2_milliseconds") for m in found]),
        "by hand": tenths([m.milliseconds_by_hand for m in found]),
        "recompute V1": tenths([report.recomputation("v1")] * len(found)),
        "recompute V2": tenths([report.recomputation("v2")] * len(found)),
        "times faster": tenths([again / m.milliseconds for m in found]),
        "rows read": _whole([m.median("rows_read") for m in found]),
        "rows written": _whole([m.median("rows_written") for m in found]),
        "Spark statements": _whole([m.median("statements") for m in found]),
        "data files": pa.array([m.data_files for m in found], pa.int64()),
    }
    return pa.table({name: column for name, column in columns.items() if column.null_count < len(column)})


def parts(report: Report) -> pa.Table:
    """A row for each size of transaction, a column for each of its parts."""
    found = [measurement.parts() for measurement in report.measurements]
    names = dict.fromkeys(name for one in found for name in one)
    columns = {"rows changed": pa.array([m.rows for m in report.measurements], pa.int64())}
    return pa.table(columns | {name: tenths([one.get(name) for one in found]) for name in names})


def tenths(values: Sequence[float | None]) -> pa.Array:
    exact = [None if value is None else Decimal(f"{value:.1f}") for value in values]
    return pa.array(exact, pa.decimal128(15, 1))


def _whole(values: Sequence[float | None]) -> pa.Array:
    return pa.array([None if value is None else round(value) for value in values], pa.int64())


class Writable(Protocol):
    """A report of any benchmark."""

    def as_json(self) -> dict[str, Any]: ...


def as_json(reports: Sequence[Writable], options: dict[str, Any], clock: str = CLOCK) -> str:
    """Every sample, with what it was measured on."""
    return json.dumps(
        {
            "clock": clock,
            "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "python": platform.python_version(),
            "libraries": {name: _version(name) for name in LIBRARIES},
            "options": options,
            "reports": [report.as_json() for report in reports],
        },
        indent=2,
    )


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None
