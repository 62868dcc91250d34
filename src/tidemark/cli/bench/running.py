"""Running the benchmark: load, fill the views, recompute them, then transactions of every size, and compare."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidemark.cli.bench import tpch
from tidemark.cli.bench.changes import Changes, enough
from tidemark.cli.bench.figures import Measurement, Report, timed
from tidemark.cli.bench.handwritten import HandWritten
from tidemark.cli.bench.maintained import Maintained
from tidemark.cli.show import Display
from tidemark.cli.status import Status
from tidemark.cli.text import counted, duration
from tidemark.errors import TidemarkError

ENGINES: Final = ("duckdb", "spark")
SIZES: Final = (1, 10, 100, 1_000, 10_000)


@dataclass(frozen=True)
class Plan:
    """What is to be measured, and where data and databases lie meanwhile."""

    engines: Sequence[str]
    scales: Sequence[float]
    sizes: Sequence[int]
    repeats: int
    folder: Path


class Benchmark:
    """One run. ``display`` gets a line for each thing that is done, ``status`` what is being done."""

    def __init__(self, plan: Plan, display: Display, status: Status) -> None:
        self._plan, self._display, self._status = plan, display, status

    def run(self, engine: str, scale: float) -> Report:
        """Measure one engine on data of one scale."""
        self._what = f"{engine}, scale {scale:g}"
        with self._status.showing(f"{self._what}: generating the data"):
            data = tpch.generate(scale, self._plan.folder)
            orders, lines = tpch.read(data, "orders"), tpch.read(data, "lineitem")
        report = Report(engine, scale, lines.num_rows)
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self._plan.folder, prefix="running-")))
            maintained = stack.enter_context(closing(Maintained(engine, place)))
            self._prepare(report, maintained, data)
            by_hand: HandWritten | None = None
            if engine == "duckdb":
                by_hand = stack.enter_context(closing(HandWritten(place / "by-hand.duckdb")))
                with self._status.showing(f"{self._what}: loading for the SQL written by hand"):
                    by_hand.load(data)
            changes = Changes(orders, lines)
            for size in self._plan.sizes:
                if enough(lines.num_rows, size, self._plan.repeats + 1):
                    report.measurements.append(self._measure(size, changes, maintained, by_hand))
            self._compare(maintained, by_hand)
        return report

    def _prepare(self, report: Report, maintained: Maintained, data: Path) -> None:
        with self._status.showing(f"{self._what}: loading {counted(report.lineitems, 'lineitem')}"):
            report.load_milliseconds = timed(lambda: maintained.load(data))
        self._say(f"loaded {counted(report.lineitems, 'lineitem')} in {duration(report.load_milliseconds)}")
        for view in tpch.VIEWS:
            with self._status.showing(f"{self._what}: filling {view}"):
                report.filled[view] = timed(lambda view=view: maintained.create(view))  # type: ignore[misc]
            with self._status.showing(f"{self._what}: recomputing {view}"):
                report.recomputed[view] = [maintained.recompute(view) for _ in range(self._plan.repeats)]
            filled, recomputed = duration(report.filled[view]), duration(report.recomputation(view))
            self._say(f"filled {view} in {filled}; recomputing it takes {recomputed}")

    def _measure(self, size: int, changes: Changes, maintained: Maintained, by_hand: HandWritten | None) -> Measurement:
        """Transactions of one size; both rivals get the same ones in turn, and the first only warms up."""
        found = Measurement(size)
        for repeat in range(self._plan.repeats + 1):
            with self._status.showing(f"{self._what}: {counted(size, 'row')}, {repeat} of {self._plan.repeats}"):
                work = changes.transaction(size)
                sample = maintained.apply(work)
                rival = by_hand.apply(work) if by_hand is not None else None
            if repeat:
                found.tidemark.append(sample)
                found.by_hand += [rival] if rival is not None else []
        found.data_files = maintained.data_files()
        self._say(f"{counted(size, 'row')} changed: {duration(found.milliseconds)}")
        return found

    def _compare(self, maintained: Maintained, by_hand: HandWritten | None) -> None:
        """Figures of wrong answers are worth nothing."""
        with self._status.showing(f"{self._what}: comparing the views with their definitions"):
            maintained.check()
            for view in tpch.VIEWS if by_hand is not None else ():
                assert by_hand is not None
                differing = by_hand.differing(view, maintained.content(view))
                if differing:
                    raise TidemarkError("internal", f"{differing} rows of {view} differ from the SQL written by hand")
        others = " and those of the SQL written by hand" if by_hand is not None else ""
        self._say(f"both views equal their definitions{others}")

    def _say(self, text: str) -> None:
        self._display.note(f"{self._what}: {text}")
