"""Handing results of continual queries to functions of the program, after the version that made them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tidemark.database.continual import Continual
from tidemark.database.results import Result, result
from tidemark.database.store import Store

_logger = logging.getLogger("tidemark.continual")
Callback = Callable[[Result], None]


@dataclass
class Registered:
    """A function and the number of the last result that it got."""

    query: str
    function: Callback
    number: int
    is_active: bool = True

    def cancel(self) -> None:
        """Hand on no more results."""
        self.is_active = False


class Delivery:
    """Calls the functions that wait for results, one result after the other.

    A function that raises gets the result again with the next one: it has not taken it. What it does in the database
    is a transaction of its own.
    """

    def __init__(self, store: Store, continual: Continual) -> None:
        self._store, self._continual = store, continual
        self._registered: list[Registered] = []
        self._is_delivering = False
        continual.after_results = self.deliver

    def register(self, query: str, function: Callback, after: int) -> Registered:
        registered = Registered(query, function, after)
        self._registered.append(registered)
        return registered

    def deliver(self) -> None:
        if self._is_delivering:
            return  # what a function does may make results: they come when it has returned
        self._is_delivering = True
        try:
            while any([self._next(registered) for registered in self._registered if registered.is_active]):
                pass
        finally:
            self._is_delivering = False
        self._registered = [registered for registered in self._registered if registered.is_active]

    def _next(self, registered: Registered) -> bool:
        """Hand on the next result, if there is one."""
        if self._store.catalog.get(registered.query) is None:
            registered.is_active = False
            return False
        known = self._continual.results_of(registered.query)
        later = [number for number in known if number > registered.number]
        if not later:
            return False
        number = min(later)
        try:
            registered.function(result(self._store, self._continual, registered.query, number))
        except Exception:
            _logger.exception("the function that waits for results of %s failed", registered.query)
            return False
        registered.number = number
        return True
