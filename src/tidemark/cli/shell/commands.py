"""The commands of the shell, which begin with a backslash."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidemark.answers.describe import Description, committed_at, relation, relations
from tidemark.cli.run import ScriptRun
from tidemark.cli.show import Display
from tidemark.cli.tables import counted
from tidemark.errors import TidemarkError
from tidemark.session import Database


@dataclass
class Session:
    """What commands work on. ``include`` runs the statements and commands of a file."""

    database: Database
    display: Display
    run: ScriptRun
    include: Callable[[Path], None]
    is_over: bool = False


@dataclass(frozen=True)
class Command:
    """How a command is written, what it does in words, and the doing. Arguments in brackets may be left out."""

    usage: str
    help: str
    run: Callable[[Session, list[str]], None]

    @property
    def arguments(self) -> range:
        """How many arguments there may be."""
        words = self.usage.split()[1:]
        return range(len([word for word in words if not word.startswith("[")]), len(words) + 1)


def run_command(line: str, session: Session) -> None:
    """Run a command, given without its backslash."""
    try:
        name, *arguments = shlex.split(line.strip().rstrip(";")) or [""]
    except ValueError as error:
        raise TidemarkError("syntax", f"the command cannot be read: {error}", hint="is a quote left open?") from error
    command = COMMANDS.get(name)
    if command is None:
        raise TidemarkError("syntax", f"there is no command \\{name}", hint="\\? lists the commands")
    if len(arguments) not in command.arguments:
        raise TidemarkError("syntax", f"\\{name} is not used like this", hint=command.usage)
    command.run(session, arguments)


def _describe(session: Session, arguments: list[str]) -> None:
    if arguments:
        _show_one(session.display, relation(session.database, arguments[0]))
        return
    found = relations(session.database)
    if not found:
        session.display.note("there are no relations yet: CREATE TABLE makes one")
        return
    table = {
        "name": pa.array([one.name for one in found], pa.string()),
        "kind": pa.array([one.kind for one in found], pa.string()),
        "rows": pa.array([one.rows for one in found], pa.int64()),
        "columns": pa.array([", ".join(column.name for column in one.columns) for one in found], pa.string()),
    }
    session.display.result("", pa.table(table), is_expandable=False)


def _show_one(display: Display, found: Description) -> None:
    heading = [f"{found.kind} {found.name}"]
    heading += [counted(found.rows, "row")] if found.rows is not None else []
    heading += [f"since version {found.created}" if found.created is not None else "not committed yet"]
    columns = {
        "column": [column.name for column in found.columns],
        "type": [column.type for column in found.columns],
        "null": ["" if column.nullable else "not null" for column in found.columns],
        "key": ["key" if column.in_key else "" for column in found.columns],
    }
    display.result(", ".join(heading), pa.table(columns), is_expandable=False)
    display.text("definition", found.definition)
    if found.depends_on:
        display.footnote(f"reads {', '.join(found.depends_on)}")
    if found.dependents:
        display.footnote(f"read by {', '.join(found.dependents)}")


def _changes(session: Session, arguments: list[str]) -> None:
    since = _number(arguments[1]) if len(arguments) > 1 else 0
    session.display.changes(session.database.changes(arguments[0], since))


def _trace(session: Session, arguments: list[str]) -> None:
    version = _number(arguments[0]) if arguments else session.database.version
    steps, time = session.database.trace(version), committed_at(session.database, version)
    title = f"version {version}" if time is None else f"version {version}, committed at {time.isoformat(sep=' ')}"
    if steps.num_rows:
        session.display.result(title, steps)
    else:
        session.display.note(f"version {version} changed nothing that a view reads")


def _number(text: str) -> int:
    if not text.isdecimal():
        raise TidemarkError("syntax", f"{text!r} is no version", hint="a version is a number")
    return int(text)


def _timing(session: Session, _: list[str]) -> None:
    session.run.is_timed = not session.run.is_timed
    session.display.note(f"the time of queries is {'shown' if session.run.is_timed else 'not shown'}")


def _expanded(session: Session, _: list[str]) -> None:
    session.display.is_expanded = not session.display.is_expanded
    session.display.note(
        "results have a line for each column" if session.display.is_expanded else "results have a line for each row"
    )


def _include(session: Session, arguments: list[str]) -> None:
    session.include(Path(arguments[0]).expanduser())


def _quit(session: Session, _: list[str]) -> None:
    session.is_over = True


def _help(session: Session, _: list[str]) -> None:
    rows = list(COMMANDS.values())
    session.display.result(
        "Statements end with a semicolon. Commands:",
        pa.table({"command": [row.usage for row in rows], "what it does": [row.help for row in rows]}),
        is_expandable=False,
    )
    session.display.footnote("Tab completes. Ctrl-C clears the input or interrupts a statement. Ctrl-D leaves.")


COMMANDS: Final = {
    "d": Command("\\d [NAME]", "the relations, or the columns and definition of one", _describe),
    "changes": Command("\\changes NAME [SINCE]", "what each version after SINCE did to a relation", _changes),
    "trace": Command("\\trace [VERSION]", "what the last version, or that one, did for each view", _trace),
    "timing": Command("\\timing", "show the time of queries, or stop showing it", _timing),
    "x": Command("\\x", "a line for each column instead of each row, or back", _expanded),
    "i": Command("\\i FILE", "run the statements and commands of a file", _include),
    "q": Command("\\q", "leave; an open transaction is rolled back", _quit),
    "?": Command("\\?", "show this", _help),
}
