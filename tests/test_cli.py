"""The command line shows what a user should see: exact rows, plain text in a pipe, errors with their place."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import duckdb
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import tidemark as tm
from tidemark.cli.databases import read_script
from tidemark.cli.main import app
from tidemark.cli.spinner import Status

ROOT = Path(__file__).parent.parent
INVENTORY = ROOT / "examples" / "inventory" / "inventory.sql"
TIME = re.compile(r"[\d.]+ m?s\b")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the surroundings may ask for colour or a width."""
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "TTY_COMPATIBLE", "TIDEMARK_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)


def tidemark(*arguments: object, input: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)


def run_script(text: str, *options: object, engine: str = "duckdb") -> Result:
    return tidemark("run", "-", "--engine", engine, *options, input=text)


def shown(result: Result) -> str:
    """What was shown, with every time replaced by T."""
    assert result.exit_code == 0, result.output
    return TIME.sub("T", result.stdout)


EXAMPLES = [
    script
    for script in sorted((ROOT / "examples").rglob("*.sql"))
    if not script.with_suffix(".py").exists()  # a program of that name runs it over what it has made (test_cli_pull)
]


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_every_example_runs(script: Path) -> None:
    assert shown(tidemark("run", script, "--engine", "duckdb"))


def test_what_follows_a_transaction_in_other_versions_is_shown_with_it() -> None:
    output = shown(tidemark("run", ROOT / "examples" / "market" / "market.sql", "--engine", "duckdb"))
    assert "v6-7  Shares are listed" in output
    assert "  moved  +3  autonomous, T\n       symbol  price\n    +  ACME       50\n" in output
    assert "v14  REFRESH close" in output
    assert (
        "close is up to date"
        in run_script(
            "CREATE TABLE t (a INT); CREATE SNAPSHOT close AS SELECT * FROM t REFRESH ON DEMAND; REFRESH close"
        ).stdout
    )
    output = shown(tidemark("run", ROOT / "examples" / "bank" / "bank.sql", "--engine", "duckdb"))
    last = output[output.index("v14-15  A transfer that overdraws account 1: all three see it") :]
    assert "  wealth  +1 −1" in last and "    +  apart       1" in last
    assert "v5  CREATE RULE at_once\n" in output


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a durable database after the inventory's script."""
    path = tmp_path_factory.mktemp("inventory") / "inventory.duckdb"
    assert tidemark("run", INVENTORY, "--database", f"duckdb:{path}").exit_code == 0
    return path


@pytest.fixture
def inventory(finished: Path, tmp_path: Path) -> str:
    """The target of a copy of that database."""
    return f"duckdb:{shutil.copy(finished, tmp_path / 'inventory.duckdb')}"


class TestDefinitions:
    """Definitions that change what is stored show what they changed."""

    def test_altering_a_table_is_one_line_and_replacing_a_view_shows_what_changed(self) -> None:
        result = run_script("""
CREATE TABLE t (a INT, b INT);
CREATE MATERIALIZED VIEW v AS SELECT a FROM t;
CREATE MATERIALIZED VIEW w AS SELECT a, COUNT(*) AS n FROM v GROUP BY a;
INSERT INTO t VALUES (1, 2), (3, 4);
ALTER TABLE t ADD COLUMN c INT DEFAULT 5 CHECK (c > 0);
-- Only what is large
CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t WHERE c > 2 AND b > 2;
""")
        assert shown(result).endswith("""
v5  ALTER TABLE t ADD COLUMN c INT DEFAULT 5 CHECK (c > 0)

v6  Only what is large  T
    CREATE OR REPLACE MATERIALIZED VIEW v
  v  −1  complete, T
       a
    −  1
  w  −1  autonomous, T
       a  n
    −  1  1
  1 inner node, T
""")


