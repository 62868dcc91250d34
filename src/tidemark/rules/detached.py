"""Detached work: entries of a table that are part of the commit that asks for it, and leave with the one that does it.

So a crash in between loses nothing and doubles nothing: an entry that is there was not done, and one that was done is
not there. Effects outside the database may be repeated, with the same key.

The queue of detached work: what is committed of it, and as an open transaction sees it.

It is read once, and follows the commits from then on, so that a long queue costs a transaction that does not ask for it
nothing.
"""

from __future__ import annotations

import base64
import datetime as dt
import io
import itertools
import json
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from tidemark.algebra.plans import Stored
from tidemark.algebra.types import BIGINT, TIMESTAMP, VARCHAR, Field, Schema
from tidemark.sql.catalog.rules import INDEPENDENT, Rule
from tidemark.sql.parse.rules import TimeEvent
from tidemark.state.state import Store
from tidemark.storage import delta as delta_tables

DETACHED_TABLE: Final = "_detached"
WAITING, DEAD = "waiting", "dead"
CONDITION_STAGE, ACTION_STAGE, TIMER_STAGE, PARTIAL_STAGE = "condition", "action", "timer", "partial"
LONGEST_BACKOFF_SECONDS: Final = 86_400.0
"""Waits double up to a day; one that is longer from the beginning stays as it is."""
_TEXTS: Final = ("id", "rule", "stage", "payload", "state", "error")
DETACHED_SCHEMA: Final = Schema(
    (
        *(Field(name, VARCHAR, nullable=False) for name in _TEXTS),
        Field("attempts", BIGINT, nullable=False),
        Field("version", BIGINT, nullable=False),
        Field("due", TIMESTAMP),
    )
)
DETACHED_TEXT: Final = (
    f"CREATE TABLE {DETACHED_TABLE} ({', '.join(f'{name} VARCHAR NOT NULL' for name in _TEXTS)}, "
    "attempts BIGINT NOT NULL, version BIGINT NOT NULL, due TIMESTAMP)"
)


@dataclass(frozen=True)
class Entry:
    """A condition or an action that is to run in a transaction of its own. ``is_independent`` ones run even if the
    transaction that asked for them is rolled back."""

    id: str
    rule: str
    stage: str
    payload: str
    state: str = WAITING
    error: str = ""
    attempts: int = 0
    version: int = 0
    due: dt.datetime | None = None
    is_independent: bool = False

    @classmethod
    def of(
        cls,
        rule: Rule,
        name: str,
        stage: str,
        relations: Mapping[str, pa.Table],
        version: int,
        due: dt.datetime | None = None,
    ) -> Entry:
        independent = (rule.coupling if stage == CONDITION_STAGE else rule.action_coupling) == INDEPENDENT
        packed = json.dumps({relation: _packed(table) for relation, table in relations.items()})
        return cls(_new_id(), name, stage, packed, version=version, due=due, is_independent=independent)

    @classmethod
    def timer(cls, name: str, event: TimeEvent, version: int, due: dt.datetime) -> Entry:
        """A time that a rule waits for, with the event that says what comes after it."""
        return cls(_new_id(), name, TIMER_STAGE, json.dumps(str(event)), version=version, due=due)

    @property
    def event(self) -> str:
        """The text of the event that a timer is for."""
        return str(json.loads(self.payload))

    @property
    def relations(self) -> dict[str, pa.Table]:
        """The instances and transition relations."""
        if self.stage == TIMER_STAGE:
            return {}
        return {name: _unpacked(text) for name, text in json.loads(self.payload).items()}

    @property
    def rule_name(self) -> str:
        """The name of the rule, without the values of its parameters."""
        return self.rule.partition("(")[0]

    def added(self, weight: int = 1) -> pa.Table:
        """The entry as a change of the table of detached work."""
        values = (self.id, self.rule, self.stage, self.payload, self.state, self.error)
        cells = (*values, self.attempts, self.version, self.due)
        arrays = [pa.array([cell], f.type.arrow) for cell, f in zip(cells, DETACHED_SCHEMA.fields, strict=True)]
        return delta_tables.weighted(pa.Table.from_arrays(arrays, schema=DETACHED_SCHEMA.arrow), weight)

    def replaced_by(self, other: Entry) -> pa.Table:
        return delta_tables.combine(self.added(-1), other.added())

    def failed(self, error: str, rule: Rule, now: dt.datetime) -> Entry:
        """The entry after another attempt: it waits, ever longer, or is dead."""
        attempts = self.attempts + 1
        if attempts > rule.retries:
            return replace(self, attempts=attempts, error=error, state=DEAD)
        longest = max(rule.backoff, LONGEST_BACKOFF_SECONDS)
        due = now + dt.timedelta(seconds=min(rule.backoff * 2.0 ** min(attempts - 1, 64), longest))
        return replace(self, attempts=attempts, error=error, due=due)


def _new_id() -> str:
    """A name that nothing else has; of two that one process makes, the later one is the greater."""
    return f"{next(_made):012x}{uuid.uuid4().hex[:20]}"


_made = itertools.count()


def entries(table: pa.Table) -> list[Entry]:
    """The entries of the table."""
    return [Entry(**row) for row in table.to_pylist()] if table.num_rows else []


def in_order(found: Iterable[Entry]) -> list[Entry]:
    """The oldest first, and those of one version in the order in which they came."""
    return sorted(found, key=lambda entry: (entry.version, entry.id))


def _packed(table: pa.Table) -> str:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def _unpacked(text: str) -> pa.Table:
    return pa.ipc.open_stream(io.BytesIO(base64.b64decode(text))).read_all()


def queued(store: Store) -> Collection[Entry]:
    """All entries that are committed, in no order."""
    if DETACHED_TABLE not in store.catalog.relations:
        return ()
    if store.detached is None:
        is_empty = not store.engine.rows(DETACHED_TABLE)
        table = None if is_empty else store.engine.fetch(Stored(DETACHED_TABLE, DETACHED_SCHEMA), {})
        store.detached = {} if table is None else {entry.id: entry for entry in entries(table)}
        store.detached_since.clear()
    while store.detached_since:
        _follow(store.detached, store.detached_since.pop(0))
    return store.detached.values()


def queued_in(store: Store, pending: pa.Table | None) -> Collection[Entry]:
    """The entries as an open transaction sees them, which has changes of its own."""
    known = queued(store)
    if pending is None:
        return known
    found = {entry.id: entry for entry in known}
    _follow(found, pending)
    return found.values()


def _follow(found: dict[str, Entry], delta: pa.Table) -> None:
    for entry in entries(delta_tables.expand(delta_tables.deleted(delta))):
        found.pop(entry.id, None)
    found |= {entry.id: entry for entry in entries(delta_tables.expand(delta_tables.inserted(delta)))}
