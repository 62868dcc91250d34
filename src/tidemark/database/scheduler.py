"""A thread that executes what is due by the clock, while the program does something else."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidemark.database.store import Store

_logger = logging.getLogger("tidemark.continual")
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

    def __init__(self, store: Store, jobs: Sequence[Job], is_free: Callable[[], bool]) -> None:
        self._store, self._jobs, self._is_free = store, jobs, is_free
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._until: dt.datetime | None = None
        store.after_commit.append(lambda deltas: self._committed())
        store.after_close.append(self._wake.set)
        self._committed()

    def _committed(self) -> None:
        due = self._next_due()
        if due is None or self._store.is_closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tidemark scheduler", daemon=True)
            self._thread.start()
        elif self._until is None or due < self._until:
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
                if self._is_free():
                    job.run_due()
            except Exception:
                _logger.exception("what was due could not be executed")

    def _seconds(self, due: dt.datetime | None) -> float:
        if due is None or self._store.is_closed:
            return LONGEST_SECONDS
        wait = (due - self._store.now()) / dt.timedelta(seconds=1)
        return min(max(wait, 0.05), LONGEST_SECONDS)

    def _next_due(self) -> dt.datetime | None:
        return min((due for job in self._jobs if (due := job.next_due()) is not None), default=None)
