"""The benchmarks of what lags run, and check their answers. How long anything takes is no matter here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tidemark.cli.main import app
from tidemark.cli.show import Display
from tidemark.cli.spinner import Status
from tidemark_bench import continual
from tidemark_bench.harness.charts import drawing
from tidemark_bench.harness.run import Run
from tidemark_bench.snapshots import Snapshots

pytestmark = pytest.mark.slow


def quiet(folder: Path) -> Run:
    console = Console(quiet=True)
    display = Display(console, None)
    return Run(folder, display, display, Status(console))


def test_snapshots_are_refreshed_after_each_lag(tmp_path: Path) -> None:
    for _ in range(2):  # the second time over what the first has kept
        report = Snapshots(500, 10, quiet(tmp_path)).measured("duckdb")
        assert [one.lag for one in report.refreshed] == [1, 10]
        assert all(one.rows_changed for one in report.refreshed)
    assert "<svg" in drawing([report.chart()])


def test_many_queries_and_a_soak_run_from_the_command_line(tmp_path: Path) -> None:
    for options, name in ((["--continual", "12", "--quick"], "continual"), (["--soak", "40"], "soak")):
        result = CliRunner().invoke(app, ["bench", *options, "--data", str(tmp_path)])
        assert result.exit_code == 0, result.output
        figures = json.loads((tmp_path / f"{name}.json").read_text())["reports"][0]
        if name == "continual":
            assert figures["results"] > 0
        else:
            assert [reading["transactions"] for reading in figures["readings"]] == list(range(4, 41, 4))


def test_a_soak_keeps_the_log_within_its_limit(tmp_path: Path) -> None:
    report = continual.soak(60, 8, quiet(tmp_path))
    assert all(reading.versions_kept <= 8 + 8 + 4 for reading in report.readings[2:])


def test_only_one_benchmark_at_a_time(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "--snapshots", "3", "--soak", "5", "--data", str(tmp_path)])
    assert result.exit_code != 0
