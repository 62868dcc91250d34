"""The shell: what people type, see and interrupt, at a terminal and from a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner, Result

import tidemark as tm
from tidemark.answers.describe import TransactionState, interrupt, relation, transaction_state, watching
from tidemark.cli.main import app
from tidemark.cli.shell.prompt import history_file, suggestions
from tidemark.cli.shell.reader import Entry, entries, is_complete
from tidemark.cli.shell.shell import Worker

TIME = re.compile(r"[\d.]+ m?s\b")
TABLE = "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR);\nCREATE MATERIALIZED VIEW v AS SELECT a, b FROM t;\n"
MANY = (
    "CREATE TABLE n (x INT);\nINSERT INTO n VALUES (1), (2), (3), (4), (5), (6), (7), (8);\n"
    + "INSERT INTO n SELECT a.x + b.x FROM n AS a CROSS JOIN n AS b;\n" * 2
)
SLOW = "SELECT COUNT(*) AS n FROM n AS a CROSS JOIN n AS b CROSS JOIN n AS c CROSS JOIN n AS d WHERE a.x*b.x*c.x = d.x;"
"""Takes minutes, unless it is interrupted."""


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the surroundings counts, and nobody's history is touched."""
    for name in (
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
        "TTY_COMPATIBLE",
        "TIDEMARK_TRACEBACK",
        "TIDEMARK_HISTORY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def piped(text: str, *options: object, target: str | None = None) -> Result:
    place = ["--engine", "duckdb"] if target is None else ["--database", target]
    return CliRunner().invoke(app, ["shell", *place, *map(str, options)], input=text)


def shown(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return TIME.sub("T", result.stdout)


class TestFromAPipe:
    def test_statements_show_what_run_shows(self) -> None:
        output = shown(piped(TABLE + "INSERT INTO t\n  VALUES (1, 'x');\n-- all of it\nSELECT * FROM v;"))
        assert output == (
            "v1  CREATE TABLE t\n"
            "v2  CREATE MATERIALIZED VIEW v  0 rows, T\n"
            "\n"
            "v3  INSERT INTO t VALUES (1, 'x')  T\n"
            "  v  +1  autonomous, T\n"
            "       a  b\n"
            "    +  1  x\n"
            "\n"
            "all of it\n"
            "  a  b\n"
            "  1  x\n"
        )

    def test_the_last_statement_needs_no_semicolon(self) -> None:
        assert shown(piped("SELECT 1\n AS a")) == "SELECT 1 AS a\n  a\n  1\n"

    def test_the_first_error_ends_it_with_its_place_in_the_whole_text(self) -> None:
        result = piped("CREATE TABLE t (a INT);\n\\d\n\nSELECT a,\n  q FROM t;\nDROP TABLE t;\n")
        assert result.exit_code == 1
        assert result.stderr.splitlines() == [
            "error [unknown_column] there is no column 'q' here",
            "  standard input, line 5, column 3:",
            "      q FROM t;",
            "      ^",
            "hint: columns: a",
            "stopped at version 1",
        ]

    def test_it_must_not_end_inside_a_transaction(self, tmp_path: Path) -> None:
        target = f"duckdb:{tmp_path / 'd.duckdb'}"
        result = piped("CREATE TABLE t (a INT);\nBEGIN;\nINSERT INTO t VALUES (1);\n", target=target)
        assert result.exit_code == 1
        assert "the script ends inside a transaction\n  standard input, line 2, column 1:" in result.stderr
        assert result.stderr.endswith("stopped at version 1; the open transaction was rolled back\n")
        with tm.connect(target) as database:
            assert database.version == 1

    def test_an_audit_that_finds_a_difference_gives_exit_code_1(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert piped(TABLE + "AUDIT v;").exit_code == 0
        found = tm.connect("duckdb").query("SELECT 1 AS a, 'x' AS b, 2 AS _w").rename_columns(["a", "b", "_weight"])
        monkeypatch.setattr(tm.Database, "audit", lambda *_: found)
        result = piped(TABLE + "AUDIT v; SELECT 2 AS after;")
        assert (result.exit_code, "after" in result.stdout) == (1, True)

    def test_engine_and_database_exclude_each_other(self) -> None:
        assert piped("", "--database", "duckdb").exit_code == 2

    def test_long_results_are_cut(self) -> None:
        rows = ", ".join(f"({number}, 'x')" for number in range(30))
        assert "  … 25 more rows\n" in shown(
            piped(f"{TABLE}INSERT INTO t VALUES {rows}; \nSELECT a FROM t;", "--rows", 5)
        )

    def test_text_that_is_not_utf_8_is_an_error(self) -> None:
        result = CliRunner().invoke(app, ["shell", "--engine", "duckdb"], input=b"SELECT 1;\nSELECT '\xf6';\n")
        assert result.exit_code == 1
        assert "[script] line 2 of standard input is not UTF-8" in result.stderr


def _timeless(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}", "TIME", text)


class TestCommands:
    FILLED = TABLE + "INSERT INTO t VALUES (1, 'x'), (2, 'y');\nDELETE FROM t WHERE a = 1;\n"

    def answer(self, command: str) -> str:
        output = shown(piped(f"{self.FILLED}SELECT 0 AS mark;\n{command}\n"))
        return output.partition("  mark\n     0\n")[2].removeprefix("\n")

    def test_d_lists_the_relations(self) -> None:
        assert self.answer("\\d") == (
            "  name  kind               rows  columns\n"
            "  t     table                 1  a, b\n"
            "  v     materialized view     1  a, b\n"
        )

    def test_d_with_a_name_shows_columns_key_and_definition(self) -> None:
        assert self.answer("\\d T;") == (
            "table t, 1 row, since version 1\n"
            "  column  type     null      key\n"
            "  a       INT      not null  key\n"
            "  b       VARCHAR\n"
            "\n"
            "definition\n"
            "  CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR)\n"
            "  read by v\n"
        )
        assert "  CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t\n  reads t\n" in self.answer("\\d v")

    def test_d_sees_what_an_open_transaction_defines(self) -> None:
        output = shown(piped("BEGIN; CREATE TABLE fresh (a INT);\n\\d fresh\nROLLBACK;\n\\d\n"))
        assert output.startswith("table fresh, not committed yet\n")
        assert output.endswith("there are no relations yet: CREATE TABLE makes one\n")

    def test_changes_shows_versions_and_signs(self) -> None:
        assert _timeless(self.answer("\\changes v")) == (
            "     _version  _time                       a  b\n"
            "  +         3  TIME  1  x\n  +         3  TIME  2  y\n  −         4  TIME  1  x\n"
        )
        assert _timeless(self.answer("\\changes v 3")).endswith("a  b\n  −         4  TIME  1  x\n")
        assert self.answer("\\changes v 4") == "  no changes\n"

    def test_trace_shows_the_steps_of_a_version(self) -> None:
        assert _timeless(self.answer("\\trace")).startswith("version 4, committed at TIME\n  node  strategy    reason")
        assert self.answer("\\trace 1") == "version 1 changed nothing that a view reads\n"

    def test_timing_and_x_are_switched(self) -> None:
        assert self.answer("\\timing\nSELECT a FROM t;").endswith("SELECT a FROM t\n  a\n  2\n  T\n")
        assert self.answer("\\x\nSELECT a, b FROM t;").endswith("SELECT a, b FROM t\n  a  2\n  b  y\n")

    def test_q_ends_and_exit_does_too(self) -> None:
        for word in ("\\q", "exit", "QUIT;"):
            assert self.answer(f"{word}\nSELECT 1;") == ""

    def test_help_names_every_command(self) -> None:
        output = self.answer("\\?")
        assert all(command in output for command in ("\\d", "\\changes", "\\trace", "\\timing", "\\x", "\\i", "\\q"))

    @pytest.mark.parametrize(
        ("command", "message", "hint"),
        [
            ("\\nothing", "there is no command \\nothing", "\\? lists the commands"),
            ("\\changes", "\\changes is not used like this", "\\changes NAME [SINCE]"),
            ("\\changes v x", "'x' is no version", "a version is a number"),
            ('\\d "open', "the command cannot be read: No closing quotation", "is a quote left open?"),
            ("\\d nothing", "there is no relation 'nothing'", "relations: t, v"),
            ("\\i none.sql", "none.sql cannot be read: No such file or directory", ""),
        ],
    )
    def test_a_command_that_cannot_be_run_is_an_error(self, command: str, message: str, hint: str) -> None:
        result = piped(f"{TABLE}{command}\n", "--include")
        assert result.exit_code == 1
        assert message in result.stderr
        assert hint in result.stderr

    def test_i_runs_a_file_which_may_run_others(self, tmp_path: Path) -> None:
        inner, outer = tmp_path / "in ner.sql", tmp_path / "outer.sql"
        inner.write_text("SELECT 1 AS a;\n")
        outer.write_text(f"\\i '{inner}'\nSELECT 2 AS b;\n")
        assert shown(piped(f"\\i {outer}\n", "--include")) == "  a\n  1\n\n  b\n  2\n"

    def test_an_error_in_a_file_names_the_file(self, tmp_path: Path) -> None:
        script = tmp_path / "wrong.sql"
        script.write_text("SELECT 1 AS a;\n\nSELECT q;\n")
        result = piped(f"\\i {script}\nSELECT 3 AS c;\n", "--include")
        assert (result.exit_code, "c\n" in result.stdout) == (1, False)
        assert "line 3, column 8" in result.stderr and "SELECT q" not in result.stderr

    def test_a_script_from_a_pipe_reads_no_file_unless_it_is_allowed_to(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        for content in ("hunter2:x:0:0\n", "SELECT 'hunter2';\n", "CREATE TABLE hunter2 (a INT);\n", "\\hunter2\n"):
            secret.write_text(content)
            result = piped(f"\\i {secret}\n")
            assert result.exit_code == 1
            assert "\\i reads no files in a script from a pipe" in result.stderr and "--include" in result.stderr
            assert "hunter2" not in result.stdout + result.stderr

    @pytest.mark.parametrize(
        "content",
        [
            "hunter2:x:0:0\n",
            "hunter2\n",
            "a: 'hunter2\n",
            "\\hunter2\n",
            "\\d 'hunter2\n",
            "SELECT 1 FROM -- hunter2\n",
        ],
    )
    def test_nothing_of_a_file_that_is_no_script_is_shown(self, content: str, tmp_path: Path) -> None:
        secret, outer = tmp_path / "secret", tmp_path / "outer.sql"
        secret.write_text(content)
        outer.write_text(f"\\i {secret}\n")
        for first in (secret, outer):
            result = piped(f"BEGIN;\n\\i {first}\n", "--include")
            assert result.exit_code == 1 and "hunter2" not in result.stdout + result.stderr
            assert "is not a statement or command" in result.stderr

    def test_statements_of_a_file_are_not_repeated_in_a_pipe(self, tmp_path: Path) -> None:
        script = tmp_path / "script.sql"
        script.write_text(
            "-- hunter2\nCREATE TABLE t (a VARCHAR);\n"
            "CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a <> 'hunter2';\n"
            "INSERT INTO t VALUES ('hunter2'); -- hunter2\nBEGIN;\nDELETE FROM t WHERE a = 'hunter2';\n"
            "INSERT INTO t VALUES ('x');\nCOMMIT;\nBEGIN; DELETE FROM t WHERE a = 'hunter2'; ROLLBACK;\n"
            "SELECT * FROM t;\n"
        )
        result = piped(f"\\i {script}\n", "--include")
        assert result.exit_code == 0 and "hunter2" not in result.stdout + result.stderr
        assert "INSERT" in result.stdout and "  a\n  x\n" in result.stdout
        for last, told in (
            ("BEGIN; DELETE FROM t WHERE a = 'hunter2';", "the script ends inside a transaction"),
            ("DELETE FROM t WHERE nothing = 'hunter2'; -- hunter2", "line 1, column 21: there is no column 'nothing'"),
        ):
            script.write_text(f"{last}\n")
            result = piped(f"CREATE TABLE t (a VARCHAR);\n\\i {script}\n", "--include")
            assert result.exit_code == 1 and told in result.stderr
            assert "hunter2" not in result.stdout + result.stderr

    def test_a_file_that_runs_itself_is_an_error(self, tmp_path: Path) -> None:
        script = tmp_path / "loop.sql"
        script.write_text(f"\\i {script}\n")
        assert "is run by a file that it runs itself" in piped(f"\\i {script}\n", "--include").stderr


class TestReading:
    @pytest.mark.parametrize(
        ("text", "complete"),
        [
            ("", True),
            ("\\d", True),
            ("quit", True),
            ("SELECT 1", False),
            ("SELECT 1;", True),
            ("SELECT 1; -- done", True),
            ("SELECT 1; SELECT", False),
            ("SELECT ';", False),
            ("SELECT ';'", False),
            ("SELECT 1 -- ;", False),
            ("SELECT 1 /* ;", False),
            ("SELECT $$ ; ", False),
            ('SELECT ";" ;', True),
        ],
    )
    def test_a_statement_ends_with_a_semicolon_that_is_one(self, text: str, complete: bool) -> None:
        assert is_complete(text) is complete

    def test_entries_know_their_lines(self) -> None:
        lines = b"\xef\xbb\xbfSELECT 1;\n\n\\d\nSELECT\n 2; SELECT 3;\nSELECT 4".splitlines(keepends=True)
        assert list(entries(lines, "file", "postgres")) == [
            Entry("SELECT 1;\n", 1),
            Entry("\\d\n", 3),
            Entry("SELECT\n 2; SELECT 3;\n", 4),
            Entry("SELECT 4", 6),
        ]


class TestCompletion:
    NAMES: ClassVar = {"item": ("id", "quantity"), "supplier": ("id", "Full Name"), "Odd": ("x",)}

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("sel", ["select"]),
            ("SEL", ["SELECT"]),
            ("select * from ", ["item", "supplier", '"Odd"']),
            ("select * from it", ["item"]),
            ("select * from item where q", ["quantity"]),
            ("select i.q", ["quantity"]),
            ("select s.f", ['"Full Name"']),
            ("update item set ", ["id", "quantity"]),
            ("audit ", ["item", "supplier", '"Odd"']),
            ("explain ", ["item", "supplier", '"Odd"']),
            ("explain a", ["analyze"]),
            ("explain analyze sel", ["select"]),
            ("CHECKP", ["CHECKPOINT"]),
            ("\\d su", ["supplier"]),
            ("\\trace su", []),
            ("select 'sel", []),
            ("-- sel", []),
            ('select * from "O', ['"Odd"']),
        ],
    )
    def test_what_may_come_next(self, text: str, expected: list[str]) -> None:
        found = suggestions(text, self.NAMES, " from item as i join supplier s on true" if "." in text else "")
        assert [suggestion.text for suggestion in found] == expected

    def test_columns_come_before_keywords_and_relations(self) -> None:
        found = suggestions("select i", self.NAMES, " from item")
        assert [(s.text, s.kind) for s in found][:2] == [("id", "column"), ("if", "keyword")]


class TestHistory:
    def test_it_lies_where_xdg_says_for_the_owner_alone(self, tmp_path: Path) -> None:
        path = history_file()
        assert path == tmp_path / "state" / "tidemark" / "history"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_without_xdg_it_lies_in_the_home_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert history_file() == tmp_path / ".local" / "state" / "tidemark" / "history"

    def test_a_variable_names_another_file_or_turns_it_off(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TIDEMARK_HISTORY", str(tmp_path / "mine"))
        assert history_file() == tmp_path / "mine"
        for value in ("off", ""):
            monkeypatch.setenv("TIDEMARK_HISTORY", value)
            assert history_file() is None

    def test_a_folder_that_cannot_be_made_turns_it_off(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("TIDEMARK_HISTORY", str(tmp_path / "file" / "history"))
        assert history_file() is None


class TestProgress:
    def test_each_step_is_told_before_it_is_taken(self) -> None:
        steps: list[str] = []
        with tm.connect("duckdb") as database, watching(database, steps.append):
            database.execute("CREATE TABLE t (a INT, b INT)")
            database.execute("CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b")
            database.execute("INSERT INTO t VALUES (1, 1)")
        assert [re.sub(r"counts-\w+", "counts", step) for step in steps] == [
            "checking constraints",
            "committing",
            "checking constraints",
            "filling v",
            "checking constraints",
            "propagating to v/counts",
            "propagating to v",
            "committing",
        ]

    def test_nothing_is_told_afterwards(self) -> None:
        steps: list[str] = []
        with tm.connect("duckdb") as database:
            with watching(database, steps.append):
                pass
            database.execute("CREATE TABLE t (a INT)")
        assert not steps

    @pytest.mark.parametrize("at", ["checking", "propagating", "committing"])
    def test_a_listener_that_raises_leaves_the_database_as_it_was(self, at: str) -> None:
        def listener(step: str) -> None:
            if step.startswith(at):
                raise KeyboardInterrupt

        with tm.connect("duckdb") as database:
            database.execute(TABLE)
            with watching(database, listener), pytest.raises(KeyboardInterrupt):
                database.execute("INSERT INTO t VALUES (1, 'x')")
            assert (database.version, database.query("SELECT * FROM v").num_rows) == (2, 0)
            database.execute("INSERT INTO t VALUES (1, 'x')")
            assert (database.version, database.query("SELECT * FROM v").num_rows) == (3, 1)


class TestInspection:
    def test_the_state_of_a_transaction(self) -> None:
        with tm.connect("duckdb") as database:
            assert transaction_state(database) is TransactionState.NONE
            database.execute("BEGIN")
            assert transaction_state(database) is TransactionState.OPEN
            with pytest.raises(tm.TidemarkError):
                database.execute("SELECT nothing")
            assert transaction_state(database) is TransactionState.DOOMED
            database.execute("ROLLBACK")
            assert transaction_state(database) is TransactionState.NONE

    def test_a_view_names_what_it_reads(self) -> None:
        with tm.connect("duckdb") as database:
            database.execute(TABLE + "CREATE VIEW w AS SELECT a FROM v;")
            assert relation(database, "v").depends_on == ("t",)
            assert relation(database, "V").dependents == ("w",)
            assert (relation(database, "w").kind, relation(database, "w").rows) == ("view", None)

    @pytest.mark.parametrize("statement", [SLOW, f"CREATE MATERIALIZED VIEW w AS {SLOW}"])
    def test_a_statement_that_is_interrupted_fails_and_does_nothing(self, statement: str) -> None:
        with tm.connect("duckdb") as database:
            database.execute(MANY)
            is_over = threading.Event()

            def press() -> None:
                while not is_over.wait(0.2):
                    interrupt(database)

            thread = threading.Thread(target=press)
            thread.start()
            with pytest.raises(tm.TidemarkError, match="interrupted") as caught:
                database.execute(statement)
            assert caught.value.code == "interrupted"
            is_over.set()
            thread.join()
            assert database.version == 4
            database.execute("CREATE MATERIALIZED VIEW w AS SELECT x FROM n WHERE x = 1")
            assert database.version == 5


class TestTheWorker:
    def test_ctrl_c_stops_what_runs_and_nothing_else(self) -> None:
        worker, stopped = Worker(), threading.Event()
        worker.stop = stopped.set

        def work() -> str:
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.wait(10)
            with pytest.raises(KeyboardInterrupt):
                worker.check()
            return "done"

        assert worker.run(work) == "done"
        assert worker.run(lambda: worker.check()) is None
        worker.close()

    def test_errors_come_back(self) -> None:
        worker = Worker()
        with pytest.raises(ZeroDivisionError):
            worker.run(lambda: 1 // 0)
        worker.close()


class Terminal:
    """A shell in a terminal of its own, driven as a person would."""

    def __init__(self, *arguments: str, columns: int = 80) -> None:
        self.controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PROMPT_TOOLKIT_NO_CPR": "1"}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidemark.cli", "shell", *arguments],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(terminal)
        self.seen = ""

    def expect(self, text: str, seconds: float = 60) -> str:
        """Wait until the text was shown; what was shown up to its end, without colours and movements."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} was not shown, but: {self.seen!r}"
            if not select.select([self.controller], [], [], 0.2)[0]:
                continue
            try:
                part = os.read(self.controller, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                part = ""
            assert part, f"the shell ended before {text!r} was shown: {self.seen!r}"
            self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part)
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def type(self, text: str) -> None:
        os.write(self.controller, text.encode())

    def enter(self, text: str, shown: str) -> str:
        self.type(f"{text}\r")
        return self.expect(shown)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.controller)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal("--engine", "duckdb")
    opened.expect("tidemark 0> ")
    yield opened
    opened.close()


class TestAtATerminal:
    def test_a_session(self, terminal: Terminal) -> None:
        terminal.enter("CREATE TABLE t (a INT);", "tidemark 1> ")
        terminal.enter("CREATE MATERIALIZED VIEW v AS", "->")
        terminal.enter("SELECT a FROM t;", "tidemark 2> ")
        assert "  v  +2  autonomous" in terminal.enter("INSERT INTO t VALUES (7), (7);", "tidemark 3> ")
        assert "  a\r\n  7\r\n  7\r\n" in terminal.enter("SELECT a FROM v;", "\r\ntidemark 3> ")
        terminal.enter("BEGIN;", "tidemark 3*> ")
        failure = terminal.enter("SELEC;", "tidemark 3!> ")
        assert "error [syntax]" in failure
        assert "the open transaction is doomed: only ROLLBACK can follow" in failure
        assert "error [doomed]" in terminal.enter("SELECT 1;", "\r\ntidemark 3!> ")
        terminal.enter("ROLLBACK;", "tidemark 3> ")
        terminal.type("\x04")
        assert terminal.process.wait(30) == 0

    def test_ctrl_c_clears_the_input(self, terminal: Terminal) -> None:
        terminal.type("SELECT 'half")
        terminal.expect("half")
        terminal.type("\x03")
        terminal.expect("\r\ntidemark 0> ")
        assert "  whole\r\n" in terminal.enter("SELECT 1 AS whole;", "\r\ntidemark 0> ")

    def test_ctrl_c_interrupts_a_statement_and_dooms_the_transaction(self, terminal: Terminal) -> None:
        for version, statement in enumerate(MANY.splitlines(), start=1):
            terminal.enter(statement, f"tidemark {version}> ")
        terminal.enter("BEGIN; INSERT INTO n VALUES (0);", "tidemark 4*> ")
        terminal.enter(SLOW, "  1 s")
        terminal.type("\x03")
        terminal.expect("interrupted; the open transaction is doomed: only ROLLBACK can follow")
        terminal.expect("tidemark 4!> ")
        terminal.enter("ROLLBACK;", "tidemark 4> ")
        terminal.enter(f"CREATE MATERIALIZED VIEW w AS {SLOW}", "filling w, 1 s")
        terminal.type("\x03")
        terminal.expect("interrupted; the statement did nothing")
        terminal.expect("tidemark 4> ")
        assert "no relation 'w'" in terminal.enter("\\d w", "\r\ntidemark 4> ")
        terminal.enter("INSERT INTO n VALUES (0);", "tidemark 5> ")

    def test_tab_completes(self, terminal: Terminal) -> None:
        terminal.enter("CREATE TABLE a_long_name (quantity INT);", "tidemark 1> ")
        terminal.type("SELECT qua\t")
        terminal.expect("quantity")
        terminal.type(" FROM a_l\t")
        terminal.expect("a_long_name")
        terminal.type(";\r")
        terminal.expect("no rows (quantity)")

    def test_the_history_is_kept(self, terminal: Terminal) -> None:
        terminal.enter("SELECT 41 AS remembered;", "\r\ntidemark 0> ")
        terminal.type("\\q\r")
        assert terminal.process.wait(30) == 0
        assert "SELECT 41 AS remembered;" in Path(os.environ["XDG_STATE_HOME"], "tidemark", "history").read_text()
        again = Terminal("--engine", "duckdb")
        again.expect("tidemark 0> ")
        again.type("\x1b[A\x1b[A")  # twice up
        again.expect("SELECT 41 AS remembered;")
        again.close()

    def test_what_does_not_fit_is_shown_a_line_for_each_column(self, terminal: Terminal) -> None:
        columns = ", ".join(f"'a text of some length' AS column_{number}" for number in range(12))
        output = terminal.enter(f"SELECT {columns};", "\r\ntidemark 0> ")
        assert "  column_11  a text of some length\r\n" in output
