"""The benchmarks of small changes and of refreshes run, their sides agree, and their workloads are what they say.

How long anything takes is no matter here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tidemark as tm
from tidemark.cli.main import app
from tidemark.errors import TidemarkError
from tidemark_bench import mix, refreshes, small, tpch
from tidemark_bench.changes import Changes
from tidemark_bench.harness import database as under_clock
from tidemark_bench.harness.beside import TIDEMARK, Beside, BesideReport
from tidemark_bench.harness.by_hand import DuckDBFile
from tidemark_bench.harness.clock import Spent
from tidemark_bench.queries import QUERIES
from tidemark_bench.small_sides import ByTriggers, Kept, Recomputed
from tidemark_bench.small_workload import MANY, PARAMETERS, TEXTS, Statement, Statements, calls

pytestmark = pytest.mark.slow

SCALE = 0.002


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def tables(folder: Path) -> dict[str, pa.Table]:
    data = tpch.generate(SCALE, folder)
    return {table: tpch.read(data, table) for table in tpch.TABLES}


def statements(tables: dict[str, pa.Table], seed: int = 7) -> Statements:
    return Statements(tables["orders"], tables["lineitem"], tables["customer"].num_rows, seed)


class TestTheCommands:
    @pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
    def test_small_transactions_are_measured(
        self, engine: str, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        if engine == "spark":
            request.getfixturevalue("spark")
        monkeypatch.setitem(small.SIZES, engine, ((1, 1), (100, 31)))
        monkeypatch.setitem(small.ONE_BY_ONE, engine, 2)
        monkeypatch.setattr(small, "AFTER_OPENING", 2)
        options = ["--small", "--engine", engine, "--scale", str(SCALE), "--repeats", "1", "--data", str(folder)]
        result = CliRunner().invoke(app, ["bench", *options])
        assert result.exit_code == 0, result.output
        assert "both views equal their definitions, on all sides\n" in result.stderr
        assert "all 19 views equal their definitions, on both sides\n" in result.stderr
        small_ones, views = json.loads((folder / "small.json").read_text())["reports"]
        appended = {small.APPEND} if engine == "spark" else set()
        works = {work["work"]: work for work in small_ones["works"]}
        for size in ("1 row, 1 statement", "100 rows, 31 statements"):
            assert works[f"{size}, texts"]["spent"].keys() == {TIDEMARK, small.SQLITE, small.RECOMPUTE} | appended
        for name, work in works.items():
            assert all(len(spent) == (2 if name == small.ONE_ROW else 1) for spent in work["spent"].values())
        assert small_ones["figures"]["opened"]["memory"]["all"] > 10_000_000
        assert "one fdatasync in the same folder takes" in result.stdout
        assert [work["work"] for work in views["works"]] == [mix.ONE, mix.MANY]
        assert not list(folder.glob("running-*")), "the databases are removed"

    def test_refreshes_are_measured(self, folder: Path) -> None:
        options = ["--engine", "duckdb", "--scale", str(SCALE), "--repeats", "1", "--data", str(folder)]
        result = CliRunner().invoke(app, ["bench", "--tpch", *options])
        assert result.exit_code == 0, result.output
        assert "all 22 views equal what DuckDB computes\n" in result.stderr
        [found] = json.loads((folder / "tpch.json").read_text())["reports"]
        sizes = ("1 order", "10 orders", "3 orders (0.1%)", "30 orders (1.0%)", "600 orders (20.0%)")
        works = [f"{what}, {size}" for size in sizes for what in ("RF1", "RF2", "RF1 + RF2")]
        assert [work["work"] for work in found["works"]] == works
        assert all(work["spent"].keys() == {TIDEMARK, refreshes.RECOMPUTE} for work in found["works"])
        assert "times recompute" in result.stdout

    def test_two_at_once_are_refused(self) -> None:
        assert CliRunner().invoke(app, ["bench", "--small", "--tpch"]).exit_code == 2


class TestTheStatements:
    @pytest.mark.parametrize(("rows", "count"), [(1, 1), (2, 2), (100, 31), (1000, 308)])
    def test_they_change_as_many_rows_as_they_should(
        self, rows: int, count: int, tables: dict[str, pa.Table], tmp_path: Path
    ) -> None:
        with closing(Recomputed(tmp_path / "plain.duckdb", tables)) as plain:
            made = statements(tables)
            for _ in range(2):
                work = made.transaction(rows, count)
                assert len(work) == count
                assert sum(plain.run(statement.text()) for statement in work) == rows

    def test_they_mix_inserts_deletes_and_updates_of_three_tables(self, tables: dict[str, pa.Table]) -> None:
        starts = {" ".join(s.template.split()[:3]) for s in statements(tables).transaction(100, 31)}
        assert starts == {
            "UPDATE lineitem SET",
            "INSERT INTO lineitem",
            "DELETE FROM lineitem",
            "INSERT INTO orders",
            "UPDATE orders SET",
            "UPDATE customer SET",
        }

    def test_the_same_seed_makes_the_same(self, tables: dict[str, pa.Table]) -> None:
        assert statements(tables).transaction(100, 31) == statements(tables).transaction(100, 31)
        assert statements(tables).transaction(100, 31) != statements(tables, 8).transaction(100, 31)

    def test_each_way_says_the_same(self) -> None:
        work = [Statement("INSERT INTO t VALUES (?)", ((1,), (2,))), Statement("INSERT INTO t VALUES (?)", ((3,),))]
        assert calls(work, TEXTS) == [
            ("execute", ("INSERT INTO t VALUES (1), (2)",)),
            ("execute", ("INSERT INTO t VALUES (3)",)),
        ]
        assert calls(work, PARAMETERS) == [
            ("execute", ("INSERT INTO t VALUES (?), (?)", [1, 2])),
            ("execute", ("INSERT INTO t VALUES (?)", [3])),
        ]
        assert calls(work, MANY) == [("executemany", ("INSERT INTO t VALUES (?)", [(1,), (2,), (3,)]))]


class TestTheSides:
    @pytest.fixture
    def sqlite(self, tables: dict[str, pa.Table], tmp_path: Path) -> Iterator[ByTriggers]:
        with closing(ByTriggers(tmp_path / "triggers.sqlite", tables)) as opened:
            yield opened

    @pytest.fixture
    def plain(self, tables: dict[str, pa.Table], tmp_path: Path) -> Iterator[Recomputed]:
        with closing(Recomputed(tmp_path / "plain.duckdb", tables)) as opened:
            yield opened

    @pytest.mark.parametrize("way", [TEXTS, PARAMETERS, MANY])
    def test_triggers_keep_what_is_recomputed(
        self, way: str, sqlite: ByTriggers, plain: Recomputed, tables: dict[str, pa.Table]
    ) -> None:
        made = statements(tables)
        for _ in range(3):
            self.same(sqlite, plain)
            work = made.transaction(100, 31)
            sqlite.run_statements(work, way)
            plain.run_statements(work, way)
        self.same(sqlite, plain)

    def test_rows_and_single_changes_do_so_too(
        self, sqlite: ByTriggers, plain: Recomputed, tables: dict[str, pa.Table]
    ) -> None:
        work = Changes(tables["orders"], tables["lineitem"]).transaction(100)
        sqlite.run_rows(work)
        plain.run_rows(work)
        self.same(sqlite, plain)
        order = tables["orders"]["o_orderkey"][7].as_py()
        for template, row in (
            ("UPDATE customer SET c_nationkey = ?", (3,)),
            ("UPDATE orders SET o_custkey = ? WHERE o_orderkey < ?", (5, order)),
            ("UPDATE lineitem SET l_orderkey = ? WHERE l_orderkey = ? AND l_linenumber > 9", (-1, order)),
            ("DELETE FROM orders WHERE o_orderkey = ?", (order,)),
            ("DELETE FROM customer WHERE c_custkey > ?", (100,)),
        ):
            for side in (sqlite, plain):
                side.run_statements([Statement(template, (row,))], PARAMETERS)
            self.same(sqlite, plain)

    @staticmethod
    def same(sqlite: ByTriggers, plain: Recomputed) -> None:
        plain.recompute()
        for view in tpch.VIEWS:
            kept = sqlite.content(view)
            assert kept.num_rows and plain.differing(view, kept) == 0
            assert plain.differing(view, kept.slice(1)) == 1

    def test_a_transaction_that_fails_changes_nothing(self, sqlite: ByTriggers, tables: dict[str, pa.Table]) -> None:
        before = sqlite.content("v2")
        wrong = Statement("DELETE FROM missing WHERE a = ?", ((1,),))
        with pytest.raises(Exception, match="no such table"):
            sqlite.run_statements([*statements(tables).line(), wrong], TEXTS)
        assert sqlite.content("v2") == before

    def test_tidemark_is_left_out_where_it_takes_no_parameters(self, tables: dict[str, pa.Table]) -> None:
        with tm.connect("duckdb") as db:
            report = BesideReport("nothing")
            ways = small.ways(db, report)
            assert ways[0] == TEXTS and (len(ways) == 3 or "takes no parameters" in report.notes[0])
            under_clock.load(db, tpch.TABLES, tables)
            made = statements(tables)
            for way in ways:
                Kept(db).run_statements(made.transaction(20, 9), way)


class TestTheMix:
    def test_a_difference_is_found(self, tmp_path: Path) -> None:
        with tm.connect("duckdb") as db, closing(DuckDBFile(tmp_path / "plain.duckdb")) as plain:
            under_clock.load(db, mix.TABLES, mix.rows())
            for view, definition in mix.VIEWS.items():
                under_clock.created(db, view, definition)
            for table, content in mix.rows().items():
                plain.load(table, content)
            plain.make_again(mix.VIEWS)
            mix.compare(db, plain)
            assert all(under_clock.content(db, view).num_rows for view in mix.VIEWS)
            updates = mix.Updates()
            for work in (mix.ONE, mix.MANY):
                statement = updates.next(work)
                before = plain.query("SELECT * FROM sale")
                db.execute(statement)
                mix.recomputed(plain, statement)
                mix.compare(db, plain)
                changed = plain.differing("sale", before)
                assert changed == (2 if work == mix.ONE else 400)
            plain.run("DELETE FROM total")
            with pytest.raises(TidemarkError, match="1 rows of total differ"):
                mix.compare(db, plain)


class TestTheRefreshes:
    def test_orders_come_and_go_with_their_lines(self, folder: Path) -> None:
        tables = tpch.read_all(tpch.generate_all(SCALE, folder))
        made, there = refreshes.Orders(tables), set(tables["orders"]["o_orderkey"].to_pylist())
        for count in (1, 10, 500):
            coming = made.new(count)
            keys = set(coming["orders"]["o_orderkey"].to_pylist())
            assert len(keys) == count and not keys & there
            assert set(coming["lineitem"]["l_orderkey"].to_pylist()) == keys
            going = set(made.old(count))
            there |= keys
            assert len(going) == count and going <= there
            there -= going

    def test_wrong_answers_are_found(self) -> None:
        rows = [(n, random.Random(n).random(), None if n % 3 else "x") for n in range(9)]
        left = pa.table({name: [row[place] for row in rows] for place, name in enumerate("abc")})
        assert refreshes.unequal(left, left.take(list(range(8, -1, -1)))) == 0
        assert refreshes.unequal(left, left.slice(1)) >= 1
        assert refreshes.unequal(left, left.set_column(2, "c", pa.array(["x"] * 9))) >= 1
        assert set(QUERIES) == {f"q{number}" for number in range(1, 23)}


def test_the_best_of_all_rounds_counts() -> None:
    found = Beside("work", {TIDEMARK: [Spent(9.0, 8.0), Spent(6.0, 9.0)], "SQLite": [Spent(4.0, 4.0), Spent(3.0, 5.0)]})
    report = BesideReport("title", [found, Beside("another", {TIDEMARK: [Spent(1.0, 1.0)]})])
    first, second = ({name: str(v) for name, v in row.items()} for row in pa.table(report.columns()).to_pylist())
    assert first == {
        "work": "work",
        TIDEMARK: "6.00",
        "of processors": "8.00",
        "SQLite": "3.00",
        "times SQLite": "2.00",
        "processors, times SQLite": "2.00",
    }
    assert second["times SQLite"] == "None"
