"""What the records of a lake say, without what later ones have replaced.

Notes and what is kept of forgotten logs are written anew each time; only the last of each counts. Without this a lake
would grow with every subscriber that says how far it has come, and with every cut of a log that somebody lags behind.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tidemark.engines.spark.records import Committed, Merged, Record


def condensed(records: Sequence[Record]) -> list[Record | None]:
    """For each record what still counts of it: all of them together say the same as before. None if nothing does.

    A note that was taken away need not be said to be: whatever noted it says so no longer.
    """
    later_notes: set[str] = set()
    later_marks: set[str] = set()
    traces = 0
    result: list[Record | None] = []
    for record in reversed(records):
        if isinstance(record, Merged):
            result.append(record)
            continue
        notes = _last(record.notes, later_notes)
        later_notes |= record.notes.keys()
        if isinstance(record, Committed):
            later_marks |= {*record.dropped, *(created.relation for created in record.created)}
            result.append(replace(record, notes=notes))
            continue
        marks = {name: up_to for name, up_to in record.forgotten.items() if name not in later_marks}
        later_marks |= record.forgotten.keys()
        reach, traces = (record.traces if record.traces > traces else 0), max(traces, record.traces)
        is_said = bool(notes or marks or reach)
        result.append(replace(record, notes=notes, forgotten=marks, traces=reach) if is_said else None)
    return result[::-1]


def _last(notes: Mapping[str, str | None], later: Collection[str]) -> dict[str, str | None]:
    return {name: text for name, text in notes.items() if text is not None and name not in later}
