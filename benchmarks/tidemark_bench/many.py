"""Thousands of views: create them, run the same transactions beside three views alone, and open both again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark.cli.tables import counted, duration
from tidemark.errors import TidemarkError
from tidemark.session import Database, connect
from tidemark_bench import many_workload as workload
from tidemark_bench.harness.clock import Spent, answered, median, middle, spent_on
from tidemark_bench.harness.database import load, must_be_true, target
from tidemark_bench.harness.run import Run, show, tenths, whole

CLOCK: Final = (
    "The clock covers a whole statement of one row: parsing it, finding the row, key checks, finding the views to "
    "which it matters, propagation to them, and the durable commit."
)
AT_ONCE: Final = 500
"""So many views are created in one transaction."""
OTHERS: Final = " other nodes"
"""How a line of the trace ends that stands for many nodes."""
KINDS: Final = 3
"""A round is an insert, an update and a delete of the same row."""


@dataclass(frozen=True)
class Sample:
    """One transaction: what it took, how many lines its trace has, how many nodes were brought up to date, and how many
    were found not to be affected without a look at them."""

    spent: Spent
    steps: int
    nodes: int
    others: int


@dataclass
class Side:
    """One of the two databases: each transaction that created views, the first change after that, and the others."""

    views: int
    created: list[Spent] = field(default_factory=list)
    first: Spent | None = None
    samples: list[Sample] = field(default_factory=list)
    opened: Spent | None = None
    first_after_opening: Spent | None = None

    @property
    def transaction(self) -> Spent:
        return median(sample.spent for sample in self.samples)

    @property
    def creating_milliseconds(self) -> float:
        return sum(one.milliseconds for one in self.created)


@dataclass
class ManyReport:
    """A database with many views beside one with the three that the transactions matter to."""

    engine: str
    many: Side
    few: Side

    def ratio(self, figure: str = "milliseconds") -> float:
        return float(getattr(self.many.transaction, figure) / getattr(self.few.transaction, figure))

    def as_json(self) -> dict[str, Any]:
        record = asdict(self)
        for side in ("many", "few"):
            record[side]["median"] = asdict(getattr(self, side).transaction)
        record["ratio"] = {"clock": self.ratio(), "processors": self.ratio("processor_milliseconds")}
        return record

    def show(self, display: Display) -> None:
        views = counted(self.many.views, "view")
        title = f"{self.engine}, {views}: medians in milliseconds for one changed row"
        show(display, title, self.transactions())
        display.note(
            f"a transaction that matters to 3 of {views} takes {self.ratio():.2f} times as long as with 3 views in all "
            f"({self.ratio('processor_milliseconds'):.2f} times by the time of the processors)"
        )
        show(display, "creating the views and opening the database: milliseconds", self.others())

    def transactions(self) -> dict[str, pa.Array]:
        """A row for each of the two databases."""
        sides = (self.few, self.many)
        return {
            "views": whole(side.views for side in sides),
            "transaction": tenths(side.transaction.milliseconds for side in sides),
            "of processors": tenths(side.transaction.processor_milliseconds for side in sides),
            "steps": whole(middle(side.samples, "steps") for side in sides),
            "nodes affected": whole(middle(side.samples, "nodes") for side in sides),
            "nodes left out": whole(middle(side.samples, "others") for side in sides),
        }

    def others(self) -> dict[str, pa.Array]:
        """What the number of views costs beside transactions."""
        sides = (self.few, self.many)
        return {
            "views": whole(side.views for side in sides),
            "creating them": tenths(side.creating_milliseconds for side in sides),
            "each": tenths(side.creating_milliseconds / side.views for side in sides),
            "first change": tenths(_clock(side.first) for side in sides),
            "opening": tenths(_clock(side.opened) for side in sides),
            "first change then": tenths(_clock(side.first_after_opening) for side in sides),
        }


@dataclass(frozen=True)
class ManyPlan:
    """How many views, and how many rounds of transactions."""

    views: int
    repeats: int
    at_once: int = AT_ONCE

    def __post_init__(self) -> None:
        if self.views < workload.LEAST:
            raise TidemarkError("unsupported", f"fewer than {workload.LEAST} views are not many")


def run(plan: ManyPlan, run: Run) -> None:
    run.measure("many-views", CLOCK, asdict(plan), lambda: [ManyViews(plan, run).measured()])


class ManyViews:
    """One run, on DuckDB."""

    def __init__(self, plan: ManyPlan, run: Run) -> None:
        self._plan, self._run = plan, run

    def measured(self) -> ManyReport:
        chosen = workload.chosen(self._plan.views)
        with ExitStack() as stack:
            place = stack.enter_context(self._run.place())
            targets = [target("duckdb", place, name) for name in ("few", "many")]
            opened: list[tuple[Database, Side]] = []
            for where, views in zip(targets, (chosen, range(self._plan.views)), strict=True):
                database = connect(where)
                stack.callback(database.close)
                opened.append((database, self._filled(database, views)))
            self._transactions(opened)
            for (database, side), where in zip(opened, targets, strict=True):
                must_be_true(database, *(f"v{number}" for number in chosen))
                database.close()
                self._open_again(where, side)
        return ManyReport("duckdb", opened[1][1], opened[0][1])

    def _filled(self, database: Database, views: Sequence[int]) -> Side:
        side = Side(len(views))
        load(database, workload.TABLES, {name: workload.rows(name, self._plan.views) for name in workload.TABLES})
        for start in range(0, len(views), self._plan.at_once):
            some = views[start : start + self._plan.at_once]
            with self._run.showing(f"creating views, {start:,} of {len(views):,} are there"):
                side.created.append(spent_on(partial(_create, database, some)))
        self._run.say(f"created {counted(len(views), 'view')} in {duration(side.creating_milliseconds)}")
        return side

    def _transactions(self, sides: Sequence[tuple[Database, Side]]) -> None:
        """Both databases get the same transactions in turn; the first round only warms up."""
        total = KINDS * (self._plan.repeats + 1)
        for count, statement in enumerate(islice(workload.transactions(self._plan.views), total)):
            with self._run.showing(f"transactions, {count:,} of {total}"):
                for database, side in sides:
                    spent = spent_on(partial(database.execute, statement))
                    if not count:
                        side.first = spent
                    if count >= KINDS:
                        side.samples.append(_sample(spent, database.trace(database.version).to_pylist()))
        for _, side in sides:
            spent_on_each = duration(side.transaction.milliseconds)
            self._run.say(f"{counted(side.views, 'view')}: {spent_on_each} for each transaction")

    def _open_again(self, where: str, side: Side) -> None:
        with self._run.showing(f"opening the database with {counted(side.views, 'view')} again"):
            database, side.opened = answered(lambda: connect(where))
        with database:
            statement = next(workload.transactions(self._plan.views, first=1_000_000_000))
            side.first_after_opening = spent_on(lambda: database.execute(statement))
        self._run.say(f"{counted(side.views, 'view')}: opened again in {duration(side.opened.milliseconds)}")


def _clock(spent: Spent | None) -> float | None:
    return None if spent is None else spent.milliseconds


def _create(database: Database, views: Sequence[int]) -> None:
    with database.transaction() as transaction:
        for number in views:
            transaction.execute(workload.created(number))


def _sample(spent: Spent, steps: list[dict[str, Any]]) -> Sample:
    affected = [step["node"] for step in steps if step["strategy"] != "irrelevant"]
    views = [node for node in affected if "/" not in node]
    if len(views) != workload.AMONG:
        raise TidemarkError("internal", f"the transaction mattered to {len(views)} views instead of {workload.AMONG}")
    others = [step["node"] for step in steps if step["node"].endswith(OTHERS)]
    return Sample(spent, len(steps), len(affected), sum(int(node.removesuffix(OTHERS)) for node in others))
