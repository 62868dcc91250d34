"""What is measured of two views, as values that can be written as JSON, tables and charts."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark.cli.tables import counted
from tidemark_bench.harness.charts import COLOURS, DASHES, Chart, Series
from tidemark_bench.harness.clock import middle
from tidemark_bench.harness.run import show, tenths, whole

CLOCK: Final = (
    "The clock covers a whole transaction: handing over the changed rows, finding those to delete, key checks, "
    "propagation to both views, and the durable commit."
)


@dataclass(frozen=True)
class Sample:
    """One transaction. ``rows_read`` is what was read at most; for SQL written by hand it is not known.

    ``parts`` are the milliseconds of its parts, in their order.
    """

    milliseconds: float
    rows_written: int
    v1_milliseconds: float | None = None
    v2_milliseconds: float | None = None
    rows_read: int | None = None
    statements: int | None = None
    parts: dict[str, float] = field(default_factory=dict)


@dataclass
class Measurement:
    """All transactions of one size; the first of each, which warms up, is not among them."""

    rows: int
    tidemark: list[Sample] = field(default_factory=list)
    by_hand: list[Sample] = field(default_factory=list)
    data_files: int | None = None

    @property
    def milliseconds(self) -> float:
        return middle(self.tidemark, "milliseconds")

    @property
    def milliseconds_by_hand(self) -> float | None:
        return middle(self.by_hand, "milliseconds") if self.by_hand else None

    def median(self, figure: str) -> float | None:
        """The median of one of Tidemark's figures, by its name in ``Sample``."""
        is_known = all(getattr(sample, figure) is not None for sample in self.tidemark)
        return middle(self.tidemark, figure) if is_known else None

    def parts(self) -> dict[str, float]:
        """The median of each part of Tidemark's transactions; a part that one did not have took it no time."""
        names = dict.fromkeys(name for sample in self.tidemark for name in sample.parts)
        return {name: statistics.median(s.parts.get(name, 0.0) for s in self.tidemark) for name in names}


@dataclass
class Report:
    """One engine on data of one scale. ``recomputed`` has the times that the engine by itself takes to evaluate and
    store each view, by a plain CREATE TABLE AS; ``created`` has those of creating the view here once more."""

    engine: str
    scale: float
    lineitems: int
    load_milliseconds: float = 0.0
    filled: dict[str, float] = field(default_factory=dict)
    recomputed: dict[str, list[float]] = field(default_factory=dict)
    created: dict[str, list[float]] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)

    def recomputation(self, view: str) -> float:
        return statistics.median(self.recomputed[view])

    def creation(self, view: str) -> float | None:
        return statistics.median(self.created[view]) if view in self.created else None

    def as_json(self) -> dict[str, Any]:
        record = asdict(self)
        for measurement, shown in zip(self.measurements, record["measurements"], strict=True):
            shown["median_milliseconds"] = {
                "tidemark": measurement.milliseconds,
                "by_hand": measurement.milliseconds_by_hand,
                "recomputing_v1": self.recomputation("v1"),
                "recomputing_v2": self.recomputation("v2"),
                "creating_v1": self.creation("v1"),
                "creating_v2": self.creation("v2"),
            }
        return record

    def show(self, display: Display) -> None:
        where = f"{self.engine}, scale {self.scale:g}, {counted(self.lineitems, 'lineitem')}"
        show(display, f"{where}: medians in milliseconds", self.columns())
        show(display, "where the time of a transaction goes: medians in milliseconds", self.parts())

    def columns(self) -> dict[str, pa.Array]:
        """A row for each size of transaction."""
        found = self.measurements
        again = self.recomputation("v1") + self.recomputation("v2")
        return {
            "rows changed": whole(m.rows for m in found),
            "Tidemark": tenths(m.milliseconds for m in found),
            "of it V1": tenths(m.median("v1_milliseconds") for m in found),
            "of it V2": tenths(m.median("v2_milliseconds") for m in found),
            "by hand": tenths(m.milliseconds_by_hand for m in found),
            "recompute V1": tenths([self.recomputation("v1")] * len(found)),
            "recompute V2": tenths([self.recomputation("v2")] * len(found)),
            "create V1": tenths([self.creation("v1")] * len(found)),
            "create V2": tenths([self.creation("v2")] * len(found)),
            "times faster": tenths(again / m.milliseconds for m in found),
            "rows read": whole(m.median("rows_read") for m in found),
            "rows written": whole(m.median("rows_written") for m in found),
            "Spark statements": whole(m.median("statements") for m in found),
            "data files": whole(m.data_files for m in found),
        }

    def parts(self) -> dict[str, pa.Array]:
        """A row for each size of transaction, a column for each of its parts."""
        found = [measurement.parts() for measurement in self.measurements]
        names = dict.fromkeys(name for one in found for name in one)
        columns = {"rows changed": whole(m.rows for m in self.measurements)}
        return columns | {name: tenths(one.get(name) for one in found) for name in names}


def charts(reports: Sequence[Report]) -> list[Chart]:
    """Time against the size of the change, and, with several scales, against the size of the table."""
    return [*_by_change(reports), *_by_table(reports)]


def _by_change(reports: Sequence[Report]) -> Iterator[Chart]:
    for engine in dict.fromkeys(report.engine for report in reports):
        series: list[Series] = []
        for report, colour in zip((r for r in reports if r.engine == engine), COLOURS, strict=False):
            for kind in DASHES:
                points = tuple((m.rows, y) for m in report.measurements if (y := _value(report, m.rows, kind)))
                series.append(Series(f"{kind}, scale {report.scale:g}", kind, points, colour))
        yield Chart(f"{engine}: time against the size of the change", "rows changed", tuple(series))


def _by_table(reports: Sequence[Report]) -> Iterator[Chart]:
    for engine in dict.fromkeys(report.engine for report in reports):
        mine = sorted((r for r in reports if r.engine == engine), key=lambda r: r.lineitems)
        if len(mine) < 2:
            continue
        series: list[Series] = []
        sizes = sorted({m.rows for report in mine for m in report.measurements})
        for size, colour in zip(sizes, COLOURS, strict=False):
            for kind in ("Tidemark", "by hand"):
                points = tuple((r.lineitems, y) for r in mine if (y := _value(r, size, kind)))
                series.append(Series(f"{kind}, {counted(size, 'row')}", kind, points, colour))
        again = tuple((r.lineitems, r.recomputation("v1") + r.recomputation("v2")) for r in mine)
        series.append(Series("recompute", "recompute", again, COLOURS[-1]))
        yield Chart(f"{engine}: time against the size of the table", "lineitems", tuple(series))


def _value(report: Report, rows: int, kind: str) -> float | None:
    if kind == "recompute":
        return report.recomputation("v1") + report.recomputation("v2")
    found = next((m for m in report.measurements if m.rows == rows), None)
    if found is None:
        return None
    return found.milliseconds if kind == "Tidemark" else found.milliseconds_by_hand
