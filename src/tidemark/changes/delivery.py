"""Handing results of continual queries to functions of the program, after the version that made them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial

from tidemark.changes.consumers import Consumers
from tidemark.changes.results import Result, Results
from tidemark.snapshots.refresh import Continual
from tidemark.state.boundary import bounded
from tidemark.state.events import Action, Executed
from tidemark.state.state import Store

_logger = logging.getLogger("tidemark.snapshots")
Callback = Callable[[Result], None]


@bounded
@dataclass
class Registered:
    """A function, and a reader that stands at the last result that it has taken: the log waits for it, too."""

    reader: Results
    function: Callback

    @property
    def is_active(self) -> bool:
        return self.reader.is_open and not self.reader.is_gone

    def cancel(self) -> None:
        """Hand on no more results."""
        self.reader.close()


class Delivery:
    """Calls the functions that wait for results, one result after the other.

    A function that raises gets the result again with the next one: it has not taken it. What it does in the database
    is a transaction of its own, so that it is called when that which made the result has ended: ``is_free`` says
    whether there is none.
    """

    def __init__(self, store: Store, continual: Continual, consumers: Consumers, is_free: Callable[[], bool]) -> None:
        self._store, self._continual, self._consumers, self._is_free = store, continual, consumers, is_free
        self.is_postponed = False
        """Whether results wait for a transaction to end."""
        self._registered: dict[str, list[Registered]] = {}
        self._owing: set[str] = set()
        self._is_delivering = False

    def register(self, query: str, function: Callback, after: int) -> Registered:
        reader = Results(self._store, self._continual, query, after)
        reader.peek()  # or an error, if what comes after the number is no longer kept
        self._consumers.follow(reader)
        registered = Registered(reader, function)
        self._registered.setdefault(query, []).append(registered)
        self.deliver({query})
        return registered

    def executed(self, event: Executed) -> Action:
        """Continual queries have answered: functions are called when all that was due is done."""
        return partial(self.deliver, event.queries)

    def deliver(self, answered: Set[str]) -> None:
        """Hand on the results of queries that have answered, and what functions have not taken yet."""
        self._owing |= answered & self._registered.keys()
        if not self._is_free():
            self.is_postponed = bool(self._owing)
            return
        self.is_postponed = False
        if self._is_delivering or not self._owing:
            return  # what a function does may make results: they come when it has returned
        self._is_delivering = True
        failed = set[str]()
        try:
            while self._owing and not self._store.is_closed:
                queries, self._owing = self._owing, set()
                for query in sorted(queries):
                    self._hand_on(query, failed)
        finally:
            self._is_delivering = False
            self._owing |= failed

    def settled(self, is_outermost: bool) -> None:
        """What is stored was read again: whoever waits may have been owed a result."""
        if is_outermost:
            self._is_delivering = False
        self._owing |= self._registered.keys()

    def _hand_on(self, query: str, failed: set[str]) -> None:
        """One round of results for the functions of a query: each gets the next one."""
        waiting = [one for one in self._registered.get(query, ()) if one.is_active]
        if not waiting:
            self._registered.pop(query, None)
            return
        self._registered[query] = waiting
        for registered in waiting:
            if self._store.is_closed or not registered.is_active:
                continue  # another function has closed the database, ended it, or dropped the query
            try:
                found = registered.reader.peek()
                if found is None:
                    continue
                registered.function(found)
            except Exception:
                _logger.exception("the function that takes the results of %s failed", query)
                failed.add(query)
                continue
            registered.reader.take(found)
            self._owing.add(query)
