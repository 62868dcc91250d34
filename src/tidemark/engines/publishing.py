"""When a lake's relations are published to readers of their own Delta tables, and how far each of these has come."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass


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
