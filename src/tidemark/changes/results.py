"""The results of a continual query: a durable, numbered sequence, read from its own log.

Handing results of continual queries to functions of the program, after the version that made them.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.history import as_of
from tidemark.algebra.plans import Scan
from tidemark.algebra.types import VERSION
from tidemark.calculus.terms import distribute
from tidemark.changes.consumers import Consumers
from tidemark.changes.follow import Following, Mark
from tidemark.errors import TidemarkError
from tidemark.snapshots.refresh import Continual
from tidemark.sql.catalog.catalog import View
from tidemark.sql.parse.lagging import QUERY
from tidemark.state.boundary import bounded
from tidemark.state.events import Action, Executed
from tidemark.state.history import past
from tidemark.state.pairs import paired, shortest
from tidemark.state.state import Store
from tidemark.state.tidemarks import STOPPED
from tidemark.storage import delta as delta_tables
from tidemark.storage.retention import KEEP


def must_be_number(after: object) -> None:
    """Results are numbered from 0, the answer at the creation; ``after=-1`` is before all of them."""
    if not isinstance(after, int) or after < -1:
        raise TidemarkError("version", f"there is no result {after!r}", hint="after=0 gives all results of changes")


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


@bounded
class Results(Following[Result]):
    """Iterates over the results of a continual query, waiting for the next one, until the query has ended.

    ``poll`` does not wait longer than asked. Reading takes nothing away: who comes back names the number of the last
    result that was seen. If the limits of the log have cut results that it has not read, an error (``version``) says
    which, once; asking again goes on with the oldest that is kept.
    """

    kind = "results"

    def __init__(
        self,
        store: Store,
        continual: Continual,
        query: str,
        after: int,
        *,
        name: str | None = None,
        mark: Mark | None = None,
        policy: str = KEEP,
    ) -> None:
        super().__init__(store, query, name, mark, policy)
        self._continual = continual
        self.number, self._read = after, continual.version_of(query, after)

    @property
    def _waits_for_others(self) -> bool:
        return True  # results are numbered as the database is, not as it was

    @property
    def water_mark(self) -> int:
        """The version of the last result that was read; now, if that is the last one that there is."""
        is_last = self.number >= self._continual.standing(self.relation).results
        return self._store.version if is_last else self._read

    def _next(self) -> Result | None:
        if self._store.is_closed:
            return None
        gone = self._gone()
        if gone:
            error = self._no_longer_kept(gone)
            self.number, self._read = gone[-1], self._continual.version_of(self.relation, gone[-1])
            self._marked(self._read)
            raise error
        found = self.peek()
        if found is not None:
            self.take(found)
        return found

    def take(self, found: Result) -> None:
        """Go on after a result."""
        self.number, self._last, self._read = found.number, found.version, found.version

    def peek(self) -> Result | None:
        """The next result, if there is one, without going on."""
        gone = self._gone()
        if gone:
            raise self._no_longer_kept(gone)
        if self.number + 1 in self._continual.results_of(self.relation):
            return result(self._store, self._continual, self.relation, self.number + 1)
        return None

    def _gone(self) -> range:
        """The numbers of the results that come next and are not kept any more."""
        if self.is_gone:
            raise TidemarkError("unknown_relation", f"{self.relation!r} was dropped")
        is_there = self.number + 1 in self._continual.results_of(self.relation)
        return range(self.number + 1, self.number + 1 if is_there else self._continual.oldest_result(self.relation))

    def _no_longer_kept(self, gone: range) -> TidemarkError:
        which = f"result {gone[0]}" if len(gone) == 1 else f"results {gone[0]} to {gone[-1]}"
        are = "is" if len(gone) == 1 else "are"
        last = self._continual.standing(self.relation).results
        oldest = f"the oldest that is kept is {gone.stop}" if gone.stop <= last else f"the next one will be {gone.stop}"
        return TidemarkError(
            "version",
            f"{which} of {self.relation!r} {are} no longer kept: the log was cut",
            hint=f"{oldest}; a reader with a name keeps those that it has not read",
        )

    def _is_over(self) -> bool:
        return self._store.is_closed or self._continual.standing(self.relation).status == STOPPED


def result(store: Store, continual: Continual, query: str, number: int) -> Result:
    """One result, from the log of the query. Number 0 is the answer at its creation, whole, whatever it delivers."""
    view = store.catalog.relations[query]
    assert isinstance(view, View) and view.lag is not None and view.lag.kind == QUERY
    version, moment = continual.results_of(query)[number]
    made = Result(query, number, version, store.times.get(version) or moment)
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
