"""The same work on several sides of one run: the best times, by the clock and of the processors, and their ratios.

The best of several rounds is what the work takes when nothing disturbs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark.cli.tables import duration
from tidemark_bench.harness.clock import Spent
from tidemark_bench.harness.run import hundredths, show, words

TIDEMARK: Final = "Tidemark"
MILLISECONDS: Final = "milliseconds"
PROCESSORS: Final = "processor_milliseconds"


@dataclass
class Beside:
    """A piece of work, and what each side took for it, round by round."""

    work: str
    spent: dict[str, list[Spent]] = field(default_factory=dict)

    def measure(self, round_: int, actions: Mapping[str, Callable[[], Spent]]) -> None:
        """Let each side do it, another one first in each round; round 0 only warms up.

        >>> found = Beside("nothing")
        >>> for round_ in range(3):
        ...     found.measure(round_, {"Tidemark": lambda: Spent(1.0, 1.0)})
        >>> len(found.spent["Tidemark"])
        2
        """
        names = list(actions)
        first = round_ % len(names)
        spent = {name: actions[name]() for name in names[first:] + names[:first]}
        for name in names if round_ else ():
            self.spent.setdefault(name, []).append(spent[name])

    def best(self, side: str, figure: str = MILLISECONDS) -> float | None:
        """The best of a side, which may not do this work.

        >>> found = Beside("a row", {"Tidemark": [Spent(9.0, 4.0), Spent(6.0, 5.0)], "SQLite": [Spent(2.0, 2.0)]})
        >>> found.best("Tidemark"), found.best("Tidemark", PROCESSORS), found.best("Spark")
        (6.0, 4.0, None)
        """
        return min((getattr(spent, figure) for spent in self.spent.get(side, [])), default=None)

    def ratio(self, side: str, figure: str = MILLISECONDS) -> float | None:
        """How many times as long Tidemark takes.

        >>> Beside("a row", {"Tidemark": [Spent(9.0, 4.0)], "SQLite": [Spent(2.0, 2.0)]}).ratio("SQLite")
        4.5
        """
        ours, theirs = self.best(TIDEMARK, figure), self.best(side, figure)
        return ours / theirs if ours is not None and theirs else None

    def sentence(self) -> str:
        """The best of each side, for a line of progress."""
        best = {side: self.best(side) for side in self.spent}
        return ", ".join(f"{side} {duration(one)}" for side, one in best.items() if one is not None)

    def as_json(self) -> dict[str, Any]:
        figures = (MILLISECONDS, PROCESSORS)
        best = {side: {figure: self.best(side, figure) for figure in figures} for side in self.spent}
        ratios = {s: {figure: self.ratio(s, figure) for figure in figures} for s in self.spent if s != TIDEMARK}
        return {**asdict(self), "best": best, "ratios": ratios}


@dataclass
class BesideReport:
    """A table of works. ``notes`` are said below it, ``figures`` stand in the file alone."""

    title: str
    works: list[Beside] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "works": [work.as_json() for work in self.works]}

    def show(self, display: Display) -> None:
        show(display, f"{self.title}: the best in milliseconds", self.columns())
        for note in self.notes:
            display.note(note)

    def columns(self) -> dict[str, pa.Array]:
        """A row for each work."""
        sides = dict.fromkeys(side for work in self.works for side in work.spent if side != TIDEMARK)
        found = {
            "work": words(work.work for work in self.works),
            TIDEMARK: hundredths(work.best(TIDEMARK) for work in self.works),
            "of processors": hundredths(work.best(TIDEMARK, PROCESSORS) for work in self.works),
        }
        found |= {side: hundredths(work.best(side) for work in self.works) for side in sides}
        for side in sides:
            found[f"times {side}"] = hundredths(work.ratio(side) for work in self.works)
            found[f"processors, times {side}"] = hundredths(work.ratio(side, PROCESSORS) for work in self.works)
        return found
