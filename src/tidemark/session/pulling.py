"""Pulling: each source brought forward to what is there now, in a transaction of its own.

    fix where each table of the source stands  →  what they take over  →  one commit of rows and positions

What refuses the commit stops the source: the rows stay where they were, and so does the position. The next pull tries
again from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tidemark.errors import TidemarkError
from tidemark.session.commit import check
from tidemark.session.definitions import with_new_columns
from tidemark.session.options import AllowedPaths
from tidemark.session.transaction import Transaction
from tidemark.sources.follow import Pulled, Taken, apply, came_and_went, counted, opened, stops, taken
from tidemark.sources.positions import ACTIVE, PAUSED, STOPPED, Standing, followed_of, standing_of
from tidemark.sources.protocol import Source
from tidemark.sql.catalog.sources import SourceDefinition
from tidemark.sql.parse.sources import PAUSE, RESUME, AlterSource
from tidemark.state.state import Store
from tidemark.state.tidemarks import source_note


class Pulling:
    """Pulls the sources of one database. ``begin`` opens a transaction when the caller's turn has come."""

    def __init__(self, store: Store, begin: Callable[[], Transaction], allowed: AllowedPaths) -> None:
        self._store, self._begin, self._allowed = store, begin, allowed

    def each(self, seconds: float | None) -> list[Pulled]:
        """Pull all sources that are not paused, one after the other; what came of each."""
        end = None if seconds is None else time.monotonic() + seconds
        found: list[Pulled] = []
        for name in tuple(self._store.catalog.sources):
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TidemarkError(
                    "timeout",
                    f"the pull took longer than {seconds:g} seconds, before the source {name!r} was reached",
                    hint="what was pulled before is committed; pull again for the rest",
                )
            one = self._within(name, left)
            found += [] if one is None else [one]
        return found

    def _within(self, name: str, seconds: float | None) -> Pulled | None:
        stopping = self._store.stopping
        usual = stopping.timeout
        if seconds is not None:
            stopping.timeout = seconds if usual is None else min(usual, seconds)
        try:
            return self._one(name)
        finally:
            stopping.timeout = usual

    def _one(self, name: str) -> Pulled | None:
        transaction = self._begin()
        with self._store.in_use(), transaction:
            definition = transaction.catalog.sources.get(name)
            standing = standing_of(name, self._store.notes)
            if definition is None or standing.status == PAUSED:
                transaction.rollback()
                return None
            try:
                return self._pulled(definition, standing, transaction)
            except TidemarkError as error:
                if transaction.is_open:
                    transaction.rollback()
                if not stops(error):
                    raise
                told = error.within(f"the source {name!r} has stopped").without_place()
                told.__cause__ = error
                self._store.note({source_note(name): replace(standing, status=STOPPED, error=str(error)).to_note()})
                return Pulled(name, STOPPED, error=told)

    def _pulled(self, definition: SourceDefinition, standing: Standing, transaction: Transaction) -> Pulled:
        store, name = self._store, definition.name
        source = opened(definition, self._allowed.must_let_read)
        found = _taken(source, definition, transaction, is_asked=standing.resync)
        notes, compared = apply(found, transaction), {t.table.name: t.compared for t in found if t.compared}
        is_changed = transaction.statements > 0
        version = store.version + 1 if is_changed else standing.version
        told = "; ".join(f"{table}: {why}" for table, why in compared.items()) or None
        now = store.now().isoformat()
        after = Standing(pulled=now, version=version, compared=told if notes else standing.compared)
        noted = {**notes, source_note(name): after.to_note()}
        if is_changed:
            transaction.note(noted)
            transaction.commit()
        else:
            transaction.rollback()
            if notes or replace(after, pulled=standing.pulled) != standing:
                store.note(noted)
        source.acknowledge({t.table.name: t.followed.position for t in found})
        return Pulled(name, ACTIVE, counted(found), transaction.outcome.version, compared)

    def alter(self, statement: AlterSource) -> None:
        """Pause a source, let it go on, or have it compared as a whole next time."""
        if statement.name not in self._store.catalog.sources:
            raise TidemarkError("unknown_source", f"there is no source {statement.name!r}", hint="SHOW SOURCES")
        standing = standing_of(statement.name, self._store.notes)
        match statement.action:
            case action if action == PAUSE:
                standing = replace(standing, status=PAUSED)
            case action if action == RESUME:
                standing = replace(standing, status=ACTIVE, error=None)
            case _ if standing.status == PAUSED:
                standing = replace(standing, resync=True)
            case _:
                standing = replace(standing, status=ACTIVE, error=None, resync=True)
        self._store.note({source_note(statement.name): standing.to_note()})


def _taken(source: Source, definition: SourceDefinition, transaction: Transaction, *, is_asked: bool) -> list[Taken]:
    """What the tables of a source take over, as far as they are followed in the store."""
    store, must_allow = transaction.store, transaction.allowed.must_let_read
    catalog = with_new_columns(definition, source, transaction.catalog, must_allow, store.now())
    if catalog is not transaction.catalog:
        transaction.redefine(catalog)
    tables, created = catalog.tables_from(definition.name), store.created
    known = {table.name: followed_of(table, store.notes, created) for table in tables}
    return taken(source, tables, known, created, transaction, store.stopping.check, is_asked=is_asked)


@dataclass(frozen=True)
class Preview:
    """What a pull would do: to sources, and to views that are there the rows that would come and go."""

    sources: list[Pulled]
    views: Mapping[str, tuple[int, int]]


def preview(transaction: Transaction) -> Preview:
    """What a pull would do, in a transaction that is to be rolled back."""
    with transaction.store.in_use():
        found = _sources_previewed(transaction)
        views = {view.name for view in transaction.catalog.materialized_views}
        deltas = {name: delta for name, delta in transaction.derived_deltas().items() if name in views}
        return Preview(found, {name: came_and_went(delta) for name, delta in deltas.items()})


def _sources_previewed(transaction: Transaction) -> list[Pulled]:
    found: list[Pulled] = []
    store, read = transaction.store, transaction.allowed.must_let_read
    for name, definition in transaction.catalog.sources.items():
        standing = standing_of(name, store.notes)
        if standing.status == PAUSED:
            continue
        try:
            several = _taken(opened(definition, read), definition, transaction, is_asked=standing.resync)
            check(store, transaction.catalog, {t.table.name: t.delta for t in several if t.delta.num_rows})
        except TidemarkError as error:
            if not stops(error):
                raise
            found.append(Pulled(name, STOPPED, error=error.within(f"the source {name!r} would stop").without_place()))
            continue
        apply(several, transaction)
        compared = {t.table.name: t.compared for t in several if t.compared}
        found.append(Pulled(name, ACTIVE, counted(several), compared=compared))
    return found


def must_have_none_stopped(found: Iterable[Pulled]) -> None:
    """Raise what stopped a source. Of several the first is raised, and the others are named in it."""
    errors = [one.error for one in found if one.error is not None]
    if not errors:
        return
    first = errors[0]
    if len(errors) == 1:
        raise first
    told = first.restated("; ".join(error.message for error in errors))
    raise told from first
