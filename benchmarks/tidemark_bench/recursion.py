"""A transitive closure that follows changes of its edges, beside the same done by hand and as an external view."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.databases import bytes_of
from tidemark.cli.show import Display
from tidemark.cli.tables import counted, duration, size
from tidemark.engines.spark import SparkEngine
from tidemark.errors import TidemarkError
from tidemark.session import Database, connect
from tidemark_bench.harness import database as under_clock
from tidemark_bench.harness.clock import Spent, median, middle, spent_on
from tidemark_bench.harness.database import Work
from tidemark_bench.harness.run import Run, show, tenths, whole, words
from tidemark_bench.recursion_sides import PROGRAM, ClosureByHand, ClosureInPython, Graph

CLOCK: Final = (
    "The clock covers a whole transaction: handing over the edges, finding those to delete, key checks, the closure, "
    "and the durable commit."
)
SIZES: Final = (1, 10, 100)
VIEW: Final = "closure"
RECOMPUTED: Final = 3


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
    """Transactions that delete and insert so many edges each, and the same ones done by hand, in SQL and in
    Python, and under an external view."""

    edges: int
    samples: list[Sample] = field(default_factory=list)
    by_hand: list[Spent] = field(default_factory=list)
    in_python: list[Spent] = field(default_factory=list)
    external: list[Sample] = field(default_factory=list)

    @property
    def without_content(self) -> Spent:
        """The same transactions under an external view."""
        return median(sample.spent for sample in self.external)

    @property
    def transaction(self) -> Spent:
        return median(sample.spent for sample in self.samples)

    @property
    def hand(self) -> Spent | None:
        return median(self.by_hand) if self.by_hand else None

    @property
    def times_python(self) -> float:
        """How many times the processors' time of the best one by hand in Python the best transaction takes."""
        ours = min(sample.spent.processor_milliseconds for sample in self.samples)
        return ours / min(spent.processor_milliseconds for spent in self.in_python)

    @property
    def strategy(self) -> str:
        return " or ".join(sorted({sample.strategy for sample in self.samples}))

    def as_json(self) -> dict[str, Any]:
        medians = {
            "transaction": asdict(self.transaction),
            "by_hand": None if self.hand is None else asdict(self.hand),
            "in_python": asdict(median(self.in_python)),
            "external": asdict(self.without_content),
        }
        return {**asdict(self), "medians": medians}


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

    def show(self, display: Display) -> None:
        where = f"{self.engine}, closure of {counted(self.rows, 'row')} over {counted(self.edges, 'edge')}"
        show(display, f"{where}: medians in milliseconds", self.columns())
        kept, told = size(self.bytes_of_closure), size(self.bytes_of_external)
        display.note(f"{self.engine}: the materialized view takes {kept} on disk, the external one {told}")

    def columns(self) -> dict[str, pa.Array]:
        """A row for each size of transaction."""
        found, anew = self.measurements, self.recomputation
        return {
            "edges out and in": whole(m.edges for m in found),
            "transaction": tenths(m.transaction.milliseconds for m in found),
            "of processors": tenths(m.transaction.processor_milliseconds for m in found),
            "on the closure": tenths(middle(m.samples, "on_view_milliseconds") for m in found),
            "by hand": tenths(None if m.hand is None else m.hand.milliseconds for m in found),
            "by Python": tenths(median(m.in_python).milliseconds for m in found),
            "times Python": tenths(m.times_python for m in found),
            "anew": tenths([None if anew is None else anew.milliseconds] * len(found)),
            "strategy": words(m.strategy for m in found),
            "rows changed": whole(middle(m.samples, "rows_out") for m in found),
            "rows read": whole(middle(m.samples, "rows_read") for m in found),
            "external": tenths(m.without_content.milliseconds for m in found),
            "rows rederived": whole(middle(m.external, "rows_rederived") for m in found),
        }


@dataclass(frozen=True)
class RecursionPlan:
    """What is to be measured."""

    engines: Sequence[str]
    repeats: int
    nodes: int = 20_000
    edges: int = 60_000
    sizes: Sequence[int] = SIZES


def run(plan: RecursionPlan, run: Run) -> None:
    run.measure(
        "recursion", CLOCK, asdict(plan), lambda: (Recursion(plan, run, engine).measured() for engine in plan.engines)
    )


@dataclass(frozen=True)
class Sides:
    """Who gets the same transactions in turn."""

    database: Database
    external: Database
    python: ClosureInPython
    by_hand: ClosureByHand | None


