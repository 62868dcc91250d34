"""What is measured of a recursion, as values that can be written as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tidemark.cli.bench.clock import Spent, median

CLOCK: Final = (
    "The clock covers a whole transaction: handing over the edges, finding those to delete, key checks, the closure, "
    "and the durable commit."
)


@dataclass(frozen=True)
class Sample:
    """One transaction, and the step of the closure in it: its strategy and reason, rows in and out, and its time."""

    spent: Spent
    strategy: str
    reason: str
    rows_out: int
    rows_read: int
    on_view_milliseconds: float
    rows_rederived: int = 0


@dataclass
class Measurement:
    """Transactions that delete and insert so many edges each, and the same ones done by hand and under an external
    view."""

    edges: int
    samples: list[Sample] = field(default_factory=list)
    by_hand: list[Spent] = field(default_factory=list)
    external: list[Sample] = field(default_factory=list)

    @property
    def without_content(self) -> Spent:
        """The same transactions under an external view."""
        return median(sample.spent for sample in self.external)

    @property
    def rederived(self) -> float:
        return float(statistics.median(sample.rows_rederived for sample in self.external))

    @property
    def transaction(self) -> Spent:
        return median(sample.spent for sample in self.samples)

    @property
    def hand(self) -> Spent | None:
        return median(self.by_hand) if self.by_hand else None

    def middle(self, figure: str) -> float:
        return float(statistics.median(getattr(sample, figure) for sample in self.samples))

    @property
    def strategy(self) -> str:
        return " or ".join(sorted({sample.strategy for sample in self.samples}))

    def as_json(self) -> dict[str, Any]:
        hand = None if self.hand is None else asdict(self.hand)
        return {
            **asdict(self),
            "medians": {
                "transaction": asdict(self.transaction),
                "by_hand": hand,
                "external": asdict(self.without_content),
            },
        }


@dataclass
class RecursionReport:
    """One engine. ``recomputed`` is the closure evaluated anew by the same engine."""

    engine: str
    nodes: int
    edges: int
    rows: int = 0
    bytes_of_closure: int = 0
    bytes_of_external: int = 0
    loaded: Spent | None = None
    filled: Spent | None = None
    recomputed: list[Spent] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)

    @property
    def recomputation(self) -> Spent | None:
        return median(self.recomputed) if self.recomputed else None

    def as_json(self) -> dict[str, Any]:
        medians = {"recomputation": None if self.recomputation is None else asdict(self.recomputation)}
        found: Sequence[dict[str, Any]] = [measurement.as_json() for measurement in self.measurements]
        return {**asdict(self), "measurements": found, "medians": medians}
