"""The figures of the suite as tables for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from tidemark.cli.bench.suite.figures import SuiteReport, median, typical
from tidemark.cli.show import Display
from tidemark.cli.text import counted


def show(report: SuiteReport, display: Display) -> None:
    where = f"{report.engine}, scale {report.scale:g}, {counted(report.lineitems, 'lineitem')}"
    if report.queries:
        title = f"{where}: medians in milliseconds for 100 changed rows"
        display.result(title, queries(report), is_expandable=False)
        slower = reasons(report)
        if slower.num_rows:
            display.result("where recomputing takes less time than the transaction, and why", slower)
        else:
            display.note("recomputing takes longer than the transaction for each of these queries")
    if report.v3:
        display.result(f"{where}: V3, medians in milliseconds", suppliers(report), is_expandable=False)


def queries(report: SuiteReport) -> pa.Table:
    """A row for each query and kind of transaction."""
    found = [(query, series) for query in report.queries for series in query.series]
    columns = {
        "query": pa.array([query.query for query, _ in found]),
        "transactions": pa.array([series.kind for _, series in found]),
        "recompute": _tenths([query.recomputation for query, _ in found]),
        "transaction": _tenths([series.transaction for _, series in found]),
        "without view": _tenths([typical(report.without_view[series.kind]) for _, series in found]),
        "on the view": _tenths([series.on_view for _, series in found]),
        "times faster": _tenths([query.recomputation / series.transaction for query, series in found]),
        "view alone": _tenths([_ratio(query.recomputation, series.on_view) for query, series in found]),
        "rows read": pa.array([series.rows_read for _, series in found], pa.int64()),
        "Spark statements": _tenths([series.statements for _, series in found]),
    }
    return _applicable(columns)


def reasons(report: SuiteReport) -> pa.Table:
    """Why the transaction takes longer than recomputing, for each query and kind where it does."""
    rows = []
    for query in report.queries:
        for series in query.series:
            why = query.why_slower(series, typical(report.without_view[series.kind]))
            rows += [(query.query, series.kind, why)] if why is not None else []
    names = ("query", "transactions", "why")
    return pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(names)})


def suppliers(report: SuiteReport) -> pa.Table:
    """V3: a row for each size of transaction."""
    again = typical(report.v3_recomputed)
    spent = [typical(size.tidemark) for size in report.v3]
    by_hand = [median(size.by_hand) if size.by_hand else None for size in report.v3]
    columns = {
        "rows changed": pa.array([size.rows for size in report.v3], pa.int64()),
        "Tidemark": _tenths(spent),
        "of it V3": _tenths([median([timing.on_view for timing in size.tidemark]) for size in report.v3]),
        "by hand": _tenths(by_hand),
        "times by hand": _tenths([_ratio(mine, theirs) for mine, theirs in zip(spent, by_hand, strict=True)]),
        "recompute": _tenths([again] * len(spent)),
        "times faster": _tenths([again / mine for mine in spent]),
        "rows read": pa.array([round(median([t.rows_read for t in size.tidemark])) for size in report.v3], pa.int64()),
    }
    return _applicable(columns)


def _applicable(columns: dict[str, pa.Array]) -> pa.Table:
    """Columns that do not apply to the engine are left out."""
    return pa.table({name: column for name, column in columns.items() if column.null_count < len(column)})


def _ratio(first: float, second: float | None) -> float | None:
    return first / second if second else None


def _tenths(values: Sequence[float | None]) -> pa.Array:
    exact = [None if value is None else Decimal(f"{value:.1f}") for value in values]
    return pa.array(exact, pa.decimal128(15, 1))
