"""The results of a continual query: a durable, numbered sequence, read from its own log."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.history import as_of
from tidemark.algebra.plans import Scan
from tidemark.algebra.types import VERSION
from tidemark.calculus.terms import distribute
from tidemark.database.continual import Continual
from tidemark.database.history import past
from tidemark.database.pairing import paired, shortest
from tidemark.database.standing import STOPPED
from tidemark.database.store import Store
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.sql.catalog import View
from tidemark.sql.continual_statements import QUERY


@dataclass(frozen=True)
class Result:
    """One result of a continual query, and what it delivers; what it does not deliver is None.

    ``inserted`` and ``deleted`` have the rows that came and went since the result before. If rows can be told apart
    by a key, those that were modified are in ``updated`` instead, with their ``key``, ``old`` and ``new`` values;
    that goes for DELIVER CHANGES. ``rows`` is the whole answer.
    """

    query: str
    number: int
    version: int
    time: dt.datetime
    inserted: pa.Table | None = None
    deleted: pa.Table | None = None
    updated: pa.Table | None = None
    rows: pa.Table | None = None


class Results:
    """Iterates over the results of a continual query, waiting for the next one, until the query has ended.

    ``poll`` does not wait longer than asked. Reading takes nothing away: who comes back names the number of the last
    result that was seen.
    """

    def __init__(
        self,
        store: Store,
        continual: Continual,
        query: str,
        after: int,
        mark: Callable[[int], None] | None = None,
    ) -> None:
        self._store, self._continual, self._query = store, continual, query
        self._mark = mark
        self._last: int | None = None
        self._identity = store.catalog.relations[query].identity
        self._is_closed = False
        self.number = after

    def poll(self, timeout: float | None = 0) -> Result | None:
        """The next result, or None if there is none within ``timeout`` seconds (None waits for ever)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._store.committed:
            while not self._is_closed and not self._store.is_closed:
                self.acknowledge()
                found = self._next()
                if found is not None:
                    self.number, self._last = found.number, found.version
                    return found
                remaining = None if deadline is None else deadline - time.monotonic()
                if self._is_over() or (remaining is not None and remaining <= 0):
                    return None
                self._store.committed.wait(remaining)
        return None

    def acknowledge(self) -> None:
        """Say that the last result has been dealt with. Asking for the next one says so too.

        A reader with a name goes on after it when it comes again; until then the log keeps what comes after.
        """
        if self._mark is not None and self._last is not None:
            self._mark(self._last)
        self._last = None

    def _next(self) -> Result | None:
        current = self._store.catalog.get(self._query)
        if current is None or current.identity is not self._identity:
            raise TidemarkError("unknown_relation", f"{self._query!r} was dropped")
        known = self._continual.results_of(self._query)
        if self.number + 1 in known:
            return result(self._store, self._continual, self._query, self.number + 1)
        if self._continual.standing(self._query).results > self.number:
            oldest = f"the oldest that is kept is {min(known)}" if known else "none is kept"
            raise TidemarkError(
                "version",
                f"result {self.number + 1} of {self._query!r} is no longer kept: the log was cut",
                hint=f"{oldest}; a reader with a name keeps those that it has not read",
            )
        return None

    def _is_over(self) -> bool:
        return self._continual.standing(self._query).status == STOPPED

    def __iter__(self) -> Iterator[Result]:
        while True:
            found = self.poll(None)
            if found is None:
                return
            yield found

    def close(self) -> None:
        """End the iteration; whoever waits in it returns."""
        with self._store.committed:
            if not self._is_closed and not self._store.is_closed:
                self.acknowledge()
            self._is_closed = True
            self._store.committed.notify_all()

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def result(store: Store, continual: Continual, query: str, number: int) -> Result:
    """One result, from the log of the query. Number 0 is the answer at its creation, whole, whatever it delivers."""
    view = store.catalog.relations[query]
    assert isinstance(view, View) and view.lag is not None and view.lag.kind == QUERY
    version, moment = continual.results_of(query)[number]
    made = Result(query, number, version, moment)
    if number == 0 or view.lag.deliver == "complete":
        return _with(made, rows=_content(store, view, version))
    logged = store.engine.changes(query, version - 1)
    logged = logged.filter(pc.equal(logged.column(VERSION), version))
    delta = logged.drop_columns([VERSION])
    if view.lag.deliver == "insertions":
        return _with(made, inserted=delta_tables.expand(delta_tables.inserted(delta)))
    if view.lag.deliver == "deletions":
        return _with(made, deleted=delta_tables.expand(delta_tables.deleted(delta)))
    keys = store.refreshes.known.keys.get(query)
    if not keys:
        inserted, deleted = delta_tables.inserted(delta), delta_tables.deleted(delta)
        return _with(made, inserted=delta_tables.expand(inserted), deleted=delta_tables.expand(deleted))
    pairs = paired(logged, view.schema, shortest(keys))
    return _with(made, inserted=pairs.inserted, deleted=pairs.deleted, updated=pairs.updated)


def _with(made: Result, **parts: pa.Table) -> Result:
    return Result(made.query, made.number, made.version, made.time, **parts)


def _content(store: Store, view: View, version: int) -> pa.Table:
    plan = distribute(as_of(Scan(view.name, view.schema), version))
    return store.engine.fetch(plan, past(plan, store))
