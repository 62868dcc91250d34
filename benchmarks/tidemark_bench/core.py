"""Two views over TPC-H: load, fill them, recompute them, then transactions of every size, and compare."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidemark.cli.tables import counted, duration
from tidemark.errors import TidemarkError
from tidemark.session import Database, connect
from tidemark_bench import tpch
from tidemark_bench.changes import Changes, enough
from tidemark_bench.core_by_hand import ViewsByHand
from tidemark_bench.core_figures import CLOCK, Measurement, Report, Sample, charts
from tidemark_bench.harness import database as under_clock
from tidemark_bench.harness.clock import timed
from tidemark_bench.harness.database import Work
from tidemark_bench.harness.plain import Plain, plain_engine
from tidemark_bench.harness.run import Plan, Run

SIZES: Final = (1, 10, 100, 1_000, 10_000)


def run(plan: Plan, run: Run) -> None:
    options = asdict(plan) | {"sizes": SIZES}
    run.measure("results", CLOCK, options, lambda: (Core(plan, run, *case).measured() for case in plan.cases()), charts)


class Core:
    """One engine on data of one scale."""

    def __init__(self, plan: Plan, run: Run, engine: str, scale: float) -> None:
        self._plan, self._run, self._engine, self._scale = plan, run.of(engine, scale), engine, scale

    def measured(self) -> Report:
        with self._run.showing("generating the data"):
            data = tpch.generate(self._scale, self._run.folder)
            tables = {table: tpch.read(data, table) for table in tpch.TABLES}
        lines = tables["lineitem"].num_rows
        report = Report(self._engine, self._scale, lines)
        with ExitStack() as stack:
            place = stack.enter_context(self._run.place())
            database = stack.enter_context(closing(connect(under_clock.target(self._engine, place))))
            with self._run.showing("loading for the engine by itself"):
                plain = stack.enter_context(plain_engine(self._engine, place, tables))
            self._prepare(report, database, plain, tables)
            by_hand: ViewsByHand | None = None
            if self._engine == "duckdb":
                by_hand = stack.enter_context(closing(ViewsByHand(place / "by-hand.duckdb")))
                with self._run.showing("loading for the SQL written by hand"):
                    by_hand.fill(tables)
            changes = Changes(tables["orders"], tables["lineitem"])
            for size in SIZES:
                if enough(lines, size, self._plan.repeats + 1):
                    report.measurements.append(self._measure(size, changes, database, by_hand))
                    report.measurements[-1].data_files = data_files(place / "lake")
            self._compare(database, by_hand)
        return report

    def _prepare(self, report: Report, database: Database, plain: Plain, tables: dict[str, pa.Table]) -> None:
        lines = counted(report.lineitems, "lineitem")
        with self._run.showing(f"loading {lines}"):
            report.load_milliseconds = timed(lambda: under_clock.load(database, tpch.TABLES, tables))
        self._run.say(f"loaded {lines} in {duration(report.load_milliseconds)}")
        for view, definition in tpch.VIEWS.items():
            with self._run.showing(f"filling {view}"):
                report.filled[view] = under_clock.created(database, view, definition)
            with self._run.showing(f"recomputing {view}"):
                again = [under_clock.created_again(database, definition) for _ in range(self._plan.repeats)]
                report.created[view] = [spent.milliseconds for spent in again]
                rows = under_clock.content(database, view).num_rows
                report.recomputed[view] = self._recomputed(definition, rows, plain)
            filled, recomputed = duration(report.filled[view]), duration(report.recomputation(view))
            self._run.say(f"filled {view} in {filled}; {report.engine} by itself takes {recomputed}")

    def _recomputed(self, definition: str, rows: int, plain: Plain) -> list[float]:
        """How long the engine takes by itself. The first time only warms up, and must give the rows that we have."""
        spent: list[float] = []
        for _ in range(self._plan.repeats + 1):
            spent.append(timed(lambda: plain.compute(definition)))
            found = plain.rows()
            plain.forget()
            if found != rows:
                raise TidemarkError("internal", f"the engine by itself gives {found} rows, the view has {rows}")
        return spent[1:]

    def _measure(self, size: int, changes: Changes, database: Database, by_hand: ViewsByHand | None) -> Measurement:
        """Transactions of one size; both rivals get the same ones in turn."""
        found = Measurement(size)
        for number in range(self._plan.repeats + 1):  # the first only warms up
            with self._run.showing(f"{counted(size, 'row')}, {number} of {self._plan.repeats}"):
                work = changes.transaction(size)
                sample = applied(database, work)
                rival = by_hand.apply(work) if by_hand is not None else None
            if number:
                found.tidemark.append(sample)
                found.by_hand += [Sample(rival[1].milliseconds, rival[0])] if rival is not None else []
        self._run.say(f"{counted(size, 'row')} changed: {duration(found.milliseconds)}")
        return found

    def _compare(self, database: Database, by_hand: ViewsByHand | None) -> None:
        """Figures of wrong answers are worth nothing."""
        with self._run.showing("comparing the views with their definitions"):
            under_clock.must_be_true(database, *tpch.VIEWS)
            if by_hand is not None:
                for view in tpch.VIEWS:
                    differing = by_hand.differing(view, under_clock.content(database, view))
                    under_clock.must_agree(differing, view, "the SQL written by hand")
        others = " and those of the SQL written by hand" if by_hand is not None else ""
        self._run.say(f"both views equal their definitions{others}")


def applied(database: Database, work: Work) -> Sample:
    """Run a transaction under the clock."""
    found = under_clock.applied(database, work)
    written = sum(step["rows_out"] for step in found.steps if "/shared-" not in step["node"])
    spent = {
        view: sum(step["milliseconds"] for step in found.steps if step["node"].partition("/")[0] == view)
        for view in tpch.VIEWS
    }
    return Sample(
        found.spent.milliseconds,
        written + sum(change.rows for change in work.values()),
        spent["v1"],
        spent["v2"],
        sum(step["rows_read"] for step in found.steps),
        found.statements,
        found.parts,
    )


def data_files(lake: Path) -> int | None:
    """How many data files the lake has now."""
    return sum(1 for _ in lake.rglob("*.parquet")) if lake.is_dir() else None