class TestTheInventory:
    """The example shows each case that it speaks of, row by row."""

    EXPECTED = """\
v7  The stock is entered: the thresholds are 140 and 290, and no item is below its own.  T
    INSERT INTO supplier VALUES (1, 'sup1'), (2, 'sup2')
    INSERT INTO item VALUES (1, 'item1', 1000, 5000, 100, 20), (2, 'item2', 310, 7500, 200, 30), \
(3, 'item3', 400, 900, 50, 10)
    INSERT INTO supplies VALUES (1, 1, 2), (2, 2, 3), (1, 3, 2)
  threshold  +3  differential, T
       item_id  supplier_id  threshold
    +        1            1        140
    +        2            2        290
    +        3            1         70
  unchanged: low_stock, orders_due
  1 inner node, T

v8  item1 is used up but for 150 pieces: still above its threshold, so no view changes.  T
    UPDATE item SET quantity = 150 WHERE id = 1
  no view changed

v9  item1 falls below its threshold: it enters low_stock, and sup1 is owed an order.  T
    UPDATE item SET quantity = 130 WHERE id = 1
  low_stock  +1  differential, T
       id  name   quantity  threshold  supplier_id  pieces
    +   1  item1       130        140            1    4870
  orders_due  +1  differential, T
       supplier  items  pieces
    +  sup1          1    4870
  unchanged: threshold
  1 inner node, T

v10  min_stock goes from 100 to 150 and back within one transaction: the net effect is nothing.  T
     UPDATE item SET min_stock = 150 WHERE id = 1
     UPDATE item SET min_stock = 100 WHERE id = 1
  no view changed

v11  item2 is used and its delivery takes a day longer: both sides of the join change at once.  T
     UPDATE item SET quantity = quantity - 10 WHERE id = 2
     UPDATE supplies SET delivery_time = 4 WHERE supplier_id = 2 AND item_id = 2
  threshold  +1 −1  differential, T
       item_id  supplier_id  threshold
    −        2            2        290
    +        2            2        320
  low_stock  +1  differential, T
       id  name   quantity  threshold  supplier_id  pieces
    +   2  item2       300        320            2    7200
  orders_due  +1  differential, T
       supplier  items  pieces
    +  sup2          1    7200
  1 inner node, T

v12  item3 falls below its threshold too: the row of sup1 is replaced by one for two items.  T
     UPDATE item SET quantity = 60 WHERE id = 3
  low_stock  +1  differential, T
       id  name   quantity  threshold  supplier_id  pieces
    +   3  item3        60         70            1     840
  orders_due  +1 −1  differential, T
       supplier  items  pieces
    −  sup1          1    4870
    +  sup1          2    5710
  unchanged: threshold
  1 inner node, T

v13  item1 is restocked: it leaves low_stock, and the order of sup1 shrinks again.  T
     UPDATE item SET quantity = max_stock WHERE id = 1
  low_stock  −1  differential, T
       id  name   quantity  threshold  supplier_id  pieces
    −   1  item1       130        140            1    4870
  orders_due  +1 −1  differential, T
       supplier  items  pieces
    −  sup1          2    5710
    +  sup1          1     840
  unchanged: threshold
  1 inner node, T

v14  item2 is given up: its group disappears.  T
     DELETE FROM supplies WHERE item_id = 2
     DELETE FROM item WHERE id = 2
  threshold  −1  differential, T
       item_id  supplier_id  threshold
    −        2            2        320
  low_stock  −1  differential, T
       id  name   quantity  threshold  supplier_id  pieces
    −   2  item2       300        320            2    7200
  orders_due  −1  differential, T
       supplier  items  pieces
    −  sup2          1    7200
  1 inner node, T

What is to be ordered now:
  supplier  items  pieces
  sup1          1     840

Why:
  name   quantity  threshold  pieces
  item3        60         70     840

audit threshold  2 rows, all as the definition says (T)
audit low_stock  1 row, all as the definition says (T)
audit orders_due  1 row, all as the definition says (T)
"""

    @pytest.mark.parametrize(
        "engine", ["duckdb", "reference", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]
    )
    def test_every_engine_shows_the_same_rows(self, engine: str, request: pytest.FixtureRequest) -> None:
        if engine == "spark":
            request.getfixturevalue("spark")
        output = shown(tidemark("run", INVENTORY, "--engine", engine))
        assert output[output.index("v7") :] == self.EXPECTED

    def test_definitions_take_one_line_each(self) -> None:
        output = shown(tidemark("run", INVENTORY, "--engine", "duckdb"))
        assert output.splitlines()[:7] == [
            "v1  CREATE TABLE item",
            "v2  CREATE TABLE supplier",
            "v3  CREATE TABLE supplies",
            "v4  CREATE MATERIALIZED VIEW threshold  0 rows, T",
            "v5  CREATE MATERIALIZED VIEW low_stock  0 rows, T",
            "v6  CREATE MATERIALIZED VIEW orders_due  0 rows, T",
            "",
        ]

    def test_a_durable_database_is_there_afterwards(self, inventory: str) -> None:
        with tm.connect(inventory) as database:
            assert database.version == 14
            assert database.query("SELECT * FROM orders_due").to_pylist() == [
                {"supplier": "sup1", "items": 1, "pieces": 840}
            ]


