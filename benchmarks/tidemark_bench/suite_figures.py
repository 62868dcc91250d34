"""What is measured of each query of TPC-H, as values that can be written as JSON, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark.cli.tables import counted, duration
from tidemark_bench.harness.clock import middle
from tidemark_bench.harness.run import show, tenths, whole, words

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
        return middle(self.timings, "on_view")

    @property
    def rows_read(self) -> int:
        return round(middle(self.timings, "rows_read"))

    @property
    def statements(self) -> float | None:
        counted_ones = [timing for timing in self.timings if timing.statements is not None]
        return middle(counted_ones, "statements") if counted_ones else None

    def slowest(self) -> NodeTime | None:
        """The node that took longest, by its median."""
        names = dict.fromkeys(node.node for timing in self.timings for node in timing.nodes)
        found = []
        for name in names:
            of_node = [node for timing in self.timings for node in timing.nodes if node.node == name]
            found.append(NodeTime(name, middle(of_node, "milliseconds"), round(middle(of_node, "rows_read"))))
        return max(found, key=lambda node: node.milliseconds, default=None)


@dataclass
class QueryFigures:
    """One query: ``recomputed`` has the times that the engine by itself takes to evaluate and store it, ``created``
    those of creating the view here, ``how`` each node's maintenance."""

    query: str
    rows: int
    filled_milliseconds: float
    recomputed: list[Timing]
    how: dict[str, str]
    series: list[Series] = field(default_factory=list)
    created: list[Timing] = field(default_factory=list)

    @property
    def creation(self) -> float | None:
        return typical(self.created) if self.created else None

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
                        "recomputation": middle(query.recomputed, "processor_milliseconds"),
                        "transaction": middle(series.timings, "processor_milliseconds"),
                    },
                    "rows_read": series.rows_read,
                    "times_faster": query.recomputation / series.transaction,
                    "why_slower": query.why_slower(series, typical(self.without_view[series.kind])),
                }
                for series in query.series
            ]
        return record

    def show(self, display: Display) -> None:
        where = f"{self.engine}, scale {self.scale:g}, {counted(self.lineitems, 'lineitem')}"
        if self.queries:
            show(display, f"{where}: medians in milliseconds for 100 changed rows", self.columns())
            slower = self.reasons()
            if slower.num_rows:
                display.result("where recomputing takes less time than the transaction, and why", slower)
            else:
                display.note("recomputing takes longer than the transaction for each of these queries")
        if self.v3:
            show(display, f"{where}: V3, medians in milliseconds", self.suppliers())

    def columns(self) -> dict[str, pa.Array]:
        """A row for each query and kind of transaction."""
        found = [(query, series) for query in self.queries for series in query.series]
        return {
            "query": words(query.query for query, _ in found),
            "transactions": words(series.kind for _, series in found),
            "recompute": tenths(query.recomputation for query, _ in found),
            "create": tenths(query.creation for query, _ in found),
            "transaction": tenths(series.transaction for _, series in found),
            "without view": tenths(typical(self.without_view[series.kind]) for _, series in found),
            "on the view": tenths(series.on_view for _, series in found),
            "times faster": tenths(query.recomputation / series.transaction for query, series in found),
            "view alone": tenths(_ratio(query.recomputation, series.on_view) for query, series in found),
            "rows read": whole(series.rows_read for _, series in found),
            "Spark statements": tenths(series.statements for _, series in found),
        }

    def reasons(self) -> pa.Table:
        """Why the transaction takes longer than recomputing, for each query and kind where it does."""
        rows = []
        for query in self.queries:
            for series in query.series:
                why = query.why_slower(series, typical(self.without_view[series.kind]))
                rows += [(query.query, series.kind, why)] if why is not None else []
        names = ("query", "transactions", "why")
        return pa.table({name: words(row[place] for row in rows) for place, name in enumerate(names)})

    def suppliers(self) -> dict[str, pa.Array]:
        """V3: a row for each size of transaction."""
        again, found = typical(self.v3_recomputed), self.v3
        spent = [typical(size.tidemark) for size in found]
        by_hand = [median(size.by_hand) if size.by_hand else None for size in found]
        return {
            "rows changed": whole(size.rows for size in found),
            "Tidemark": tenths(spent),
            "of it V3": tenths(middle(size.tidemark, "on_view") for size in found),
            "by hand": tenths(by_hand),
            "times by hand": tenths(_ratio(mine, theirs) for mine, theirs in zip(spent, by_hand, strict=True)),
            "recompute": tenths([again] * len(spent)),
            "times faster": tenths(again / mine for mine in spent),
            "rows read": whole(middle(size.tidemark, "rows_read") for size in found),
        }


def typical(timings: Sequence[Timing]) -> float:
    return middle(timings, "milliseconds")


def _ratio(first: float, second: float | None) -> float | None:
    return first / second if second else None
