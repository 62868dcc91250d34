"""The benchmark of the queries runs, its views are right, and it says why recomputing is faster where it is."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemark.cli.main import app
from tidemark_bench import suite_workload as workload
from tidemark_bench import tpch
from tidemark_bench.harness.run import table as shown
from tidemark_bench.queries import QUERIES
from tidemark_bench.suite import NAMES
from tidemark_bench.suite_figures import NodeTime, QueryFigures, Series, SizeFigures, SuiteReport, Timing
from tidemark_bench.suite_workload import V3, SuppliersByHand, Tables

pytestmark = pytest.mark.slow

SCALE = 0.001


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def tables(folder: Path) -> Tables:
    return tpch.read_all(tpch.generate_all(SCALE, folder))


class TestTheCommand:
    def test_it_measures_the_queries_that_are_asked_for(self, tables: Tables, folder: Path) -> None:
        options = ["--queries", "--only", "q6,Q19,v3", "--engine", "duckdb", "--scale", str(SCALE), "--repeats", "1"]
        result = CliRunner().invoke(app, ["bench", *options, "--data", str(folder)])
        assert result.exit_code == 0, result.output
        assert result.stderr.startswith("The clock covers a whole transaction with one view: ")
        assert "duckdb, scale 0.001, 6,005 lineitems: medians in milliseconds for 100 changed rows\n" in result.stdout
        assert "V3, medians in milliseconds\n  rows changed" in result.stdout
        [found] = json.loads((folder / "queries.json").read_text())["reports"]
        assert [query["query"] for query in found["queries"]] == ["q6", "q19"]
        for query in found["queries"]:
            assert [medians["kind"] for medians in query["medians"]] == ["sales", "mixed"]
            assert all(len(series["timings"]) == 1 for series in query["series"])
            assert len(query["recomputed"]) == len(query["created"]) == 1
        assert found["without_view"].keys() == {"sales", "mixed"}
        assert [(size["rows"], len(size["tidemark"]), len(size["by_hand"])) for size in found["v3"]] == [
            (1, 1, 1),
            (100, 1, 1),
        ]
        assert not list(folder.glob("running-*")), "the databases are removed"

    def test_all_22_queries_and_v3_are_there(self) -> None:
        assert (*(f"q{number}" for number in range(1, 23)), "v3") == NAMES
        assert QUERIES.keys() == set(NAMES) - {"v3"}

    def test_an_unknown_query_is_an_error(self, tmp_path: Path) -> None:
        result = CliRunner().invoke(app, ["bench", "--queries", "--only", "q23", "--data", str(tmp_path)])
        assert result.exit_code == 1
        assert "there is no query 'q23'" in result.stderr

    def test_only_needs_queries(self) -> None:
        assert CliRunner().invoke(app, ["bench", "--only", "q1"]).exit_code == 2


class TestTheTransactions:
    @pytest.mark.parametrize("kind", workload.KINDS)
    def test_they_change_100_rows_and_are_undone(self, tables: Tables, kind: str) -> None:
        keys = {"lineitem": ["l_orderkey", "l_linenumber"], "partsupp": ["ps_partkey", "ps_suppkey"]}
        for work, undoing in zip(*[islice(workload.transactions(tables, kind), 6)] * 2, strict=True):
            changed = 0
            for table, change in work.items():
                key = keys.get(table, tables[table].column_names[:1])
                both = change.delete.select(key).to_pylist() + change.insert.select(key).to_pylist()
                changed += len({tuple(row.values()) for row in both})
                assert undoing[table].delete == change.insert
                assert undoing[table].insert == change.delete
            assert changed == workload.SIZE
            assert set(work) == {"orders", "lineitem"} | (
                {"customer", "part", "partsupp", "supplier"} if kind == "mixed" else set()
            )

    def test_they_are_the_same_each_time(self, tables: Tables) -> None:
        first, second = (list(islice(workload.transactions(tables, "mixed"), 4)) for _ in range(2))
        assert first == second
        assert first[0] != first[2]


def test_the_sql_written_by_hand_does_what_v3_says(tables: Tables, tmp_path: Path) -> None:
    by_hand = SuppliersByHand(tmp_path / "by-hand.duckdb")
    by_hand.fill(tables)
    for size in (1, 10, 300):
        first, undoing = islice(workload.lines(tables, size), 2)
        by_hand.apply(first)
        assert by_hand.differing("v3", by_hand.query(V3)) == 0
        by_hand.apply(undoing)
        assert by_hand.differing("v3", by_hand.query(V3)) == 0
    by_hand.close()


class TestShowing:
    @staticmethod
    def figures(recomputed: float, transaction: float, on_view: float) -> QueryFigures:
        nodes = (NodeTime("q3/counts-1234", on_view - 1, 600), NodeTime("q3", 1.0, 0)) if on_view else ()
        series = Series("sales", [Timing(transaction, transaction, nodes)])
        how = {"q3/counts-1234": "differential, from kept counts", "q3": "differential"}
        return QueryFigures("q3", 10, 5.0, [Timing(recomputed, recomputed)], how, [series])

    def shown(self, *figures: QueryFigures) -> SuiteReport:
        return SuiteReport("duckdb", 0.1, 600_572, 1.0, {"sales": [Timing(20.0, 20.0)]}, list(figures))

    def test_where_the_transaction_is_faster_nothing_is_said(self) -> None:
        assert self.shown(self.figures(100.0, 30.0, 10.0)).reasons().num_rows == 0

    def test_where_the_view_is_slower_the_slowest_node_is_named(self) -> None:
        [row] = self.shown(self.figures(15.0, 60.0, 41.0)).reasons().to_pylist()
        assert row["why"] == (
            "q3/counts-1234 takes 40 ms of 41 ms on the view and reads at most 600 rows; differential, from kept counts"
        )

    def test_where_the_tables_take_the_time_that_is_said(self) -> None:
        [row] = self.shown(self.figures(25.0, 30.0, 8.0)).reasons().to_pylist()
        assert row["why"].startswith("not because of the view, which takes 8.0 ms: 22 ms go to the tables")

    def test_the_table_has_the_ratios(self) -> None:
        [row] = shown(self.shown(self.figures(100.0, 40.0, 10.0)).columns()).to_pylist()
        assert (str(row["times faster"]), str(row["view alone"]), row["rows read"]) == ("2.5", "10.0", 600)
        assert "Spark statements" not in row

    def test_v3_stands_beside_the_sql_written_by_hand(self) -> None:
        found = self.shown()
        found.v3_recomputed = [Timing(60.0, 60.0)]
        found.v3 = [SizeFigures(1, [Timing(30.0, 30.0)], [20.0])]
        [row] = shown(found.suppliers()).to_pylist()
        assert (str(row["times by hand"]), str(row["times faster"])) == ("1.5", "2.0")
