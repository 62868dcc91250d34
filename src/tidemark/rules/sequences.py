"""Sequences and closures in one open transaction: what begins and ends them, in the order in which it happened.

    an event of the database     is where it became true for good: what the block undoes is none
    a signal                     is where it came

What a view did is noted after each statement on a table below it; what a table did the transaction knows.

Sequences and closures of events that have begun and not ended yet, across transactions.

    E THEN F         fires when F comes after E; E is the latest one before
    ANY E UNTIL F    fires when F comes after at least one E; all of them are collected

In one block E comes before F, unless it may be the same event, which does not come after itself.

What has begun is an entry of the table of detached work, so it is as durable as the transaction in which it began.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import Schema
from tidemark.rules.blocks import START, Found, Moment, transitions
from tidemark.rules.detached import PARTIAL_STAGE, Entry, queued
from tidemark.rules.instances import Instances
from tidemark.sql.catalog.catalog import View
from tidemark.sql.catalog.rules import Activation, Rule
from tidemark.sql.parse.rules import DatabaseEvent, Event
from tidemark.state.course import Course
from tidemark.state.state import Store
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows


@dataclass
class _Begun:
    """What one transaction makes of a sequence or closure: what began before may be over, and more has begun."""

    rule: Rule
    is_over: bool = False
    more: list[Relations] = field(default_factory=list)


class Partials:
    """What has begun, in one transaction and before it. Each transaction adds its part of a closure, and what was
    before is read only when it ends."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._now: dict[str, _Begun] = {}
        self._forgotten: set[str] = set()

    def after(self, activation: Activation, rule: Rule, first: Relations, last: Relations) -> Relations:
        """What the events of a block make of it, those that begin and those that end: all transition relations if it
        ended, else none."""
        if not first and not last:
            return {}
        state = self._now.setdefault(activation.name, _Begun(rule))
        # What may begin it and may end it does one of both: it ends what began before, and begins the next.
        is_same = bool(first and last and set(rule.events) & set(rule.last))
        if first and not is_same:
            self._begin(state, first)
        parts = self._parts(activation.name, state) if last else []
        if parts:
            state.is_over, state.more = True, []
        if is_same:
            self._begin(state, first)
        return reduce(merged, (*parts, last)) if parts else {}

    def _begin(self, state: _Begun, first: Relations) -> None:
        if not state.rule.is_closure:
            state.is_over, state.more = True, []
        state.more.append(first)

    def _parts(self, name: str, state: _Begun) -> list[Relations]:
        return [*([] if state.is_over else [entry.relations for entry in self._before(name)]), *state.more]

    def _before(self, name: str) -> list[Entry]:
        if name in self._forgotten:
            return []
        return [entry for entry in queued(self._store) if entry.stage == PARTIAL_STAGE and entry.rule == name]

    def forget(self, name: str) -> None:
        """The rule is not watched any more: what has begun of it is over, and what is queued is taken away."""
        self._now.pop(name, None)
        self._forgotten.add(name)

    def changes(self, version: int) -> Iterator[pa.Table]:
        """The changes of the table of detached work that make all this durable."""
        for name, state in self._now.items():
            if state.is_over:
                yield from (entry.added(-1) for entry in self._before(name))
            if state.more:
                relations = reduce(merged, state.more)
                entry = Entry.of(state.rule, name, PARTIAL_STAGE, relations, version)
                yield replace(entry, state=PARTIAL_STAGE).added()


def merged(left: Relations, right: Relations) -> Relations:
    """The transition relations of both."""
    both = {name: table for name, table in left.items() if name not in right}
    return both | {n: delta_tables.combine(left[n], t) if n in left else t for n, t in right.items()}


Relations = Mapping[str, pa.Table]


@dataclass
class _Occurrence:
    """What happened at one place: what begins a sequence, what ends it, and a signal, which may do both."""

    first: list[Found] = field(default_factory=list)
    last: list[Found] = field(default_factory=list)
    signalled: tuple[Relations, Relations] | None = None


