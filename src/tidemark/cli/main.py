"""The command ``tidemark``."""

from __future__ import annotations

import enum
import logging
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli import overview
from tidemark.cli.databases import bytes_of, connected, existing, read_script, read_text
from tidemark.cli.pull import PULL_HELP, pull_command
from tidemark.cli.run import ScriptRun, audit
from tidemark.cli.shell import shell
from tidemark.cli.show import Display, Stopped, Warnings, console_for, errors_shown
from tidemark.cli.spinner import Status
from tidemark.errors import TidemarkError

app = typer.Typer(
    help="Derived data that stays true while the data under it changes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ADDED = "tidemark.commands"
"""The group of entry points by which other distributions add commands."""


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
RowsOption = Annotated[
    int, typer.Option("--rows", min=0, help="Cut each result after so many rows; 0 shows all of them.")
]


@app.callback(invoke_without_command=True)
def tidemark(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Derived data that stays true while the data under it changes."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    logger = logging.getLogger("tidemark")
    if not logger.handlers:
        logger.addHandler(Warnings())
    if version:
        typer.echo(f"tidemark {_version()}")
        raise typer.Exit()


RUN_HELP = (
    "Run a script and show, after each transaction, exactly what entered and left each view.\n\n"
    "BEGIN … COMMIT is one transaction; every other statement is one by itself. A comment directly before a "
    "transaction or a query becomes its title. The exit code is 1 after an error, or if an AUDIT found a difference."
)

SHELL_HELP = (
    "Type statements at a prompt, or pipe them in, and see what each transaction did to the views.\n\n"
    "A statement ends with a semicolon; commands begin with a backslash, and \\? lists them. The prompt shows the "
    "version, with * while a transaction is open and ! after a statement in it failed. From a pipe the first error "
    "ends the shell, with exit code 1."
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
    rows: RowsOption = 20,
) -> None:
    """``tidemark run``."""
    target = _target(engine, database)
    name = "standard input" if str(script) == "-" else script.name
    status = Status(console_for(stderr=True))
    display = Display(console_for(), rows or None)
    with errors_shown(name):
        pieces = read_script(read_text(script), dialect)
        with connected(target, status, dialect) as opened:
            run = ScriptRun(opened, display, status)
            try:
                run.run(pieces)
            except TidemarkError as error:
                rolled_back = "; the open transaction was rolled back" if run.is_in_transaction else ""
                raise Stopped(error, f"stopped at version {opened.version}{rolled_back}") from error
    if not run.is_true:
        raise typer.Exit(1)


@app.command("shell", help=SHELL_HELP)
def shell_command(
    engine: ChosenEngine = None,
    database: ChosenTarget = None,
    dialect: ScriptDialect = "postgres",
    rows: RowsOption = 20,
    includes: Annotated[
        bool, typer.Option("--include", help="Let \\i run files also in a script that comes from a pipe.")
    ] = False,
) -> None:
    """``tidemark shell``."""
    target = _target(engine, database)
    with errors_shown():
        is_well = shell.start(target, dialect, rows or None, includes=includes)
    if not is_well:
        raise typer.Exit(1)


@app.command("explain")
def explain_command(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view to explain.", show_default=False)],
    database: Target,
    is_as_rules: Annotated[
        bool, typer.Option("--as-rules", help="Show the active rules that would keep the view by hand instead.")
    ] = False,
) -> None:
    """Show how a view is kept true: its plan, its partial differentials and its strategy."""
    with errors_shown(), existing(database) as opened:
        typer.echo(opened.as_rules(view) if is_as_rules else opened.explain(view))


@app.command("audit")
def audit_command(
    database: Target,
    views: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VIEW", help="The views to audit; all materialized views if none is named.", show_default=False
        ),
    ] = None,
    rows: RowsOption = 20,
) -> None:
    """Compare views with their definitions, evaluated anew on the base tables.

    The exit code is 1 if any row differs.
    """
    display = Display(console_for(), rows or None)
    with errors_shown(), existing(database) as opened:
        is_true = audit(opened, views or [], display, Status(console_for(stderr=True)))
    if not is_true:
        raise typer.Exit(1)


@app.command("status")
def status_command(
    database: Target,
    is_json: Annotated[bool, typer.Option("--json", help="Write everything as JSON, for programs.")] = False,
) -> None:
    """Show what a database holds: tables, views and their tidemarks, sizes, and how views were last kept true."""
    with errors_shown(), existing(database) as opened:
        seen = overview.look_at(opened, database, bytes_of(database))
        if is_json:
            typer.echo(overview.as_json(seen))
        else:
            overview.show(seen, Display(console_for(), None))


@app.command("check")
def check_command(
    database: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="The database: duckdb:path/to/file.duckdb or spark:path/to/lake.",
            show_default=False,
        ),
    ],
    is_audited: Annotated[
        bool, typer.Option("--audit", help="Compare every view with its definition, evaluated anew, too.")
    ] = False,
) -> None:
    """Verify everything that a database stores: checksums of all files, numbers of rows, keys and logs.

    The exit code is 1 if anything is damaged.
    """
    # Only here: no other command needs it.
    from tidemark.cli.overview import run

    with errors_shown():
        is_well = run(database, Display(console_for(), None), Status(console_for(stderr=True)), is_audited=is_audited)
    if not is_well:
        raise typer.Exit(1)


app.command("pull", help=PULL_HELP)(pull_command)


@app.command(
    "bench",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench_command(context: typer.Context) -> None:
    """Measure the time until views are up to date again after a transaction, beside recomputing them."""
    with errors_shown():
        command = typer.main.get_command(_added("bench"))
    with command.make_context("bench", context.args, parent=context.parent) as inner:
        command.invoke(inner)


def _added(name: str) -> typer.Typer:
    """A command that another distribution adds, as an application of its own."""
    for found in metadata.entry_points(group=ADDED, name=name):
        added: typer.Typer = found.load()
        return added
    raise TidemarkError(
        "unsupported",
        f"tidemark {name} is a package of its own, which is not installed",
        hint="in a clone of the repository, make sets it up; elsewhere: pip install path/to/the/clone/benchmarks",
    )


def _target(engine: Engine | None, database: str | None) -> str:
    if engine is not None and database is not None:
        raise typer.BadParameter("give --engine for a fresh database or --database for a durable one, not both")
    return database or engine or Engine.SPARK


def _version() -> str:
    try:
        return metadata.version("tidemark")
    except metadata.PackageNotFoundError:
        return "(not installed)"
