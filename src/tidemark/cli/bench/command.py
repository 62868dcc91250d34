"""``tidemark bench``: the benchmark as people start it."""

from __future__ import annotations

from tidemark.cli.bench import plot, report
from tidemark.cli.bench.figures import CLOCK
from tidemark.cli.bench.running import Benchmark, Plan
from tidemark.cli.show import Display
from tidemark.cli.status import Status


def run(plan: Plan, display: Display, progress: Display, status: Status) -> None:
    """Measure everything, show a table for each engine and scale, and write all figures and the charts."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    progress.note(CLOCK)
    benchmark, reports = Benchmark(plan, progress, status), []
    for engine in plan.engines:
        for scale in plan.scales:
            reports.append(benchmark.run(engine, scale))
            report.show(reports[-1], display)
    options = {
        "engines": list(plan.engines),
        "scales": list(plan.scales),
        "sizes": list(plan.sizes),
        "repeats": plan.repeats,
    }
    figures, charts = plan.folder / "results.json", plan.folder / "results.svg"
    figures.write_text(report.as_json(reports, options) + "\n")
    charts.write_text(plot.svg(reports))
    display.note(f"all figures are in {figures}, charts in {charts}")
