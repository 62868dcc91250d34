"""The consumers of the log: lagging relations, subscribers and readers with a name, and those that are open here.

Each has a water mark, the version up to which it knows everything, so that the log can wait for it, or not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from tidemark.changes.follow import Following
from tidemark.errors import TidemarkError
from tidemark.snapshots.refresh import Continual
from tidemark.sql.catalog.catalog import View, kind_of
from tidemark.sql.parse.lagging import QUERY, OnChange, When, leaves
from tidemark.state.history import must_reach
from tidemark.state.state import Store
from tidemark.state.tidemarks import ACTIVE, CONSUMER, Subscribed, lagging_of
from tidemark.state.values import must_be_text
from tidemark.storage.retention import INVALIDATE, KEEP, Consumer


class Consumers:
    """The consumers of the log of one database."""

    def __init__(self, store: Store, continual: Continual, beside: Consumers | None = None) -> None:
        self._store, self._continual = store, continual
        self._open: WeakSet[Following[Any]] = WeakSet() if beside is None else beside._open
        self._opening: threading.Lock = threading.Lock() if beside is None else beside._opening

    def all(self) -> list[Consumer]:
        """All consumers of the log, with their water marks."""
        found = [self._of_lagging(view) for view in self._store.catalog.lagging_views if self._needs_log(view)]
        for name, text in self._store.notes.items():
            if name.startswith(CONSUMER):
                one = Subscribed.of_note(text)
                label = name.removeprefix(CONSUMER)
                found.append(
                    Consumer(label, "subscriber", frozenset({one.relation}), one.mark, one.policy, each_version=True)
                )
        return found + [_consumer(one) for one in self._followers()]

    def follow(self, following: Following[Any]) -> None:
        """Let the log wait for one that is open in this process, as long as it is: until it is closed, or nobody has it
        any more."""
        with self._opening:
            self._open.add(following)

    def _followers(self) -> list[Following[Any]]:
        """Those that are open, in the order in which they were opened; one with a name is noted, if it is not new."""
        with self._opening:
            followers = tuple(self._open)
        there = (one for one in followers if one.is_open and not one.is_gone)
        return sorted((one for one in there if f"{CONSUMER}{one.name}" not in self._store.notes), key=lambda o: o.place)

    def _needs_log(self, view: View) -> bool:
        standing = self._continual.standing(view.name)
        return standing.status == ACTIVE and not standing.invalid

    def _of_lagging(self, view: View) -> Consumer:
        assert view.lag is not None
        named = {leaf.relation for leaf in leaves(view.lag.trigger) if isinstance(leaf, OnChange | When)} - {None}
        # A continual query answers when its trigger holds and not before, so nothing but waiting for it will do: what
        # it waits for is the net effect since its last answer, which never takes more than what is stored twice.
        policy = KEEP if view.lag.kind == QUERY else view.options.get("lag", INVALIDATE)
        relations = lagging_of(view).below | frozenset(name for name in named if name is not None)
        mark = self._continual.standing(view.name).tidemark
        return Consumer(view.name, kind_of(view), relations, mark, policy)

    def subscribed(
        self, name: str, relation: str, since: int | None, policy: str
    ) -> tuple[int | None, Callable[[int], None]]:
        """Where a subscriber with a name goes on, and how it says how far it has come.

        One that is new and asks for the content first is noted when it has dealt with that.
        """
        must_be_text(name, "the name of a subscriber")
        text = self._store.notes.get(f"{CONSUMER}{name}")
        if text is not None:
            known = Subscribed.of_note(text)
            if known.relation != relation:
                raise TidemarkError("exists", f"the subscriber {name!r} follows {known.relation!r}")
            since = known.mark

        born = self._store.created[relation]

        def mark(version: int) -> None:
            if self._store.created.get(relation) != born:
                return  # it has been forgotten with what it followed
            text = self._store.notes.get(f"{CONSUMER}{name}")
            last = version if text is None else max(version, Subscribed.of_note(text).mark)  # it may be open twice
            self._store.note({f"{CONSUMER}{name}": Subscribed(relation, last, policy).to_note()})

        if since is not None:
            must_reach(self._store, relation, since, each_version=True)
            mark(since)
        return since, mark

    def unsubscribe(self, name: str) -> None:
        if f"{CONSUMER}{name}" not in self._store.notes:
            raise TidemarkError(
                "unknown_relation", f"there is no subscriber {name!r}", hint="SHOW CONSUMERS lists them"
            )
        self.forget(name)

    def forget(self, name: str) -> None:
        """Keep nothing any more for a subscriber or reader."""
        if f"{CONSUMER}{name}" in self._store.notes:
            self._store.note({f"{CONSUMER}{name}": None})
        with self._opening:
            followers = tuple(self._open)
        for following in followers:
            if name == label_of(following):
                following.is_forgotten = True

    def shown(self) -> pa.Table:
        """SHOW CONSUMERS: all consumers of the log."""
        rows = [
            (one.name, one.kind, ", ".join(sorted(one.relations)), one.mark, self._store.version - one.mark, one.policy)
            for one in self.all()
        ]
        names = ("name", "kind", "relations", "water_mark", "lag", "policy")
        types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.string())
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})


def must_be_policy(policy: str) -> None:
    """Refuse what is no policy of a subscriber or reader: nobody can read for it."""
    if policy not in (KEEP, INVALIDATE):
        raise TidemarkError("type", f"lag = {policy!r} is not known", hint=f"{KEEP} or {INVALIDATE}")


def label_of(one: Following[Any]) -> str:
    """What a subscriber or reader is called: by its name, or as one that has none."""
    return one.name or f"{one.kind} {one.place}"


def _consumer(one: Following[Any]) -> Consumer:
    name = label_of(one)
    return Consumer(name, f"open {one.kind}", frozenset({one.relation}), one.water_mark, one.policy, each_version=True)
