"""``tidemark bench --autonomous``, as people start it."""

from __future__ import annotations

from tidemark.cli.bench.ladder import report
from tidemark.cli.bench.ladder.figures import CLOCK
from tidemark.cli.bench.ladder.running import Ladder, LadderPlan
from tidemark.cli.bench.report import as_json
from tidemark.cli.show import Display
from tidemark.cli.status import Status


def run(plan: LadderPlan, display: Display, progress: Display, status: Status) -> None:
    """Measure everything, show the tables for each engine and scale, and write all figures."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    progress.note(CLOCK)
    ladder, reports = Ladder(plan, progress, status), []
    for engine in plan.engines:
        for scale in plan.scales:
            reports.append(ladder.run(engine, scale))
            report.show(reports[-1], display)
    options = {
        "engines": list(plan.engines),
        "scales": list(plan.scales),
        "sizes": list(plan.sizes),
        "repeats": plan.repeats,
    }
    figures = plan.folder / "autonomous.json"
    figures.write_text(as_json(reports, options, CLOCK) + "\n")
    display.note(f"all figures are in {figures}")
