"""Sequences and closures of events that have begun and not ended yet, across transactions.

    E THEN F         fires when F comes after E; E is the latest one before
    ANY E UNTIL F    fires when F comes after at least one E; all of them are collected

In one block E comes before F, unless it may be the same event, which does not come after itself.

What has begun is an entry of the table of detached work, so it is as durable as the transaction in which it began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa

from tidemark.database.detaching import PARTIAL_STAGE, Entry
from tidemark.database.queueing import queued
from tidemark.database.store import Store
from tidemark.log import deltas as delta_tables
from tidemark.sql.activerules import Activation, Rule

Relations = Mapping[str, pa.Table]


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
