"""Which relations of a lake wait to be published, and when that is due.

An interval is a lower bound: publishing takes a tenth of the time at most. What fails is told, tried again after a
while, and fails no commit.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from tidemark.algebra.history import CLOCK
from tidemark.engines.publishing import Publication, Rhythm
from tidemark.engines.spark.publish import Changes, Publisher
from tidemark.engines.spark.relations import Relation, Relations
from tidemark.errors import TidemarkError
from tidemark.storage import delta as deltas

_logger = logging.getLogger("tidemark.spark")
SHARE: Final = 9
"""What takes a second is not done again before so many seconds have passed."""
SLACK_SECONDS: Final = 0.5
"""A commit publishes what has been due for so long: by itself that comes when nobody is at work."""
FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 60.0
MOST_HELD: Final = 16 * 1024 * 1024
"""So many bytes of changes are held for the next publication; what is more is read from the log."""


@dataclass
class _Held:
    """The changes of a relation since a version, in order."""

    since: int
    parts: list[pa.Table] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


@dataclass
class Publications:
    """What waits, when it is due, and what went wrong. ``rhythm`` None: nothing is due by itself, ever."""

    publisher: Publisher
    rhythm: Rhythm | None
    logged: Changes
    """The net change of a relation since a version, from the log."""
    errors: dict[str, str] = field(default_factory=dict)
    _held: dict[str, _Held] = field(default_factory=dict)
    _held_bytes: int = 0
    _committed: float = 0.0
    _due: float = 0.0
    _retry: float = FIRST_RETRY
    _version: int = 0

    def begin(self, version: int) -> None:
        """After stored relations were read (again): nothing is known of what changed."""
        self._held.clear()
        self._held_bytes = 0
        self.publisher.forget()
        self._version = version

    def committed(self, changed: Mapping[str, pa.Table], others: Iterable[str]) -> None:
        """Hold what a commit changed of those whose last publication is known. ``others`` began anew, are no more, or
        have other columns."""
        self._committed = time.monotonic()
        for name in others:
            self._let_go(name)
            self.errors.pop(name, None)
        for name, delta in changed.items():
            held = self._held.get(name)
            if held is None:
                continue
            held.parts.append(delta)
            self._held_bytes += delta.nbytes
            if self._held_bytes > MOST_HELD:
                self._let_go(name)

    def waiting(self, relations: Relations) -> list[Relation]:
        """The relations whose tables do not hold what they hold."""
        return [one for one in relations.values() if is_published(one) and self.publisher.is_waiting(one)]

    def is_due(self, version: int) -> bool:
        """Whether a commit that made this version is to publish before it returns."""
        if self.rhythm is None:
            return False
        if self.rhythm.versions is not None:
            return version - self._version >= self.rhythm.versions
        return self.rhythm.seconds is not None and time.monotonic() >= self._due + SLACK_SECONDS

    def idle_after(self, relations: Relations) -> float | None:
        """How many seconds after the last commit something is due that nobody waits for; None if nothing is."""
        if self.rhythm is None or not (self.errors or self.rhythm.seconds is not None):
            return None
        waits = any(is_published(one) and self.publisher.is_waiting(one) for one in relations.values())
        return max(0.0, self._due - self._committed) if waits else None

    def publish(self, relations: Iterable[Relation], version: int) -> list[Exception]:
        """Publish relations that have no tail, each for itself, and say what failed."""
        failures = []
        for relation in relations:
            try:
                self.publisher.publish(relation, version, self._changes)
            except Exception as error:
                self.failed(relation.name, error)
                failures.append(error)
            else:
                self.errors.pop(relation.name, None)
                self._let_go(relation.name)
                if self.rhythm is not None:
                    self._held[relation.name] = _Held(self.publisher.standing(relation).version)
        return failures

    def failed(self, name: str, error: Exception) -> None:
        """A publication that failed is told, and tried again after a while. It fails no commit."""
        _logger.warning("could not publish %s", name, exc_info=error)
        self.errors[name] = error.message if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"

    def ended(self, began: float, version: int) -> None:
        """All that waited was published, or tried to be."""
        now = time.monotonic()
        seconds = (self.rhythm.seconds if self.rhythm is not None else None) or 0.0
        self._version = version
        self._due = max(began + seconds, now + SHARE * (now - began))
        if self.errors:
            self._due = max(self._due, now + self._retry)
            self._retry = min(2 * self._retry, LAST_RETRY)
        else:
            self._retry = FIRST_RETRY

    def shown(self, relations: Relations, version: int) -> list[Publication]:
        """How far each relation's table has come."""
        return [self._shown(one, version) for one in relations.values() if is_published(one)]

    def _shown(self, relation: Relation, version: int) -> Publication:
        known = self.publisher.standings.get(relation.directory)
        error = self.errors.get(relation.name)
        if known is None or known.entry < 0 or known.version < relation.created_at:
            return Publication(relation.name, relation.directory, None, None, version, None, error)
        behind = version - known.version if known.version < relation.changed_at else 0
        moment = None if known.time is None else dt.datetime.fromtimestamp(known.time / 1000, dt.UTC)
        time_ = None if moment is None else moment.replace(tzinfo=None)
        return Publication(relation.name, relation.directory, known.version, known.entry, behind, time_, error)

    def _changes(self, relation: Relation, since: int) -> pa.Table | None:
        held = self._held.get(relation.name)
        if held is None or held.since != since:
            return self.logged(relation, since)
        schema = relation.schema.weighted
        parts = (part.rename_columns(schema.names).cast(schema) for part in held.parts)
        return deltas.combine(schema.empty_table(), *parts)

    def _let_go(self, name: str) -> None:
        held = self._held.pop(name, None)
        if held is not None:
            self._held_bytes -= held.nbytes


def is_published(relation: Relation) -> bool:
    """Whether others can read the relation: those who use the database can, and it is stored. The clock is nobody's."""
    return not relation.internal and relation.kept and relation.name != CLOCK
