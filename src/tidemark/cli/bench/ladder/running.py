"""Running it: load, fill V1, then transactions of every size with and without a rung of the ladder, in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.bench import tpch
from tidemark.cli.bench.changes import Work
from tidemark.cli.bench.clock import spent_on
from tidemark.cli.bench.figures import timed
from tidemark.cli.bench.ladder import figures
from tidemark.cli.bench.ladder.figures import Comparison, LadderReport, Sample
from tidemark.cli.bench.ladder.workload import RUNGS, Lines
from tidemark.cli.show import Display
from tidemark.cli.status import Status
from tidemark.cli.text import counted, duration
from tidemark.database import Database, connect
from tidemark.database.inspection import maintained_without, statements_started
from tidemark.errors import TidemarkError

SIZES: Final = (1, 100, 1_000, 10_000)
TABLES: Final = ("customer", "orders", "lineitem")
VIEW: Final = "v1"


@dataclass(frozen=True)
class LadderPlan:
    """What is to be measured, and where data and databases lie meanwhile."""

    engines: Sequence[str]
    scales: Sequence[float]
    repeats: int
    folder: Path
    sizes: Sequence[int] = SIZES


class Ladder:
    """One run. ``display`` gets a line for each thing that is done, ``status`` what is being done."""

    def __init__(self, plan: LadderPlan, display: Display, status: Status) -> None:
        self._plan, self._display, self._status = plan, display, status

    def run(self, engine: str, scale: float) -> LadderReport:
        """Measure one engine on data of one scale."""
        self._what = f"{engine}, scale {scale:g}"
        with self._status.showing(f"{self._what}: generating the data"):
            data = tpch.generate(scale, self._plan.folder)
            tables = {name: tpch.read(data, name) for name in TABLES}
        report = LadderReport(engine, scale, tables["lineitem"].num_rows)
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self._plan.folder, prefix="running-")))
            target = place / ("data.duckdb" if engine == "duckdb" else "lake")
            database = stack.enter_context(closing(connect(f"{engine}:{target}")))
            self._prepare(report, database, tables)
            for rung in RUNGS:
                lines = Lines(tables["lineitem"], rung)
                for size in self._plan.sizes:
                    # Half of the lines are kept back: the view must not be empty at the end.
                    if lines.left(size) >= 4 * (self._plan.repeats + 1):
                        report.comparisons.append(self._compare(rung, size, lines, database))
            with self._status.showing(f"{self._what}: comparing {VIEW} with its definition"):
                self._check(database)
        return report

    def _prepare(self, report: LadderReport, database: Database, tables: dict[str, pa.Table]) -> None:
        with self._status.showing(f"{self._what}: loading {counted(report.lineitems, 'lineitem')}"):
            report.load_milliseconds = timed(lambda: _load(database, tables))
        self._say(f"loaded {counted(report.lineitems, 'lineitem')} in {duration(report.load_milliseconds)}")
        with self._status.showing(f"{self._what}: filling {VIEW}"):
            text = f"CREATE MATERIALIZED VIEW {VIEW} AS {tpch.VIEWS[VIEW]}"
            report.filled_milliseconds = timed(lambda: database.execute(text))
        self._say(f"filled {VIEW} in {duration(report.filled_milliseconds)}")

    def _compare(self, rung: str, size: int, lines: Lines, database: Database) -> Comparison:
        """Transactions with the rung and without it take turns, and the first of both only warm up.

        Who is first changes by the sequence of Thue and Morse: what comes with every fourth commit, such as a merge of
        files, must not always meet the same one.
        """
        found = Comparison(rung, size)
        without = {"autonomy": rung == "autonomous", "filters": rung == "irrelevant"}
        for repeat in range(self._plan.repeats + 1):
            what = f"{self._what}: {rung}, {counted(size, 'row')}, {repeat} of {self._plan.repeats}"
            with self._status.showing(what):
                for is_with_it in (True, False) if repeat.bit_count() % 2 == 0 else (False, True):
                    left_out = {} if is_with_it else without
                    with maintained_without(database, **left_out):
                        sample = applied(database, lines.transaction(size))
                    if is_with_it:
                        _must_be(rung, sample)
                    if repeat:
                        (found.with_it if is_with_it else found.without_it).append(sample)
        spent = duration(figures.on_view(found.with_it)), duration(figures.on_view(found.without_it))
        self._say(f"{rung}, {counted(size, 'row')}: {spent[0]} on the view, {spent[1]} without it")
        return found

    def _check(self, database: Database) -> None:
        """Figures of wrong answers are worth nothing."""
        differing = database.audit(VIEW).num_rows
        if differing:
            raise TidemarkError("internal", f"{differing} rows of {VIEW} differ from its definition")
        self._say(f"{VIEW} equals its definition")

    def _say(self, text: str) -> None:
        self._display.note(f"{self._what}: {text}")


def applied(database: Database, work: Work) -> Sample:
    """Run a transaction under the clock."""
    before = statements_started(database)
    spent = spent_on(lambda: _run(database, work))
    after = statements_started(database)
    [step] = _steps(database)
    statements = None if before is None or after is None else after - before
    return Sample(spent, step["strategy"], step["rows_read"], step["rows_filtered"], step["milliseconds"], statements)


def _must_be(rung: str, sample: Sample) -> None:
    """Refuse figures of something else: the step must be the rung's, and read no row of a base table."""
    if sample.strategy != rung or sample.rows_read:
        raise TidemarkError(
            "internal",
            f"the step of {VIEW} was {sample.strategy} and read {sample.rows_read} base rows; it should have been "
            f"{rung}, and have read none",
        )


def _steps(database: Database) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = database.trace(database.version).to_pylist()
    return [step for step in steps if step["node"] == VIEW]


def _load(database: Database, tables: dict[str, pa.Table]) -> None:
    for name, rows in tables.items():
        database.execute(f"CREATE TABLE {name} ({tpch.TABLES[name]})")
        database.insert(name, rows)


def _run(database: Database, work: Work) -> None:
    with database.transaction() as transaction:
        for table, change in work.items():
            transaction.delete(table, change.delete)
            if change.insert.num_rows:
                transaction.insert(table, change.insert)
