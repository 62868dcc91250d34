"""The command ``tidemark``."""

from __future__ import annotations

import enum
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlparse

import typer

from tidemark.cli.run import ScriptRun, audit
from tidemark.cli.script import read_script
from tidemark.cli.show import Display, console_for
from tidemark.cli.status import Status
from tidemark.database import Database, connect
from tidemark.errors import TidemarkError

app = typer.Typer(
    help="Derived data that stays true while the data under it changes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Engine(enum.StrEnum):
    """The engines that a script can run on without a database of its own."""

    SPARK = "spark"
    DUCKDB = "duckdb"
    REFERENCE = "reference"


Target = Annotated[
    str,
    typer.Option(
        "--database",
        metavar="TARGET",
        help="The database: duckdb:path/to/file.duckdb or spark:path/to/lake.",
        show_default=False,
    ),
]
Rows = Annotated[int, typer.Option("--rows", min=0, help="Cut each result after so many rows; 0 shows all of them.")]


@app.callback(invoke_without_command=True)
def tidemark(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Derived data that stays true while the data under it changes."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    logger = logging.getLogger("tidemark")
    if not logger.handlers:
        logger.addHandler(_Warnings())
    if version:
        typer.echo(f"tidemark {_version()}")
        raise typer.Exit()


RUN_HELP = (
    "Run a script and show, after each transaction, exactly what entered and left each view.\n\n"
    "BEGIN … COMMIT is one transaction; every other statement is one by itself. A comment directly before a "
    "transaction or a query becomes its title. The exit code is 1 after an error, or if an AUDIT found a difference."
)


Script = Annotated[
    Path,
    typer.Argument(
        metavar="SCRIPT.sql", help="The script, in UTF-8; - reads it from the standard input.", show_default=False
    ),
]
ChosenEngine = Annotated[
    Engine | None, typer.Option("--engine", help="Run on a fresh database of this engine.", show_default="spark")
]
ChosenTarget = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="TARGET",
        help="Run on this database instead: duckdb:path/to/file.duckdb or spark:path/to/lake. "
        "It is created if it does not exist.",
        show_default=False,
    ),
]
ScriptDialect = Annotated[
    str, typer.Option("--dialect", help="The SQL dialect of the script, by sqlglot's name for it.")
]


@app.command("run", help=RUN_HELP)
def run_command(
    script: Script,
    engine: ChosenEngine = None,
    database: ChosenTarget = None,
    dialect: ScriptDialect = "postgres",
    rows: Rows = 20,
) -> None:
    """``tidemark run``."""
    if engine is not None and database is not None:
        raise typer.BadParameter("give --engine for a fresh database or --database for a durable one, not both")
    name = "standard input" if str(script) == "-" else script.name
    status = Status(console_for(stderr=True))
    display = Display(console_for(), rows or None)
    with _errors_shown(name):
        pieces = read_script(_read(script), dialect)
        with _connected(database or engine or Engine.SPARK, status, dialect) as opened:
            run = ScriptRun(opened, display, status)
            try:
                run.run(pieces)
            except TidemarkError as error:
                rolled_back = "; the open transaction was rolled back" if run.is_in_transaction else ""
                raise _Stopped(error, f"stopped at version {opened.version}{rolled_back}") from error
    if not run.is_true:
        raise typer.Exit(1)


@app.command("explain")
def explain_command(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view to explain.", show_default=False)],
    database: Target,
) -> None:
    """Show how a view is kept true: its plan, its partial differentials and its strategy."""
    with _errors_shown(), _existing(database) as opened:
        typer.echo(opened.explain(view))


@app.command("audit")
def audit_command(
    database: Target,
    views: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VIEW", help="The views to audit; all materialized views if none is named.", show_default=False
        ),
    ] = None,
    rows: Rows = 20,
) -> None:
    """Compare views with their definitions, evaluated anew on the base tables.

    The exit code is 1 if any row differs.
    """
    display = Display(console_for(), rows or None)
    with _errors_shown(), _existing(database) as opened:
        is_true = audit(opened, views or [], display, Status(console_for(stderr=True)))
    if not is_true:
        raise typer.Exit(1)


class _Warnings(logging.Handler):
    """What the engines log, one line each, on the standard error stream."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        reason = f": {next(iter(str(error).splitlines()), '')}" if error is not None else ""
        Display(console_for(stderr=True), None).note(f"warning: {record.getMessage()}{reason}")


class _Stopped(Exception):
    """An error in the middle of a script, with a note on where that leaves the database."""

    def __init__(self, error: TidemarkError, note: str) -> None:
        super().__init__(note)
        self.error, self.note = error, note


@contextmanager
def _errors_shown(name: str | None = None) -> Iterator[None]:
    """Show errors on the standard error stream, without tracebacks, and leave with exit code 1."""
    try:
        yield
    except BrokenPipeError:
        raise
    except Exception as error:
        display = Display(console_for(stderr=True), None)
        match error:
            case _Stopped(error=inner, note=note):
                display.error(inner, name)
                display.note(note)
            case TidemarkError():
                display.error(error, name)
            case _ if os.environ.get("TIDEMARK_TRACEBACK"):
                raise
            case _:
                display.error(_unexpected(error))
        raise typer.Exit(1) from error


def _unexpected(error: Exception) -> TidemarkError:
    first = next(iter(str(error).splitlines()), "")
    return TidemarkError(
        "internal",
        f"{type(error).__name__}: {first}",
        hint="this is a fault in Tidemark: please report it; with TIDEMARK_TRACEBACK=1 it shows where it arose",
    )


@contextmanager
def _connected(target: str, status: Status, dialect: str = "postgres") -> Iterator[Database]:
    engine = target.partition(":")[0]
    with status.showing("starting Spark" if engine == "spark" else f"opening {target}"):
        database = connect(str(target), dialect=dialect)
    try:
        yield database
    finally:
        with status.showing("closing the database"):
            database.close()


@contextmanager
def _existing(target: str) -> Iterator[Database]:
    """A connection to a database that is there already; nothing is created."""
    engine, _, path = target.partition(":")
    if not path:
        raise TidemarkError(
            "target",
            f"{target!r} would be a new, empty database",
            hint="name one that exists: duckdb:path/to/file.duckdb or spark:path/to/lake",
        )
    needed = _local(path) / "_tidemark" / "lake.json" if engine == "spark" else Path(path)
    if engine in ("spark", "duckdb") and not needed.is_file():
        raise TidemarkError(
            "not_a_database", f"there is no database at {path}", hint="tidemark run --database creates one"
        )
    with _connected(target, Status(console_for(stderr=True))) as database:
        yield database


def _local(path: str) -> Path:
    """The folder that a path or a file: url names."""
    return Path(unquote(urlparse(path).path)) if path.startswith("file:") else Path(path).expanduser()


def _read(script: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if str(script) == "-" else script.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise TidemarkError("script", f"{script} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TidemarkError(
            "script", f"{script} is not UTF-8: {error.reason} at byte {error.start}", hint="save it as UTF-8"
        ) from error


def _version() -> str:
    try:
        return metadata.version("tidemark")
    except metadata.PackageNotFoundError:
        return "(not installed)"
