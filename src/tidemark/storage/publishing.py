"""When a lake's relations are published to readers of their own Delta tables, and how far each of these has come.

An interval is a lower bound: publishing takes a tenth of the time at most. What failed is tried again after a while.
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from typing import Final

SHARE: Final = 9
"""What takes a second is not done again before so many seconds have passed."""
SLACK_SECONDS: Final = 0.5
"""A commit publishes what has been due for so long: by itself that comes when nobody is at work."""
FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 60.0


@dataclass(frozen=True)
class Rhythm:
    """How often relations are published: after so many versions, or after so many seconds at the earliest; if neither
    is given, when the lake is closed. It is done then in any case."""

    versions: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Publication:
    """What other readers see of one relation.

    ``path`` is its Delta table, below the lake, and ``entry`` the last version of that. It holds the relation as of
    ``version``, and the relation has changed in ``behind`` versions since, or in fewer. ``error`` is why it could not
    be published the last time.
    """

    name: str
    path: str
    version: int | None
    entry: int | None
    behind: int
    time: dt.datetime | None
    error: str | None


@dataclass
class Pace:
    """When something is due by a rhythm; by None nothing is, ever."""

    rhythm: Rhythm | None
    version: int = 0
    """The version when all was published the last time."""
    _committed: float = 0.0
    _due: float = 0.0
    _retry: float = FIRST_RETRY

    def committed(self) -> None:
        self._committed = time.monotonic()

    def is_due(self, version: int) -> bool:
        """Whether a commit that made this version is to publish before it returns."""
        if self.rhythm is None:
            return False
        if self.rhythm.versions is not None:
            return version - self.version >= self.rhythm.versions
        return self.rhythm.seconds is not None and time.monotonic() >= self._due + SLACK_SECONDS

    def idle_after(self, *, has_failed: bool) -> float | None:
        """How many seconds after the last commit it is due although nobody commits; None if it never is."""
        if self.rhythm is None or not (has_failed or self.rhythm.seconds is not None):
            return None
        return max(0.0, self._due - self._committed)

    def ended(self, began: float, version: int, *, has_failed: bool) -> None:
        """All that waited was published, or tried to be."""
        now = time.monotonic()
        seconds = (self.rhythm.seconds if self.rhythm is not None else None) or 0.0
        self.version = version
        self._due = max(began + seconds, now + SHARE * (now - began))
        if has_failed:
            self._due = max(self._due, now + self._retry)
        self._retry = min(2 * self._retry, LAST_RETRY) if has_failed else FIRST_RETRY
