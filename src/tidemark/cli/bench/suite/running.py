"""Running the suite: load once, then for each query fill, recompute, change, audit and drop its view."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from tidemark.cli.bench.changes import Work, enough
from tidemark.cli.bench.queries import QUERIES
from tidemark.cli.bench.suite import data, workload
from tidemark.cli.bench.suite.byhand import V3, SuppliersByHand
from tidemark.cli.bench.suite.figures import QueryFigures, Series, SizeFigures, SuiteReport, Timing, typical
from tidemark.cli.bench.suite.maintained import MaintainedQueries
from tidemark.cli.show import Display
from tidemark.cli.status import Status
from tidemark.cli.text import counted, duration
from tidemark.errors import TidemarkError

SIZES: Final = (1, 100, 10_000)
NAMES: Final = (*QUERIES, "v3")


@dataclass(frozen=True)
class SuitePlan:
    """What is to be measured, and where data and databases lie meanwhile."""

    engines: Sequence[str]
    scales: Sequence[float]
    repeats: int
    folder: Path
    only: Sequence[str] = NAMES

    def __post_init__(self) -> None:
        unknown = [name for name in self.only if name not in NAMES]
        if unknown:
            raise TidemarkError("unknown_relation", f"there is no query {unknown[0]!r}", hint="q1 to q22, or v3")


class Suite:
    """One run. ``display`` gets a line for each thing that is done, ``status`` what is being done."""

    def __init__(self, plan: SuitePlan, display: Display, status: Status) -> None:
        self._plan, self._display, self._status = plan, display, status

    def run(self, engine: str, scale: float) -> SuiteReport:
        """Measure one engine on data of one scale."""
        self._what = f"{engine}, scale {scale:g}"
        with self._status.showing(f"{self._what}: generating and reading the data"):
            folder = data.generate(scale, self._plan.folder)
            self._tables = {name: data.read(folder, name) for name in data.NAMES}
        lines = self._tables["lineitem"].num_rows
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self._plan.folder, prefix="running-")))
            maintained = stack.enter_context(closing(MaintainedQueries(engine, place)))
            with self._status.showing(f"{self._what}: loading {counted(lines, 'lineitem')}"):
                report = SuiteReport(engine, scale, lines, maintained.load(self._tables))
            self._say(f"loaded {counted(lines, 'lineitem')} in {duration(report.load_milliseconds)}")
            with self._status.showing(f"{self._what}: starting the engine"):
                maintained.recompute("SELECT n_name FROM nation")  # the time to start Spark is no query's
            queries = [name for name in QUERIES if name in self._plan.only]
            for kind in workload.KINDS if queries else ():
                timings = self._timings(maintained, workload.transactions(self._tables, kind), f"{kind} without a view")
                report.without_view[kind] = timings
                self._say(f"{kind} transactions without a view: {duration(typical(timings))}")
            for query in queries:
                report.queries.append(self._query(query, maintained))
            if "v3" in self._plan.only:
                self._v3(report, maintained, place)
        return report

    def _query(self, query: str, maintained: MaintainedQueries) -> QueryFigures:
        found = self._filled(query, QUERIES[query], maintained)
        for kind in workload.KINDS:
            works = workload.transactions(self._tables, kind)
            found.series.append(Series(kind, self._timings(maintained, works, f"{query}, {kind} transactions")))
        self._audited(query, maintained)
        spent = ", ".join(f"{series.kind} {duration(series.transaction)}" for series in found.series)
        self._say(f"{query}: recomputed in {duration(found.recomputation)}; transactions: {spent}")
        return found

    def _filled(self, view: str, definition: str, maintained: MaintainedQueries) -> QueryFigures:
        with self._status.showing(f"{self._what}: recomputing {view}"):
            again = [maintained.recompute(definition) for _ in range(self._plan.repeats)]
        with self._status.showing(f"{self._what}: filling {view}"):
            spent = maintained.create(view, definition)
        return QueryFigures(view, maintained.content(view).num_rows, spent, again, maintained.how(view))

    def _audited(self, view: str, maintained: MaintainedQueries) -> None:
        with self._status.showing(f"{self._what}: comparing {view} with its definition"):
            maintained.check(view)
            maintained.drop(view)

    def _timings(self, maintained: MaintainedQueries, works: Iterator[Work], what: str) -> list[Timing]:
        """Pairs of transactions and their undoing; the first one only warms up."""
        pairs = self._plan.repeats // 2 + 1
        with self._status.showing(f"{self._what}: {what}"):
            return [maintained.apply(work) for work in islice(works, 2 * pairs)][1:]

    def _v3(self, report: SuiteReport, maintained: MaintainedQueries, place: Path) -> None:
        """V3 and its rival get the same transactions in turn."""
        report.v3_recomputed = self._filled("v3", V3, maintained).recomputed
        with ExitStack() as stack:
            by_hand: SuppliersByHand | None = None
            if report.engine == "duckdb":
                by_hand = stack.enter_context(closing(SuppliersByHand(place / "v3-by-hand.duckdb")))
                with self._status.showing(f"{self._what}: loading for the SQL written by hand"):
                    by_hand.fill(self._tables)
            for size in SIZES:
                if enough(report.lineitems, size, self._plan.repeats + 1):
                    report.v3.append(self._v3_size(size, maintained, by_hand))
            if by_hand is not None and (differing := by_hand.differing("v3", maintained.content("v3"))):
                raise TidemarkError("internal", f"{differing} rows of v3 differ from the SQL written by hand")
        self._audited("v3", maintained)

    def _v3_size(self, size: int, maintained: MaintainedQueries, by_hand: SuppliersByHand | None) -> SizeFigures:
        found = SizeFigures(size)
        pairs = self._plan.repeats // 2 + 1
        for work in islice(workload.lines(self._tables, size), 2 * pairs):
            with self._status.showing(f"{self._what}: v3, {counted(size, 'row')}"):
                found.tidemark.append(maintained.apply(work))
                if by_hand is not None:
                    found.by_hand.append(by_hand.apply(work).milliseconds)
        del found.tidemark[0], found.by_hand[:1]
        self._say(f"v3, {counted(size, 'row')} changed: {duration(typical(found.tidemark))}")
        return found

    def _say(self, text: str) -> None:
        self._display.note(f"{self._what}: {text}")
