"""One run of a benchmark: what it says meanwhile, where its databases lie, and its figures for people and programs."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark.cli.spinner import Status
from tidemark_bench.harness.charts import Chart, drawing

LIBRARIES: Final = ("tidemark", "duckdb", "pyspark", "deltalake", "pyarrow")


class Report(Protocol):
    """What a benchmark found, by engine and scale."""

    def as_json(self) -> dict[str, Any]: ...

    def show(self, display: Display) -> None: ...


R = TypeVar("R", bound=Report)


@dataclass(frozen=True)
class Plan:
    """What is to be measured over data of TPC-H."""

    engines: Sequence[str]
    scales: Sequence[float]
    repeats: int

    def cases(self) -> Iterator[tuple[str, float]]:
        return ((engine, scale) for engine in self.engines for scale in self.scales)


@dataclass(frozen=True)
class Run:
    """``display`` gets the figures, ``progress`` a line for each thing that is done, ``status`` what is being done;
    ``what`` stands before both, such as the engine."""

    folder: Path
    display: Display
    progress: Display
    status: Status
    what: str = ""

    def of(self, engine: str, scale: float | None = None) -> Run:
        """The same run, at a part of it."""
        return replace(self, what=f"{engine}: " if scale is None else f"{engine}, scale {scale:g}: ")

    def say(self, text: str) -> None:
        self.progress.note(self.what + text)

    def showing(self, text: str) -> AbstractContextManager[object]:
        return self.status.showing(self.what + text)

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A folder for databases, which is removed at the end."""
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="running-") as place:
            yield Path(place)

    def measure(
        self,
        name: str,
        clock: str,
        options: dict[str, Any],
        reports: Callable[[], Iterable[R]],
        charts: Callable[[Sequence[R]], Sequence[Chart]] | None = None,
    ) -> None:
        """Show each report as soon as it is there, and write all figures, and charts if there are any."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.progress.note(clock)
        found: list[R] = []
        for report in reports():
            report.show(self.display)
            found.append(report)
        figures, said = self.folder / f"{name}.json", ""
        figures.write_text(as_json(found, options, clock) + "\n")
        if charts is not None:
            drawn = self.folder / f"{name}.svg"
            drawn.write_text(drawing(charts(found)))
            said = f", charts in {drawn}"
        self.display.note(f"all figures are in {figures}{said}")


def as_json(reports: Sequence[Report], options: dict[str, Any], clock: str) -> str:
    """Every sample, with what it was measured on."""
    return json.dumps(
        {
            "clock": clock,
            "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "python": platform.python_version(),
            "libraries": {name: _version(name) for name in LIBRARIES},
            "options": options,
            "reports": [report.as_json() for report in reports],
        },
        indent=2,
    )


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def show(display: Display, title: str, columns: dict[str, pa.Array]) -> None:
    display.result(title, table(columns), is_expandable=False)


def table(columns: dict[str, pa.Array]) -> pa.Table:
    """A table for people. Columns that do not apply, such as those of another engine, are left out."""
    return pa.table({name: column for name, column in columns.items() if column.null_count < max(1, len(column))})


def tenths(values: Iterable[float | None]) -> pa.Array:
    return _rounded(values, 1)


def hundredths(values: Iterable[float | None]) -> pa.Array:
    return _rounded(values, 2)


def _rounded(values: Iterable[float | None], digits: int) -> pa.Array:
    exact = [None if value is None else Decimal(f"{value:.{digits}f}") for value in values]
    return pa.array(exact, pa.decimal128(15, digits))


def whole(values: Iterable[float | None]) -> pa.Array:
    return pa.array([None if value is None else round(value) for value in values], pa.int64())


def words(values: Iterable[str]) -> pa.Array:
    return pa.array(list(values), pa.string())
