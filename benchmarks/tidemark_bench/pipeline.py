"""An hourly job over Delta tables of others: a pull until all is published, beside recomputing by plain Spark.

Two views and eight queries of TPC-H stand over seven tables, which delta-rs writes. Between the runs a MERGE into each
of two tables inserts, updates and deletes rows. Plain Spark makes each view anew from the files of the same versions.
Contents, published contents and published feeds must be right after each round, or there are no figures.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from tidemark.answers.describe import statements_started
from tidemark.cli.tables import counted, duration
from tidemark.session import Database, connect
from tidemark_bench import tpch
from tidemark_bench.changes import Changes
from tidemark_bench.harness.beside import PROCESSORS, TIDEMARK, Beside, BesideReport
from tidemark_bench.harness.clock import Spent, spent_by_all, timed
from tidemark_bench.harness.run import Plan, Run
from tidemark_bench.pipeline_sides import Jobs, PlainSpark, Published
from tidemark_bench.queries import QUERIES

CLOCK: Final = (
    "The clock covers a pull from reading the logs of the sources until all tables and views are published with their "
    "change data feeds, and beside it plain Spark's CREATE TABLE AS of all views over the same files. Time of "
    "processors is that of this process and of Spark's."
)
CHANGED: Final = 10_000
SHARE: Final = 60
"""Of so many lines one is changed in a round, at most."""
KEYS: Final = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "part": "p_partkey",
    "customer": "c_custkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}
ORDERED: Final = ("q1", "q3", "q5", "q6", "q10", "q12", "q14", "q18")
VIEWS: Final = {**tpch.VIEWS, **{name: QUERIES[name] for name in ORDERED}}
RECOMPUTE: Final = "recompute"


def run(plan: Plan, run: Run) -> None:
    scales = plan.scales
    run.measure("pipeline", CLOCK, asdict(plan), lambda: (measured(plan, run, scale) for scale in scales))


def measured(plan: Plan, run: Run, scale: float) -> BesideReport:
    """Data of one scale, first with change data feeds of the sources and then without them."""
    here = run.of("spark", scale)
    with here.showing("generating and reading the data"):
        tables = tpch.read_all(tpch.generate_all(scale, run.folder))
    lines = tables["lineitem"].num_rows
    report = BesideReport(f"spark, scale {scale:g}, {counted(lines, 'lineitem')}, {len(VIEWS)} views")
    with ExitStack() as stack:
        place = stack.enter_context(here.place())
        jobs = Jobs(place / "shop")
        with here.showing("writing the tables of the other jobs"):
            for name in KEYS:
                jobs.write(name, tables[name])
        options = {"publish": "commit"}
        target = f"spark:{place / 'lake'}"
        database = stack.enter_context(closing(connect(target, allow_paths=[jobs.folder], options=options)))
        with here.showing("the first pull"):
            define(database, jobs)
            report.figures["first pull"] = timed(database.pull)
        with here.showing(f"filling {len(VIEWS)} views"):
            report.figures["filled"] = {name: timed(partial(_create, database, name)) for name in VIEWS}
        filled = duration(sum(report.figures["filled"].values()))
        here.say(f"first pull in {duration(report.figures['first pull'])}, views filled in {filled}")
        changes = Changes(tables["orders"], tables["lineitem"])
        plain = PlainSpark(place / "plain", list(KEYS))
        rounds = Rounds(here, database, jobs, plain, Published(place / "lake", plain), changes)
        size = min(CHANGED, lines // SHARE)
        for feed, rest in (True, "with a feed"), (False, "without a feed"):
            jobs.feed(is_on=feed)
            report.works.append(rounds.measured(f"{counted(size, 'row')}, {rest}", size, plan.repeats))
        report.figures["rounds"] = rounds.figures
        report.notes.append("contents, published contents and feeds equal what plain Spark computes, after each round")
    return report


def define(database: Database, jobs: Jobs) -> None:
    database.execute(f"CREATE SOURCE shop TYPE delta OPTIONS (path '{jobs.folder}')")
    for name, key in KEYS.items():
        database.execute(f"CREATE TABLE {name} FROM SOURCE shop RELATION '{name}' KEY ({key})")


def _create(database: Database, name: str) -> None:
    database.execute(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


class Rounds:
    """Other jobs change their tables, both sides follow in turn, and are compared."""

    def __init__(
        self, run: Run, database: Database, jobs: Jobs, plain: PlainSpark, published: Published, changes: Changes
    ) -> None:
        self._run, self._database, self._jobs = run, database, jobs
        self._plain, self._published, self._changes = plain, published, changes
        self.figures: list[dict[str, Any]] = []

    def measured(self, what: str, size: int, rounds: int) -> Beside:
        found = Beside(f"pull of {what}")
        for round_ in range(rounds + 1):
            with self._run.showing(f"{what}: other jobs write"):
                self._jobs.merge(self._changes.transaction(size))
                files = {name: self._jobs.files(name) for name in KEYS}
                before = self._published.contents(VIEWS)
            with self._run.showing(f"{what}: {round_} of {rounds}"):
                recompute = partial(self._plain.recomputed, files, VIEWS)
                sides: dict[str, Callable[[], Spent]] = {TIDEMARK: self._pulled, RECOMPUTE: recompute}
                found.measure(round_, sides)
            with self._run.showing(f"{what}: comparing"):
                self._published.must_be_true(VIEWS, before)
        best = found.ratio(RECOMPUTE), found.ratio(RECOMPUTE, PROCESSORS)
        self._run.say(f"{found.work}: {found.sentence()}; " + ", ".join(f"{one:.3f}" for one in best if one))
        return found

    def _pulled(self) -> Spent:
        before, rows = statements_started(self._database) or 0, 0

        def action() -> None:
            nonlocal rows
            rows = self._database.pull()

        spent = spent_by_all(action)
        steps = self._database.trace(self._database.version).to_pylist()
        self.figures.append(
            {
                "rows": rows,
                **asdict(spent),
                "statements": (statements_started(self._database) or 0) - before,
                "steps": [
                    {name: step[name] for name in ("node", "strategy", "rows_read", "rows_out", "milliseconds")}
                    for step in steps
                ],
            }
        )
        return spent
