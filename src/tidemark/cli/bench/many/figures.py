"""What is measured of many views, as values that can be written as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tidemark.cli.bench.clock import Spent, median

CLOCK: Final = (
    "The clock covers a whole statement of one row: parsing it, finding the row, key checks, finding the views to "
    "which it matters, propagation to them, and the durable commit."
)


@dataclass(frozen=True)
class Sample:
    """One transaction: what it took, how many lines its trace has, how many nodes were brought up to date, and how many
    were found not to be affected without a look at them."""

    spent: Spent
    steps: int
    nodes: int
    others: int


@dataclass
class Side:
    """One of the two databases."""

    views: int
    created: list[Spent] = field(default_factory=list)
    """Each transaction that created views."""
    first: Spent | None = None
    """The first change after the views were created."""
    samples: list[Sample] = field(default_factory=list)
    opened: Spent | None = None
    first_after_opening: Spent | None = None

    @property
    def transaction(self) -> Spent:
        return median(sample.spent for sample in self.samples)

    @property
    def creating_milliseconds(self) -> float:
        return sum(one.milliseconds for one in self.created)


@dataclass
class ManyReport:
    """A database with many views beside one with the three that the transactions matter to."""

    engine: str
    many: Side
    few: Side

    @property
    def ratio(self) -> float:
        return self.many.transaction.milliseconds / self.few.transaction.milliseconds

    @property
    def processor_ratio(self) -> float:
        return self.many.transaction.processor_milliseconds / self.few.transaction.processor_milliseconds

    def as_json(self) -> dict[str, Any]:
        record = asdict(self)
        for side in ("many", "few"):
            record[side]["median"] = asdict(getattr(self, side).transaction)
        record["ratio"] = {"clock": self.ratio, "processors": self.processor_ratio}
        return record
