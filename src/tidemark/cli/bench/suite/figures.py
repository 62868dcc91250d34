"""What is measured of each query, as values that can be written as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tidemark.cli.text import counted, duration

CLOCK: Final = (
    "The clock covers a whole transaction with one view: handing over the changed rows, finding those to delete, key "
    "checks, propagation, and the durable commit."
)


@dataclass(frozen=True)
class NodeTime:
    """What one node of the network took. ``rows_read`` is what was read at most."""

    node: str
    milliseconds: float
    rows_read: int


@dataclass(frozen=True)
class Timing:
    """One transaction. ``processor_milliseconds`` is the time of all processors, of this process alone."""

    milliseconds: float
    processor_milliseconds: float
    nodes: tuple[NodeTime, ...] = ()
    statements: int | None = None

    @property
    def on_view(self) -> float:
        return sum(node.milliseconds for node in self.nodes)

    @property
    def rows_read(self) -> int:
        return sum(node.rows_read for node in self.nodes)


@dataclass
class Series:
    """The transactions of one kind with one view."""

    kind: str
    timings: list[Timing] = field(default_factory=list)

    @property
    def transaction(self) -> float:
        return typical(self.timings)

    @property
    def on_view(self) -> float:
        return median([timing.on_view for timing in self.timings])

    @property
    def rows_read(self) -> int:
        return round(median([timing.rows_read for timing in self.timings]))

    @property
    def statements(self) -> float | None:
        counts = [timing.statements for timing in self.timings if timing.statements is not None]
        return median(counts) if counts else None

    def slowest(self) -> NodeTime | None:
        """The node that took longest, by its median."""
        names = dict.fromkeys(node.node for timing in self.timings for node in timing.nodes)
        found = []
        for name in names:
            of_node = [node for timing in self.timings for node in timing.nodes if node.node == name]
            spent, read = median([n.milliseconds for n in of_node]), median([n.rows_read for n in of_node])
            found.append(NodeTime(name, spent, round(read)))
        return max(found, key=lambda node: node.milliseconds, default=None)


@dataclass
class QueryFigures:
    """One query: ``recomputed`` has the times of evaluating and storing it anew, ``how`` each node's maintenance."""

    query: str
    rows: int
    filled_milliseconds: float
    recomputed: list[Timing]
    how: dict[str, str]
    series: list[Series] = field(default_factory=list)

    @property
    def recomputation(self) -> float:
        return typical(self.recomputed)

    def why_slower(self, series: Series, without_view: float) -> str | None:
        """Why recomputing takes less time than the transaction; None where it does not."""
        again = self.recomputation
        if series.transaction <= again:
            return None
        if series.on_view <= again:
            rest = duration(series.transaction - series.on_view)
            return (
                f"not because of the view, which takes {duration(series.on_view)}: {rest} go to the tables and the "
                f"commit, {duration(without_view)} without any view"
            )
        node = series.slowest()
        assert node is not None
        return (
            f"{node.node} takes {duration(node.milliseconds)} of {duration(series.on_view)} on the view and reads at "
            f"most {counted(node.rows_read, 'row')}; {self.how.get(node.node, 'its part is not known')}"
        )


@dataclass
class SizeFigures:
    """V3 and transactions of one size, beside the SQL written by hand (on DuckDB only)."""

    rows: int
    tidemark: list[Timing] = field(default_factory=list)
    by_hand: list[float] = field(default_factory=list)


@dataclass
class SuiteReport:
    """One engine on data of one scale; ``without_view`` has the transactions of each kind with no view at all."""

    engine: str
    scale: float
    lineitems: int
    load_milliseconds: float
    without_view: dict[str, list[Timing]] = field(default_factory=dict)
    queries: list[QueryFigures] = field(default_factory=list)
    v3_recomputed: list[Timing] = field(default_factory=list)
    v3: list[SizeFigures] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        record = asdict(self)
        for query, shown in zip(self.queries, record["queries"], strict=True):
            shown["medians"] = [
                {
                    "kind": series.kind,
                    "recomputation": query.recomputation,
                    "transaction": series.transaction,
                    "without_view": typical(self.without_view[series.kind]),
                    "on_view": series.on_view,
                    "processor": {
                        "recomputation": median([timing.processor_milliseconds for timing in query.recomputed]),
                        "transaction": median([timing.processor_milliseconds for timing in series.timings]),
                    },
                    "rows_read": series.rows_read,
                    "times_faster": query.recomputation / series.transaction,
                    "why_slower": query.why_slower(series, typical(self.without_view[series.kind])),
                }
                for series in query.series
            ]
        return record


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def typical(timings: Sequence[Timing]) -> float:
    return median([timing.milliseconds for timing in timings])
