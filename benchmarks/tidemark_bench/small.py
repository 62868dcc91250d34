"""Small transactions, statement by statement, on V1 and V2, beside SQLite with triggers and beside recomputation.

All sides get the same transactions in turn. In the end all contents must be equal, or there are no figures.
"""

from __future__ import annotations

import inspect
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from tidemark.cli.tables import counted, duration, size
from tidemark.session import Database, connect
from tidemark_bench import mix, tpch
from tidemark_bench.changes import Changes
from tidemark_bench.harness import database as under_clock
from tidemark_bench.harness.beside import MILLISECONDS, PROCESSORS, TIDEMARK, Beside, BesideReport
from tidemark_bench.harness.clock import SYNC, Spent, spent_on, timed
from tidemark_bench.harness.run import Plan, Run
from tidemark_bench.opening import opened
from tidemark_bench.small_sides import ByTriggers, Kept, Recomputed, Side
from tidemark_bench.small_workload import MANY, PARAMETERS, TEXTS, Statements

CLOCK: Final = (
    "The clock covers a whole transaction: its statements from their texts on, finding their rows, key checks, both "
    "views, and the durable commit."
)
SIZES: Final = {"duckdb": ((2, 2), (100, 31), (1_000, 308)), "spark": ((1, 1), (100, 31))}
"""Rows, and the statements that change them."""
ONE_BY_ONE: Final = {"duckdb": 200, "spark": 20}
WARMING_UP: Final = 3
ONE_ROW: Final = "1 row by UPDATE, one after the other"
BY_ARROW: Final = 10_000
SYNCS: Final = 50
AFTER_OPENING: Final = 50
SQLITE: Final = "SQLite"
RECOMPUTE: Final = "recompute"
APPEND: Final = "Delta append"


def run(plan: Plan, run: Run) -> None:
    def reports() -> Iterator[BesideReport]:
        for engine, scale in plan.cases():
            yield Small(plan, run, engine, scale).measured()
        for engine in plan.engines:
            yield mix.measured(engine, plan.repeats, run)

    run.measure("small", CLOCK, asdict(plan), reports)


