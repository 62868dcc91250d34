"""The benchmarks of the ladder run, refuse figures of something else, and what they measure is right.

How long anything takes is no matter here.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

import tidemark as tm
from tests.support import changes_at
from tidemark.answers.describe import maintained_without
from tidemark.cli.main import app
from tidemark.errors import TidemarkError
from tidemark_bench import ladder, tpch
from tidemark_bench import many_workload as workload
from tidemark_bench.harness.clock import Spent
from tidemark_bench.harness.run import table
from tidemark_bench.ladder import SHIPPED, Lines
from tidemark_bench.ladder_figures import Comparison, LadderReport, Sample
from tidemark_bench.many import ManyReport, Side
from tidemark_bench.many import Sample as ManySample

pytestmark = pytest.mark.slow

SCALE = 0.001


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tpch.generate(SCALE, tmp_path_factory.mktemp("bench"))


class TestTheCommands:
    def test_the_ladder_is_measured_with_and_without_its_rungs(self, data: Path) -> None:
        options = ["--autonomous", "--engine", "duckdb", "--scale", str(SCALE), "--repeats", "1"]
        result = CliRunner().invoke(app, ["bench", *options, "--data", str(data.parent)])
        assert result.exit_code == 0, result.output
        assert result.stderr.startswith("The clock covers a whole transaction with V1: ")
        assert "v1 equals its definition\n" in result.stderr
        [found] = json.loads((data.parent / "autonomous.json").read_text())["reports"]
        compared = {(one["rung"], one["rows"]): one for one in found["comparisons"]}
        assert compared.keys() == {(rung, rows) for rung in ("autonomous", "irrelevant") for rows in (1, 100)}
        for (rung, _), one in compared.items():
            assert [(sample["strategy"], sample["rows_read"]) for sample in one["with_it"]] == [(rung, 0)]
        [without] = compared["autonomous", 100]["without_it"]
        assert without["strategy"] == "differential" and without["rows_read"] > 0
        assert not list(data.parent.glob("running-*")), "the databases are removed"

    def test_many_views_are_measured_beside_few(self, tmp_path: Path) -> None:
        result = CliRunner().invoke(app, ["bench", "--many-views", "60", "--repeats", "1", "--data", str(tmp_path)])
        assert result.exit_code == 0, result.output
        assert "created 60 views in " in result.stderr
        assert "a transaction that matters to 3 of 60 views takes " in result.stdout
        [found] = json.loads((tmp_path / "many-views.json").read_text())["reports"]
        assert (found["few"]["views"], found["many"]["views"]) == (3, 60)
        assert found["ratio"].keys() == {"clock", "processors"}
        for side in ("few", "many"):
            assert len(found[side]["samples"]) == 3
            assert found[side]["opened"] and found[side]["first_after_opening"]
        assert {sample["others"] for sample in found["many"]["samples"]} == {57}
        assert not list(tmp_path.glob("running-*")), "the databases are removed"

    @pytest.mark.parametrize(
        "options",
        [
            ["--many-views", "10"],
            ["--many-views", "100", "--queries"],
            ["--autonomous", "--queries"],
            ["--many-views", "100", "--engine", "spark"],
            ["--many-views", "100", "--scale", "1"],
        ],
    )
    def test_what_makes_no_sense_is_refused(self, options: list[str]) -> None:
        assert CliRunner().invoke(app, ["bench", *options]).exit_code == 2


class TestManyViews:
    def test_each_transaction_matters_to_the_chosen_three_and_to_no_other(self) -> None:
        with tm.connect("duckdb") as db:
            for table, columns in workload.TABLES.items():
                db.execute(f"CREATE TABLE {table} ({columns})")
                db.insert(table, workload.rows(table, 60))
            with db.transaction() as transaction:
                for number in range(60):
                    transaction.execute(workload.created(number))
            chosen = {f"v{number}" for number in workload.chosen(60)}
            for statement in islice(workload.transactions(60), 6):
                db.execute(statement)
                changed = {f"v{n}" for n in range(60) if changes_at(db, f"v{n}")}
                assert changed == chosen

    def test_half_of_the_views_join_and_the_chosen_are_of_every_kind(self) -> None:
        texts = [workload.definition(number) for number in range(100)]
        assert sum("JOIN" in text for text in texts) == 50
        assert sum("GROUP BY" in text for text in texts) == 2
        plain, joined, grouped = (workload.definition(number) for number in workload.chosen(10_000))
        assert "JOIN" in joined and "GROUP BY" in grouped and "JOIN" not in plain + grouped

    def test_the_tables_have_the_ratio(self) -> None:
        def side(views: int, spent: float) -> Side:
            made = Side(views, [Spent(100.0, 90.0)], Spent(7.0, 6.0))
            made.samples = [ManySample(Spent(spent, spent / 2), 5, 4, views - 3)]
            return made

        found = ManyReport("duckdb", side(60, 30.0), side(3, 20.0))
        assert found.ratio() == found.ratio("processor_milliseconds") == 1.5
        assert found.transactions()["nodes left out"].to_pylist() == [0, 57]
        assert [str(value) for value in found.others()["each"].to_pylist()] == ["33.3", "1.7"]
        assert found.as_json()["many"]["median"] == {"milliseconds": 30.0, "processor_milliseconds": 15.0}


class TestTheLadder:
    @pytest.mark.parametrize("rung", ["autonomous", "irrelevant"])
    def test_the_lines_are_those_that_the_filter_lets_pass_or_does_not(self, data: Path, rung: str) -> None:
        lines = Lines(tpch.read(data, "lineitem"), rung)
        seen: list[tuple[int, int]] = []
        for size, updated in ((1, 1), (1, 1), (1, 0), (1, 0), (10, 5), (100, 50)):
            [(table, change)] = lines.transaction(size).items()
            assert table == "lineitem" and change.delete.num_rows == size
            keys = [tuple(row.values()) for row in change.delete.select(["l_orderkey", "l_linenumber"]).to_pylist()]
            assert all((day >= SHIPPED) == (rung == "autonomous") for day in change.delete["l_shipdate"].to_pylist())
            assert not set(keys) & set(seen)
            seen += keys
            after = change.insert
            assert after.num_rows == updated
            before = change.delete.slice(0, after.num_rows)
            assert pc.all(pc.greater(after["l_extendedprice"], before["l_extendedprice"])).as_py() is not False

    @pytest.mark.parametrize("engine", ["reference", "duckdb"])
    @pytest.mark.parametrize(
        "without", [{}, {"filters": True}, {"autonomy": True}, {"filters": True, "autonomy": True}]
    )
    def test_without_rungs_the_answers_are_the_same(self, data: Path, engine: str, without: dict[str, bool]) -> None:
        with tm.connect(engine) as db:
            for name in ladder.TABLES:
                db.execute(f"CREATE TABLE {name} ({tpch.TABLES[name]})")
                db.insert(name, tpch.read(data, name).slice(0, 200))
            db.execute(f"CREATE MATERIALIZED VIEW v1 AS {tpch.VIEWS['v1']}")
            lines = db.query("SELECT * FROM lineitem")
            with maintained_without(db, **without):
                for rung in ("autonomous", "irrelevant"):
                    made = Lines(lines, rung)
                    for size in (1, 1, 10):
                        sample = ladder.applied(db, made.transaction(size))
                        if rung == "irrelevant" and "filters" not in without:
                            assert sample.strategy == "irrelevant"
                        if rung == "autonomous":
                            assert sample.strategy == ("differential" if "autonomy" in without else "autonomous")
            assert db.audit("v1").num_rows == 0

    def test_figures_of_another_step_are_refused(self) -> None:
        sample = Sample(Spent(1.0, 1.0), "differential", 16_500, 0, 1.0)
        with pytest.raises(TidemarkError, match="the step of v1 was differential and read 16500 base rows"):
            ladder._must_be("autonomous", sample)
        with pytest.raises(TidemarkError, match="it should have been autonomous, and have read none"):
            ladder._must_be("autonomous", Sample(Spent(1.0, 1.0), "autonomous", 1, 0, 1.0))

    def test_both_ways_stand_side_by_side(self) -> None:
        with_it, without = (Sample(Spent(t, t), "autonomous", r, 0, t / 4) for t, r in ((20.0, 0), (50.0, 900)))
        found = LadderReport("duckdb", 1, 6_000_000, comparisons=[Comparison("autonomous", 10, [with_it], [without])])
        [row] = table(found.columns("autonomous")).to_pylist()
        assert [str(value) for value in row.values()] == ["10", "5.0", "12.5", "2.5", "20.0", "50.0", "0", "900"]
        assert len(found.columns("irrelevant")["rows changed"]) == 0
        assert found.as_json()["comparisons"][0]["medians"]["with_it"]["rows_read"] == 0


class TestRules:
    def test_many_rules_are_measured_beside_ten(self, tmp_path: Path) -> None:
        command = ["bench", "--rules", "40", "--engine", "duckdb", "--repeats", "1", "--data", str(tmp_path)]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        [found] = json.loads((tmp_path / "rules.json").read_text())["reports"]
        assert (found["few"]["rules"], found["many"]["rules"]) == (10, 40)
        assert set(found["ratio"]) == {"watched, firing", "watched, quiet", "others"}
