"""What the command line shows: coloured and fitted to the window in a terminal, plain text in a pipe.

Errors and warnings on the standard error stream, without tracebacks.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tidemark.algebra.types import VERSION
from tidemark.cli.tables import counted, duration, fits, grid, printable, printable_lines, records, sorted_rows
from tidemark.errors import TidemarkError
from tidemark.state.boundary import as_error as told

PIPE_WIDTH: Final = 100_000
"""In a pipe nothing is folded: a row is a line."""
STATEMENTS_SHOWN: Final = 6
MOST_LETTERS: Final = 160
"""Of a statement no more is shown than this."""


@dataclass(frozen=True)
class ViewChange:
    """What a transaction did to one view: the changed rows with their weights, and how they were derived."""

    view: str
    rows: pa.Table
    weights: list[int]
    strategy: str
    milliseconds: float


@dataclass(frozen=True)
class Committed:
    """A committed transaction, ready to be shown: its version, and the last one that followed from it at once."""

    versions: tuple[int, int]
    title: str
    statements: tuple[str, ...]
    changes: tuple[ViewChange, ...]
    unchanged: tuple[str, ...]
    inner_steps: int
    inner_milliseconds: float
    seconds: float


class Display:
    """Writes to one console. ``most_rows`` is where a long result is cut; None shows everything.

    ``is_expanded`` shows each row of a result as a block of lines, which otherwise happens where columns do not fit.
    """

    def __init__(self, console: Console, most_rows: int | None) -> None:
        self.console = console
        self._most_rows = most_rows
        self._after_block: bool | None = None
        self.is_expanded = False
        ascii_only = console.options.ascii_only
        self._minus, self._more = ("-", "...") if ascii_only else ("−", "…")

    def definition(self, version: int | None, text: str, detail: str = "") -> None:
        """One line for a statement that defines something."""
        self._gap(block=False)
        line = Text.assemble((f"v{version}", "cyan"), "  ", printable(text))
        self._line(line.append(f"  {detail}", "dim") if detail else line)

    def note(self, text: str) -> None:
        self._gap(block=False)
        self._line(Text(printable(text), "dim"))

    def heading(self, name: str, detail: str) -> None:
        """What all that follows is about."""
        self._gap(block=False)
        self._line(Text.assemble((printable(name), "bold cyan"), "  ", (printable(detail), "")))

    def footnote(self, text: str) -> None:
        """A note on what was shown last."""
        self._indented(Text(printable(text), "dim"))

    def transaction(self, done: Committed) -> None:
        """The heading of a transaction, its statements, and what entered and left each view."""
        self._gap(block=True)
        first, last = done.versions
        version = f"v{first}" if first == last else f"v{first}-{last}"
        self._heading(version, done.title, duration(done.seconds * 1000))
        for statement in done.statements[:STATEMENTS_SHOWN]:
            self._indented(Text(self.shortened(statement, len(version) + 2), "dim"), by=len(version) + 2)
        if len(done.statements) > STATEMENTS_SHOWN:
            more = counted(len(done.statements) - STATEMENTS_SHOWN, "more statement")
            self._indented(Text(f"{self._more} {more}", "dim"), by=len(version) + 2)
        for change in done.changes:
            self._change(change)
        if not done.changes:
            self._indented(Text("no view changed"))
        elif done.unchanged:
            self._indented(Text(f"unchanged: {', '.join(done.unchanged)}", "dim"))
        if done.inner_steps:
            inner = f"{counted(done.inner_steps, 'inner node')}, {duration(done.inner_milliseconds)}"
            self._indented(Text(inner, "dim"))

    def result(self, title: str, table: pa.Table, *, is_expandable: bool = True) -> None:
        """The rows of a query."""
        self._gap(block=True)
        self._title(title)
        if not table.num_rows:
            self._indented(Text(f"no rows ({', '.join(table.column_names)})", "dim"))
            return
        shown, more = self._cut(table)
        is_expanded = is_expandable and (self.is_expanded or not fits(shown, self.console.width - 2))
        self._indented(records(shown) if is_expanded else grid(shown))
        self._and_more(more)

    def changes(self, changes: pa.Table) -> None:
        """The changes of a relation: the version and when it was committed, the columns, and the weight."""
        self._gap(block=True)
        if not changes.num_rows:
            self._indented(Text("no changes", "dim"))
            return
        width = changes.column_names.index(VERSION)
        stamps = [width, *range(width + 2, changes.num_columns)]
        self._weighted(sorted_rows(changes.select([*stamps, *range(width), width + 1])), by=2)

    def text(self, title: str, text: str) -> None:
        self._gap(block=True)
        self._title(title)
        self._indented(Text(text))

    def begin(self) -> None:
        """Forget what was shown before: the person typed something since."""
        self._after_block = None

    def audit(self, view: str, differing: pa.Table, rows: int, seconds: float) -> None:
        """The verdict of an audit. ``differing`` ends with the weight: what is stored minus what should be."""
        self._gap(block=False)
        spent = duration(seconds * 1000)
        if not differing.num_rows:
            verdict = f"{counted(rows, 'row')}, all as the definition says ({spent})"
            self._line(Text.assemble(("audit ", "dim"), view, "  ", (verdict, "green")))
            return
        wrong = f"{counted(differing.num_rows, 'row')} differ{'' if differing.num_rows > 1 else 's'}"
        explained = f"+ is stored but should not be, {self._minus} should be stored but is not"
        self._line(Text.assemble(("audit ", "dim"), view, "  ", (wrong, "bold red"), (f"  {explained}", "dim")))
        self._weighted(sorted_rows(differing))

    def error(self, error: TidemarkError, name: str | None = None) -> None:
        """An error as people read it: what, where, and what to do."""
        self._line(Text.assemble(("error", "bold red"), (f" [{error.code}] ", "dim"), printable_lines(error.message)))
        if error.place is not None:
            where, *lines = error.place.pointer().splitlines()
            self._line(Text(f"  {name}, {where}" if name else f"  {where}", "dim"))
            for line, style in zip(lines, ("", "bold red"), strict=True):
                self.console.print(Text(f"  {printable_lines(line)}", style), soft_wrap=True)
        if error.hint is not None:
            self._line(Text.assemble(("hint: ", "bold"), printable_lines(error.hint)))

    def shortened(self, statement: str, indent: int = 0) -> str:
        """A statement that fits on a line; the script itself has all of it."""
        most = min(self.console.width - indent, MOST_LETTERS)
        text = printable(statement)
        return text if cell_len(text) <= most else set_cell_size(text, most - len(self._more)) + self._more

    # Parts

    def _gap(self, *, block: bool) -> None:
        """An empty line around everything that takes several lines."""
        if self._after_block or (block and self._after_block is not None):
            self.console.print()
        self._after_block = block

    def _heading(self, version: str, title: str, time: str) -> None:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, style="bold cyan")
        grid.add_column(overflow="fold", style="bold")
        grid.add_column(no_wrap=True, style="dim")
        grid.add_row(version, Text(printable(title)), time)
        self.console.print(_Trimmed(grid))

    def _title(self, title: str) -> None:
        if title:
            self._line(Text(printable(title), "bold"))

    def _change(self, change: ViewChange) -> None:
        entered = sum(weight for weight in change.weights if weight > 0)
        left = -sum(weight for weight in change.weights if weight < 0)
        line = Text.assemble((change.view, "bold"), "  ")
        line.append(f"+{entered} " if entered else "", "green").append(f"{self._minus}{left} " if left else "", "red")
        line.append(f" {change.strategy}, {duration(change.milliseconds)}", "dim")
        self._indented(line)
        self._weighted((change.rows, change.weights))

    def _weighted(self, rows_and_weights: tuple[pa.Table, list[int]], by: int = 4) -> None:
        rows, weights = rows_and_weights
        shown, more = self._cut(rows)
        self._indented(grid(shown, [self._sign(weight) for weight in weights[: shown.num_rows]]), by=by)
        self._and_more(more, by=by)

    def _sign(self, weight: int) -> Text:
        """+ and − for one row, with the number of equal rows if there are several."""
        many = str(abs(weight)) if abs(weight) > 1 else ""
        return Text(f"+{many}", "bold green") if weight > 0 else Text(f"{self._minus}{many}", "bold red")

    def _cut(self, table: pa.Table) -> tuple[pa.Table, int]:
        if self._most_rows is None or table.num_rows <= self._most_rows:
            return table, 0
        return table.slice(0, self._most_rows), table.num_rows - self._most_rows

    def _and_more(self, more: int, by: int = 2) -> None:
        if more:
            self._indented(Text(f"{self._more} {counted(more, 'more row')}", "dim"), by=by)

    def _indented(self, content: RenderableType, by: int = 2) -> None:
        self.console.print(_Trimmed(Padding(content, (0, 0, 0, by), expand=False)))

    def _line(self, text: Text) -> None:
        self.console.print(_Trimmed(text))


class _Trimmed:
    """The content without blanks at the ends of its lines."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self._content, options, pad=False):
            kept = list(line)
            while kept and not kept[-1].text.rstrip():
                kept.pop()
            if kept:
                last = kept.pop()
                yield from kept
                yield Segment(last.text.rstrip(), last.style)
            yield Segment.line()


