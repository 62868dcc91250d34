"""``tidemark bench --many-views N``, as people start it."""

from __future__ import annotations

from tidemark.cli.bench.many import report
from tidemark.cli.bench.many.figures import CLOCK
from tidemark.cli.bench.many.running import ManyPlan, ManyViews
from tidemark.cli.bench.report import as_json
from tidemark.cli.show import Display
from tidemark.cli.status import Status


def run(plan: ManyPlan, display: Display, progress: Display, status: Status) -> None:
    """Measure, show the tables, and write all figures."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    progress.note(CLOCK)
    found = ManyViews(plan, progress, status).run()
    report.show(found, display)
    figures = plan.folder / "many-views.json"
    options = {"views": plan.views, "repeats": plan.repeats, "at_once": plan.at_once}
    figures.write_text(as_json([found], options, CLOCK) + "\n")
    display.note(f"all figures are in {figures}")
