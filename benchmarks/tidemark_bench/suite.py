"""The queries of TPC-H: load once, then for each query fill, recompute, change, audit and drop its view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, astuple, dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from tidemark.answers.describe import how_maintained
from tidemark.cli.tables import counted, duration
from tidemark.errors import TidemarkError
from tidemark.session import Database, connect
from tidemark_bench import suite_workload as workload
from tidemark_bench import tpch
from tidemark_bench.changes import enough
from tidemark_bench.harness import database as under_clock
from tidemark_bench.harness.clock import spent_on, timed
from tidemark_bench.harness.database import Work
from tidemark_bench.harness.plain import Plain, plain_engine
from tidemark_bench.harness.run import Plan, Run
from tidemark_bench.queries import QUERIES, TABLES
from tidemark_bench.suite_figures import (
    CLOCK,
    NodeTime,
    QueryFigures,
    Series,
    SizeFigures,
    SuiteReport,
    Timing,
    typical,
)
from tidemark_bench.suite_workload import V3, SuppliersByHand, Tables

SIZES: Final = (1, 100, 10_000)
NAMES: Final = (*QUERIES, "v3")


@dataclass(frozen=True)
class SuitePlan(Plan):
    """Which queries are to be measured."""

    only: Sequence[str] = NAMES

    def __post_init__(self) -> None:
        unknown = [name for name in self.only if name not in NAMES]
        if unknown:
            raise TidemarkError("unknown_relation", f"there is no query {unknown[0]!r}", hint="q1 to q22, or v3")


def run(plan: SuitePlan, run: Run) -> None:
    run.measure("queries", CLOCK, asdict(plan), lambda: (measured(plan, run, *case) for case in plan.cases()))


def measured(plan: SuitePlan, run: Run, engine: str, scale: float) -> SuiteReport:
    """Measure one engine on data of one scale."""
    here = run.of(engine, scale)
    with here.showing("generating and reading the data"):
        tables = tpch.read_all(tpch.generate_all(scale, run.folder))
    lines = counted(tables["lineitem"].num_rows, "lineitem")
    with ExitStack() as stack:
        place = stack.enter_context(here.place())
        database = stack.enter_context(closing(connect(under_clock.target(engine, place))))
        with here.showing(f"loading {lines}"):
            spent = timed(lambda: load(database, tables))
        report = SuiteReport(engine, scale, tables["lineitem"].num_rows, spent)
        here.say(f"loaded {lines} in {duration(spent)}")
        with here.showing("starting the engine"):
            # The time to start Spark is no query's.
            under_clock.created_again(database, "SELECT n_name FROM nation")
        with here.showing("loading for the engine by itself"):
            plain = stack.enter_context(plain_engine(engine, place, tables))
        Suite(plan, here, tables, database, plain).fill(report, place)
    return report


class Suite:
    """One run, with a database that has all tables and one view at a time."""

    def __init__(self, plan: SuitePlan, run: Run, tables: Tables, database: Database, plain: Plain) -> None:
        self._plan, self._run = plan, run
        self._tables, self._database, self._plain = tables, database, plain

    def fill(self, report: SuiteReport, place: Path) -> None:
        queries = [name for name in QUERIES if name in self._plan.only]
        for kind in workload.KINDS if queries else ():
            timings = self._timings(workload.transactions(self._tables, kind), f"{kind} without a view")
            report.without_view[kind] = timings
            self._run.say(f"{kind} transactions without a view: {duration(typical(timings))}")
        for query in queries:
            report.queries.append(self._query(query))
        if "v3" in self._plan.only:
            self._v3(report, place)

    def _query(self, query: str) -> QueryFigures:
        found = self._filled(query, QUERIES[query])
        for kind in workload.KINDS:
            works = workload.transactions(self._tables, kind)
            found.series.append(Series(kind, self._timings(works, f"{query}, {kind} transactions")))
        self._audited(query)
        spent = ", ".join(f"{series.kind} {duration(series.transaction)}" for series in found.series)
        self._run.say(f"{query}: recomputed in {duration(found.recomputation)}; transactions: {spent}")
        return found

    def _filled(self, view: str, definition: str) -> QueryFigures:
        with self._run.showing(f"recomputing {view}"):
            again = [self._recomputed(definition) for _ in range(self._plan.repeats + 1)][1:]
            made = [under_clock.created_again(self._database, definition) for _ in range(self._plan.repeats)]
        with self._run.showing(f"filling {view}"):
            spent = under_clock.created(self._database, view, definition, "WITH (strategy = 'incremental') ")
        rows = under_clock.content(self._database, view).num_rows
        how = how_maintained(self._database, view)
        return QueryFigures(view, rows, spent, again, how, created=[Timing(*astuple(one)) for one in made])

    def _recomputed(self, definition: str) -> Timing:
        """What the engine takes by itself; on Spark its processors are in another process, and not counted."""
        spent = spent_on(lambda: self._plain.compute(definition))
        self._plain.forget()
        return Timing(*astuple(spent))

    def _audited(self, view: str) -> None:
        with self._run.showing(f"comparing {view} with its definition"):
            under_clock.must_be_true(self._database, view)
            self._database.execute(f"DROP MATERIALIZED VIEW {view}")

    def _timings(self, works: Iterator[Work], what: str) -> list[Timing]:
        """Pairs of transactions and their undoing; the first one only warms up."""
        pairs = self._plan.repeats // 2 + 1
        with self._run.showing(what):
            return [applied(self._database, work) for work in islice(works, 2 * pairs)][1:]

    def _v3(self, report: SuiteReport, place: Path) -> None:
        """V3 and its rival get the same transactions in turn."""
        report.v3_recomputed = self._filled("v3", V3).recomputed
        with ExitStack() as stack:
            by_hand: SuppliersByHand | None = None
            if report.engine == "duckdb":
                by_hand = stack.enter_context(closing(SuppliersByHand(place / "v3-by-hand.duckdb")))
                with self._run.showing("loading for the SQL written by hand"):
                    by_hand.fill(self._tables)
            for size in SIZES:
                if enough(report.lineitems, size, self._plan.repeats + 1):
                    report.v3.append(self._v3_size(size, by_hand))
            if by_hand is not None:
                differing = by_hand.differing("v3", under_clock.content(self._database, "v3"))
                under_clock.must_agree(differing, "v3", "the SQL written by hand")
        self._audited("v3")

    def _v3_size(self, size: int, by_hand: SuppliersByHand | None) -> SizeFigures:
        found = SizeFigures(size)
        pairs = self._plan.repeats // 2 + 1
        for work in islice(workload.lines(self._tables, size), 2 * pairs):
            with self._run.showing(f"v3, {counted(size, 'row')}"):
                found.tidemark.append(applied(self._database, work))
                if by_hand is not None:
                    found.by_hand.append(by_hand.apply(work)[1].milliseconds)
        del found.tidemark[0], found.by_hand[:1]
        self._run.say(f"v3, {counted(size, 'row')} changed: {duration(typical(found.tidemark))}")
        return found


def applied(database: Database, work: Work) -> Timing:
    """Run a transaction under the clock."""
    found = under_clock.applied(database, work)
    nodes = tuple(NodeTime(step["node"], step["milliseconds"], step["rows_read"]) for step in found.steps)
    return Timing(found.spent.milliseconds, found.spent.processor_milliseconds, nodes, found.statements)


def load(database: Database, tables: Tables) -> None:
    database.execute(TABLES)
    with database.transaction() as transaction:
        for name, rows in tables.items():
            transaction.insert(name, rows)
