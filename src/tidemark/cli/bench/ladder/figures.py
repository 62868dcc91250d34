"""What is measured of the ladder, as values that can be written as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tidemark.cli.bench.clock import Spent, median

CLOCK: Final = (
    "The clock covers a whole transaction with V1: handing over the changed lines, finding those to delete, key "
    "checks, the view's step, and the durable commit."
)


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


def transaction(samples: Sequence[Sample]) -> Spent:
    return median(sample.spent for sample in samples)


def on_view(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.on_view_milliseconds for sample in samples)


def rows_read(samples: Sequence[Sample]) -> int:
    return round(statistics.median(sample.rows_read for sample in samples))
