"""``tidemark bench --recursion``, as people start it."""

from __future__ import annotations

from tidemark.cli.bench.recursion import report
from tidemark.cli.bench.recursion.figures import CLOCK
from tidemark.cli.bench.recursion.running import RecursionBench, RecursionPlan
from tidemark.cli.bench.report import as_json
from tidemark.cli.show import Display
from tidemark.cli.status import Status


def run(plan: RecursionPlan, display: Display, progress: Display, status: Status) -> None:
    """Measure everything, show the tables for each engine, and write all figures."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    progress.note(CLOCK)
    bench, reports = RecursionBench(plan, progress, status), []
    for engine in plan.engines:
        reports.append(bench.run(engine))
        report.show(reports[-1], display)
    options = {
        "engines": list(plan.engines),
        "nodes": plan.nodes,
        "edges": plan.edges,
        "sizes": list(plan.sizes),
        "repeats": plan.repeats,
    }
    figures = plan.folder / "recursion.json"
    figures.write_text(as_json(reports, options, CLOCK) + "\n")
    display.note(f"all figures are in {figures}")
