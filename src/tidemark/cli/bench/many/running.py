"""Running it: create the views, then the same transactions on both databases in turn, then open both again."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tidemark.cli.bench.clock import Spent, spent_on
from tidemark.cli.bench.many import workload
from tidemark.cli.bench.many.figures import ManyReport, Sample, Side
from tidemark.cli.show import Display
from tidemark.cli.status import Status
from tidemark.cli.text import counted, duration
from tidemark.database import Database, connect
from tidemark.errors import TidemarkError

AT_ONCE: Final = 500
"""So many views are created in one transaction."""
OTHERS: Final = " other nodes"
"""How a line of the trace ends that stands for many nodes."""
KINDS: Final = 3
"""A round is an insert, an update and a delete of the same row."""


@dataclass(frozen=True)
class ManyPlan:
    """How many views, how many rounds of transactions, and where the databases lie meanwhile."""

    views: int
    repeats: int
    folder: Path
    at_once: int = AT_ONCE

    def __post_init__(self) -> None:
        if self.views < workload.LEAST:
            raise TidemarkError("unsupported", f"fewer than {workload.LEAST} views are not many")


class ManyViews:
    """One run. ``display`` gets a line for each thing that is done, ``status`` what is being done."""

    def __init__(self, plan: ManyPlan, display: Display, status: Status) -> None:
        self._plan, self._display, self._status = plan, display, status

    def run(self, engine: str = "duckdb") -> ManyReport:
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self._plan.folder, prefix="running-")))
            chosen = workload.chosen(self._plan.views)
            targets = [f"{engine}:{place / name}.duckdb" for name in ("few", "many")]
            few, few_side = self._filled(targets[0], chosen)
            stack.callback(lambda: few.close())
            many, many_side = self._filled(targets[1], range(self._plan.views))
            stack.callback(lambda: many.close())
            self._transactions([(few, few_side), (many, many_side)])
            for database, side, target in ((few, few_side, targets[0]), (many, many_side, targets[1])):
                self._check(database, chosen)
                database.close()
                self._open_again(target, side)
        return ManyReport(engine, many_side, few_side)

    def _filled(self, target: str, views: Sequence[int]) -> tuple[Database, Side]:
        side, database = Side(len(views)), connect(target)
        try:
            for table, columns in workload.TABLES.items():
                database.execute(f"CREATE TABLE {table} ({columns})")
                database.insert(table, workload.rows(table, self._plan.views))
            for start in range(0, len(views), self._plan.at_once):
                some = views[start : start + self._plan.at_once]
                with self._status.showing(f"creating views, {start:,} of {len(views):,} are there"):
                    side.created.append(spent_on(partial(_create, database, some)))
        except BaseException:
            database.close()
            raise
        self._say(f"created {counted(len(views), 'view')} in {duration(side.creating_milliseconds)}")
        return database, side

    def _transactions(self, sides: Sequence[tuple[Database, Side]]) -> None:
        """Both databases get the same transactions in turn; the first round only warms up."""
        statements = workload.transactions(self._plan.views)
        for count, statement in enumerate(islice(statements, KINDS * (self._plan.repeats + 1))):
            with self._status.showing(f"transactions, {count:,} of {KINDS * (self._plan.repeats + 1)}"):
                for database, side in sides:
                    spent = spent_on(partial(database.execute, statement))
                    if not count:
                        side.first = spent
                    if count >= KINDS:
                        steps = database.trace(database.version).to_pylist()
                        side.samples.append(_sample(spent, steps))
        for _, side in sides:
            self._say(f"{counted(side.views, 'view')}: {duration(side.transaction.milliseconds)} for each transaction")

    def _check(self, database: Database, chosen: Sequence[int]) -> None:
        """Figures of wrong answers are worth nothing."""
        for number in chosen:
            differing = database.audit(f"v{number}").num_rows
            if differing:
                raise TidemarkError("internal", f"{differing} rows of v{number} differ from its definition")

    def _open_again(self, target: str, side: Side) -> None:
        opened: list[Database] = []
        with self._status.showing(f"opening the database with {counted(side.views, 'view')} again"):
            side.opened = spent_on(lambda: opened.append(connect(target)))
        with opened[0] as database:
            statement = next(workload.transactions(self._plan.views, first=1_000_000_000))
            side.first_after_opening = spent_on(lambda: database.execute(statement))
        self._say(f"{counted(side.views, 'view')}: opened again in {duration(side.opened.milliseconds)}")

    def _say(self, text: str) -> None:
        self._display.note(text)


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
