"""A thread that executes what is due by the clock, while the program does something else.

What an execution of snapshots and continual queries commits: as many of them as possible in one version.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from tidemark.errors import is_fenced
from tidemark.network import Step, Wave
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.sql.parse.lagging import QUERY
from tidemark.state.draft import Work
from tidemark.state.state import Store
from tidemark.state.tidemarks import ACTIVE, STOPPED, Standing, lagging_of, note_name, result_note
from tidemark.storage import delta as delta_tables

_logger = logging.getLogger("tidemark.snapshots")
LONGEST_SECONDS: Final = 60.0
"""The thread looks at the clock at least this often: somebody may have set it."""


@dataclass(frozen=True)
class Job:
    """Something that is to be done when its time comes: when that is, and what to do then."""

    next_due: Callable[[], dt.datetime | None]
    run_due: Callable[[], object]


class Scheduler:
    """Sleeps until the next time of a job. It begins when there is such a time, and ends with the database.

    It waits while a transaction is open. Times that passed meanwhile, or while no process had the database open, count
    as one: what was missed is made up for once, as soon as possible. A commit wakes it only if it brings an earlier
    time: transactions do what they make due themselves.
    """

    def __init__(self, store: Store, jobs: Sequence[Job], turn: Callable[[], AbstractContextManager[bool]]) -> None:
        """``turn`` is the turn to change the database, if nobody else has it."""
        self._store, self._jobs, self._turn = store, jobs, turn
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._until: dt.datetime | None = None
        self.look()

    def look(self) -> None:
        """See whether the next time is an earlier one than that which the thread waits for."""
        due = self._next_due()
        if due is None or self._store.is_closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tidemark scheduler", daemon=True)
            self._store.threads.add(self._thread)
            self._thread.start()
        elif self._until is None or due < self._until:
            self._wake.set()

    def closed(self) -> None:
        """Let the thread end: the database is closed."""
        self._wake.set()

    def _run(self) -> None:
        while True:
            with self._store.lock:
                if self._store.is_closed:
                    return
                self._run_jobs()
                self._until = self._next_due()
                seconds = self._seconds(self._until)
                self._wake.clear()
            self._wake.wait(seconds)

    def _run_jobs(self) -> None:
        for job in self._jobs:
            try:
                with self._turn() as is_free:
                    if is_free:
                        job.run_due()
            except Exception as error:
                if not is_fenced(error):  # which the engine tells once
                    _logger.exception("what was due could not be executed")

    def _seconds(self, due: dt.datetime | None) -> float:
        if due is None or self._store.is_closed:
            return LONGEST_SECONDS
        wait = (due - self._store.now()) / dt.timedelta(seconds=1)
        return min(max(wait, 0.05), LONGEST_SECONDS)

    def _next_due(self) -> dt.datetime | None:
        return min((due for job in self._jobs if (due := job.next_due()) is not None), default=None)


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
