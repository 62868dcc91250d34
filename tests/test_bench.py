"""The benchmark runs, its rivals agree, and its figures are written. How long anything takes is no matter here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tidemark.cli.main import app
from tidemark_bench import tpch
from tidemark_bench.changes import Changes, enough
from tidemark_bench.core_by_hand import ViewsByHand
from tidemark_bench.core_figures import Measurement, Report, Sample, charts
from tidemark_bench.harness.charts import drawing
from tidemark_bench.harness.database import TableChange
from tidemark_bench.harness.plain import plain_engine
from tidemark_bench.harness.run import table as shown

pytestmark = pytest.mark.slow

SCALE = 0.001


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of generated data of a tiny scale."""
    return tpch.generate(SCALE, tmp_path_factory.mktemp("bench"))


@pytest.fixture
def by_hand(data: Path, tmp_path: Path) -> Iterator[ViewsByHand]:
    opened = ViewsByHand(tmp_path / "by-hand.duckdb")
    opened.fill(tables(data))
    yield opened
    opened.close()


def tables(data: Path) -> dict[str, pa.Table]:
    return {table: tpch.read(data, table) for table in tpch.TABLES}


def changes(data: Path, seed: int = 7) -> Changes:
    return Changes(tpch.read(data, "orders"), tpch.read(data, "lineitem"), seed)


class TestTheCommand:
    def test_it_runs_and_the_contents_agree(self, data: Path) -> None:
        folder = data.parent
        options = ["--engine", "duckdb", "--scale", str(SCALE), "--repeats", "1", "--data", str(folder)]
        result = CliRunner().invoke(app, ["bench", *options])
        assert result.exit_code == 0, result.output
        assert result.stderr.startswith("The clock covers a whole transaction: ")
        assert "both views equal their definitions and those of the SQL written by hand\n" in result.stderr
        assert result.stdout.startswith("duckdb, scale 0.001, 6,005 lineitems: medians in milliseconds\n  rows changed")
        figures = json.loads((folder / "results.json").read_text())
        [found] = figures["reports"]
        assert [measurement["rows"] for measurement in found["measurements"]] == [1, 10, 100]
        assert all(len(m["tidemark"]) == len(m["by_hand"]) == 1 for m in found["measurements"])
        assert found["recomputed"].keys() == found["created"].keys() == {"v1", "v2"}
        assert "recompute V1" in result.stdout and "create V1" in result.stdout
        ElementTree.parse(folder / "results.svg")
        assert not list(folder.glob("running-*")), "the databases are removed"

    def test_without_the_generator_it_says_how_to_get_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shutil.which", lambda *_, **__: None)
        result = CliRunner().invoke(app, ["bench", "--quick", "--engine", "duckdb", "--data", str(tmp_path)])
        assert result.exit_code == 1
        assert "the benchmark needs tpchgen-cli" in result.stderr
        assert "hint: pip install tpchgen-cli\n" in result.stderr

    @pytest.mark.parametrize("options", [["--engine", "oracle"], ["--scale", "0"], ["--repeats", "0"]])
    def test_what_makes_no_sense_is_refused(self, options: list[str]) -> None:
        assert CliRunner().invoke(app, ["bench", *options]).exit_code == 2


class TestTheTransactions:
    @pytest.mark.parametrize("size", [1, 2, 10, 100, 1000])
    def test_they_change_as_many_rows_as_they_should(self, data: Path, size: int) -> None:
        made = changes(data)
        for _ in range(3):
            changed = 0
            for table, change in made.transaction(size).items():
                key = ["o_orderkey"] if table == "orders" else ["l_orderkey", "l_linenumber"]
                keys = [tuple(row.values()) for row in change.delete.select(key).to_pylist()]
                assert len(set(keys)) == len(keys)
                changed += len({*keys, *(tuple(row.values()) for row in change.insert.select(key).to_pylist())})
            assert changed == size

    def test_they_mix_inserts_deletes_and_updates_of_both_tables(self, data: Path) -> None:
        work = changes(data).transaction(100)
        assert {table: (c.delete.num_rows, c.insert.num_rows) for table, c in work.items()} == {
            "orders": (7, 7),
            "lineitem": (60, 60),
        }

    def test_the_smallest_take_turns(self, data: Path) -> None:
        made = changes(data)
        kinds = set()
        for _ in range(24):
            [(table, change)] = made.transaction(1).items()
            kinds.add((table, change.delete.num_rows, change.insert.num_rows))
        assert {("lineitem", 1, 1), ("lineitem", 1, 0), ("lineitem", 0, 1)} < kinds
        assert any(table == "orders" for table, *_ in kinds)

    def test_the_same_seed_makes_the_same(self, data: Path) -> None:
        assert changes(data).transaction(100) == changes(data).transaction(100)
        assert changes(data).transaction(100) != changes(data, seed=8).transaction(100)

    def test_data_that_is_too_small_is_known(self) -> None:
        assert enough(6_005, 100, 2)
        assert not enough(6_005, 10_000, 2)


