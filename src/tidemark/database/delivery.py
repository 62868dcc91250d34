"""Handing results of continual queries to functions of the program, after the version that made them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tidemark.database.consumers import Consumers
from tidemark.database.continual import Continual
from tidemark.database.results import Result, Results
from tidemark.database.store import Store

_logger = logging.getLogger("tidemark.continual")
Callback = Callable[[Result], None]


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
        self._is_postponed = False
        self._registered: dict[str, list[Registered]] = {}
        self._owing: set[str] = set()
        self._is_delivering = False
        continual.after_results = self.deliver

    def register(self, query: str, function: Callback, after: int) -> Registered:
        reader = Results(self._store, self._continual, query, after)
        reader.peek()  # or an error, if what comes after the number is no longer kept
        self._consumers.follow(reader)
        registered = Registered(reader, function)
        self._registered.setdefault(query, []).append(registered)
        self.deliver({query})
        return registered

    def deliver(self, answered: set[str]) -> None:
        """Hand on the results of queries that have answered, and what functions have not taken yet."""
        self._owing |= answered & self._registered.keys()
        if not self._is_free():
            self._is_postponed = bool(self._owing)
            return
        self._is_postponed = False
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

    def ended(self) -> None:
        """A transaction has ended: what waited for that is handed on."""
        if self._is_postponed:
            self.deliver(set())

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
                _logger.exception("the function that waits for results of %s failed", query)
                failed.add(query)
                continue
            registered.reader.take(found)
            self._owing.add(query)
