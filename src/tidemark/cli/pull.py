"""``tidemark pull``: run a script of definitions, if there is one, and bring every source forward; a line of JSON says
what was done. With ``--follow`` again and again, until a signal ends it.
"""

from __future__ import annotations

import datetime as dt
import json
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidemark.cli.databases import Piece, connected, read_script, read_text, to_look_at
from tidemark.cli.show import Display, as_error, console_for, errors_shown
from tidemark.cli.spinner import Status
from tidemark.errors import TidemarkError
from tidemark.session import Database
from tidemark.session.pulling import Preview, preview
from tidemark.sources.follow import Pulled

SOURCE_STOPPED: Final = 3
"""The exit code if a source has stopped; the others were pulled."""
LONGEST_WAIT: Final = 60.0

PULL_HELP = (
    "Run a script of definitions, if there is one, and bring every source forward to what is there now.\n\n"
    "Standard output has one line of JSON: the rows and versions of each source. The exit code is 0 if all sources "
    "were pulled, 3 if one has stopped (the line says why, and the others were pulled), and 1 after any other error."
)

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="The database: duckdb:path/to/file.duckdb or spark:path/to/lake. It is created if it does not exist.",
        show_default=False,
    ),
]
Script = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SCRIPT.sql]",
        help="Definitions that are run first, in UTF-8; with OR REPLACE it can be the same each time.",
        show_default=False,
    ),
]


def pull_command(
    target: Target,
    script: Script = None,
    is_dry: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, to views too, and do nothing.")
    ] = False,
    is_followed: Annotated[bool, typer.Option("--follow", help="Go on until SIGINT or SIGTERM.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.05, help="With --follow: seconds between pulls.")] = 5.0,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds that one pull may take.")] = None,
    allow: Annotated[
        list[Path] | None,
        typer.Option(
            "--allow", metavar="FOLDER", help="Let sources read below these folders only; all that they name if none."
        ),
    ] = None,
    dialect: Annotated[str, typer.Option("--dialect", help="The SQL dialect of the script, by sqlglot's name.")] = (
        "postgres"
    ),
) -> None:
    """``tidemark pull``."""
    if is_dry and is_followed:
        raise typer.BadParameter("--dry-run does nothing, and there is nothing to follow")
    status = Status(console_for(stderr=True))
    with errors_shown(None if script is None else script.name), said_of_errors():
        pieces = [] if script is None else read_script(read_text(script), dialect)
        allowed = allow if allow else [Path("/")]
        with connected(to_look_at(target) if is_dry else target, status, dialect, allowed) as database:
            run = Run(database, pieces, status, timeout)
            is_well = run.preview() if is_dry else run.follow(every) if is_followed else run.once()
    if not is_well:
        raise typer.Exit(SOURCE_STOPPED)


class Run:
    """The pulls of one call of the command."""

    def __init__(self, database: Database, pieces: list[Piece], status: Status, timeout: float | None) -> None:
        self._database, self._pieces, self._status, self._timeout = database, pieces, status, timeout
        self._display = Display(console_for(stderr=True), None)

    def once(self) -> bool:
        """Run the script and pull; whether no source has stopped."""
        began = time.perf_counter()
        self._define()
        found = self._pulled()
        self._say(began, found)
        return self._told(found)

    def preview(self) -> bool:
        """Say what the script and a pull would do, in a transaction that is rolled back."""
        began = time.perf_counter()
        transaction = self._database.transaction()
        try:
            for piece in self._pieces:
                with located(piece):
                    transaction.execute(piece.text)
            with self._status.showing("pulling"):
                found = preview(transaction)
        finally:
            if transaction.is_open:
                transaction.rollback()
        self._say(began, found.sources, found)
        return self._told(found.sources)

    def follow(self, every: float) -> bool:
        """Pull until a signal comes; whether no source had stopped in the last pull. What is new is said."""
        self._define()
        ended, wait = threading.Event(), every
        last: list[tuple[str, str]] | None = None
        is_well = True
        with ending(ended):
            while not ended.is_set():
                began = time.perf_counter()
                found = self._pulled()
                standing = [(one.source, str(one.error)) for one in found]
                if standing != last or any(one.rows for one in found):
                    self._say(began, found)
                    is_well = self._told(found)
                last = standing
                wait = every if is_well else max(every, min(2 * wait, LONGEST_WAIT))
                ended.wait(wait)
        return is_well

    def _define(self) -> None:
        for piece in self._pieces:
            with self._status.showing(piece.summary), located(piece):
                self._database.execute(piece.text)

    def _pulled(self) -> list[Pulled]:
        with self._status.showing("pulling"):
            return self._database.pull_each(self._timeout)

    def _say(self, began: float, found: list[Pulled], previewed: Preview | None = None) -> None:
        more: dict[str, object] = {}
        if previewed is not None:
            more = {"dry_run": True, "views": {name: _counts(*counts) for name, counts in previewed.views.items()}}
        say(
            version=self._database.version,
            rows=sum(one.rows for one in found),
            seconds=round(time.perf_counter() - began, 3),
            sources=[_shown(one) for one in found],
            **more,
        )

    def _told(self, found: list[Pulled]) -> bool:
        errors = [one.error for one in found if one.error is not None]
        for error in errors:
            self._display.error(error)
        return not errors


def say(**what: object) -> None:
    """One line for whoever scheduled the run."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    typer.echo(json.dumps({"time": now, **what}, ensure_ascii=False))


def _shown(one: Pulled) -> Mapping[str, Any]:
    return {
        "source": one.source,
        "status": one.status,
        "version": one.version,
        "rows": one.rows,
        "tables": {name: _counts(*counts) for name, counts in one.tables.items()},
        "compared": dict(one.compared),
        "error": None if one.error is None else _error(one.error),
    }


def _counts(inserted: int, deleted: int) -> dict[str, int]:
    return {"inserted": inserted, "deleted": deleted}


def _error(error: TidemarkError) -> dict[str, str | None]:
    return {"code": error.code, "message": error.message, "hint": error.hint}


@contextmanager
def said_of_errors() -> Iterator[None]:
    """A run that fails has its line, too."""
    try:
        yield
    except (typer.Exit, BrokenPipeError):
        raise
    except Exception as error:
        say(error=_error(as_error(error)))
        raise


@contextmanager
def located(piece: Piece) -> Iterator[None]:
    try:
        yield
    except TidemarkError as error:
        raise piece.located(error) from error


@contextmanager
def ending(ended: threading.Event) -> Iterator[None]:
    """While a signal only sets the event: what is being pulled is pulled to its end."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
