"""Detached work that comes and goes with the rules that it is for: timers of what is watched from now on, and what is
over with what is not watched any more or dropped.

All of it is deltas of the table of detached work, as an open transaction sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidemark.database.detaching import CONDITION_STAGE, PARTIAL_STAGE, TIMER_STAGE, Entry
from tidemark.database.queueing import queued_in
from tidemark.database.store import Store
from tidemark.sql.activerules import Activation, Rule
from tidemark.sql.rules import first_time
from tidemark.sql.text import Source


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