class TestRun:
    TABLE = "CREATE TABLE t (a INT, b VARCHAR);\nCREATE MATERIALIZED VIEW v AS SELECT a, b FROM t;\n"

    def test_without_a_comment_the_statement_is_the_title(self) -> None:
        output = shown(run_script(self.TABLE + "INSERT INTO t\n  VALUES (1, 'x'); -- not for the next\nDELETE FROM t;"))
        assert "v3  INSERT INTO t VALUES (1, 'x')  T\n" in output
        assert "v4  DELETE FROM t  T\n" in output

    def test_equal_rows_are_shown_once_with_their_number(self) -> None:
        output = shown(run_script(self.TABLE + "INSERT INTO t VALUES (1, NULL), (1, NULL), (1, NULL);"))
        assert "  v  +3  autonomous, T\n        a  b\n    +3  1  NULL\n" in output

    def test_arrays_are_shown_between_brackets(self) -> None:
        script = "CREATE TABLE t (a VARCHAR[]); CREATE MATERIALIZED VIEW v AS SELECT a FROM t;"
        output = shown(run_script(script + "INSERT INTO t VALUES (ARRAY['x', NULL]), (ARRAY[]::VARCHAR[]), (NULL);"))
        assert "  v  +3  autonomous, T\n       a\n    +  [x, NULL]\n    +  []\n    +  NULL\n" in output

    def test_long_results_are_cut(self) -> None:
        rows = ", ".join(f"({number}, 'x')" for number in range(30))
        script = f"{self.TABLE}INSERT INTO t VALUES {rows}; SELECT a FROM t ORDER BY a;"
        cut = shown(run_script(script))
        assert "    … 10 more rows\n" in cut
        assert "  19\n  … 10 more rows\n" in cut
        assert "more rows" not in shown(run_script(script, "--rows", 0))

    def test_only_the_beginning_of_a_long_statement_is_shown(self) -> None:
        rows = ", ".join(f"({number}, 'x')" for number in range(100))
        heading = shown(run_script(f"{self.TABLE}INSERT INTO t VALUES {rows};")).splitlines()[3]
        assert heading.startswith("v3  INSERT INTO t VALUES (0, 'x'), (1, 'x')")
        assert heading.endswith("…  T")
        assert len(heading) < 200

    def test_a_rollback_and_a_commit_of_nothing_are_told(self) -> None:
        output = shown(run_script(self.TABLE + "-- a try\nBEGIN; DELETE FROM t; ROLLBACK;\n-- a look\nBEGIN; COMMIT;"))
        assert output.endswith("rolled back: a try\nnothing to commit: a look\n")

    def test_queries_inside_a_transaction_see_its_changes(self) -> None:
        output = shown(run_script(self.TABLE + "BEGIN; INSERT INTO t VALUES (7, 'x'); SELECT a FROM v; COMMIT;"))
        assert "SELECT a FROM v\n  a\n  7\n\nv3  INSERT INTO t VALUES (7, 'x')  T\n  v  +1" in output

    def test_a_view_that_a_transaction_creates_is_not_called_unchanged(self) -> None:
        script = "CREATE VIEW w AS SELECT a FROM t; CREATE MATERIALIZED VIEW x AS SELECT b FROM t;"
        output = shown(run_script(f"{self.TABLE}BEGIN; {script} INSERT INTO t VALUES (7, 'x'); COMMIT;"))
        assert "CREATE MATERIALIZED VIEW x\n" in output
        assert "unchanged" not in output

    def test_explain_is_plain_text_and_show_a_table(self) -> None:
        output = shown(run_script(self.TABLE + "EXPLAIN v; SHOW TABLES;"))
        assert "EXPLAIN v\n  materialized view v (a INT, b VARCHAR)\n\n  plan\n" in output
        assert "SHOW TABLES\n  name  columns           rows\n  t     a INT, b VARCHAR     0\n" in output

    def test_explain_analyze_is_plain_text_and_counts_as_a_statement_of_its_transaction(self) -> None:
        setup = "CREATE TABLE t (a INT PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 5;"
        output = shown(
            run_script(f"""{setup}
-- the first
EXPLAIN ANALYZE INSERT INTO t VALUES (7);
-- two at once
BEGIN;
EXPLAIN ANALYZE DELETE FROM t;
INSERT INTO t VALUES (8);
COMMIT;
BEGIN; EXPLAIN ANALYZE INSERT INTO t VALUES (1); COMMIT;
CHECKPOINT;
""")
        )
        assert "\nthe first\n  version 3: t +1\n\n  phases, in microseconds\n    parse " in output
        assert re.search(r"\n    v +autonomous +1 +1 +0 +[\d,]+  the change alone is enough: t\n", output)
        assert "\n  t −1\n\n  phases, in microseconds\n" in output
        assert "\n    EXPLAIN ANALYZE DELETE FROM t\n    INSERT INTO t VALUES (8)\n  v  +1 −1" in output
        assert output.endswith("\nv5  EXPLAIN ANALYZE INSERT INTO t VALUES (1)  T\n  no view changed\n")

    def test_control_characters_in_data_do_not_reach_the_terminal(self) -> None:
        output = shown(run_script(self.TABLE + "INSERT INTO t VALUES (1, 'red \x1b[31m and\nmore'); SELECT * FROM t;"))
        assert "\x1b" not in output
        assert "  1  red \\x1b[31m and\\nmore\n" in output

    def test_another_dialect_can_be_read(self) -> None:
        output = shown(run_script("SELECT 1 AS `a b`;", "--dialect", "spark"))
        assert output == "SELECT 1 AS `a b`\n  a b\n    1\n"


