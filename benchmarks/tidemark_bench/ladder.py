"""What the upper rungs of the strategy ladder gain: transactions with and without a rung, in turn.

- *autonomous*: lines that V1's own filter lets pass. V1 shows their keys, so its content and the change are enough.
- *irrelevant*: lines that were shipped too early for V1. Its filter throws them away.
"""

from __future__ import annotations

import datetime as dt
import random
from contextlib import closing
from dataclasses import asdict
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.answers.describe import maintained_without
from tidemark.cli.tables import counted, duration
from tidemark.errors import TidemarkError
from tidemark.session import Database, connect
from tidemark_bench import tpch
from tidemark_bench.changes import a_cent_dearer
from tidemark_bench.harness import database as under_clock
from tidemark_bench.harness.clock import timed
from tidemark_bench.harness.database import TableChange, Work
from tidemark_bench.harness.run import Plan, Run
from tidemark_bench.ladder_figures import CLOCK, Comparison, LadderReport, Sample, on_view

SIZES: Final = (1, 100, 1_000, 10_000)
TABLES: Final = ("customer", "orders", "lineitem")
VIEW: Final = "v1"
RUNGS: Final = ("autonomous", "irrelevant")
SHIPPED: Final = dt.date(1995, 6, 1)
"""V1 has the lines that were shipped then or later."""


class Lines:
    """Makes the same transactions for the same seed. A line is used once at most."""

    def __init__(self, lines: pa.Table, rung: str, seed: int = 7) -> None:
        late = pc.greater_equal(lines["l_shipdate"], SHIPPED)
        self._lines = lines.filter(late if rung == "autonomous" else pc.invert(late))
        self._order = list(range(self._lines.num_rows))
        random.Random(seed).shuffle(self._order)
        self._made = 0

    def left(self, size: int) -> int:
        """How many transactions of a size the lines are enough for."""
        return len(self._order) // size

    def transaction(self, size: int) -> Work:
        """So many changed lines, half of them updated and half deleted. Where there is one, two transactions update and
        two delete, so that both rivals get both kinds."""
        taken = pa.array([self._order.pop() for _ in range(size)], pa.int64())
        lines = self._lines.take(taken)
        updated = size // 2 if size > 1 else int(self._made % 4 < 2)
        self._made += 1
        return {"lineitem": TableChange(lines, a_cent_dearer(lines.slice(0, updated)))}


def run(plan: Plan, run: Run) -> None:
    options = asdict(plan) | {"sizes": SIZES}
    run.measure("autonomous", CLOCK, options, lambda: (Ladder(plan, run, *case).measured() for case in plan.cases()))


class Ladder:
    """One engine on data of one scale."""

    def __init__(self, plan: Plan, run: Run, engine: str, scale: float) -> None:
        self._plan, self._run, self._engine, self._scale = plan, run.of(engine, scale), engine, scale

    def measured(self) -> LadderReport:
        with self._run.showing("generating the data"):
            data = tpch.generate(self._scale, self._run.folder)
            tables = {name: tpch.read(data, name) for name in TABLES}
        report = LadderReport(self._engine, self._scale, tables["lineitem"].num_rows)
        with (
            self._run.place() as place,
            closing(connect(under_clock.target(self._engine, place))) as database,
        ):
            self._prepare(report, database, tables)
            for rung in RUNGS:
                lines = Lines(tables["lineitem"], rung)
                for size in SIZES:
                    # Half of the lines are kept back: the view must not be empty at the end.
                    if lines.left(size) >= 4 * (self._plan.repeats + 1):
                        report.comparisons.append(self._compare(rung, size, lines, database))
            with self._run.showing(f"comparing {VIEW} with its definition"):
                under_clock.must_be_true(database, VIEW)
            self._run.say(f"{VIEW} equals its definition")
        return report

    def _prepare(self, report: LadderReport, database: Database, tables: dict[str, pa.Table]) -> None:
        lines = counted(report.lineitems, "lineitem")
        with self._run.showing(f"loading {lines}"):
            report.load_milliseconds = timed(lambda: under_clock.load(database, tpch.TABLES, tables))
        self._run.say(f"loaded {lines} in {duration(report.load_milliseconds)}")
        with self._run.showing(f"filling {VIEW}"):
            report.filled_milliseconds = under_clock.created(database, VIEW, tpch.VIEWS[VIEW])
        self._run.say(f"filled {VIEW} in {duration(report.filled_milliseconds)}")

    def _compare(self, rung: str, size: int, lines: Lines, database: Database) -> Comparison:
        """Transactions with the rung and without it take turns, and the first of both only warm up.

        Who is first changes by the sequence of Thue and Morse: what comes with every fourth commit, such as a merge of
        files, must not always meet the same one.
        """
        found = Comparison(rung, size)
        without = {"autonomy": rung == "autonomous", "filters": rung == "irrelevant"}
        for number in range(self._plan.repeats + 1):
            with self._run.showing(f"{rung}, {counted(size, 'row')}, {number} of {self._plan.repeats}"):
                for is_with_it in (True, False) if number.bit_count() % 2 == 0 else (False, True):
                    left_out = {} if is_with_it else without
                    with maintained_without(database, **left_out):
                        sample = applied(database, lines.transaction(size))
                    if is_with_it:
                        _must_be(rung, sample)
                    if number:
                        (found.with_it if is_with_it else found.without_it).append(sample)
        spent = duration(on_view(found.with_it)), duration(on_view(found.without_it))
        self._run.say(f"{rung}, {counted(size, 'row')}: {spent[0]} on the view, {spent[1]} without it")
        return found


def applied(database: Database, work: Work) -> Sample:
    """Run a transaction under the clock."""
    found = under_clock.applied(database, work)
    step = found.step(VIEW)
    figures = step["strategy"], step["rows_read"], step["rows_filtered"], step["milliseconds"]
    return Sample(found.spent, *figures, found.statements)


def _must_be(rung: str, sample: Sample) -> None:
    """Refuse figures of something else: the step must be the rung's, and read no row of a base table."""
    if sample.strategy != rung or sample.rows_read:
        raise TidemarkError(
            "internal",
            f"the step of {VIEW} was {sample.strategy} and read {sample.rows_read} base rows; it should have been "
            f"{rung}, and have read none",
        )