class Small:
    """One engine on data of one scale."""

    def __init__(self, plan: Plan, run: Run, engine: str, scale: float) -> None:
        self._plan, self._run, self._engine, self._scale = plan, run.of(engine, scale), engine, scale
        self._sides: dict[str, Side] = {}
        self._plain: Recomputed

    def measured(self) -> BesideReport:
        with self._run.showing("generating the data"):
            data = tpch.generate(self._scale, self._run.folder)
            tables = {table: tpch.read(data, table) for table in tpch.TABLES}
        lines = tables["lineitem"]
        report = BesideReport(
            f"{self._engine}, scale {self._scale:g}, {counted(lines.num_rows, 'lineitem')}, V1 and V2"
        )
        made = Statements(tables["orders"], lines, tables["customer"].num_rows)
        with ExitStack() as stack:
            place = stack.enter_context(self._run.place())
            target = under_clock.target(self._engine, place)
            database = stack.enter_context(closing(connect(target)))
            self._fill(report, database, tables)
            self._beside(stack, place, database, tables)
            listed = ways(database, report)
            self._warm_up(report, made, listed[-1])
            self._statements(report, made, place, listed)
            self._by_arrow(report, tables)
            self._one_by_one(report, made, place)
            self._compare(database)
            database.close()
            self._open_again(report, target, made)
        if self._engine == "duckdb":
            self._in_memory(report, tables)
        return report

    def _fill(self, report: BesideReport, database: Database, tables: Mapping[str, pa.Table]) -> None:
        lines = counted(tables["lineitem"].num_rows, "lineitem")
        with self._run.showing(f"loading {lines}"):
            loaded = timed(lambda: under_clock.load(database, tpch.TABLES, tables))
        with self._run.showing("filling both views"):
            filled = {view: under_clock.created(database, view, text) for view, text in tpch.VIEWS.items()}
        report.figures |= {"loaded": loaded, "filled": filled}
        self._run.say(f"loaded {lines} in {duration(loaded)}, filled both views in {duration(sum(filled.values()))}")

    def _beside(self, stack: ExitStack, place: Path, database: Database, tables: Mapping[str, pa.Table]) -> None:
        with self._run.showing("loading for SQLite and for DuckDB by itself"):
            sqlite = stack.enter_context(closing(ByTriggers(place / "triggers.sqlite", tables)))
            plain = stack.enter_context(closing(Recomputed(place / "plain.duckdb", tables)))
        self._sides, self._plain = {TIDEMARK: Kept(database), SQLITE: sqlite}, plain

    def _warm_up(self, report: BesideReport, made: Statements, way: str) -> None:
        """Large transactions that are not counted. Rows are arranged in memory when some look-ups have shown that it
        pays, which takes the more of them the more rows there are."""
        rows, statements = next((size for size in reversed(SIZES[self._engine]) if made.enough(size[1])), (1, 1))
        spent = []
        with self._run.showing("warming up"):
            for _ in range(WARMING_UP):
                work = made.transaction(rows, statements)
                spent.append(self._sides[TIDEMARK].run_statements(work, TEXTS))
                for side in (self._sides[SQLITE], self._plain):
                    side.run_statements(work, way)
        took = ", ".join(duration(one.milliseconds) for one in spent)
        report.figures["warming up"] = [asdict(one) for one in spent]
        report.notes.append(
            f"the first transactions, of {counted(rows, 'row')} in {counted(statements, 'statement')} each, which are "
            f"not counted: {took}"
        )

    def _statements(self, report: BesideReport, made: Statements, place: Path, ways: Sequence[str]) -> None:
        """Each size in each way; a transaction that is new each time."""
        for rows, statements in SIZES[self._engine]:
            if not made.enough(statements):
                report.notes.append(f"{counted(statements, 'statement')}: left out, there are too few orders")
                continue
            for way in ways:
                found = Beside(f"{counted(rows, 'row')}, {counted(statements, 'statement')}, {way}")
                for round_ in range(self._plan.repeats + 1):
                    with self._run.showing(f"{found.work}, {round_} of {self._plan.repeats}"):
                        work = made.transaction(rows, statements)
                        actions = self._actions(methodcaller("run_statements", work, way))
                        if self._engine == "spark":
                            actions[APPEND] = partial(appended, place / "appended", rows)
                        found.measure(round_, actions)
                self._done(report, found)

    def _by_arrow(self, report: BesideReport, tables: Mapping[str, pa.Table]) -> None:
        # The statements keep to orders of odd keys, so these rows are as they were loaded.
        orders, lines = (
            tables[name].filter(pc.equal(pc.bit_wise_and(tables[name][key], 1), 0))
            for name, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey"))
        )
        rows = min(BY_ARROW, 10 ** int(math.log10(lines.num_rows / 4 / (self._plan.repeats + 1))))
        changes, found = Changes(orders, lines), Beside(f"{counted(rows, 'row')} as Arrow tables")
        for round_ in range(self._plan.repeats + 1):
            with self._run.showing(f"{found.work}, {round_} of {self._plan.repeats}"):
                work = changes.transaction(rows)
                found.measure(round_, self._actions(methodcaller("run_rows", work)))
        self._done(report, found)

    def _actions(self, run: Callable[[Side], Spent]) -> dict[str, Callable[[], Spent]]:
        """The transaction of each side. What plain DuckDB takes to change its tables is not counted: statements of one
        row are not what it is made for."""

        def changed_and_recomputed() -> Spent:
            run(self._plain)
            return self._plain.recompute()

        return {name: partial(run, side) for name, side in self._sides.items()} | {RECOMPUTE: changed_and_recomputed}

    def _one_by_one(self, report: BesideReport, made: Statements, place: Path) -> None:
        """Durable updates of a row each. A second has as many as all of them together say, not the best one."""
        found = Beside(ONE_ROW, {name: [] for name in self._sides})
        with self._run.showing("one row after the other"):
            for _ in range(ONE_BY_ONE[self._engine]):
                work = made.line()
                for name, side in self._sides.items():
                    found.spent[name].append(side.run_statements(work, TEXTS))
                self._plain.run_statements(work, TEXTS)
        self._done(report, found)
        second = {name: per_second(spent) for name, spent in found.spent.items()}
        syncs = [synced(place / "synced") for _ in range(SYNCS)]
        of_processors = {name: per_second(spent, PROCESSORS) for name, spent in found.spent.items()}
        said = ", ".join(f"{name} {number:,.0f}" for name, number in second.items())
        said_of_processors = ", ".join(f"{name} {number:,.0f}" for name, number in of_processors.items())
        report.notes.append(
            f"durable one-row transactions a second, one after the other: {said} (in a second of the processors: "
            f"{said_of_processors}); one fdatasync in the same folder takes {statistics.median(syncs):.2f} ms"
        )
        report.figures |= {"a second": second, "a second of processors": of_processors, "fdatasync": syncs}

    def _in_memory(self, report: BesideReport, tables: Mapping[str, pa.Table]) -> None:
        made = Statements(tables["orders"], tables["lineitem"], tables["customer"].num_rows)
        with self._run.showing("the same in memory"), closing(connect(self._engine)) as database:
            under_clock.load(database, tpch.TABLES, tables)
            for view, text in tpch.VIEWS.items():
                under_clock.created(database, view, text)
            side = Kept(database)
            spent = [side.run_statements(made.line(), TEXTS) for _ in range(2 * ONE_BY_ONE[self._engine])]
            under_clock.must_be_true(database, *tpch.VIEWS)
        warm = spent[len(spent) // 2 :]
        report.figures["a second in memory"] = per_second(warm)
        of_processors = per_second(warm, PROCESSORS)
        report.notes.append(
            f"in memory, one-row transactions a second: {per_second(warm):,.0f} (in a second of the processors: "
            f"{of_processors:,.0f})"
        )

    def _compare(self, database: Database) -> None:
        """Figures of wrong answers are worth nothing."""
        with self._run.showing("comparing the contents"):
            under_clock.must_be_true(database, *tpch.VIEWS)
            self._plain.recompute()
            for view in tpch.VIEWS:
                for name, side in self._sides.items():
                    differing = self._plain.differing(view, side.content(view))
                    under_clock.must_agree(differing, f"{view} of {name}", "those that DuckDB computes")
        self._run.say("both views equal their definitions, on all sides")

    def _open_again(self, report: BesideReport, target: str, made: Statements) -> None:
        statements = [made.line()[0].text() for _ in range(AFTER_OPENING)]
        with self._run.showing("opening the database in another process"):
            found = opened(target, statements)
        report.figures["opened"] = found
        memory = found["memory"]
        report.notes.append(
            f"opening in a new process: {duration(found['opening'][MILLISECONDS])}, the first transaction "
            f"{duration(found['first'][MILLISECONDS])}; memory at most {size(memory['imported'])} before, "
            f"{size(memory['first'])} then, {size(memory['all'])} after {AFTER_OPENING} transactions"
        )

    def _done(self, report: BesideReport, found: Beside) -> None:
        report.works.append(found)
        self._run.say(f"{found.work}: " + found.sentence())


def ways(database: Database, report: BesideReport) -> Sequence[str]:
    """In which ways statements can be run here."""
    if "params" in inspect.signature(database.execute).parameters:
        return TEXTS, PARAMETERS, MANY
    report.notes.append("parameters and executemany: left out, since execute takes no parameters in this version")
    return (TEXTS,)


def per_second(spent: Sequence[Spent], figure: str = MILLISECONDS) -> float:
    return 1000 * len(spent) / math.fsum(getattr(one, figure) for one in spent)


def synced(path: Path) -> float:
    """How many milliseconds it takes until a few bytes at the end of a file are safe."""
    with path.open("ab", buffering=0) as file:
        return timed(lambda: (file.write(b"x" * 200), SYNC(file.fileno())))


def appended(path: Path, rows: int) -> Spent:
    """What it takes to append so many rows to a Delta table, and nothing else."""
    table = pa.table({"key": pa.array(range(rows), pa.int64()), "weight": pa.array([1] * rows, pa.int64())})
    return spent_on(lambda: write_deltalake(path, table, mode="append"))
