"""Handing results of continual queries to functions of the program, after the version that made them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tidemark.database.continual import Continual
from tidemark.database.results import Result, result
from tidemark.database.store import Store
from tidemark.sql.catalog import Token

_logger = logging.getLogger("tidemark.continual")
Callback = Callable[[Result], None]


@dataclass
class Registered:
    """A function and the number of the last result that it got."""

    query: str
    identity: Token
    function: Callback
    number: int
    is_active: bool = True

    def cancel(self) -> None:
        """Hand on no more results."""
        self.is_active = False


class Delivery:
    """Calls the functions that wait for results, one result after the other.

    A function that raises gets the result again with the next one: it has not taken it. What it does in the database
    is a transaction of its own, so that it is called when that which made the result has ended: ``is_free`` says whether
    there is none.
    """

    def __init__(self, store: Store, continual: Continual, is_free: Callable[[], bool]) -> None:
        self._store, self._continual, self._is_free = store, continual, is_free
        self._is_postponed = False
        self._registered: dict[str, list[Registered]] = {}
        self._owing: set[str] = set()
        self._is_delivering = False
        continual.after_results = self.deliver

    def register(self, query: str, function: Callback, after: int) -> Registered:
        registered = Registered(query, self._store.catalog.relations[query].identity, function, after)
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
            while self._owing:
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
        current = self._store.catalog.get(query)
        there = None if current is None else current.identity  # another query of the name has other results
        waiting = [one for one in self._registered.get(query, ()) if one.is_active and one.identity is there]
        if not waiting:
            self._registered.pop(query, None)
            return
        self._registered[query] = waiting
        for registered in waiting:
            number = self._next(registered)
            if number is None or not registered.is_active:
                continue
            try:
                registered.function(result(self._store, self._continual, query, number))
            except Exception:
                _logger.exception("the function that waits for results of %s failed", query)
                failed.add(query)
                continue
            registered.number = number
            self._owing.add(query)

    def _next(self, registered: Registered) -> int | None:
        """The number of the next result; those that are no longer kept are passed over."""
        if self._continual.standing(registered.query).results <= registered.number:
            return None
        known = self._continual.results_of(registered.query)
        if registered.number + 1 in known:
            return registered.number + 1
        return min((number for number in known if number > registered.number), default=None)
