"""The command ``tidemark``."""

from __future__ import annotations

import enum
import logging
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli import overview
from tidemark.cli.bench.figures import CLOCK
from tidemark.cli.bench.many.workload import LEAST
from tidemark.cli.failing import Stopped, Warnings, errors_shown
from tidemark.cli.opening import bytes_of, connected, existing, read_text
from tidemark.cli.run import ScriptRun, audit
from tidemark.cli.script import read_script
from tidemark.cli.shell import shell
from tidemark.cli.show import Display, console_for
from tidemark.cli.status import Status
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


class BenchEngine(enum.StrEnum):
    """The engines that are worth measuring."""

    DUCKDB = "duckdb"
    SPARK = "spark"


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
    rows: Rows = 20,
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
    rows: Rows = 20,
) -> None:
    """``tidemark shell``."""
    target = _target(engine, database)
    with errors_shown():
        is_well = shell.start(target, dialect, rows or None)
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
    rows: Rows = 20,
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


BENCH_HELP = (
    "Measure the time until two views over TPC-H data are up to date again after a transaction, beside recomputing "
    "them and, on DuckDB, beside SQL written by hand.\n\n"
    f"{CLOCK} Transactions mix inserts, deletes and updates of orders and lines. tpchgen-cli makes the data."
)


@app.command("bench", help=BENCH_HELP)
def bench_command(
    engine: Annotated[
        list[BenchEngine] | None, typer.Option("--engine", help="An engine; may be repeated.", show_default="both")
    ] = None,
    scale: Annotated[
        list[float] | None,
        typer.Option(
            "--scale",
            min=0.001,
            help="A scale factor: 0.1 has 600,000 lineitems, 1 has 6 million; may be repeated.",
            show_default="0.1 and 1",
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", min=1, help="Transactions of each size.", show_default="5")
    ] = None,
    is_quick: Annotated[bool, typer.Option("--quick", help="A run of a minute: scale 0.01 and two repeats.")] = False,
    is_queries: Annotated[
        bool, typer.Option("--queries", help="Measure the 22 queries of TPC-H and V3, one at a time, instead.")
    ] = False,
    many_views: Annotated[
        int | None,
        typer.Option(
            "--many-views",
            metavar="N",
            min=LEAST,
            help="Measure a transaction that matters to 3 of N views, such as 10000, on DuckDB, instead.",
            show_default=False,
        ),
    ] = None,
    is_autonomous: Annotated[
        bool,
        typer.Option(
            "--autonomous", help="Measure V1 kept from its own content and the change alone, and filters, instead."
        ),
    ] = False,
    most_behind: Annotated[
        int | None,
        typer.Option(
            "--snapshots",
            metavar="N",
            min=1,
            help="Measure refreshes of snapshots that lag by 1 to N transactions, such as 100000, instead.",
            show_default=False,
        ),
    ] = None,
    continual_queries: Annotated[
        int | None,
        typer.Option(
            "--continual",
            metavar="N",
            min=1,
            help="Measure transactions beside N continual queries, such as 1000, on DuckDB, instead.",
            show_default=False,
        ),
    ] = None,
    soaked: Annotated[
        int | None,
        typer.Option(
            "--soak",
            metavar="N",
            min=1,
            help="Run N small transactions, such as 100000, under a bounded log with consumers that lag, instead.",
            show_default=False,
        ),
    ] = None,
    rules: Annotated[
        int | None,
        typer.Option(
            "--rules",
            metavar="N",
            min=10,
            help="Measure transactions under N active rules, such as 1000, beside 10, instead.",
            show_default=False,
        ),
    ] = None,
    is_recursion: Annotated[
        bool,
        typer.Option("--recursion", help="Measure a transitive closure that follows changes of its edges, instead."),
    ] = False,
    is_client: Annotated[
        bool,
        typer.Option("--client", help="Measure what is shipped to views at clients, and what it takes, instead."),
    ] = False,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="NAMES", help="Of --queries only these, such as q3,q17,v3.", show_default=False),
    ] = None,
    data: Annotated[
        Path, typer.Option("--data", help="The folder for data, figures and charts.", show_default=True)
    ] = Path(".bench"),
) -> None:
    """``tidemark bench``."""
    # Only here: no other command should wait for what it imports.
    from tidemark.cli.bench import command
    from tidemark.cli.bench.client import command as client_command
    from tidemark.cli.bench.ladder import command as ladder_command
    from tidemark.cli.bench.ladder.running import LadderPlan
    from tidemark.cli.bench.lagging import command as lagging_command
    from tidemark.cli.bench.many import command as many_command
    from tidemark.cli.bench.many.running import ManyPlan
    from tidemark.cli.bench.recursion import command as recursion_command
    from tidemark.cli.bench.recursion.running import RecursionPlan
    from tidemark.cli.bench.rules import command as rules_command
    from tidemark.cli.bench.rules.running import RulesPlan
    from tidemark.cli.bench.running import SIZES, Plan
    from tidemark.cli.bench.suite import command as suite_command
    from tidemark.cli.bench.suite.running import NAMES, SuitePlan

    engines, times = [str(one) for one in engine or BenchEngine], repeats or (2 if is_quick else 5)
    scales = scale or ([0.01] if is_quick else [0.1, 1.0])
    if only is not None and not is_queries:
        raise typer.BadParameter("--only chooses among --queries: give both")
    counts = (many_views, most_behind, continual_queries, soaked, rules)
    instead = (is_queries, is_autonomous, is_recursion, is_client)
    if sum((*instead, *(count is not None for count in counts))) > 1:
        raise typer.BadParameter("give one of the options that say what is measured instead")
    if is_recursion and scale is not None:
        raise typer.BadParameter("--recursion has its own graph: it takes no --scale")
    if many_views is not None and (scale is not None or engines == [BenchEngine.SPARK]):
        raise typer.BadParameter("--many-views has its own tables, on DuckDB: it takes neither --scale nor Spark")
    with errors_shown():
        errors = console_for(stderr=True)
        shown = Display(console_for(), None), Display(errors, None), Status(errors)
        if is_queries:
            chosen = NAMES if only is None else [name.strip().lower() for name in only.split(",")]
            suite_command.run(SuitePlan(engines, scales, times, data, chosen), *shown)
        elif is_autonomous:
            ladder_command.run(LadderPlan(engines, scales, times, data), *shown)
        elif most_behind is not None:
            lagging_command.snapshots(engines, 10_000 if is_quick else 5_000_000, most_behind, data, *shown)
        elif continual_queries is not None:
            lagging_command.continual(continual_queries, 30 if is_quick else 300, data, *shown)
        elif soaked is not None:
            lagging_command.soak(soaked, 1000, data, *shown)
        elif is_recursion:
            nodes = 2_000 if is_quick else 20_000
            recursion_command.run(RecursionPlan(engines, times, data, nodes, 3 * nodes), *shown)
        elif is_client:
            rows, transactions = (5_000, 20) if is_quick else (200_000, 100)
            client_command.run(rows, transactions, data, *shown)
        elif many_views is not None:
            many_command.run(ManyPlan(many_views, times, data), *shown)
        elif rules is not None:
            rules_command.run(RulesPlan(engines, rules, times, data), *shown)
        else:
            command.run(Plan(engines, scales, SIZES, times, data), *shown)


def _target(engine: Engine | None, database: str | None) -> str:
    if engine is not None and database is not None:
        raise typer.BadParameter("give --engine for a fresh database or --database for a durable one, not both")
    return database or engine or Engine.SPARK


def _version() -> str:
    try:
        return metadata.version("tidemark")
    except metadata.PackageNotFoundError:
        return "(not installed)"
