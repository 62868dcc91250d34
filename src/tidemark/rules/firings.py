"""The history of what rules did: as old as the log is kept, and counters that are older.

A firing leaves the history in a transaction in which others come, so that nothing is done while no rule fires.

Detached work that comes and goes with the rules that it is for: timers of what is watched from now on, and what is
over with what is not watched any more or dropped.

All of it is deltas of the table of detached work, as an open transaction sees it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.plans import Stored
from tidemark.rules.actions import FIRINGS, FIRINGS_SCHEMA, FiringOutcome
from tidemark.rules.detached import CONDITION_STAGE, PARTIAL_STAGE, TIMER_STAGE, Entry, queued_in
from tidemark.sql.bind.rules import first_time
from tidemark.sql.catalog.rules import Activation, Rule
from tidemark.sql.parse.text import Source
from tidemark.state.history import retained
from tidemark.state.state import Store
from tidemark.storage import delta as delta_tables

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


def counts(store: Store) -> dict[str, Count]:
    """The counters of rules: of the history, and of what is older."""
    known = _forgotten(store)
    if FIRINGS not in store.catalog.relations:
        return known
    return _added(known, store.reading(store.catalog).fetch(Stored(FIRINGS, FIRINGS_SCHEMA), {}).to_pylist())


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
            case FiringOutcome.DONE:
                more = Count(1, row["instances"])
            case FiringOutcome.QUEUED:
                continue
            case _:
                more = Count(failures=1)
        known[name] = known.get(name, Count()) + more
    return known


def timers(rule: Rule, fresh: Iterable[Activation], store: Store, source: Source) -> Iterator[pa.Table]:
    """The timers of what is watched from now on."""
    now = store.now()
    for activation in fresh:
        for event in rule.times:
            due = first_time(event, now, source)
            yield Entry.timer(activation.name, event, store.version + 1, due).added()


def unwatched(rule: Rule, store: Store, pending: pa.Table | None) -> list[pa.Table]:
    """Of what is not watched any more, timers are taken away, and what has begun and not happened yet: sequences,
    closures and delays. What happened while it was watched is still done."""
    names = {activation.name for activation in rule.active}
    stages = {TIMER_STAGE, PARTIAL_STAGE} | ({CONDITION_STAGE} if rule.delay is not None else set())
    entries = _of(rule, store, pending)
    return [entry.added(-1) for entry in entries if entry.stage in stages and entry.rule not in names]


def dropped(rule: Rule, store: Store, pending: pa.Table | None) -> list[pa.Table]:
    """With a rule all that waits to be done by it goes."""
    return [entry.added(-1) for entry in _of(rule, store, pending)]


def _of(rule: Rule, store: Store, pending: pa.Table | None) -> list[Entry]:
    return [entry for entry in queued_in(store, pending) if entry.rule_name == rule.name]
