"""``tidemark bench --rules N``, as people start it."""

from __future__ import annotations

import pyarrow as pa

from tidemark.cli.bench.report import as_json, tenths
from tidemark.cli.bench.rules.running import CLOCK, KINDS, Rules, RulesPlan, RulesReport
from tidemark.cli.show import Display
from tidemark.cli.status import Status


def run(plan: RulesPlan, display: Display, progress: Display, status: Status) -> None:
    """Measure, show the tables, and write all figures."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    progress.note(CLOCK)
    reports = Rules(plan, progress, status).run()
    for report in reports:
        title = f"{report.engine}, {plan.items:,} items: medians in milliseconds for ten changed items"
        display.result(title, table(report), is_expandable=False)
    figures = plan.folder / "rules.json"
    options = {"rules": plan.rules, "items": plan.items, "repeats": plan.repeats}
    figures.write_text(as_json(reports, options, CLOCK) + "\n")
    display.note(f"all figures are in {figures}")


def table(report: RulesReport) -> pa.Table:
    """A row for each kind of transaction."""
    few, many = (f"{side.rules:,} rules" for side in (report.few, report.many))
    return pa.table(
        {
            "items": pa.array(KINDS, pa.string()),
            few: tenths([report.few.median(kind).milliseconds for kind in KINDS]),
            many: tenths([report.many.median(kind).milliseconds for kind in KINDS]),
            "times": tenths([report.ratio(kind) for kind in KINDS]),
            f"{few}, processors": tenths([report.few.median(kind).processor_milliseconds for kind in KINDS]),
            f"{many}, processors": tenths([report.many.median(kind).processor_milliseconds for kind in KINDS]),
        }
    )