class Recursion:
    """One engine: load the edges, fill the closure, then transactions of every size."""

    def __init__(self, plan: RecursionPlan, run: Run, engine: str) -> None:
        self._plan, self._run, self._engine = plan, run.of(engine), engine

    def measured(self) -> RecursionReport:
        graph = Graph(self._plan.nodes, self._plan.edges)
        report = RecursionReport(self._engine, self._plan.nodes, self._plan.edges)
        with ExitStack() as stack:
            place = stack.enter_context(self._run.place())
            target, beside = (under_clock.target(self._engine, place, name) for name in (None, "external"))
            database = stack.enter_context(closing(connect(target)))
            self._prepare(report, database, target, graph.table)
            external = stack.enter_context(closing(connect(beside)))
            self._prepare_external(report, external, beside, graph.table)
            with self._run.showing("preparing what is done by hand in Python"):
                python = stack.enter_context(closing(ClosureInPython(place / "changes", graph.table)))
            rival = None
            if self._engine == "duckdb":
                with self._run.showing("preparing what is done by hand"):
                    rival = stack.enter_context(closing(ClosureByHand(place / "byhand.duckdb", graph.table)))
                report.recomputed = [rival.recomputed() for _ in range(RECOMPUTED)]
            else:
                with self._run.showing("evaluating the closure anew"):
                    report.recomputed = [self._by_jobs(place / "anew", graph.table)]
            assert report.recomputation is not None
            self._run.say(f"the closure anew: {duration(report.recomputation.milliseconds)}")
            for edges in self._plan.sizes:
                report.measurements.append(self._measure(edges, graph, Sides(database, external, python, rival)))
            with self._run.showing("comparing the closure with its definition"):
                self._check(database, python, rival)
        return report

    def _prepare(self, report: RecursionReport, database: Database, target: str, edges: pa.Table) -> None:
        with self._run.showing(f"loading {counted(edges.num_rows, 'edge')}"):
            report.loaded = spent_on(lambda: load(database, edges))
        before = bytes_of(target) or 0
        with self._run.showing("filling the closure"):
            report.filled = spent_on(lambda: create(database))
        report.rows = int(database.query(f"SELECT count(*) FROM {VIEW}").column(0)[0].as_py())
        report.bytes_of_closure = max(0, (bytes_of(target) or 0) - before)
        self._run.say(f"filled a closure of {counted(report.rows, 'row')} in {duration(report.filled.milliseconds)}")

    def _prepare_external(self, report: RecursionReport, database: Database, target: str, edges: pa.Table) -> None:
        with self._run.showing("preparing the external view"):
            load(database, edges)
            before = bytes_of(target) or 0
            create(database, "EXTERNAL")
            report.bytes_of_external = max(0, (bytes_of(target) or 0) - before)

    def _by_jobs(self, lake: Path, edges: pa.Table) -> Spent:
        """The closure evaluated and stored by Spark itself, round by round."""
        with closing(Database(SparkEngine(str(lake), iteration_rows=0, point_rows=0, local_rows=0))) as database:
            load(database, edges)
            return spent_on(lambda: create(database))

    def _measure(self, edges: int, graph: Graph, sides: Sides) -> Measurement:
        """All get the same transactions in turn, and the first one only warms up."""
        found = Measurement(edges)
        for number in range(self._plan.repeats + 1):
            with self._run.showing(f"{counted(edges, 'edge')}, {number} of {self._plan.repeats}"):
                work = {"edge": graph.change(edges)}
                sample, told = applied(sides.database, work), applied(sides.external, work)
                in_python = sides.python.apply(work)
                by_hand = sides.by_hand.apply(work)[1] if sides.by_hand is not None else None
            if number:
                found.samples.append(sample)
                found.external.append(told)
                found.in_python.append(in_python)
                found.by_hand += [] if by_hand is None else [by_hand]
        beside = "" if found.hand is None else f", {duration(found.hand.milliseconds)} by hand"
        beside += f", {duration(median(found.in_python).milliseconds)} by hand in Python"
        beside += f", {duration(found.without_content.milliseconds)} without content"
        self._run.say(f"{counted(edges, 'edge')} out and in: {duration(found.transaction.milliseconds)}{beside}")
        return found

    def _check(self, database: Database, python: ClosureInPython, rival: ClosureByHand | None) -> None:
        """Figures of wrong answers are worth nothing."""
        under_clock.must_agree(database.audit(VIEW).num_rows, "the closure", "its definition")
        content = under_clock.content(database, VIEW)
        under_clock.must_agree(python.differing(content), "the closure", "what is kept by hand in Python")
        if rival is not None and rival.differing(VIEW, content):
            raise TidemarkError("internal", "the closure that is kept by hand differs")
        self._run.say("the closure equals its definition")


def load(database: Database, edges: pa.Table) -> None:
    under_clock.load(database, {"edge": "a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (a, b)"}, {"edge": edges})


def create(database: Database, kind: str = "MATERIALIZED") -> None:
    database.execute(f"CREATE {kind} VIEW {VIEW} (x, y) AS DATALOG $$ {PROGRAM} $$")


def applied(database: Database, work: Work) -> Sample:
    """Run a transaction under the clock."""
    found = under_clock.applied(database, work)
    step = found.step(VIEW)
    figures = step["strategy"], step["reason"], step["rows_out"], step["rows_read"]
    return Sample(found.spent, *figures, float(step["milliseconds"]), step["rows_rederived"])
