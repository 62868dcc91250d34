"""Who reads the log: what lags, subscribers and readers with a name, and those that are open in this process.

Each has a water mark, the version up to which it knows everything, so that the log can wait for it, or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from tidemark.continual.retention import INVALIDATE, KEEP, REFRESH, Consumer
from tidemark.database.continual import Continual
from tidemark.database.following import Following
from tidemark.database.retained import must_reach
from tidemark.database.standing import ACTIVE, CONSUMER, Subscribed, lagging_of
from tidemark.database.store import Store
from tidemark.errors import TidemarkError
from tidemark.sql.catalog import View, kind_of
from tidemark.sql.continual_statements import QUERY
from tidemark.sql.triggers import OnChange, When, leaves


class Consumers:
    """Those who read the log of one database."""

    def __init__(self, store: Store, continual: Continual) -> None:
        self._store, self._continual = store, continual
        self._open: WeakSet[Following[Any]] = WeakSet()

    def all(self) -> list[Consumer]:
        """Everybody who reads the log, with the water mark."""
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
        self._open.add(following)

    def _followers(self) -> list[Following[Any]]:
        """Those that are open, in the order in which they were opened; one with a name is noted, if it is not new."""
        there = (one for one in self._open if one.is_open and not one.is_gone)
        return sorted((one for one in there if f"{CONSUMER}{one.name}" not in self._store.notes), key=lambda o: o.place)

    def _needs_log(self, view: View) -> bool:
        standing = self._continual.standing(view.name)
        return standing.status == ACTIVE and not standing.invalid

    def _of_lagging(self, view: View) -> Consumer:
        assert view.lag is not None
        named = {leaf.relation for leaf in leaves(view.lag.trigger) if isinstance(leaf, OnChange | When)} - {None}
        # A continual query that lost the log would have to be evaluated as a whole to see whether it changed.
        default = REFRESH if view.lag.kind == QUERY else INVALIDATE
        relations = lagging_of(view).below | frozenset(name for name in named if name is not None)
        mark = self._continual.standing(view.name).tidemark
        return Consumer(view.name, kind_of(view), relations, mark, view.options.get("lag", default))

    def subscribed(
        self, name: str, relation: str, since: int | None, policy: str
    ) -> tuple[int | None, Callable[[int], None]]:
        """Where a subscriber with a name goes on, and how it says how far it has come.

        One that is new and asks for the content first is noted when it has dealt with that.
        """
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
        """Keep nothing any more for one that reads the log by itself."""
        if f"{CONSUMER}{name}" in self._store.notes:
            self._store.note({f"{CONSUMER}{name}": None})
        for following in self._open:
            if name == label_of(following):
                following.is_forgotten = True

    def shown(self) -> pa.Table:
        """SHOW CONSUMERS: everybody who reads the log."""
        rows = [
            (one.name, one.kind, ", ".join(sorted(one.relations)), one.mark, self._store.version - one.mark, one.policy)
            for one in self.all()
        ]
        names = ("name", "kind", "relations", "water_mark", "lag", "policy")
        types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.string())
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})


def must_be_policy(policy: str) -> None:
    """Refuse what is no policy of one that reads the log by itself: nobody can read for it."""
    if policy not in (KEEP, INVALIDATE):
        raise TidemarkError("type", f"lag = {policy!r} is not known", hint=f"{KEEP} or {INVALIDATE}")


def label_of(one: Following[Any]) -> str:
    """What one that follows is called: by its name, or as one that has none."""
    return one.name or f"{one.kind} {one.place}"


def _consumer(one: Following[Any]) -> Consumer:
    name = label_of(one)
    return Consumer(name, f"open {one.kind}", frozenset({one.relation}), one.water_mark, one.policy, each_version=True)
