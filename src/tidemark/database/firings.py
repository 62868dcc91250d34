"""The history of what rules did: as old as the log is kept, and counters that are older.

A firing leaves the history in a transaction in which others come, so that nothing is done while no rule fires.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.plans import Stored
from tidemark.database.actions import FIRINGS, FIRINGS_SCHEMA, Outcome
from tidemark.database.retained import retained
from tidemark.database.store import Store
from tidemark.log import deltas as delta_tables

COUNTS: Final = "rule counts"
"""The note with the counters of the firings that have left the history."""


@dataclass(frozen=True)
class Count:
    """How often a rule fired, for how many instances, and how often that failed."""

    firings: int = 0
    instances: int = 0
    failures: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.firings + other.firings, self.instances + other.instances, self.failures + other.failures)


def counts(store: Store, history: pa.Table) -> dict[str, Count]:
    """The counters of rules: of the history, and of what is older."""
    return _added(_forgotten(store), history.to_pylist())


def forgetting(store: Store) -> tuple[pa.Table, dict[str, str | None]] | None:
    """The firings that the log does not reach back to, as a change of the history, and the note of their counters."""
    horizon = retained(store).full
    if horizon <= store.forgotten_firings or FIRINGS not in store.catalog.relations:
        return None
    store.forgotten_firings = horizon
    history = store.engine.fetch(Stored(FIRINGS, FIRINGS_SCHEMA), {})
    old = history.filter(pc.less_equal(history["version"], horizon))
    if not old.num_rows:
        return None
    known = _added(_forgotten(store), old.to_pylist())
    note = json.dumps({rule: [c.firings, c.instances, c.failures] for rule, c in known.items()})
    return delta_tables.negated(delta_tables.net(delta_tables.weighted(old))), {COUNTS: note}


def _forgotten(store: Store) -> dict[str, Count]:
    return {rule: Count(*numbers) for rule, numbers in json.loads(store.notes.get(COUNTS, "{}")).items()}


def _added(known: dict[str, Count], rows: Iterable[Mapping[str, Any]]) -> dict[str, Count]:
    for row in rows:
        name = row["rule"].partition("(")[0]
        match row["outcome"]:
            case Outcome.DONE:
                more = Count(1, row["instances"])
            case Outcome.QUEUED:
                continue
            case _:
                more = Count(failures=1)
        known[name] = known.get(name, Count()) + more
    return known
