"""What happens to a database, for those in this process who follow it: one registry, in which everything is told.

A handler must not fail, but for one of progress, and must not commit: it hears of a commit in the midst of it. What it
wants to be done, it returns; whoever told the event does that when the event is over.

Telling what goes on while a transaction is worked on, for those who wait for it.

A bell that rings when something was committed: who waits for it needs no lock of the database.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from tidemark.engines.limits import EngineLimits
from tidemark.sql.catalog.catalog import Catalog
from tidemark.state.boundary import lent
from tidemark.strategy.autonomous import KnownFacts
from tidemark.strategy.cache import RefreshCache
from tidemark.strategy.nodes import Node, Refresh

Action = Callable[[], object]


@dataclass(frozen=True)
class Committed:
    """A version was committed: the net deltas that its transaction had of tables, and what was ``said`` to each (the
    texts of statements, None for what was none); the net deltas of all relations; and the definitions before it and
    after it."""

    version: int
    pending: Mapping[str, pa.Table]
    said: Mapping[str, Sequence[str | None]]
    deltas: Mapping[str, pa.Table]
    before: Catalog
    after: Catalog


@dataclass(frozen=True)
class Settled:
    """What is stored was read again after a failure: versions up to this one were missed, perhaps.

    If it ``is_outermost``, nobody else is at work, so that nothing is under way."""

    version: int
    is_outermost: bool


@dataclass(frozen=True)
class Ended:
    """A transaction has ended, by a commit or without one."""

    transaction: Any


@dataclass(frozen=True)
class Executed:
    """What was due was executed: the continual queries that have new results, perhaps none."""

    queries: frozenset[str]


@dataclass(frozen=True)
class Progress:
    """A step of a transaction is about to be taken: constraints are checked, a node is propagated to, new views are
    filled, or all is committed. Who hears of it may raise: the transaction then fails like any other."""

    step: str


@dataclass(frozen=True)
class Closed:
    """The database is being closed."""


Event = Committed | Settled | Ended | Executed | Progress | Closed
E = TypeVar("E", Committed, Settled, Ended, Executed, Progress, Closed)


class Hearer(Protocol):
    """Somebody who hears of commits as long as it lives."""

    def hear(self, event: Committed | Settled) -> None: ...


class Events:
    """The handlers of one database, in the order in which they were registered."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], list[tuple[Callable[[Any], bool], Callable[[Any], Action | None]]]] = {}
        self.hearers: weakref.WeakSet[Hearer] = weakref.WeakSet()
        """Those who hear of commits as long as somebody else holds them."""

    def on(
        self, kind: type[E], handler: Callable[[E], Action | None], when: Callable[[E], bool] = lambda event: True
    ) -> Callable[[], None]:
        """Let a handler hear of each event of a kind, ``when`` it concerns it, until what is returned is called."""
        one, handlers = (when, handler), self._handlers.setdefault(kind, [])
        handlers.append(one)
        return lambda: handlers.remove(one)

    def is_heard(self, kind: type[Any]) -> bool:
        """Whether anybody may hear of events of a kind."""
        return bool(self._handlers.get(kind))

    def tell(self, event: Event) -> tuple[Action, ...]:
        """Let everybody hear of an event; what they want to be done after it."""
        if isinstance(event, Committed | Settled) and self.hearers:
            for hearer in tuple(self.hearers):
                hearer.hear(event)
        told = [handler(event) for when, handler in tuple(self._handlers.get(type(event), ())) if when(event)]
        return tuple([action for action in told if action is not None])


Listener = Callable[[str], None]


class Steps:
    """Tells each step before it is taken, to whoever hears of it. ``check`` raises if the statement is to end."""

    def __init__(self, events: Events, check: Callable[[], None]) -> None:
        self._events, self._check = events, check

    def tell(self, step: str | Callable[[], str]) -> None:
        """A text that takes a while to make is made if anybody hears it."""
        self._check()
        if self._events.is_heard(Progress):
            self._events.tell(Progress(step if isinstance(step, str) else step()))


@contextmanager
def watched(events: Events, listener: Listener) -> Iterator[None]:
    """Call a function of the program with each step that is taken meanwhile."""

    def told(event: Progress) -> None:
        with lent():
            listener(event.step)

    end = events.on(Progress, told)
    try:
        yield
    finally:
        end()


class ToldRefreshes(RefreshCache):
    """Refresh plans as ever; asking for a node's is the beginning of its step."""

    def __init__(
        self, steps: Steps, known: KnownFacts, unstored: frozenset[str] = frozenset(), *, goes_by_stored: bool = False
    ) -> None:
        super().__init__(unstored=unstored, known=known, goes_by_stored=goes_by_stored)
        self._steps = steps

    def get(self, node: Node, changed: frozenset[str], deltas: Mapping[str, pa.Table], limits: EngineLimits) -> Refresh:
        self._steps.tell(lambda: f"propagating to {node.label}")
        return super().get(node, changed, deltas, limits)


class Bell:
    """Rings are counted, so that none is missed between looking and waiting."""

    def __init__(self) -> None:
        self._rung = threading.Condition()
        self.rings = 0

    def notify_all(self) -> None:
        with self._rung:
            self.rings += 1
            self._rung.notify_all()

    def wait(self, after: int, seconds: float) -> None:
        """Wait until it has rung again since it had rung so often, or the time is over."""
        with self._rung:
            self._rung.wait_for(lambda: self.rings != after, seconds)
