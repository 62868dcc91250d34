"""The benchmark of recursion runs, and what it measures is right. How long anything takes is no matter here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tidemark as tm
from tidemark.cli.bench.clock import Spent
from tidemark.cli.bench.recursion import report, running
from tidemark.cli.bench.recursion.byhand import ByHand
from tidemark.cli.bench.recursion.figures import Measurement, RecursionReport, Sample
from tidemark.cli.bench.recursion.workload import Graph
from tidemark.cli.main import app


def test_a_closure_is_measured_beside_what_is_done_by_hand(tmp_path: Path) -> None:
    options = ["--recursion", "--quick", "--engine", "duckdb", "--repeats", "1", "--data", str(tmp_path)]
    result = CliRunner().invoke(app, ["bench", *options])
    assert result.exit_code == 0, result.output
    assert "the closure equals its definition\n" in result.stderr
    [found] = json.loads((tmp_path / "recursion.json").read_text())["reports"]
    assert (found["engine"], found["edges"]) == ("duckdb", 6_000) and found["rows"] > 10 * 6_000 * 0.9
    assert [one["edges"] for one in found["measurements"]] == [1, 10, 100]
    assert all(len(one["samples"]) == len(one["by_hand"]) == 1 for one in found["measurements"])
    assert found["medians"]["recomputation"]["milliseconds"] > 0
    assert not list(tmp_path.glob("running-*")), "the databases are removed"


@pytest.mark.parametrize("options", [["--recursion", "--queries"], ["--recursion", "--scale", "1"]])
def test_what_makes_no_sense_is_refused(options: list[str]) -> None:
    assert CliRunner().invoke(app, ["bench", *options]).exit_code == 2


def test_a_graph_keeps_its_edges_apart_and_goes_from_layer_to_layer() -> None:
    graph = Graph(200, 500)
    edges = set(map(tuple, zip(*graph.table.to_pydict().values(), strict=True)))
    assert len(edges) == 500 and all(a < b for a, b in edges)
    for _ in range(5):
        change = graph.change(10)
        going, coming = (set(zip(*t.to_pydict().values(), strict=True)) for t in (change.delete, change.insert))
        assert len(going) == len(coming) == 10 and change.rows == 20
        assert going <= edges and not coming & edges
        edges = edges - going | coming
    assert edges == set(zip(*graph.table.to_pydict().values(), strict=True))


def test_both_ways_keep_the_same_closure(tmp_path: Path) -> None:
    graph = Graph(200, 500)
    rival = ByHand(tmp_path / "hand.duckdb", graph.table)
    with tm.connect("duckdb") as db:
        running.load(db, graph.table)
        running.create(db)
        for size in (1, 5, 20):
            change = graph.change(size)
            sample = running.applied(db, change)
            rival.apply(change)
            assert sample.strategy in ("differential", "complete") and sample.rows_out > 0
            content = running.sorted_rows(db.query("SELECT * FROM closure"))
            assert content == running.sorted_rows(rival.content())
        assert db.audit("closure").num_rows == 0
    rival.close()


def test_the_table_has_a_row_for_each_size() -> None:
    sample = Sample(Spent(20.0, 15.0), "differential", "maintenance rules: edge", 40, 50, 12.5)
    found = RecursionReport("spark", 10, 20, 30, recomputed=[Spent(900.0, 1.0)])
    told = Sample(Spent(60.0, 55.0), "differential", "rederivation on demand: edge", 40, 50, 12.5, 70)
    found.measurements = [Measurement(10, [sample], external=[told])]
    [row] = report.table(found).to_pylist()
    figures = ["10", "20.0", "15.0", "12.5", "900.0", "differential", "40", "50", "60.0", "70"]
    assert [str(value) for value in row.values()] == figures
    assert "by hand" not in row
