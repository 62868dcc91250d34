"""The results of a continual query: a durable, numbered sequence, read from its own log."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.history import as_of
from tidemark.algebra.plans import Scan
from tidemark.algebra.types import VERSION
from tidemark.calculus.terms import distribute
from tidemark.continual.retention import KEEP
from tidemark.database.continual import Continual
from tidemark.database.following import Following, Mark
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


class Results(Following[Result]):
    """Iterates over the results of a continual query, waiting for the next one, until the query has ended.

    ``poll`` does not wait longer than asked. Reading takes nothing away: who comes back names the number of the last
    result that was seen.
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
    def water_mark(self) -> int:
        """The version of the last result that was read; now, if that is the last one that there is."""
        is_last = self.number >= self._continual.standing(self.relation).results
        return self._store.version if is_last else self._read

    def _next(self) -> Result | None:
        found = None if self._store.is_closed else self.peek()
        if found is not None:
            self.take(found)
        return found

    def take(self, found: Result) -> None:
        """Go on after a result."""
        self.number, self._last, self._read = found.number, found.version, found.version

    def peek(self) -> Result | None:
        """The next result, if there is one, without going on."""
        if self.is_gone:
            raise TidemarkError("unknown_relation", f"{self.relation!r} was dropped")
        known = self._continual.results_of(self.relation)
        if self.number + 1 in known:
            return result(self._store, self._continual, self.relation, self.number + 1)
        if self._continual.standing(self.relation).results > self.number:
            oldest = f"the oldest that is kept is {min(known)}" if known else "none is kept"
            raise TidemarkError(
                "version",
                f"result {self.number + 1} of {self.relation!r} is no longer kept: the log was cut",
                hint=f"{oldest}; a reader with a name keeps those that it has not read",
            )
        return None

    def _is_over(self) -> bool:
        return self._store.is_closed or self._continual.standing(self.relation).status == STOPPED


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
