"""What is measured of the ladder, as values that can be written as JSON, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark.cli.tables import counted
from tidemark_bench.harness.clock import Spent, median, middle
from tidemark_bench.harness.run import show, tenths, whole

CLOCK: Final = (
    "The clock covers a whole transaction with V1: handing over the changed lines, finding those to delete, key "
    "checks, the view's step, and the durable commit."
)
MEANS: Final = {
    "autonomous": "V1 kept from its own content and the change, beside differentials",
    "irrelevant": "lines that V1's filter throws away, beside V1 without filters",
}


@dataclass(frozen=True)
class Sample:
    """One transaction, and the step of its view: the strategy, the base rows that were read at most, and its time."""

    spent: Spent
    strategy: str
    rows_read: int
    rows_filtered: int
    on_view_milliseconds: float
    statements: int | None = None


@dataclass
class Comparison:
    """Transactions of one size with a rung of the ladder, and others like them without it."""

    rung: str
    rows: int
    with_it: list[Sample] = field(default_factory=list)
    without_it: list[Sample] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        medians = {
            name: {
                "transaction": asdict(transaction(samples)),
                "on_view_milliseconds": on_view(samples),
                "rows_read": rows_read(samples),
            }
            for name, samples in (("with_it", self.with_it), ("without_it", self.without_it))
        }
        return {**asdict(self), "medians": medians}


@dataclass
class LadderReport:
    """One engine on data of one scale."""

    engine: str
    scale: float
    lineitems: int
    load_milliseconds: float = 0.0
    filled_milliseconds: float = 0.0
    comparisons: list[Comparison] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "comparisons": [comparison.as_json() for comparison in self.comparisons]}

    def show(self, display: Display) -> None:
        where = f"{self.engine}, scale {self.scale:g}, {counted(self.lineitems, 'lineitem')}"
        for rung, meaning in MEANS.items():
            if any(comparison.rung == rung for comparison in self.comparisons):
                show(display, f"{where}: {meaning}; medians in milliseconds", self.columns(rung))

    def columns(self, rung: str) -> dict[str, pa.Array]:
        """A row for each size of transaction; what stands after the word *without* is without the rung."""
        found = [comparison for comparison in self.comparisons if comparison.rung == rung]
        mine, others = [c.with_it for c in found], [c.without_it for c in found]
        return {
            "rows changed": whole(c.rows for c in found),
            "on the view": tenths(map(on_view, mine)),
            "without": tenths(map(on_view, others)),
            "times faster": tenths(on_view(b) / max(on_view(a), 0.001) for a, b in zip(mine, others, strict=True)),
            "transaction": tenths(transaction(samples).milliseconds for samples in mine),
            "without it": tenths(transaction(samples).milliseconds for samples in others),
            "base rows read": whole(map(rows_read, mine)),
            "read without": whole(map(rows_read, others)),
        }


def transaction(samples: Sequence[Sample]) -> Spent:
    return median(sample.spent for sample in samples)


def on_view(samples: Sequence[Sample]) -> float:
    return middle(samples, "on_view_milliseconds")


def rows_read(samples: Sequence[Sample]) -> int:
    return round(middle(samples, "rows_read"))