class TestErrors:
    def test_an_error_is_shown_with_its_place_in_the_script(self, tmp_path: Path) -> None:
        script = tmp_path / "wrong.sql"
        script.write_text(
            "CREATE TABLE t (a INT);\n\n-- two statements on one line\nDELETE FROM t; SELECT a,\n  q FROM t;"
        )
        result = tidemark("run", script, "--engine", "duckdb")
        assert result.exit_code == 1
        assert "v2  two statements on one line" in result.stdout
        assert result.stderr.splitlines() == [
            "error [unknown_column] there is no column 'q' here",
            "  wrong.sql, line 5, column 3:",
            "      q FROM t;",
            "      ^",
            "hint: columns: a",
            "stopped at version 2",
        ]

    def test_a_syntax_error_stops_the_script_before_it_begins(self) -> None:
        result = run_script("CREATE TABLE t (a INT);\nSELEC 1;")
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "[syntax]" in result.stderr
        assert "standard input, line 2, column 1:" in result.stderr

    def test_an_open_transaction_is_rolled_back_by_an_error(self) -> None:
        result = run_script(
            "CREATE TABLE t (a INT PRIMARY KEY);\nBEGIN; INSERT INTO t VALUES (1);\nSELECT b FROM t; COMMIT;"
        )
        assert result.exit_code == 1
        assert result.stderr.endswith("stopped at version 1; the open transaction was rolled back\n")

    def test_a_script_that_ends_inside_a_transaction_is_an_error(self, tmp_path: Path) -> None:
        target = f"duckdb:{tmp_path / 'd.duckdb'}"
        result = tidemark("run", "-", "--database", target, input="CREATE TABLE t (a INT);\n BEGIN; DELETE FROM t;")
        assert result.exit_code == 1
        assert "the script ends inside a transaction\n  standard input, line 2, column 2:" in result.stderr
        with tm.connect(target) as database:
            assert database.version == 1

    def test_a_script_that_cannot_be_read_is_an_error(self, tmp_path: Path) -> None:
        missing = tidemark("run", tmp_path / "none.sql")
        assert (missing.exit_code, missing.stdout) == (1, "")
        assert "none.sql cannot be read: No such file or directory" in missing.stderr
        (tmp_path / "latin.sql").write_bytes("SELECT 'ö'".encode("latin-1"))
        assert "is not UTF-8" in tidemark("run", tmp_path / "latin.sql").stderr

    def test_engine_and_database_exclude_each_other(self) -> None:
        result = run_script("SELECT 1", "--database", "duckdb")
        assert result.exit_code == 2
        assert "not both" in result.stderr

    def test_an_unknown_target_is_an_error(self) -> None:
        result = tidemark("run", "-", "--database", "oracle", input="SELECT 1")
        assert result.exit_code == 1
        assert "[target] there is no engine 'oracle'" in result.stderr

    def test_a_fault_of_our_own_is_no_traceback_either(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise KeyError("surprise")

        monkeypatch.setattr(tm.Database, "execute", fail)
        result = run_script("SELECT 1")
        assert result.exit_code == 1
        assert "error [internal] KeyError: 'surprise'" in result.stderr
        assert "Traceback" not in result.output
        monkeypatch.setenv("TIDEMARK_TRACEBACK", "1")
        assert isinstance(run_script("SELECT 1").exception, KeyError)


class TestExplainAndAudit:
    def test_explain_shows_plan_and_differentials(self, inventory: str) -> None:
        result = tidemark("explain", "low_stock", "--database", inventory)
        assert result.exit_code == 0
        assert result.stdout.startswith("materialized view low_stock (id INT NOT NULL, ")
        assert "Δlow_stock/Δ+item = " in result.stdout

    def test_audit_takes_all_materialized_views_if_none_is_named(self, inventory: str) -> None:
        output = shown(tidemark("audit", "--database", inventory))
        assert output == (
            "audit threshold  2 rows, all as the definition says (T)\n"
            "audit low_stock  1 row, all as the definition says (T)\n"
            "audit orders_due  1 row, all as the definition says (T)\n"
        )
        assert shown(tidemark("audit", "low_stock", "--database", inventory)).count("\n") == 1

    def test_audit_shows_rows_that_differ_and_fails(self, inventory: str) -> None:
        with duckdb.connect(inventory.removeprefix("duckdb:")) as connection:
            connection.execute("DELETE FROM low_stock")
            connection.execute("INSERT INTO orders_due VALUES ('sup9', 1, 2), ('sup9', 1, 2)")
        result = tidemark("audit", "--database", inventory)
        assert result.exit_code == 1
        explained = "+ is stored but should not be, − should be stored but is not"
        assert TIME.sub("T", result.stdout).splitlines() == [
            "audit threshold  2 rows, all as the definition says (T)",
            f"audit low_stock  1 row differs  {explained}",
            "       id  name   quantity  threshold  supplier_id  pieces",
            "    −   3  item3        60         70            1     840",
            f"audit orders_due  1 row differs  {explained}",
            "        supplier  items  pieces",
            "    +2  sup9          1       2",
        ]
        again = tidemark("run", "-", "--database", inventory, input="AUDIT threshold; AUDIT low_stock;")
        assert again.exit_code == 1

    def test_an_unknown_view_is_an_error(self, inventory: str) -> None:
        for command in ("explain", "audit"):
            result = tidemark(command, "nothing", "--database", inventory)
            assert result.exit_code == 1
            assert "[unknown_relation] there is no relation 'nothing'" in result.stderr

    @pytest.mark.parametrize("arguments", [("explain", "v"), ("audit",), ("status",)])
    @pytest.mark.parametrize("engine", ["duckdb", "spark"])
    def test_a_database_that_does_not_exist_is_not_created(
        self, arguments: tuple[str, ...], engine: str, tmp_path: Path
    ) -> None:
        result = tidemark(*arguments, "--database", f"{engine}:{tmp_path / 'none'}")
        assert result.exit_code == 1
        assert "[not_a_database] there is no database at" in result.stderr
        assert list(tmp_path.iterdir()) == []

    def test_a_database_in_memory_has_nothing_to_explain(self) -> None:
        assert "[target] 'duckdb' would be a new, empty database" in tidemark("audit", "--database", "duckdb").stderr


class TestStatus:
    def test_it_shows_tables_views_tidemarks_and_last_steps(self, inventory: str) -> None:
        script = "CREATE VIEW plain AS SELECT id FROM item; CREATE MATERIALIZED VIEW fresh AS SELECT id FROM plain;"
        assert tidemark("run", "-", "--database", inventory, input=script).exit_code == 0
        output = shown(tidemark("status", "--database", inventory))
        heading, _, *rest = output.splitlines()
        assert re.fullmatch(
            re.escape(inventory) + r"  duckdb, version 16 of [-\d]+ [:\d]+, [\d.]+ MiB, 3 tables, 5 views", heading
        )
        assert rest == [
            "tables",
            "  name      rows  columns  key",
            "  item         2        6  id",
            "  supplier     2        2  id",
            "  supplies     2        3  supplier_id, item_id",
            "",
            "materialized views",
            "  name        rows  tidemark  strategy  last step",
            "  threshold      2        16  auto      v14, differential, 1 row, T",
            "  low_stock      1        16  auto      v14, differential, 1 row, T",
            "  orders_due     1        16  auto      v14, differential, 1 row, T",
            "  fresh          2        16  auto      filled at v16",
            "",
            "expanded where they are used: plain",
        ]

    def test_programs_get_json(self, inventory: str) -> None:
        result = tidemark("status", "--json", "--database", inventory)
        assert result.exit_code == 0
        found = json.loads(result.stdout)
        assert (found["engine"], found["version"], found["target"]) == ("duckdb", 14, inventory)
        assert found["bytes"] >= Path(inventory.removeprefix("duckdb:")).stat().st_size > 0
        assert {table["name"]: table["rows"] for table in found["tables"]} == {"item": 2, "supplier": 2, "supplies": 2}
        assert found["tables"][1]["columns"][0] == {"name": "id", "type": "INT", "nullable": False, "in_key": True}
        orders_due = found["views"][2]
        assert (orders_due["name"], orders_due["rows"], orders_due["tidemark"]) == ("orders_due", 1, 14)
        assert (orders_due["last"]["version"], orders_due["last"]["strategy"]) == (14, "differential")
        assert orders_due["definition"].startswith("CREATE MATERIALIZED VIEW orders_due")

    def test_an_empty_database_is_no_error(self, tmp_path: Path) -> None:
        target = f"duckdb:{tmp_path / 'empty.duckdb'}"
        tm.connect(target).close()
        assert "version 0, " in shown(tidemark("status", "--database", target))

    @pytest.mark.spark
    def test_a_lake_is_measured_too(self, tmp_path: Path) -> None:
        target = f"spark:{tmp_path / 'lake'}"
        with tm.connect(target) as database:
            database.execute("CREATE TABLE t (a INT)")
        assert re.search(
            r"spark, version 1 of [-\d]+ [:\d]+, [\d.]+ KiB, 1 table, 0 views",
            shown(tidemark("status", "--database", target)),
        )


class TestTheSpinner:
    """What goes on, since when, and in which step, on a line that fits."""

    def test_it_says_what_goes_on_and_since_when(self) -> None:
        output = io.StringIO()
        status = Status(Console(file=output, force_terminal=True, width=60, color_system=None))
        with status.showing("CREATE MATERIALIZED VIEW totals AS SELECT a, b, c FROM somewhere"):
            status.step("filling totals")
            time.sleep(1.3)
        lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.getvalue()).replace("\r", "\n").splitlines()
        assert any(line.endswith("…  filling totals, 1 s") for line in lines)
        assert max(map(len, lines)) <= 60

    def test_in_a_pipe_nothing_is_shown(self) -> None:
        output = io.StringIO()
        status = Status(Console(file=output))
        with status.showing("something"):
            status.step("a step")
        assert not output.getvalue()


