"""EXPLAIN ANALYZE: what a statement, or a version, has done, and where its time went: by phase, and by step.

The phases are those of the statements of a transaction and of its commit, the steps those of its trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from tidemark.algebra.plans import Plan
from tidemark.algebra.printing import show_plan
from tidemark.answers.show import trace
from tidemark.errors import TidemarkError
from tidemark.state.state import Store
from tidemark.state.times import MOST_REMEMBERED
from tidemark.storage import delta as delta_tables

PHASES: Final[Mapping[str, str]] = {
    "parse": "from text to statements, or to a shape that is known",
    "bind": "names and types, or what was bound before",
    "find": "the rows that change",
    "read": "queries",
    "rules": "rules that act at once",
    "advance_clock": "NOW() moves on, if views or rules read it",
    "run_rules": "deferred rules",
    "check_constraints": "NOT NULL, CHECK, keys",
    "derive": "the wave: the steps below, but for what was derived before",
    "check_assertions": "no violation may stand",
    "fill": "contents of new views",
    "encode": "one record of all that is stored",
    "store": "the commit point: the record is written",
    "swap": "the version is true",
    "feed": "notes and times",
    "announce": "those who follow hear of it",
    "afterwards": "what they want done",
}
"""The phases by the names under which their time is taken, and what each is, in words."""
MOST_STEPS: Final = 40
"""Of so many steps a line is shown, the dearest; the others are summed up."""
OPEN: Final = "  of its commit nothing is known yet: EXPLAIN ANALYZE VERSION tells when it is committed"
NOTHING: Final = "no row of a table changed"


def of_query(rows: int, seconds: Mapping[str, float], plan: Plan) -> pa.Table:
    """A query that was run."""
    lines = [f"{rows:,} {'row' if rows == 1 else 'rows'}", "", *_phases(seconds)]
    return _answer([*lines, "", "plan", *(f"  {line}" for line in show_plan(plan).splitlines())])


def of_change(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table], seconds: Mapping[str, float]) -> pa.Table:
    """A statement that a transaction holds, by the net changes of tables before and after it."""
    return _answer([_changed(before, after), "", *_phases(seconds), OPEN])


def committed_change(told: pa.Table, store: Store, version: int) -> pa.Table:
    """The same of a statement that was a transaction of its own."""
    return of_version(version, store, f"version {version}: {told.column(0)[0].as_py()}")


def of_version(version: int, store: Store, heading: str | None = None) -> pa.Table:
    """What a version took, as far as this connection remembers it, and the steps that were stored with it."""
    try:
        steps = trace(version, store).to_pylist()
    except TidemarkError:
        if heading is None:
            raise
        steps = []  # the limits of the log are so narrow that it is gone already
    seconds = store.laps.of(version)
    phases = _phases(seconds) if seconds is not None else [_forgotten()]
    return _answer([heading or f"version {version}", "", *phases, "", *_steps(steps)])


def _answer(lines: Sequence[str]) -> pa.Table:
    return pa.table({"explain": pa.array(lines, pa.string())})


def _changed(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table]) -> str:
    """What became of the rows of tables: how many came, and how many left."""
    parts = []
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name), after.get(name)
        if one is other:
            continue
        deltas = [*([] if other is None else [other]), *([] if one is None else [delta_tables.negated(one)])]
        weights = delta_tables.weights(delta_tables.combine(*deltas))
        came, left = sum(w for w in weights if w > 0), -sum(w for w in weights if w < 0)
        parts.append(f"{name} {' '.join([f'+{came:,}'] * bool(came) + [f'−{left:,}'] * bool(left))}".rstrip())
    return ", ".join(parts) or NOTHING


def _phases(seconds: Mapping[str, float]) -> list[str]:
    named = [(name.replace("_", " "), _micros(seconds[name]), PHASES[name]) for name in PHASES if name in seconds]
    whole = ("all", _micros(sum(seconds.values())), "")
    return ["phases, in microseconds", *_aligned([*named, whole], numbers={1})]


def _forgotten() -> str:
    return f"phases are not known: they are remembered of the last {MOST_REMEMBERED} versions that a connection makes"


def _steps(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    if not steps:
        return ["no step: nothing changed that a view reads"]
    dearest = sorted(steps, key=lambda step: -step["milliseconds"])[:MOST_STEPS]
    shown = [step for step in steps if step in dearest] if len(steps) > MOST_STEPS else steps
    others = [step for step in steps if step not in shown]
    rows = [("node", "strategy", "in", "out", "read", "µs", "reason"), *map(_step, shown)]
    lines = ["steps, from the lowest level up", *_aligned(rows, numbers={2, 3, 4, 5})]
    if others:
        spent = sum(step["milliseconds"] for step in others)
        lines.append(f"  and {len(others):,} more that took less, {spent * 1000:,.0f} µs in all")
    return lines


def _step(step: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (f"{step[name]:,}" for name in ("rows_in", "rows_out", "rows_read"))
    return (step["node"], step["strategy"], *counts, f"{step['milliseconds'] * 1000:,.0f}", step["reason"])


def _micros(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f}"


def _aligned(rows: Iterable[Sequence[str]], numbers: set[int]) -> list[str]:
    """Rows as lines with their cells below each other, numbers to the right."""
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in listed
    ]
