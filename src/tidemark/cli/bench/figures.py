"""What the benchmark measures, as values that can be written as JSON."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

CLOCK: Final = (
    "The clock covers a whole transaction: handing over the changed rows, finding those to delete, key checks, "
    "propagation to both views, and the durable commit."
)


def timed(action: Callable[[], object]) -> float:
    """How many milliseconds an action takes."""
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


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
        return statistics.median(sample.milliseconds for sample in self.tidemark)

    @property
    def milliseconds_by_hand(self) -> float | None:
        return statistics.median(sample.milliseconds for sample in self.by_hand) if self.by_hand else None

    def median(self, figure: str) -> float | None:
        """The median of one of Tidemark's figures, by its name in ``Sample``."""
        values = [getattr(sample, figure) for sample in self.tidemark]
        return None if None in values else statistics.median(values)

    def parts(self) -> dict[str, float]:
        """The median of each part of Tidemark's transactions; a part that one did not have took it no time."""
        names = dict.fromkeys(name for sample in self.tidemark for name in sample.parts)
        return {name: statistics.median(s.parts.get(name, 0.0) for s in self.tidemark) for name in names}


@dataclass
class Report:
    """One engine on data of one scale. ``recomputed`` has the times of evaluating and storing each view anew."""

    engine: str
    scale: float
    lineitems: int
    load_milliseconds: float = 0.0
    filled: dict[str, float] = field(default_factory=dict)
    recomputed: dict[str, list[float]] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)

    def recomputation(self, view: str) -> float:
        return statistics.median(self.recomputed[view])

    def as_json(self) -> dict[str, Any]:
        record = asdict(self)
        for measurement, shown in zip(self.measurements, record["measurements"], strict=True):
            shown["median_milliseconds"] = {
                "tidemark": measurement.milliseconds,
                "by_hand": measurement.milliseconds_by_hand,
                "recomputing_v1": self.recomputation("v1"),
                "recomputing_v2": self.recomputation("v2"),
            }
        return record
