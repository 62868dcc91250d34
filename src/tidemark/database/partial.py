"""Sequences and closures of events that have begun and not ended yet, across transactions.

    E THEN F         fires when F comes after E; E is the latest one before
    ANY E UNTIL F    fires when F comes after at least one E; all of them are collected

In one block E comes before F, unless it may be the same event, which does not come after itself.

What has begun is an entry of the table of detached work, so it is as durable as the transaction in which it began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from tidemark.database.detaching import PARTIAL_STAGE, Entry
from tidemark.database.queueing import queued
from tidemark.database.store import Store
from tidemark.log import deltas as delta_tables
from tidemark.sql.activerules import Activation, Rule

Relations = Mapping[str, pa.Table]


class Partials:
    """What has begun, in one transaction and before it; read when a rule asks for the first time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before: dict[str, Entry] | None = None
        self._now: dict[str, tuple[Rule, Relations]] = {}

    def after(self, activation: Activation, rule: Rule, first: Relations, last: Relations) -> Relations:
        """What the events of a block make of it, those that begin and those that end: all transition relations if it
        ended, else none."""
        begun = self._begun(activation.name)
        if first and last and set(rule.events) & set(rule.last):
            # What may begin it and may end it does one of both: it ends what began before, and begins the next.
            self._now[activation.name] = (rule, first)
            return merged(begun, last) if begun else {}
        if first:
            begun = merged(begun, first) if rule.is_closure else first
        if last and begun:
            self._now[activation.name] = (rule, {})
            return merged(begun, last)
        if first:
            self._now[activation.name] = (rule, begun)
        return {}

    def forget(self, name: str) -> None:
        """The rule is not watched any more: what has begun of it is over."""
        self._now.pop(name, None)
        if self._before is None:
            self._before = {entry.rule: entry for entry in queued(self._store) if entry.stage == PARTIAL_STAGE}
        self._before.pop(name, None)

    def changes(self, version: int) -> Iterator[pa.Table]:
        """The changes of the table of detached work that make all this durable."""
        for name, (rule, relations) in self._now.items():
            old = (self._before or {}).get(name)
            if old is not None:
                yield old.added(-1)
            if relations:
                yield replace(Entry.of(rule, name, PARTIAL_STAGE, relations, version), state=PARTIAL_STAGE).added()

    def _begun(self, name: str) -> Relations:
        if name in self._now:
            return self._now[name][1]
        if self._before is None:
            self._before = {entry.rule: entry for entry in queued(self._store) if entry.stage == PARTIAL_STAGE}
        return self._before[name].relations if name in self._before else {}


def merged(left: Relations, right: Relations) -> Relations:
    """The transition relations of both."""
    both = {name: table for name, table in left.items() if name not in right}
    return both | {n: delta_tables.combine(left[n], t) if n in left else t for n, t in right.items()}
