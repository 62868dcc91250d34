"""The benchmark of a pipeline runs, and refuses figures of wrong answers. How long anything takes is no matter here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from tidemark.cli.main import app
from tidemark_bench import tpch
from tidemark_bench.changes import Changes
from tidemark_bench.pipeline import VIEWS
from tidemark_bench.pipeline_sides import Jobs

SCALE = 0.001


@pytest.mark.slow
@pytest.mark.spark
def test_a_pull_is_measured_beside_recomputing(tmp_path: Path, spark: Any) -> None:
    options = ["--pipeline", "--scale", str(SCALE), "--repeats", "1", "--data", str(tmp_path)]
    result = CliRunner().invoke(app, ["bench", *options])
    assert result.exit_code == 0, result.output
    assert "contents, published contents and feeds equal what plain Spark computes" in result.stdout
    [found] = json.loads((tmp_path / "pipeline.json").read_text())["reports"]
    assert [work["work"] for work in found["works"]] == [
        "pull of 100 rows, with a feed",
        "pull of 100 rows, without a feed",
    ]
    assert found["figures"]["filled"].keys() == VIEWS.keys()
    assert all(one["rows"] > 90 for one in found["figures"]["rounds"])
    assert not list(tmp_path.glob("running-*")), "the lake is removed"


def test_it_is_about_lakes() -> None:
    assert CliRunner().invoke(app, ["bench", "--pipeline", "--engine", "duckdb"]).exit_code == 2


@pytest.mark.slow
def test_other_jobs_do_what_a_transaction_would(tmp_path: Path) -> None:
    tables = tpch.read_all(tpch.generate_all(SCALE, tmp_path))
    jobs = Jobs(tmp_path / "shop")
    for name in ("orders", "lineitem"):
        jobs.write(name, tables[name])
    work = Changes(tables["orders"], tables["lineitem"]).transaction(90)
    jobs.merge(work)
    for name, change in work.items():
        now = DeltaTable(str(jobs.folder / name)).to_pyarrow_table().to_pylist()
        expected = pa.concat_tables([tables[name], change.insert]).to_pylist()
        for row in change.delete.to_pylist():
            expected.remove(row)
        assert sorted(now, key=str) == sorted(expected, key=str)
