"""The benchmark of recursion runs, and what it measures is right. How long anything takes is no matter here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tidemark as tm
from tidemark.cli.main import app
from tidemark_bench import recursion
from tidemark_bench.harness.clock import Spent
from tidemark_bench.harness.database import TableChange
from tidemark_bench.harness.run import table
from tidemark_bench.recursion import Measurement, RecursionReport, Sample
from tidemark_bench.recursion_sides import ClosureByHand, ClosureInPython, Graph, as_table

pytestmark = pytest.mark.slow


def test_a_closure_is_measured_beside_what_is_done_by_hand(tmp_path: Path) -> None:
    options = ["--recursion", "--quick", "--engine", "duckdb", "--repeats", "1", "--data", str(tmp_path)]
    result = CliRunner().invoke(app, ["bench", *options])
    assert result.exit_code == 0, result.output
    assert "the closure equals its definition\n" in result.stderr
    [found] = json.loads((tmp_path / "recursion.json").read_text())["reports"]
    assert (found["engine"], found["edges"]) == ("duckdb", 6_000) and found["rows"] > 10 * 6_000 * 0.9
    assert [one["edges"] for one in found["measurements"]] == [1, 10, 100]
    assert all(
        len(one["samples"]) == len(one["by_hand"]) == len(one["in_python"]) == 1 for one in found["measurements"]
    )
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
    rival = ClosureByHand(tmp_path / "hand.duckdb", graph.table)
    python = ClosureInPython(tmp_path / "changes", graph.table)
    with tm.connect("duckdb") as db:
        recursion.load(db, graph.table)
        recursion.create(db)
        for size in (1, 5, 20):
            work = {"edge": graph.change(size)}
            sample = recursion.applied(db, work)
            rival.apply(work)
            python.apply(work)
            assert sample.strategy in ("differential", "complete") and sample.rows_out > 0
            closure = db.query("SELECT * FROM closure")
            assert rival.differing("closure", closure) == python.differing(closure) == 0
            assert python.differing(closure.slice(1)) == 1
        assert db.audit("closure").num_rows == 0
    rival.close()
    python.close()


def test_the_program_in_python_is_right_on_cycles(tmp_path: Path) -> None:
    edges = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 4)]
    python = ClosureInPython(tmp_path / "changes", as_table(edges))
    with tm.connect("duckdb") as db:
        recursion.load(db, as_table(edges))
        recursion.create(db)
        for going, coming in (([(3, 1)], [(5, 6)]), ([(4, 5)], [(3, 1), (6, 2)]), ([(2, 3)], [(4, 4)])):
            work = {"edge": TableChange(as_table(going), as_table(coming))}
            python.apply(work)
            recursion.applied(db, work)
            assert python.differing(db.query("SELECT * FROM closure")) == 0
    python.close()


def test_the_table_has_a_row_for_each_size() -> None:
    sample = Sample(Spent(20.0, 15.0), "differential", "maintenance rules: edge", 40, 50, 12.5)
    found = RecursionReport("spark", 10, 20, 30, recomputed=[Spent(900.0, 1.0)])
    told = Sample(Spent(60.0, 55.0), "differential", "rederivation on demand: edge", 40, 50, 12.5, 70)
    found.measurements = [Measurement(10, [sample], in_python=[Spent(5.0, 3.0)], external=[told])]
    [row] = table(found.columns()).to_pylist()
    figures = ["10", "20.0", "15.0", "12.5", "5.0", "5.0", "900.0", "differential", "40", "50", "60.0", "70"]
    assert [str(value) for value in row.values()] == figures
    assert "by hand" not in row
