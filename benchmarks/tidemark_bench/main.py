"""``tidemark bench``: its options, and which benchmark they name."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemark.cli.show import Display, console_for, errors_shown
from tidemark.cli.spinner import Status
from tidemark_bench import (
    client,
    continual,
    core,
    ladder,
    many,
    pipeline,
    recursion,
    refreshes,
    small,
    snapshots,
    suite,
)
from tidemark_bench import rules as many_rules
from tidemark_bench.core_figures import CLOCK
from tidemark_bench.harness.run import Plan, Run
from tidemark_bench.many_workload import LEAST

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class BenchEngine(enum.StrEnum):
    """The engines that are worth measuring."""

    DUCKDB = "duckdb"
    SPARK = "spark"


BENCH_HELP = (
    "Measure the time until two views over TPC-H data are up to date again after a transaction, beside recomputing "
    "them and, on DuckDB, beside SQL written by hand.\n\n"
    f"{CLOCK} Transactions mix inserts, deletes and updates of orders and lines. tpchgen-cli makes the data."
)


def _count(flag: str, text: str, least: int = 1) -> Any:
    """An option that says how many of something are measured, instead of what is measured otherwise."""
    return typer.Option(flag, metavar="N", min=least, help=text, show_default=False)


@app.command(help=BENCH_HELP)
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
    is_small: Annotated[
        bool,
        typer.Option(
            "--small",
            help="Measure small transactions statement by statement, beside SQLite with triggers and beside "
            "recomputing, and 19 varied views, instead.",
        ),
    ] = False,
    is_tpch: Annotated[
        bool,
        typer.Option(
            "--tpch", help="Measure all 22 queries of TPC-H as views through RF1 and RF2, beside recomputing, instead."
        ),
    ] = False,
    many_views: Annotated[
        int | None,
        _count(
            "--many-views",
            "Measure a transaction that matters to 3 of N views, such as 10000, on DuckDB, instead.",
            LEAST,
        ),
    ] = None,
    is_pipeline: Annotated[
        bool,
        typer.Option(
            "--pipeline",
            help="Measure a pull over Delta tables that others write until ten views are published, beside recomputing "
            "them by plain Spark, instead.",
        ),
    ] = False,
    is_autonomous: Annotated[
        bool,
        typer.Option(
            "--autonomous", help="Measure V1 kept from its own content and the change alone, and filters, instead."
        ),
    ] = False,
    most_behind: Annotated[
        int | None,
        _count(
            "--snapshots", "Measure refreshes of snapshots that lag by 1 to N transactions, such as 100000, instead."
        ),
    ] = None,
    continual_queries: Annotated[
        int | None,
        _count("--continual", "Measure transactions beside N continual queries, such as 1000, on DuckDB, instead."),
    ] = None,
    soaked: Annotated[
        int | None,
        _count(
            "--soak", "Run N small transactions, such as 100000, under a bounded log with consumers that lag, instead."
        ),
    ] = None,
    rules: Annotated[
        int | None,
        _count("--rules", "Measure transactions under N active rules, such as 1000, beside 10, instead.", 10),
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
    engines, times = [str(one) for one in engine or BenchEngine], repeats or (2 if is_quick else 5)
    scales = scale or ([0.01] if is_quick else [0.1, 1.0])
    if only is not None and not is_queries:
        raise typer.BadParameter("--only chooses among --queries: give both")
    counts = (many_views, most_behind, continual_queries, soaked, rules)
    instead = (is_queries, is_small, is_tpch, is_pipeline, is_autonomous, is_recursion, is_client)
    if sum((*instead, *(count is not None for count in counts))) > 1:
        raise typer.BadParameter("give one of the options that say what is measured instead")
    if is_pipeline and engine is not None and engines != [BenchEngine.SPARK]:
        raise typer.BadParameter("--pipeline is about lakes: it takes no other engine than Spark")
    if is_recursion and scale is not None:
        raise typer.BadParameter("--recursion has its own graph: it takes no --scale")
    if many_views is not None and (scale is not None or engines == [BenchEngine.SPARK]):
        raise typer.BadParameter("--many-views has its own tables, on DuckDB: it takes neither --scale nor Spark")
    with errors_shown():
        errors = console_for(stderr=True)
        run = Run(data, Display(console_for(), None), Display(errors, None), Status(errors))
        if is_queries:
            chosen = suite.NAMES if only is None else [name.strip().lower() for name in only.split(",")]
            suite.run(suite.SuitePlan(engines, scales, times, chosen), run)
        elif is_small:
            small.run(Plan(engines, scales, times), run)
        elif is_tpch:
            refreshes.run(Plan(engines, scales, times), run)
        elif is_pipeline:
            pipeline.run(Plan([BenchEngine.SPARK], scales, times), run)
        elif is_autonomous:
            ladder.run(Plan(engines, scales, times), run)
        elif most_behind is not None:
            snapshots.run(engines, 10_000 if is_quick else 5_000_000, most_behind, run)
        elif continual_queries is not None:
            continual.run(continual_queries, 30 if is_quick else 300, run)
        elif soaked is not None:
            continual.run_soak(soaked, 1000, run)
        elif is_recursion:
            nodes = 2_000 if is_quick else 20_000
            recursion.run(recursion.RecursionPlan(engines, times, nodes, 3 * nodes), run)
        elif is_client:
            rows, transactions = (5_000, 20) if is_quick else (200_000, 100)
            client.run(rows, transactions, run)
        elif many_views is not None:
            many.run(many.ManyPlan(many_views, times), run)
        elif rules is not None:
            many_rules.run(many_rules.RulesPlan(engines, rules, times), run)
        else:
            core.run(Plan(engines, scales, times), run)
