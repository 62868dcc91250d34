"""What an execution of snapshots and continual queries commits: as many of them as possible in one version."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from tidemark.database.standing import ACTIVE, STOPPED, Standing, lagging_of, note_name, result_note
from tidemark.database.store import Work
from tidemark.log import deltas as delta_tables
from tidemark.network import Step, Wave
from tidemark.sql.catalog import Catalog, View
from tidemark.sql.continual_statements import QUERY


@dataclass
class Execution:
    """What one version is to commit for the relations that are brought up to date at ``version``, the one before.

    A relation's own delta is ``pending``, so that what stands on it follows; those of what serves it are its ``own``.
    The notes say how far each has come, so that after any crash they go with the content.
    """

    version: int
    now: dt.datetime
    pending: dict[str, pa.Table] = field(default_factory=dict)
    own: dict[str, pa.Table] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    notes: dict[str, str | None] = field(default_factory=dict)
    answered: list[str] = field(default_factory=list)

    def add(self, view: View, standing: Standing, wave: Wave) -> None:
        for name, delta in wave.deltas.items():
            (self.pending if name == view.name else self.own)[name] = delta
        self.steps += wave.steps
        is_answer = is_result(view, wave)
        if is_answer:
            self.answered.append(view.name)
            made = f"{self.version + 1} {self.now.isoformat()}"
            self.notes[result_note(view.name, standing.results + 1)] = made
        self.notes[note_name(view.name)] = self._after(view, standing, is_answer=is_answer).to_note()

    def _after(self, view: View, standing: Standing, *, is_answer: bool) -> Standing:
        """The standing after this execution."""
        results = standing.results + int(is_answer)
        most = None if view.lag is None else view.lag.until.results
        status = STOPPED if most is not None and results >= most else ACTIVE
        return Standing(self.version, self.now, results, status)

    @property
    def is_version(self) -> bool:
        """Whether there is anything that needs a version; else the notes are enough."""
        return bool(self.pending or self.own or self.answered)

    def work(self, catalog: Catalog) -> Work:
        return Work(catalog, self.pending, 1, own=self.own, steps=tuple(self.steps), notes=self.notes)


def is_result(view: View, wave: Wave) -> bool:
    """Whether an execution gives a result: something of what is to be delivered, or the whole, whatever it is."""
    if view.lag is None or view.lag.kind != QUERY:
        return False
    delta = wave.deltas.get(view.name)
    match view.lag.deliver:
        case "complete":
            return True
        case "insertions":
            return delta is not None and delta_tables.inserted(delta).num_rows > 0
        case "deletions":
            return delta is not None and delta_tables.deleted(delta).num_rows > 0
    return delta is not None and delta.num_rows > 0


def versions_of(views: Iterable[View], above: Callable[[str], Iterable[str]]) -> Iterator[list[View]]:
    """The views in groups that go into one version each: one that stands on another comes after it."""
    waiting, affected = list[View](), set[str]()
    for view in views:
        if lagging_of(view).below & affected:
            yield waiting
            waiting, affected = [], set()
        waiting.append(view)
        affected |= {view.name, *above(view.name)}
    if waiting:
        yield waiting