class TestTheProgram:
    """The real thing, in a process of its own."""

    COMMAND = (sys.executable, "-m", "tidemark.cli")

    def test_a_pipe_gets_plain_text(self) -> None:
        done = subprocess.run(
            [*self.COMMAND, "run", INVENTORY, "--engine", "duckdb"], capture_output=True, check=False, timeout=120
        )
        assert done.returncode == 0
        assert done.stderr == b""
        assert b"\x1b" not in done.stdout
        assert "    +  sup1          2    5710\n" in done.stdout.decode()

    def test_a_terminal_gets_colours_and_lines_that_fit(self) -> None:
        output = in_terminal([*self.COMMAND, "run", str(INVENTORY), "--engine", "duckdb"], columns=60)
        assert "\x1b[1;32m+\x1b[0m" in output
        assert "\x1b[1;31m−\x1b[0m" in output
        lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).splitlines()
        assert max(map(len, lines)) <= 60

    def test_errors_go_to_the_standard_error_stream(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [*self.COMMAND, "explain", "v", "--database", f"duckdb:{tmp_path / 'none'}"],
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"Traceback" not in done.stderr


def in_terminal(command: list[str], columns: int) -> str:
    """What a program writes to a terminal of that width."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal, stdin=terminal, env=environment)
    os.close(terminal)
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(controller)
    assert process.wait(timeout=120) == 0
    return b"".join(parts).decode()


def test_the_version_is_shown() -> None:
    result = tidemark("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"tidemark \S.*\n", result.stdout)


def test_every_command_has_help() -> None:
    commands = ("run", "shell", "explain", "audit", "status", "bench")
    assert all(command in tidemark("--help").stdout for command in commands)
    for command in commands:
        assert tidemark(command, "--help").exit_code == 0


def test_without_the_benchmarks_their_command_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    result = tidemark("bench", "--quick", "--engine", "duckdb")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "tidemark bench is a package of its own, which is not installed\n" in result.stderr
    assert "hint: in a clone of the repository, make sets it up; elsewhere: pip install" in result.stderr


class TestReadingAScript:
    @pytest.mark.parametrize(
        ("text", "comment"),
        [
            ("-- title\nSELECT 1", "title"),
            ("-- two\n--lines\nSELECT 1", "two lines"),
            ("-- far away\n\nSELECT 1", ""),
            ("SELECT 0; -- of the other\nSELECT 1", ""),
            ("SELECT 0;\n-- mine\n  SELECT 1", "mine"),
            ("SELECT 0; -- of the other\n-- mine\nSELECT 1", "mine"),
            ("/* a block */ SELECT 1", ""),
        ],
    )
    def test_the_comment_stands_directly_before_the_statement(self, text: str, comment: str) -> None:
        assert read_script(text, "postgres")[-1].comment == comment

    def test_the_summary_has_no_comments_but_all_strings(self) -> None:
        (piece,) = read_script("SELECT '-- no\ncomment' -- yes\n/* yes */ ,1;", "postgres")
        assert piece.summary == "SELECT '-- no comment' ,1"