class TestTheSqlWrittenByHand:
    def test_it_does_what_the_definitions_say(self, data: Path, by_hand: ViewsByHand) -> None:
        made = changes(data)
        for size in (1, 1, 1, 1, 10, 100, 500):
            assert by_hand.apply(made.transaction(size))[0] >= 1
        for view, definition in tpch.VIEWS.items():
            assert by_hand.differing(view, by_hand.query(definition)) == 0

    def test_a_difference_is_found(self, by_hand: ViewsByHand) -> None:
        v2 = by_hand.query("SELECT * FROM v2")
        assert by_hand.differing("v2", v2) == 0
        assert by_hand.differing("v2", v2.slice(1)) == 1
        assert by_hand.differing("v2", pa.concat_tables([v2, v2.slice(0, 2)])) == 2

    def test_a_key_that_stands_already_is_refused_and_nothing_is_done(self, data: Path, by_hand: ViewsByHand) -> None:
        order = tpch.read(data, "orders").slice(0, 1)
        before = by_hand.query("SELECT * FROM v2")
        with pytest.raises(ValueError, match="a key would stand twice in orders"):
            by_hand.apply({"orders": TableChange(order.slice(0, 0), order)})
        assert by_hand.differing("v2", before) == 0
        by_hand.apply({"orders": TableChange(order, order)})
        assert by_hand.differing("v2", before) == 0


class TestShowing:
    @staticmethod
    def made(engine: str, scale: float) -> Report:
        by_hand = [Sample(7.25, 3)] if engine == "duckdb" else []
        spark = 2 if engine == "spark" else None
        parts = {"changes": 2.0, "v1": 4.0, "v2": 5.0, "commit": 6.0}
        samples = [Sample(spent, 3, 4.0, 5.0, 60, spark, parts) for spent in (10.0, 30.0, 20.0)]
        measurements = [Measurement(rows, samples, by_hand, 17 if spark else None) for rows in (1, 10)]
        return Report(
            engine, scale, int(scale * 6e6), recomputed={"v1": [90.0], "v2": [110.0]}, measurements=measurements
        )

    def test_the_table_has_what_applies_to_the_engine(self) -> None:
        duckdb, spark = (shown(self.made(engine, 0.1).columns()) for engine in ("duckdb", "spark"))
        assert {"by hand"} == set(duckdb.column_names) - set(spark.column_names)
        assert {"Spark statements", "data files"} == set(spark.column_names) - set(duckdb.column_names)
        assert [str(value) for value in duckdb["Tidemark"].to_pylist()] == ["20.0", "20.0"]
        assert [str(value) for value in duckdb["times faster"].to_pylist()] == ["10.0", "10.0"]

    def test_a_second_table_says_where_the_time_goes(self) -> None:
        found = shown(self.made("duckdb", 0.1).parts())
        assert found.column_names == ["rows changed", "changes", "v1", "v2", "commit"]
        assert [str(value) for value in found["commit"].to_pylist()] == ["6.0", "6.0"]

    def test_the_charts_are_an_svg_with_a_line_for_each_series(self) -> None:
        drawn = drawing(charts([self.made(engine, scale) for engine in ("duckdb", "spark") for scale in (0.1, 1)]))
        root = ElementTree.fromstring(drawn)
        lines = root.iter("{http://www.w3.org/2000/svg}polyline")
        assert len(list(lines)) == (2 * 3) + (2 * 2) + (2 * 2 + 1) + (2 + 1)
        assert "duckdb: time against the size of the table" in drawn


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_recomputation_is_the_engine_by_itself(
    engine: str, data: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain CREATE TABLE AS over the same tables; nothing of Tidemark is asked."""
    if engine == "spark":
        request.getfixturevalue("spark")
    monkeypatch.setattr("tidemark.session.Database.execute", None)
    with plain_engine(engine, tmp_path, tables(data)) as plain:
        for definition in (*tpch.VIEWS.values(), "SELECT l_orderkey FROM lineitem"):
            for _ in range(2):
                plain.compute(definition)
                found = plain.rows()
                plain.forget()
        assert found == 6005