def console_for(*, stderr: bool = False) -> Console:
    """A console on a standard stream: as wide as the terminal, or with whole rows if it is none."""
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # what the stream's encoding lacks
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


class Warnings(logging.Handler):
    """What the engines log, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        reason = f": {next(iter(str(error).splitlines()), '')}" if error is not None else ""
        Display(console_for(stderr=True), None).note(f"warning: {record.getMessage()}{reason}")


class Stopped(Exception):
    """An error in the middle of a script, with a note on where that leaves the database."""

    def __init__(self, error: TidemarkError, note: str) -> None:
        super().__init__(note)
        self.error, self.note = error, note


@contextmanager
def errors_shown(name: str | None = None) -> Iterator[None]:
    """Show errors and leave with exit code 1. ``name`` is that of the script in which their places are."""
    try:
        yield
    except (BrokenPipeError, typer.Exit):
        raise
    except Exception as error:
        display = Display(console_for(stderr=True), None)
        match error:
            case Stopped(error=inner, note=note):
                display.error(inner, name)
                display.note(note)
            case _:
                display.error(as_error(error), name)
        raise typer.Exit(1) from error


def as_error(error: Exception) -> TidemarkError:
    """The error itself if it is one of ours; else what is said of a fault, unless its traceback is wanted."""
    if isinstance(error, TidemarkError):
        return error
    if os.environ.get("TIDEMARK_TRACEBACK"):
        raise error
    found = told(error)
    if found.code != "internal":
        return found
    hint = "this is a fault in Tidemark: please report it; with TIDEMARK_TRACEBACK=1 it shows where it arose"
    return TidemarkError(found.code, found.message, hint=hint)
