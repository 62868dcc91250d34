"""Running it: load the edges, fill the closure, then transactions of every size, beside the same done by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidemark.cli.bench.clock import Spent, spent_on
from tidemark.cli.bench.recursion.byhand import ByHand
from tidemark.cli.bench.recursion.figures import Measurement, RecursionReport, Sample
from tidemark.cli.bench.recursion.workload import PROGRAM, EdgeChange, Graph
from tidemark.cli.opening import bytes_of
from tidemark.cli.show import Display
from tidemark.cli.status import Status
from tidemark.cli.text import counted, duration
from tidemark.database import Database, connect
from tidemark.engines.spark import SparkEngine
from tidemark.errors import TidemarkError

SIZES: Final = (1, 10, 100)
VIEW: Final = "closure"
RECOMPUTED: Final = 3


@dataclass(frozen=True)
class RecursionPlan:
    """What is to be measured, and where the databases lie meanwhile."""

    engines: Sequence[str]
    repeats: int
    folder: Path
    nodes: int = 20_000
    edges: int = 60_000
    sizes: Sequence[int] = SIZES


class RecursionBench:
    """One run. ``display`` gets a line for each thing that is done, ``status`` what is being done."""

    def __init__(self, plan: RecursionPlan, display: Display, status: Status) -> None:
        self._plan, self._display, self._status = plan, display, status

    def run(self, engine: str) -> RecursionReport:
        """Measure one engine."""
        self._engine, graph = engine, Graph(self._plan.nodes, self._plan.edges)
        report = RecursionReport(engine, self._plan.nodes, self._plan.edges)
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self._plan.folder, prefix="running-")))
            target = f"{engine}:{place / ('data.duckdb' if engine == 'duckdb' else 'lake')}"
            database = stack.enter_context(closing(connect(target)))
            self._prepare(report, database, target, graph.table)
            beside = f"{engine}:{place / ('external.duckdb' if engine == 'duckdb' else 'external')}"
            external = stack.enter_context(closing(connect(beside)))
            self._prepare_external(report, external, beside, graph.table)
            rival = None
            if engine == "duckdb":
                with self._status.showing(f"{engine}: preparing what is done by hand"):
                    rival = stack.enter_context(closing(ByHand(place / "byhand.duckdb", graph.table)))
                report.recomputed = [rival.recomputed() for _ in range(RECOMPUTED)]
            else:
                with self._status.showing(f"{engine}: evaluating the closure anew"):
                    report.recomputed = [self._by_jobs(place / "anew", graph.table)]
            assert report.recomputation is not None
            self._say(f"the closure anew: {duration(report.recomputation.milliseconds)}")
            for size in self._plan.sizes:
                report.measurements.append(self._measure(size, graph, database, external, rival))
            with self._status.showing(f"{engine}: comparing the closure with its definition"):
                self._check(database, rival)
        return report

    def _prepare(self, report: RecursionReport, database: Database, target: str, edges: pa.Table) -> None:
        with self._status.showing(f"{self._engine}: loading {counted(edges.num_rows, 'edge')}"):
            report.loaded = spent_on(lambda: load(database, edges))
        before = bytes_of(target) or 0
        with self._status.showing(f"{self._engine}: filling the closure"):
            report.filled = spent_on(lambda: create(database))
        report.rows = int(database.query(f"SELECT count(*) FROM {VIEW}").column(0)[0].as_py())
        report.bytes_of_closure = max(0, (bytes_of(target) or 0) - before)
        self._say(f"filled a closure of {counted(report.rows, 'row')} in {duration(report.filled.milliseconds)}")

    def _prepare_external(self, report: RecursionReport, database: Database, target: str, edges: pa.Table) -> None:
        with self._status.showing(f"{self._engine}: preparing the external view"):
            load(database, edges)
            before = bytes_of(target) or 0
            create(database, "EXTERNAL")
            report.bytes_of_external = max(0, (bytes_of(target) or 0) - before)

    def _by_jobs(self, lake: Path, edges: pa.Table) -> Spent:
        """The closure evaluated and stored by Spark itself, round by round."""
        with closing(Database(SparkEngine(str(lake), iteration_rows=0, point_rows=0, local_rows=0))) as database:
            load(database, edges)
            return spent_on(lambda: create(database))

    def _measure(
        self, size: int, graph: Graph, database: Database, external: Database, rival: ByHand | None
    ) -> Measurement:
        """All get the same transactions in turn, and the first one only warms up."""
        found = Measurement(size)
        for repeat in range(self._plan.repeats + 1):
            with self._status.showing(f"{self._engine}: {counted(size, 'edge')}, {repeat} of {self._plan.repeats}"):
                change = graph.change(size)
                sample, told = applied(database, change), applied(external, change)
                by_hand = rival.apply(change) if rival is not None else None
            if repeat:
                found.samples.append(sample)
                found.external.append(told)
                found.by_hand += [] if by_hand is None else [by_hand]
        beside = "" if found.hand is None else f", {duration(found.hand.milliseconds)} by hand"
        beside += f", {duration(found.without_content.milliseconds)} without content"
        self._say(f"{counted(size, 'edge')} out and in: {duration(found.transaction.milliseconds)}{beside}")
        return found

    def _check(self, database: Database, rival: ByHand | None) -> None:
        """Figures of wrong answers are worth nothing."""
        differing = database.audit(VIEW).num_rows
        if differing:
            raise TidemarkError("internal", f"{differing} rows of the closure differ from its definition")
        if rival is not None and sorted_rows(rival.content()) != sorted_rows(database.query(f"SELECT * FROM {VIEW}")):
            raise TidemarkError("internal", "the closure that is kept by hand differs")
        self._say("the closure equals its definition")

    def _say(self, text: str) -> None:
        self._display.note(f"{self._engine}: {text}")


def load(database: Database, edges: pa.Table) -> None:
    database.execute("CREATE TABLE edge (a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (a, b))")
    database.insert("edge", edges)


def create(database: Database, kind: str = "MATERIALIZED") -> None:
    database.execute(f"CREATE {kind} VIEW {VIEW} (x, y) AS DATALOG $$ {PROGRAM} $$")


def applied(database: Database, change: EdgeChange) -> Sample:
    """Run a transaction under the clock."""
    spent = spent_on(lambda: _run(database, change))
    [step] = [step for step in database.trace(database.version).to_pylist() if step["node"] == VIEW]
    return Sample(
        spent,
        step["strategy"],
        step["reason"],
        step["rows_out"],
        step["rows_read"],
        float(step["milliseconds"]),
        step["rows_rederived"],
    )


def sorted_rows(table: pa.Table) -> pa.Table:
    named = table.rename_columns(["x", "y"])
    return named.sort_by([("x", "ascending"), ("y", "ascending")]).combine_chunks()


def _run(database: Database, change: EdgeChange) -> None:
    with database.transaction() as transaction:
        transaction.delete("edge", change.delete)
        transaction.insert("edge", change.insert)