class Sequences:
    """The sequences and closures of one open transaction."""

    def __init__(self, course: Course, store: Store, instances: Instances) -> None:
        self._course, self._instances = course, instances
        self.partials = Partials(store)
        self._signals: dict[str, list[tuple[int, Relations, Relations]]] = {}
        self._seen: dict[str, Moment] = {}

    def begin(self, rule: Rule, now: Moment) -> None:
        """From here on the views are followed that the rule waits for, if they are not yet."""
        for view in self._views(rule.event_relations if rule.last else ()):
            self._seen.setdefault(view, now)

    def follow(self, relations: Iterable[str], now: Moment) -> None:
        """Note what the views among some relations did since they were last looked at."""
        for view in self._views(relations):
            delta = self._instances.change_of(view, self._seen.get(view, START), now)
            self._seen[view] = now
            if delta is not None:
                self._course.follow(view, Rows.of(delta))

    def _views(self, relations: Iterable[str]) -> list[str]:
        known = self._instances.catalog
        return [name for name in relations if isinstance(known.get(name), View)]

    def signalled(self, activation: Activation, first: Relations, last: Relations) -> None:
        """A signal came, which may begin a sequence, or end it."""
        self._signals.setdefault(activation.name, []).append((self._course.place, first, last))

    def altered(self, table: str, schema: Schema, added: Sequence[Value]) -> None:
        """The table has more columns now, so what happened to it before has them, too."""
        for name, moment in self._seen.items():
            if table in moment.deltas:
                delta = delta_tables.extended(moment.deltas[table], schema, added)
                self._seen[name] = replace(moment, deltas={**moment.deltas, table: delta})

    def forget(self, name: str) -> None:
        """The rule is not watched any more."""
        self._signals.pop(name, None)
        self.partials.forget(name)

    def ended(self, activation: Activation, rule: Rule, since: Moment, now: Moment) -> list[Relations]:
        """Take a sequence or closure on over a block; the transition relations of each time that it came to its
        end."""
        self.follow(rule.event_relations, now)
        occurrences = self._occurrences(rule, since, now)
        for place, first, last in self._signals.pop(activation.name, ()):
            occurrences[place].signalled = (first, last)
        found = []
        for one in _fewer(rule, [occurrences[place] for place in sorted(occurrences)]):
            found.append(self.partials.after(activation, rule, *self._relations(rule, one)))
        return [relations for relations in found if relations]

    def _occurrences(self, rule: Rule, since: Moment, now: Moment) -> defaultdict[int, _Occurrence]:
        found = defaultdict[int, _Occurrence](_Occurrence)
        for place, event in self._instances.in_order(_of_database(rule.events), since, now):
            found[place].first.append(event)
        for place, event in self._instances.in_order(_of_database(rule.last), since, now):
            found[place].last.append(event)
        return found

    def _relations(self, rule: Rule, one: _Occurrence) -> tuple[Relations, Relations]:
        if one.signalled is not None:
            return one.signalled
        first, last = (transitions(found, rule.several, dict(rule.given)) for found in (one.first, one.last))
        return first, last


def _of_database(events: Iterable[Event]) -> tuple[DatabaseEvent, ...]:
    return tuple(event for event in events if isinstance(event, DatabaseEvent))


def _fewer(rule: Rule, occurrences: list[_Occurrence]) -> list[_Occurrence]:
    """The same with runs put together: of beginnings in a row the latest counts, or all of them, and of ends the
    first. Not where one event may be both."""
    if set(rule.events) & set(rule.last):
        return occurrences
    found = list[_Occurrence]()
    for one in occurrences:
        before = found[-1] if found else None
        if before is None or before.signalled or one.signalled or (before.first and before.last):
            found.append(one)
        elif one.first and not one.last and before.first:
            found[-1] = _Occurrence([*before.first, *one.first]) if rule.is_closure else one
        elif one.last and not one.first and before.last:
            continue
        else:
            found.append(one)
    return found
